"""Checks of a root."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from msgspec import structs

from beam.agents import registry
from beam.api import cli_answers, doctor
from beam.api.doctor import Check, checks
from beam.api.verify import find_damage
from beam.base.clock import SystemClock
from beam.cli import setup
from beam.cli.render.tables import GrowingTable
from tests.support.context import Root
from tests.support.journals import closed, finished, record, started


def test_a_whole_journal_has_no_damage_and_a_damaged_one_is_reported_line_by_line(root: Root) -> None:
    for number in range(3):
        root.put("box", str(number))
    lease = root.hold("box")
    lease.waiting.scan()
    lease.close()
    journal = root.place("box").journal
    assert find_damage(journal) == []
    (segment,) = journal.glob("*.jsonl")
    lines = segment.read_bytes().split(b"\n")
    lines[1] = b"junk"
    lines[2] = lines[2][:20]
    segment.write_bytes(b"\n".join(lines))
    assert len(find_damage(journal)) >= 2


def test_the_first_damage_of_a_journal_is_what_the_check_says(root: Root) -> None:
    for number in range(3):
        root.put("box", str(number))
    lease = root.hold("box")
    lease.waiting.scan()
    lease.close()
    journal = root.place("box").journal
    (segment,) = journal.glob("*.jsonl")
    lines = segment.read_bytes().split(b"\n")
    lines[1] = lines[3] = b"junk"
    segment.write_bytes(b"\n".join(lines))
    found = find_damage(journal)
    assert len(found) >= 2
    check = next(each for each in checks(root.context) if each.what == "journal box")
    assert (check.result, check.detail) == ("bad", found[0])


def test_a_gap_in_the_numbers_is_damage(root: Root) -> None:
    for number in range(3):
        root.put("box", str(number))
    lease = root.hold("box")
    lease.waiting.scan()
    lease.close()
    (segment,) = root.place("box").journal.glob("*.jsonl")
    lines = segment.read_bytes().split(b"\n")
    segment.write_bytes(b"\n".join([*lines[:2], *lines[3:]]))
    assert any("stands where" in line for line in find_damage(root.place("box").journal))


@pytest.mark.slow
def test_a_place_without_a_root_is_a_note_and_stays_without_one(root: Root) -> None:
    found = {check.what: check for check in checks(root.context)}
    assert found["root"].result == "note"
    assert not root.context.home.root.exists()


@pytest.mark.slow
def test_a_declared_agent_without_its_cli_is_bad_and_another_adapter_a_note(root: Root) -> None:
    (root.base / "beam.yaml").write_text("agents:\n  mine: {adapter: claude}\n")
    found = {check.what: check for check in checks(root.reload())}
    assert (found["agent mine"].result, found["agent claude"].result) == ("bad", "missing")
    assert found["agent mine"].summary == "claude is not installed here; npm install -g @anthropic-ai/claude-code"


@pytest.mark.slow
def test_an_agent_whose_entry_is_gone_is_a_note_that_says_what_to_do_and_no_failure(root: Root) -> None:
    (root.base / "beam.yaml").write_text("agents:\n  mine: {adapter: scripted}\n")
    root.reload()
    root.put(to="mine")
    (root.base / "beam.yaml").write_text("agents: {}\n")
    found = {check.what: check for check in checks(root.reload())}
    assert (found["agent mine"].result, found["journal mine"].result) == ("note", "ok")
    assert "beam agent rm --purge mine" in found["agent mine"].detail


@pytest.mark.slow
def test_an_untrusted_agent_is_a_note(root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    (root.base / "beam.yaml").write_text("agents:\n  mine: {command: [cat]}\n")
    found = {check.what: check for check in checks(root.reload())}
    assert (found["agent mine"].result, "beam trust" in found["agent mine"].detail) == ("note", True)


@pytest.mark.slow
def test_what_is_declared_comes_first_and_what_needs_or_has_no_test_is_one_line_each(root: Root) -> None:
    tools = root.base.parent / "tools"
    install(tools, "codex", says="codex-cli 0.171.0")
    install(tools, "pi", says="99.1.0", packaged=True)
    root.environ["PATH"] = f"{tools}:/usr/bin:/bin"
    found = [check for check in checks(root.reload()) if check.what.startswith("agent ")]
    names = [check.what.removeprefix("agent ") for check in found]
    assert names[:4] == ["asker", "box", "other", "worker"]
    by_name = dict(zip(names, found, strict=True))
    assert (by_name["codex"].result, by_name["codex"].summary) == ("ok", "0.171.0, tested")
    face = "exec mode; below full access: own sandbox"
    assert by_name["codex"].detail == f"{tools}/codex codex-cli 0.171.0; {face}"
    assert (by_name["pi"].result, by_name["pi"].summary) == ("note", "99.1.0, newer than the tested 1.6.0")
    assert (by_name["gemini"].result, "npm install" in by_name["gemini"].detail) == ("missing", True)
    rest = {check.what: check for check in checks(root.context) if check.what in ("unverified", "built in")}
    assert rest["unverified"].result == "note" and "amp, " in rest["unverified"].detail
    assert rest["built in"].detail == "python, bash, command, acp, scripted, mailbox"
    assert "amp" not in names and "agent amp" in [check.what for check in checks(root.context, every=True)]


def install(tools: Path, name: str, *, says: str = "", does: str = "", packaged: bool = False) -> None:
    """A program stands for the CLI: it says this, or does that; or it is a script of Node.js in an npm package."""
    tools.mkdir(exist_ok=True)
    program = tools / name
    if packaged:
        (tools / f"{name}.d").mkdir()
        program = tools / f"{name}.d" / name
        (tools / name).symlink_to(program)
        package = {"version": says, "bin": name, "engines": {"node": ">=22.19"}}
        program.with_name("package.json").write_text(json.dumps(package))
        (tools / "node").write_text("#!/bin/sh\necho v22.19.0\n")
        (tools / "node").chmod(0o755)
    program.write_text(f"#!/usr/bin/env {'node' if packaged else 'sh'}\n{does or f'echo {says}'}\n")
    program.chmod(0o755)


REAL = [name for name in registry.ADAPTERS if registry.adapter(name).card.versions]


def newest(name: str) -> str:
    return registry.adapter(name).card.versions[-1]


# -- the lines ---------------------------------------------------------------------------------------------------------

_PYTHON = re.compile(
    r"\[Errno|Traceback|<class |\b[A-Z][a-z]\w*(?:Error|Exception|Expired)\b|\b(?:None|True|False)\b"
    r"|[\[({]['\"]|\bb['\"]|Command '|\bobject at\b"
)


def shown(check: Check) -> list[str]:
    """The lines of a check on a terminal of 80 columns."""
    row = (check.result, check.what.removeprefix("agent "), check.summary)
    return GrowingTable((), setup._CHECK_WIDTHS)._lines(row, 80)


@pytest.mark.slow
@pytest.mark.parametrize("is_declared", [False, True])
@pytest.mark.parametrize(
    "state",
    ["missing", "tested", "packaged", "newer", "older", "odd", "silent", "fails", "killed", "forbidden", "foreign"],
)
def test_each_cli_is_one_line_of_a_terminal_in_each_state_and_in_english(
    root: Root, state: str, is_declared: bool
) -> None:
    tools = root.base.parent / "tools"
    for name in REAL:
        if state == "packaged":
            install(tools, name, says=newest(name), packaged=True)
        elif state != "missing":
            does = {
                "tested": f"echo {newest(name)}",
                "newer": "echo 99.99.9999",
                "older": "echo 0.0.1",
                "odd": "echo some nightly build of today, or of yesterday",
                "fails": "echo no such thing >&2; exit 127",
                "killed": "kill -9 $$",
            }.get(state, ":")
            install(tools, name, does=does)
        if state == "forbidden":
            (tools / name).write_bytes(b"\0")
        if state == "foreign":
            (tools / name).write_text("#!/nowhere/python\n")
    agents = "".join(f"  my-{name}: {{adapter: {name}}}\n" for name in REAL if is_declared)
    (root.base / "beam.yaml").write_text(f"agents:\n  box: {{adapter: mailbox}}\n{agents}")
    root.environ["PATH"] = f"{tools}:/usr/bin:/bin"
    names = [f"my-{name}" if is_declared else name for name in REAL]
    found = {check.what: check for check in checks(root.reload(), names)}
    assert set(found) == {f"agent {name}" for name in names}
    lines = {name: shown(found[f"agent {name}"]) for name in names}
    limit = 2 if is_declared else 1  # a name of one's own may be longer, and what is missing there is said in full
    assert [each for each in lines.values() if len(each) > limit or any(len(line) > 80 for line in each)] == []
    assert [check for check in found.values() if _PYTHON.search(check.summary + check.detail)] == []
    result = {"missing": "bad" if is_declared else "missing", "tested": "ok", "packaged": "ok", "silent": "ok"}
    stopped = "bad" if is_declared else "note"
    expected = result.get(state, stopped if state in ("forbidden", "foreign") else "note")
    assert {check.result for check in found.values()} == {expected}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("node", "declared", "undeclared", "said"),
    [
        ("#!/bin/sh\necho v18.19.1\n", "note", "note", "needs Node.js 22.19, and here is 18.19.1"),
        (
            "#!/bin/sh\necho broken >&2; exit 1\n",
            "note",
            "note",
            "its Node.js does not work: --version fails (exit code 1): broken",
        ),
        (None, "bad", "note", "needs Node.js, which is not installed here"),
    ],
)
def test_a_cli_whose_node_is_not_there_or_too_old_is_said_so(
    root: Root, node: str | None, declared: str, undeclared: str, said: str
) -> None:
    tools = root.base.parent / "tools"
    install(tools, "pi", says=newest("pi"), packaged=True)
    (tools / "node").write_text(node) if node else (tools / "node").unlink()
    (root.base / "beam.yaml").write_text("agents:\n  mine: {adapter: pi}\n")
    root.environ["PATH"] = str(tools)
    mine, other = sorted(checks(root.reload(), ["pi", "mine"]), key=lambda check: check.what)
    assert (mine.what, mine.result, other.result) == ("agent mine", declared, undeclared)
    assert mine.summary == other.summary == said


@pytest.mark.slow
def test_every_finding_is_english_and_every_line_of_it_fits_a_terminal(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of each kind: of the root, the program, agents, CLIs, journals, sessions, and errors."""
    tools = tmp_path / "tools"
    install(tools, "gemini", does="sleep 60")
    install(tools, "kimi", does="exit 1")
    monkeypatch.setattr(cli_answers, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(doctor.own_program, "place_in", lambda folder: f"{root.base}/.venv/lib/beam")
    why = "other-beam 1.0 may not replace the built-in adapter claude"
    monkeypatch.setattr(registry, "ignored_entries", lambda: iter([("claude", why)]))
    (root.base / "beam.yaml").write_text(
        "agents:\n  gone: {adapter: codex}\n  off: {adapter: kilo}\n  odd: {adapter: amp}\n  mine: {adapter: claude, "
        "executable: ./claude}\n  far: {adapter: claude, runner: [docker, run, image]}\ndisable: [kilo]\n"
    )
    (root.base / "claude").write_text("#!/bin/sh\n")
    (root.base / ".beam/agents").mkdir(parents=True)
    root.environ["PATH"] = f"{tools}:/usr/bin:/bin"
    root.reload()
    for name, text in (("torn", "{"), ("list", "[]"), ("wrong", '{"timeout": [null]}'), ("late", '{"timeout": "x"}')):
        root.place(name)
        (root.context.home.root / "agents" / name / "agent.json").write_text(text)
    record(root, "box", started(), finished(status="failed", reason="why " * 60, exit_code=1), closed())
    record(root, "box", started(message_id="l"), lane="aaaa")
    record(root, "left", started(), finished(), closed())
    (segment,) = root.place("left").journal.glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"seq":2', b'"seq":[2]') + b"junk\n")
    sessions = tmp_path / ".codex/sessions/2023/11/14"
    sessions.mkdir(parents=True)
    (sessions / "rollout-a.jsonl").write_bytes(b'no JSON\n{"type":"x"}\n')
    context = structs.replace(root.reload(), untrusted_path=(f"{root.base}/node_modules/.bin",))
    found = list(checks(context, every=True))
    kinds = {check.what.split()[0] for check in found}
    assert kinds == {"root", "program", "agent", "built", "journal", "sessions", "error"}
    assert {check.result for check in found} == {"ok", "note", "missing", "bad"}
    assert [text for check in found for text in (check.summary, check.detail) if _PYTHON.search(text)] == []
    lines = [line for check in found for line in shown(check)]
    assert [line for line in lines if len(line) > 80] == []
    assert "does not end within 0.2 s" in found[-1].summary, "it holds up nobody"


@pytest.mark.slow
def test_sessions_of_clis_that_can_not_be_read_whole_are_named_with_the_number(root: Root, tmp_path: Path) -> None:
    context = structs.replace(root.context, environ={"HOME": str(tmp_path)}, clock=SystemClock())
    sessions = tmp_path / ".codex/sessions/2026/11/24"
    sessions.mkdir(parents=True)
    assert [one for one in checks(context) if one.what.startswith("sessions")] == []
    (sessions / "rollout-a.jsonl").write_bytes(b'no JSON\n{"type":"session_meta"}\n{"type":"event_msg"}\n')
    (sessions / "rollout-b.jsonl").write_bytes(b'{"type":"x\\u001b[2J"}\n')
    (tmp_path / ".codex/archived_sessions").mkdir()
    old = tmp_path / ".codex/archived_sessions/rollout-c.jsonl.gz"
    old.write_bytes(b"")
    long_ago = tmp_path / ".codex/archived_sessions/rollout-d.jsonl"
    long_ago.write_bytes(b"no JSON\n")
    for path in (old, long_ago):
        os.utime(path, ns=(1, 1))
    (found,) = [one for one in checks(context) if one.what.startswith("sessions")]
    assert (found.what, found.result) == ("sessions codex", "note")
    assert found.detail.startswith("4 records were left out: 1 a file of an unknown form, ")
    assert "1 not JSON" in found.detail and "1 type record x??2J" in found.detail
    assert found.detail.endswith(f"; in {old} and 2 more files")
