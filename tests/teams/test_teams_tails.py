"""Reading transcripts from their ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from beam.teams import tails
from beam.teams.diff import Diff
from beam.teams.model import Member, Roster
from beam.teams.tails import Tail, Tails, lines

S = 1_000_000_000


def line(second: int, **more: object) -> bytes:
    at = f"2026-11-21T00:{second // 60:02}:{second % 60:02}.000Z"
    return json.dumps({"type": "user", "timestamp": at, "message": {"content": "x" * 1000}, **more}).encode() + b"\n"


def tail(path: Path) -> Tail:
    return Tail(path=str(path), home="", team="t", member="m")


def test_only_what_is_added_after_the_end_is_read_and_only_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(1) + b'{"half')
    one = tail(path)
    one.begin(None)
    with path.open("ab") as file:
        file.write(b'": 1}\n' + line(2)[:10])
        file.flush()
        assert one.read() == []
        file.write(line(2)[10:])
    assert one.read() == [line(2)[:-1]]
    assert one.read() == []


def test_a_long_transcript_is_read_back_to_the_time_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(line(second) for second in range(3500)))
    assert path.stat().st_size > 3 * tails.CHUNK
    one = tail(path)
    one.begin(1_795_219_200 * S + 3400 * S)
    found = one.read()
    assert 100 <= len(found) < 2500 and found[-1] == line(3499)[:-1]
    one.begin(0)
    assert len(one.read()) == 3500


def read_bytes() -> int:
    """How much this process has read so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_of_gigabytes_little_is_read_to_find_where_to_begin(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with path.open("wb") as file:
        file.truncate(4_000_000_000)
        file.seek(0, 2)
        file.write(b"\n" + b"".join(line(second) for second in range(3500)))
    one = tail(path)
    before = read_bytes()
    one.begin(1_795_219_200 * S + 3400 * S)
    assert read_bytes() - before < 4 * tails.CHUNK
    assert one.read()[-1] == line(3499)[:-1]
    one.begin(1_795_219_200 * S + 9999 * S)
    assert one.read()[-1:] == [line(3499)[:-1]]  # it was written to after that time, whatever its lines say


def test_what_was_not_written_since_the_time_asked_for_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(1))
    os.utime(path, ns=(S, S))
    one = tail(path)
    one.begin(2 * S)
    assert one.read() == []
    one.begin(S)
    assert one.read() == [line(1)[:-1]]


@pytest.mark.slow
def test_a_line_longer_than_a_piece_is_whole_and_half_of_it_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    long = line(1, text="x" * 3 * tails.PIECE)
    path.write_bytes(long + line(2))
    one = tail(path)
    assert [*one.read(), *one.read()] == [long[:-1], line(2)[:-1]]
    late = tail(path)
    late.offset, late.skips = 100, True
    assert [*late.read(), *late.read()] == [line(2)[:-1]]


def test_a_transcript_belongs_to_its_team_by_session_by_place_or_by_what_it_says(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-p"
    (folder / "sid" / "subagents").mkdir(parents=True)
    (folder / "sid.jsonl").write_bytes(line(1))
    (folder / "own.jsonl").write_bytes(b'{"type":"mode"}\n' + line(2, teamName="t", agentName="erry"))
    (folder / "other.jsonl").write_bytes(line(3))
    below = folder / "sid" / "subagents"
    (folder / "own" / "subagents").mkdir(parents=True)
    (folder / "own" / "subagents" / "agent-a3.jsonl").write_bytes(line(5))
    (folder / "own" / "subagents" / "agent-a3.meta.json").write_text(json.dumps({"toolUseId": "call-3"}))
    for name, meta in (
        ("agent-abob-1", {"name": "bob", "taskKind": "in_process_teammate", "teamName": "t"}),
        ("agent-a2", {"agentType": "general-purpose", "toolUseId": "call-1"}),
    ):
        (below / f"{name}.jsonl").write_bytes(line(4))
        (below / f"{name}.meta.json").write_text(json.dumps(meta))
    diff = Diff()
    lead = Member(name="team-lead", cwd="/p")
    erry = Member(name="erry", backend="tmux")
    diff.config(str(tmp_path), "t", Roster(name="t", session_id="sid", members=(lead, erry)), S)
    found = Tails(str(tmp_path), diff, began_ns=0).find(since_ns=0, is_new=False)
    assert {(Path(one.path).stem, one.member, one.is_member, one.parent) for one in found} == {
        ("sid", "team-lead", True, None),
        ("own", "erry", True, None),
        ("agent-abob-1", "bob", True, None),
        ("agent-a2", "team-lead", False, "call-1"),
        ("agent-a3", "erry", False, "call-3"),
    }


def test_a_subagent_is_of_the_member_whose_call_started_it(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-p" / "sid" / "subagents"
    folder.mkdir(parents=True)
    call = {"type": "tool_use", "id": "call-1", "name": "Agent", "input": {}}
    for name, meta, content in (
        ("agent-abob-1", {"name": "bob", "taskKind": "in_process_teammate", "teamName": "t"}, [call]),
        ("agent-a2", {"agentType": "general-purpose", "toolUseId": "call-1"}, []),
    ):
        said = {
            "type": "assistant",
            "timestamp": f"2026-11-21T00:00:0{len(meta)}.000Z",
            "message": {"content": content},
        }
        (folder / f"{name}.jsonl").write_text(json.dumps(said) + "\n")
        (folder / f"{name}.meta.json").write_text(json.dumps(meta))
    (folder / "agent-a2.jsonl").write_bytes(line(50))
    diff = Diff()
    diff.config(
        str(tmp_path), "t", Roster(name="t", session_id="sid", members=(Member(name="team-lead", cwd="/p"),)), S
    )
    found = list(lines(Tails(str(tmp_path), diff, began_ns=0).find(since_ns=0, is_new=False)))
    assert [(tail.member, tail.is_member) for tail, _ in found] == [("bob", True), ("bob", False)]


def test_a_line_that_is_too_long_is_left_out_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "PIECE", 1000)
    monkeypatch.setattr(tails, "LONGEST", 5000)
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"first\n" + b"x" * 20_000)
    one = tail(path)
    assert one.read() == [b"first"]
    assert one.read() == []
    assert len(one.rest) <= 6000
    with path.open("ab") as file:
        file.write(b"xxx\n" + line(1))
    assert one.read() == [line(1)[:-1]]


def test_a_transcript_that_is_a_pipe_or_another_users_is_as_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.jsonl")
    one = tail(tmp_path / "t.jsonl")
    one.begin(0)
    assert one.read() == []
