"""Reading transcripts from their ends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from beam.model import events
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_of_a_spliced_line_the_whole_records_are_told_and_the_loss_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "0a.jsonl"
    one, two, three = (line(second, uuid=f"u{second}", sessionId="0a")[:-1] for second in (1, 2, 3))
    path.write_bytes(b"\n".join([one, one[:90] + two, b"no JSON", two[:50] + three, b""]))
    found = tail(path)
    told = [read for _, read in lines([found])]
    assert [read.key for read in told if read.kind] == ["u1", "u2", "u3"]
    (notice,) = [body for read in told for body in read.bodies if isinstance(body, events.Notice)]
    assert notice.code == "unreadable" and str(path) in notice.text and found.lost == 3
    with path.open("ab") as file:
        file.write(b"no JSON\n")
    assert list(lines([found])) == [] and found.lost == 4


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


# -- whose a transcript is ---------------------------------------------------------------------------------------------


def member(name: str) -> dict[str, str]:
    return {"name": name, "taskKind": "in_process_teammate", "teamName": "t"}


def subagent(folder: Path, session: str, name: str, meta: object, at: int = 9) -> Path:
    """A transcript below another, written to at that time, and what it says of itself."""
    below = folder / session / "subagents"
    below.mkdir(parents=True, exist_ok=True)
    (below / f"{name}.meta.json").write_text(json.dumps(meta))
    return written(below / f"{name}.jsonl", line(at), at=at)


def written(path: Path, *lines_: bytes, at: int = 9) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines_))
    os.utime(path, ns=(at * S, at * S))
    return path


def known(home: Path, *, session_id: str = "sid", cwd: str = "/p", created: int = 1, **more: Any) -> Diff:
    diff = Diff()
    members = (Member(name="team-lead", cwd=cwd), Member(name="erry", **more))
    diff.config(str(home), "t", Roster(name="t", session_id=session_id, created_ns=created * S, members=members), S)
    return diff


def rows(found: list[Tail]) -> list[tuple[str, str, bool, str | None]]:
    return [(Path(one.path).stem, one.member, one.is_member, one.parent) for one in found]


def test_without_a_time_only_the_leads_transcript_and_those_below_it_are_followed(tmp_path: Path) -> None:
    folder = tmp_path / "projects/-p"
    written(folder / "sid.jsonl", line(9))
    written(folder / "own.jsonl", line(9, teamName="t", agentName="erry"))
    subagent(folder, "sid", "agent-abob", member("bob"))
    for more, names in (({}, ["sid", "agent-abob"]), ({"backend": "tmux"}, ["sid", "agent-abob", "own"])):
        tails_ = Tails(str(tmp_path), known(tmp_path, **more), began_ns=0)
        found = tails_.find(since_ns=None, is_new=False)
        assert [row[0] for row in rows(found)] == names
        assert tails_.find(since_ns=None, is_new=False) == []
        assert [tails_.follows(one.path) for one in found] == [True] * len(names)
        assert [one.read() for one in found] == [[]] * len(names)


def test_of_a_stale_team_the_transcripts_are_followed_only_for_the_past(tmp_path: Path) -> None:
    written(tmp_path / "projects/-p/sid.jsonl", line(9))
    diff = known(tmp_path)
    diff.teams[str(tmp_path), "t"].is_stale = True
    assert Tails(str(tmp_path), diff, began_ns=0).find(since_ns=None, is_new=False) == []
    assert len(Tails(str(tmp_path), diff, began_ns=0).find(since_ns=0, is_new=False)) == 1
    assert Tails(str(tmp_path / "other"), diff, began_ns=0).find(since_ns=0, is_new=False) == []


def test_transcripts_that_were_written_before_a_team_began_are_not_its_members(tmp_path: Path) -> None:
    folder = tmp_path / "projects/-p"
    written(folder / "sid.jsonl", line(9))
    for at in (4, 5, 6):
        written(folder / f"own{at}.jsonl", line(at, teamName="t", agentName="erry"), at=at)
    found = Tails(str(tmp_path), known(tmp_path, created=5), began_ns=0).find(since_ns=0, is_new=False)
    assert sorted(row[0] for row in rows(found)) == ["own5", "own6", "sid"]


def test_a_team_is_looked_for_in_the_folder_of_its_directory_or_where_its_session_is(tmp_path: Path) -> None:
    written(tmp_path / "projects/-elsewhere/sid.jsonl", line(9))
    written(tmp_path / "projects/-other/x.jsonl", line(9))
    found = Tails(str(tmp_path), known(tmp_path), began_ns=0).find(since_ns=0, is_new=False)
    assert [one.path for one in found] == [str(tmp_path / "projects/-elsewhere/sid.jsonl")]
    nowhere = Tails(str(tmp_path), known(tmp_path, session_id="none"), began_ns=0)
    assert nowhere.find(since_ns=0, is_new=False) == []
    invalid = Tails(str(tmp_path), known(tmp_path, session_id="../sid"), began_ns=0)
    assert invalid.find(since_ns=0, is_new=False) == []
    empty = Tails(str(tmp_path), known(tmp_path, session_id="late", cwd="/other"), began_ns=0)
    assert rows(empty.find(since_ns=None, is_new=False)) == [("late", "team-lead", True, None)]  # may come yet
    subagent(tmp_path / "projects/-other", "late", "agent-abob", member("bob"))
    assert rows(empty.find(since_ns=None, is_new=False)) == [("agent-abob", "bob", True, None)]


def test_a_new_transcript_is_followed_from_five_seconds_before_its_team_began(tmp_path: Path) -> None:
    folder = tmp_path / "projects/-p"
    folder.mkdir(parents=True)
    tails_ = Tails(str(tmp_path), known(tmp_path, created=1_795_219_220), began_ns=0)
    path = written(folder / "sid.jsonl", *[line(second) for second in (14, 15, 30)])
    (one,) = tails_.changed([str(path), str(path), str(tmp_path / "elsewhere.jsonl"), f"{path}.lock"])[:1]
    assert one.since == "2026-11-21T00:00:15.000000Z"
    os.utime(path)
    assert tails_.changed([str(path)]) == [one]


def test_a_transcript_that_was_there_before_is_followed_from_its_end_and_a_new_one_from_its_beginning(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "projects/-p"
    old = written(folder / "old.jsonl", line(1, teamName="t", agentName="erry"))
    below = subagent(folder, "old", "agent-a", {"toolUseId": "c"})
    tails_ = Tails(str(tmp_path), known(tmp_path, created=0), began_ns=0)
    new = written(folder / "new.jsonl", line(1, teamName="t", agentName="erry"))
    found = [tails_.changed([str(path)])[0] for path in (old, below, new)]
    assert [len(one.read()) for one in found] == [0, 0, 1]


def test_if_anything_may_have_changed_new_sessions_and_those_below_are_followed_too(tmp_path: Path) -> None:
    folder = tmp_path / "projects/-p"
    written(folder / "sid.jsonl", line(9))
    written(folder / "before.jsonl", line(9, teamName="t", agentName="erry"))
    tails_ = Tails(str(tmp_path), known(tmp_path), began_ns=5 * S)
    written(folder / "late.jsonl", line(9, teamName="t", agentName="ann"), at=9)
    written(folder / "early.jsonl", line(9, teamName="t", agentName="ann"), at=4)
    subagent(folder, "late", "agent-a", {"description": "look"})
    found = tails_.changed(["*"])
    assert rows(found) == [
        ("sid", "team-lead", True, None),
        ("late", "ann", True, None),
        ("agent-a", "ann", False, "look"),
    ]
    assert tails_.changed(["*"]) == found


def test_of_a_former_team_the_transcripts_say_whose_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "projects/-p"
    subagent(folder, "lead", "agent-abob", {**member("bob"), "teamName": "gone"})
    subagent(folder, "lead", "agent-a", {})
    record = {"status": "teammate_spawned", "team_name": "team2", "name": "eve"}
    back = {"message": {"content": [{"type": "tool_result", "tool_use_id": "c"}]}, "toolUseResult": record}
    written(folder / "lead.jsonl", line(9))
    written(folder / "lead2.jsonl", line(8), line(9, **back))
    written(folder / "nobody.jsonl", line(9))
    written(folder / "older.jsonl", line(3, teamName="gone", agentName="x"), at=3)
    diff = Diff()
    found = Tails(str(tmp_path), diff, began_ns=0).find_gone(5 * S)
    assert sorted((one.team, *row) for one, row in zip(found, rows(found), strict=True)) == [
        ("gone", "agent-abob", "bob", True, None),
        ("gone", "lead", "team-lead", True, None),
        ("team2", "lead2", "team-lead", True, None),
    ]
    assert {name: team.session_id for (_, name), team in diff.teams.items()} == {"gone": "lead", "team2": "lead2"}


def test_a_subagent_without_an_account_of_itself_is_nobodys(tmp_path: Path) -> None:
    folder = tmp_path / "projects/-p"
    written(folder / "sid.jsonl", line(9))
    subagent(folder, "sid", "agent-1", {"description": "look"})
    subagent(folder, "sid", "agent-2", {"x": 1})
    subagent(folder, "sid", "agent-3", [1])
    subagent(folder, "sid", "agent-4", {}).with_name("agent-4.meta.json").write_text("{half")
    subagent(folder, "sid", "agent-5", {}).with_name("agent-5.meta.json").unlink()
    found = Tails(str(tmp_path), known(tmp_path), began_ns=0).find(since_ns=0, is_new=False)
    assert sorted(rows(found)) == [
        ("agent-1", "team-lead", False, "look"),
        ("agent-2", "team-lead", False, "subagent"),
        ("sid", "team-lead", True, None),
    ]


def test_the_end_of_each_members_transcript_is_read_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "SNIFF", 2500)
    folder = tmp_path / "projects/-p"
    path = written(folder / "sid.jsonl", *[line(second) for second in range(5)])
    subagent(folder, "sid", "agent-abob", member("bob"))
    subagent(folder, "sid", "agent-a", {"description": "look"})
    gone = subagent(folder, "sid", "agent-aeve", member("eve"))
    diff = known(tmp_path)
    tails_ = Tails(str(tmp_path), diff, began_ns=0)
    followed = tails_.find(since_ns=None, is_new=False)
    gone.unlink()
    ends = tails_.end_tails(diff.teams[str(tmp_path), "t"])
    assert [(one.member, one.skips, [len(data) for data in one.read()]) for one in ends] == [
        ("team-lead", True, [len(line(0)) - 1] * 2),
        ("bob", False, [len(line(9)) - 1]),
    ]
    assert [one.offset for one in followed if one.path == str(path)] == [path.stat().st_size]
    assert tails_.end_tails(diff.team(str(tmp_path), "other")) == []


def test_a_transcript_that_says_nothing_yet_is_looked_at_again_until_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "SNIFF", 1500)
    path = written(tmp_path / "projects/-p/own.jsonl", b"")
    tails_ = Tails(str(tmp_path), known(tmp_path), began_ns=0)
    assert tails_.changed([str(path)]) == []
    written(path, line(1, teamName="t", agentName="erry"))
    assert rows(tails_.changed([str(path)])) == [("own", "erry", True, None)]
    other = written(tmp_path / "projects/-p/other.jsonl", line(1), line(2))
    assert tails_.changed([str(other)]) == []
    written(other, line(1, teamName="t", agentName="erry"))
    assert tails_.changed([str(other)]) == []
    tails_.on_other_teams()
    assert rows(tails_.changed([str(other)])) == [("other", "erry", True, None)]
    (tmp_path / "projects/-p/folder.jsonl").mkdir()
    assert tails_.changed([str(tmp_path / "projects/-p/folder.jsonl")]) == []


def test_lines_of_several_transcripts_come_in_the_order_of_their_times_since_the_time_wanted(tmp_path: Path) -> None:
    found = []
    for name, seconds in (("a", (1, 4)), ("b", (2, 3))):
        one = tail(written(tmp_path / f"{name}.jsonl", *[line(second) for second in seconds], b"\n"))
        one.member, one.since = name, "2026-11-21T00:00:02.000Z"
        found.append(one)
    assert [(one.member, said.at[17:19]) for one, said in lines(found)] == [("b", "02"), ("b", "03"), ("a", "04")]


@pytest.mark.slow
@pytest.mark.parametrize(("since", "first"), [(1000, 1000), (3400, 3400), (3499, 3499)])
def test_a_transcript_is_begun_no_later_than_the_first_line_since_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: int, first: int
) -> None:
    monkeypatch.setattr(tails, "CHUNK", 4096)
    path = written(tmp_path / "t.jsonl", *[line(second) for second in range(3500)], at=1_795_219_200 + 3500)
    one = tail(path)
    one.begin((1_795_219_200 + since) * S)
    data = one.read()
    assert line(first)[:-1] in data
    assert len(data) <= 2 * (3500 - since) + 12
    one.begin(0)
    assert (one.offset, one.skips, one.rest) == (0, False, b"")
