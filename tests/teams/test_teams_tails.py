"""Reading transcripts from their ends."""

from __future__ import annotations

import json
from pathlib import Path

from beam.teams import tails
from beam.teams.diff import Diff
from beam.teams.model import Member, Roster
from beam.teams.tails import Tail, Tails

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


def test_a_transcript_belongs_to_its_team_by_session_by_place_or_by_what_it_says(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-p"
    (folder / "sid" / "subagents").mkdir(parents=True)
    (folder / "sid.jsonl").write_bytes(line(1))
    (folder / "own.jsonl").write_bytes(b'{"type":"mode"}\n' + line(2, teamName="t", agentName="erry"))
    (folder / "other.jsonl").write_bytes(line(3))
    below = folder / "sid" / "subagents"
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
    }
