"""Checks of a root."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from msgspec import structs

from beam.api import doctor
from beam.api.doctor import checks
from beam.api.verify import find_damage
from beam.base.clock import SystemClock
from beam.broker.inbox import standing
from tests.support.context import Root


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
    assert (found["agent mine"].result, found["agent claude"].result) == ("bad", "note")
    assert "install" in found["agent mine"].detail


@pytest.mark.slow
def test_only_the_versions_are_asked_for_in_threads(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two threads at once msgspec crashes over a type that it has not used before."""
    looked: set[threading.Thread] = set()
    asked: set[threading.Thread] = set()
    stands = standing.check_folder

    def look(*args: object) -> object:
        looked.add(threading.current_thread())
        return stands(*args)  # type: ignore[arg-type]

    def ask(*args: object) -> str:
        asked.add(threading.current_thread())
        return "1.0"

    (root.base / "beam.yaml").write_text("agents: {mine: {adapter: claude, executable: /bin/true}}\n")
    monkeypatch.setattr(standing, "check_folder", look)
    monkeypatch.setattr(doctor, "_version", ask)
    assert list(checks(root.reload()))
    assert looked == {threading.current_thread()} and asked and threading.current_thread() not in asked


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
def test_what_is_declared_comes_first_then_what_is_installed_then_what_is_missing_and_the_rest_is_one_line(
    root: Root,
) -> None:
    tools = root.base.parent / "tools"
    tools.mkdir()
    for name, says in (("codex", "codex-cli 0.171.0"), ("pi", "99.1.0")):
        (tools / name).write_text(f"#!/bin/sh\necho {says} >&{1 if name == 'codex' else 2}\n")
        (tools / name).chmod(0o755)
    root.environ["PATH"] = f"{tools}:/usr/bin:/bin"
    found = [check for check in checks(root.reload()) if check.what.startswith("agent ")]
    names = [check.what.removeprefix("agent ") for check in found]
    assert names[:4] == ["asker", "box", "other", "worker"]
    assert max(names.index("codex"), names.index("pi")) < min(names.index("claude"), names.index("gemini"))
    by_name = dict(zip(names, found, strict=True))
    assert by_name["codex"].result == "ok"
    face = "exec mode; below full access: own sandbox"
    assert by_name["codex"].detail == f"{tools}/codex codex-cli 0.171.0; {face}"
    assert (by_name["pi"].result, by_name["pi"].detail.rpartition("; ")[2]) == (
        "note",
        "newer than 1.6.0, which beam was tested with",
    )
    assert (by_name["gemini"].result, "npm install" in by_name["gemini"].detail) == ("note", True)
    (folded,) = [check for check in checks(root.context) if check.what == "unverified"]
    assert folded.result == "note" and "amp, " in folded.detail
    assert "amp" not in names and "agent amp" in [check.what for check in checks(root.context, every=True)]


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
