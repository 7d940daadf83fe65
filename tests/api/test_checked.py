"""What doctor says of an agent's CLI, and of a journal; no CLI is started."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.agents import registry
from beam.api import doctor
from beam.api.doctor import Check, checks
from beam.api.verify import find_damage
from beam.model import events
from tests.support.context import Root
from tests.support.journals import closed, finished, record, started

CONFIG = (
    "agents:\n  coder: {adapter: claude}\n  gone: {adapter: codex}\n  box: {adapter: mailbox}\n  odd: {adapter: amp}\n"
)


@pytest.fixture
def root(root: Root, monkeypatch: pytest.MonkeyPatch) -> Root:
    """`claude` is installed, and says that it is the version that beam was tested with."""
    tools = root.base.parent / "tools"
    tools.mkdir()
    (tools / "claude").touch(0o755)
    package(tools, "claude", newest("claude"))
    root.environ["PATH"] = str(tools)
    (root.base / "beam.yaml").write_text(CONFIG)
    monkeypatch.setattr(doctor, "confinement_means", lambda card: "")
    root.reload()
    return root


def package(folder: Path, name: str, version: str, **more: object) -> None:
    """The folder is an npm package with this program."""
    named = {"version": version, "bin": {name: name}, **more}
    (folder / "package.json").write_text(json.dumps(named))


def newest(name: str) -> str:
    return registry.adapter(name).card.versions[-1]


def agent(root: Root, name: str, **options: bool) -> Check:
    (found,) = [check for check in checks(root.context, **options) if check.what == f"agent {name}"]
    return found


@pytest.mark.slow
def test_an_agent_whose_cli_is_here_is_reported_with_its_version_and_mode(root: Root) -> None:
    where = f"{root.environ['PATH']}/claude {newest('claude')}"
    summary = f"claude {newest('claude')}, tested"
    assert agent(root, "coder") == Check(what="agent coder", result="ok", summary=summary, detail=f"{where}; {MODE}")


MODE = "exec mode"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "held", "result", "more"),
    [
        ("0.0.1", "", "note", True),
        ("", "", "ok", False),
        (None, "Landlock", "ok", False),
    ],
)
def test_an_oddity_of_a_cli_is_a_note(
    version: str | None, held: str, result: str, more: bool, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = newest("claude") if version is None else version
    package(Path(root.environ["PATH"]), "claude", told)
    monkeypatch.setattr(doctor, "confinement_means", lambda card: held)
    monkeypatch.setattr(doctor, "untested_note", lambda version, versions: "it is old" if more else "")
    monkeypatch.setattr(doctor, "what_is_broken", lambda version, known: "it hangs" if more else "")
    found = agent(root, "coder")
    parts = [f"{root.environ['PATH']}/claude {told}".rstrip(), MODE]
    parts += [f"below full access: {held}"] if held else []
    parts += ["it is old", "its protocol is broken in this version: it hangs"] if more else []
    assert (found.result, found.detail) == (result, "; ".join(parts))
    known = f"claude {told}, it is old; its protocol is broken" if more else f"claude {told}, tested"
    assert found.summary == (known if told else "claude installed")


@pytest.mark.slow
def test_agents_without_a_cli_are_reported_by_what_they_are(root: Root) -> None:
    box = registry.adapter("mailbox").card.summary
    assert agent(root, "box") == Check(what="agent box", result="ok", summary="mailbox: no CLI to install", detail=box)
    missing = agent(root, "gone")
    assert missing.result == "bad" and "codex" in missing.detail and "npm install" in missing.detail
    gemini = agent(root, "gemini")
    assert (gemini.result, gemini.summary) == ("missing", "npm install -g @google/gemini-cli")
    odd = agent(root, "odd")
    unverified, summary = registry.adapter("amp").card.unverified, "never tested; how to use it: beam doctor amp"
    assert odd == Check(what="agent odd", result="note", summary=summary, detail=f"unverified: {unverified}")


@pytest.mark.slow
def test_unverified_clis_are_one_line_or_one_each(root: Root) -> None:
    (folded,) = [check for check in checks(root.context) if check.what == "unverified"]
    assert folded.result == "note"
    assert folded.detail.startswith("beam was never tested with amp, ")
    assert folded.detail.endswith("; beam doctor --all says how to use each")
    whole = [check.what for check in checks(root.context, every=True)]
    assert "unverified" not in whole and "agent crush" in whole


@pytest.mark.slow
def test_a_root_its_journals_and_its_last_errors_are_reported(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    where = root.context.home.root
    first = next(checks(root.context))
    assert first == Check(
        what="root",
        result="note",
        summary="none yet; the first message makes it",
        detail=f"{where} does not exist yet; the first message makes it",
    )
    record(root, "box", started(), finished(status="failed", reason="why", exit_code=1), closed())
    record(root, "box", started(message_id="l"), lane="aaaa")
    monkeypatch.setattr(doctor, "check", lambda home, environ: ["odd"])
    monkeypatch.setattr(doctor.directories, "filesystem_of", lambda path, mounts: "")
    found = list(checks(root.context))
    assert [(one.what, one.result, one.detail) for one in (*found[:2], *found[-3:])] == [
        ("root", "ok", f"{where} (unknown file system)"),
        ("root", "note", "odd"),
        ("journal box", "ok", "whole"),
        ("journal box (once aaaa)", "ok", "whole"),
        ("error box", "note", "2023-11-14 22:13:20 UTC failed: why [m-1]"),
    ]
    assert found[-1].summary == "11-14 22:13 UTC why"
    monkeypatch.setattr(doctor.directories, "filesystem_of", lambda path, mounts: "ext4")
    first = next(checks(root.context))
    assert (first.summary, first.detail) == ("it can be used (ext4)", f"{where} (ext4)")


@pytest.mark.slow
def test_what_is_not_declared_any_more_is_told_how_to_remove(root: Root) -> None:
    root.place("left")
    note = "it is not declared any more, and its files are kept; beam agent rm --purge left removes them"
    assert agent(root, "left") == Check(what="agent left", result="note", summary=note, detail=note)


@pytest.mark.slow
def test_an_untrusted_agent_and_one_that_is_switched_off_are_notes(root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    (root.base / "beam.yaml").write_text(
        "agents:\n  sh: {command: [cat]}\n  off: {adapter: gemini}\ndisable: [gemini]\n"
    )
    root.reload()
    sh = agent(root, "sh")
    assert (sh.result, sh.detail) == ("note", "not trusted: beam.yaml has sh run 'cat'; beam trust")
    off = agent(root, "off")
    assert off.result == "note" and off.detail.startswith(f"{off.summary}; ") and "switched off" in off.summary


@pytest.mark.parametrize(
    ("face", "by_name", "text"),
    [
        ("dialogue", (), "dialogue mode"),
        ("exec", ("dialogue",), "exec mode"),
        ("exec", (), "exec mode (beam has no dialogue mode for it)"),
        ("terminal", (), "terminal mode (beam has no dialogue and no exec mode for it)"),
        ("mailbox", (), "mailbox mode"),
    ],
)
def test_why_no_better_mode_is_used_is_reported(
    face: str, by_name: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "face_of", lambda adapter, via: face)
    adapter: Any = SimpleNamespace(card=SimpleNamespace(by_name=by_name))
    assert doctor._mode_text(adapter) == text


# -- journals ----------------------------------------------------------------------------------------------------------


def journal(root: Root) -> Any:
    """Two segments of a journal."""
    (root.base / "beam.yaml").write_text("agents:\n  box: {adapter: mailbox}\nlimits: {segment_bytes: 1}\n")
    root.reload()
    for turn in (1, 2):
        record(root, "box", started(turn), finished(turn), closed(turn))
        lease = root.hold("box")
        lease.log.journal.rotate_if_due()
        lease.close()
    return root.place("box").journal


@pytest.mark.slow
def test_a_whole_journal_of_several_segments_has_no_damage(root: Root) -> None:
    found = journal(root)
    assert len(list(found.glob("*.jsonl"))) >= 2 and find_damage(found) == []
    assert find_damage(found / "none") == []


@pytest.mark.slow
def test_a_line_that_was_changed_is_named(root: Root) -> None:
    found = journal(root)
    first, *_ = sorted(found.glob("*.jsonl"))
    lines = first.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b"command", b"commanD")
    first.write_bytes(b"\n".join(lines))
    said = find_damage(found)
    assert said == [f"{first}:2: not what was written there: the hash is another"]


@pytest.mark.slow
def test_each_line_that_is_none_is_named(root: Root) -> None:
    found = journal(root)
    first, *_ = sorted(found.glob("*.jsonl"))
    lines = first.read_bytes().split(b"\n")
    lines[1] = b"junk"
    lines[2] = b'{"v":99}'
    first.write_bytes(b"\n".join(lines))
    said = find_damage(found)
    assert [line.partition(": ")[0] for line in said[1:3]] == [f"{first}:2", f"{first}:3"]


@pytest.mark.slow
def test_a_segment_that_was_cut_short_is_seen_in_the_next_one(root: Root) -> None:
    found = journal(root)
    first, second, *_ = sorted(found.glob("*.jsonl"))
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join(lines[:-1]))
    said = find_damage(found)
    assert f"{second}:1: it follows another segment than {first.name}, or that one was cut short" in said
    assert any(line.startswith(f"{second}:1: its snapshot says seq ") for line in said)


@pytest.mark.slow
def test_a_segment_whose_name_is_another_is_named(root: Root) -> None:
    found = journal(root)
    _, second, *_ = sorted(found.glob("*.jsonl"))
    renamed = second.rename(second.with_name("000000000003.jsonl"))
    assert find_damage(found) == [f"{renamed}: it begins with event 4, so its name should be 000000000004.jsonl"]


def test_a_notice_covers_what_a_crash_left(root: Root) -> None:
    record(root, "box", started())
    (segment,) = root.place("box").journal.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"type":"torn')
    record(root, "box", events.Notice(text="after"))
    assert find_damage(root.place("box").journal) == []
