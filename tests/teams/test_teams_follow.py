"""The complete events of a watcher, poll by poll, without a thread, without waiting, and with the test's own clock."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam.teams import disk, watch
from beam.teams.changes import Changes
from beam.teams.watch import Teams
from tests.teams.teams_home import Home, S
from tests.teams.teams_told import told

Begin = Callable[..., "Watched"]


class Watched:
    """A watcher that looks at its home when the test says so."""

    def __init__(self, home: Home, spool: Path, **given: Any) -> None:
        self.now_ns = 10 * S
        self.home = home
        self.teams = Teams([home.text], spool=spool, now=lambda: self.now_ns, **given)

    def look(self, at: float | None = None, *, is_all: bool = True) -> list[str]:
        """Return the events of a poll at that time; without `is_all` no change has been notified."""
        self.now_ns = self.now_ns if at is None else int(at * S)
        if is_all:
            self.teams._changes.sweep()
            self.teams._changes.mark("*")
        return told([*self.teams.poll(), *self.teams.take_held_events()])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "claude")


@pytest.fixture
def begin(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    monkeypatch.setattr(Changes, "start", Changes.sweep)  # no thread: it looks when the test says so
    return lambda **given: Watched(home, tmp_path / "hooks", **given)


def mail(number: int, **more: Any) -> dict[str, Any]:
    at = f"1970-01-01T00:00:0{number}.000Z"
    return {"from": "bob", "text": f"text {number}", "msg_id": f"m{number}", "timestamp": at, **more}


def whole(home: Home) -> None:
    home.config("bob")
    home.lead(status="busy", statusUpdatedAt=3000)
    home.put("tasks/session-1/1.json", {"id": "1", "subject": "parser", "owner": "bob", "status": "in_progress"}, 4)
    home.put("teams/session-1/inboxes/team-lead.json", [mail(5)], 5)
    home.say(6, "I begin")
    home.say(8, "I go on")


def test_a_watcher_says_nothing_of_what_was_there_and_then_what_comes(home: Home, begin: Begin) -> None:
    whole(home)
    watched = begin()
    assert watched.look() == []
    home.say(11, "later")
    home.put("teams/session-1/inboxes/team-lead.json", [], 11)
    home.put("tasks/session-1/1.json", {"id": "1", "subject": "parser", "owner": "bob", "status": "completed"}, 12)
    assert watched.look() == [
        (
            '00:11 mail.delivered team-lead delivered/team-lead/m5 files mail_id="m5" from="bob" to="team-lead" '
            "waited_s=6.0"
        ),
        '00:11 text team-lead@session-1 - - text="later"',
        '00:12 task.completed bob task/1/completed/12000 files task_id="1" subject="parser" owner="bob"',
    ]
    assert watched.look() == []


@pytest.mark.parametrize("since", [0, 6, 7, 9])
def test_a_watcher_tells_the_past_since_the_time_that_was_asked_for(home: Home, begin: Begin, since: int) -> None:
    whole(home)
    watched = begin(since_ns=since * S)
    assert watched.look(is_all=False) == _PAST[since]
    assert watched.look() == []


def test_of_a_former_team_only_the_transcripts_are_left_and_told_if_asked_for(home: Home, begin: Begin) -> None:
    record = {"status": "teammate_spawned", "name": "bob", "team_name": "session-sid"}
    call = [{"type": "tool_use", "id": "c", "name": "Agent", "input": {}}]
    home.add({"type": "assistant", "timestamp": "1970-01-01T00:00:03Z", "message": {"content": call}}, 3)
    back = [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]
    value = {"type": "user", "timestamp": "1970-01-01T00:00:04Z", "message": {"content": back}, "toolUseResult": record}
    home.add(value, 4)
    assert begin(since_ns=0).look(is_all=False) == []
    assert begin(since_ns=0, with_gone=True).look(is_all=False) == [
        '00:03 tool.called team-lead@session-sid - - call_id="c" name="Agent" input={}',
        '00:04 tool.returned team-lead@session-sid - - call_id="c" output="ok"',
        '00:04 member.joined bob joined/bob/4000 transcript member="bob" backend="in-process"',
    ]
    assert begin(with_gone=True).look(is_all=False) == []


def test_half_a_file_is_read_again_until_it_is_whole(home: Home, begin: Begin) -> None:
    home.config("bob")
    home.lead()
    watched = begin()
    home.put("teams/session-1/inboxes/bob.json", b'[{"from": "bob", "te', 11)
    assert watched.look(11) == []
    home.put("teams/session-1/inboxes/bob.json", [mail(9)], 12)
    assert watched.look(11.039, is_all=False) == []
    assert watched.look(11.04, is_all=False) == [
        '00:09 mail.sent bob sent/bob/m9 files mail_id="m9" from="bob" to="bob" text="text 9"'
    ]
    assert watched.teams._retries == {}


def test_half_a_file_that_stays_so_is_given_up_after_a_second(home: Home, begin: Begin) -> None:
    home.config("bob")
    home.lead()
    watched = begin()
    path = home.put("tasks/session-1/1.json", b"{", 11)
    assert watched.look(11) == []
    due = []
    for at in (11.04, 11.2, 12.2, 13.0):
        (retry,) = watched.teams._retries.values()
        due.append(retry.due_ns / S)
        watched.look(at, is_all=False)
        if not watched.teams._retries:
            break
    assert due == [11.04, 11.2, 12.2]
    assert str(path) not in watched.teams._retries


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("teams/session-1/config.json", [1]),
        ("teams/session-1/inboxes/bob.json", {}),
        ("tasks/session-1/1.json", []),
        ("sessions/123.json", {"pid": "x"}),
    ],
)
def test_a_file_of_another_shape_is_looked_at_again(home: Home, begin: Begin, name: str, value: object) -> None:
    home.config("bob")
    home.lead()
    watched = begin()
    home.put(name, value, 11)
    assert watched.look(11) == []
    assert [retry.file.path for retry in watched.teams._retries.values()] == [f"{home.text}/{name}"]


def test_an_inbox_that_is_deleted_is_reported_when_it_stays_away(home: Home, begin: Begin) -> None:
    home.config("bob")
    home.lead()
    path = home.put("teams/session-1/inboxes/team-lead.json", [mail(9)], 9)
    watched = begin()
    path.unlink()
    assert watched.look(11) == []
    assert watched.look(11.04, is_all=False) == [
        (
            '00:11.040000 mail.lost bob lost/team-lead/m9 files mail_id="m9" from="bob" to="team-lead" why="its '
            'inbox was deleted" text="text 9"'
        )
    ]


def test_a_configuration_that_goes_is_a_notice_and_its_directory_the_end(home: Home, begin: Begin) -> None:
    home.config("bob")
    home.lead()
    watched = begin()
    (home.path / "teams/session-1/config.json").unlink()
    assert watched.look(11) == []
    assert watched.look(11.04, is_all=False) == []
    assert watched.look(12.5) == []
    assert watched.look(14) == [
        (
            '00:14 notice @session-1 - - text="team session-1 has no config.json any more; its lead still runs" '
            'code="team_config_gone"'
        )
    ]
    shutil.rmtree(home.path / "teams/session-1")
    assert watched.look(16) == [
        '00:16 member.left team-lead left/team-lead/1000 files member="team-lead" reason="the team ended"',
        '00:16 member.left bob left/bob/2000 files member="bob" reason="the team ended"',
        '00:16 team.ended - ended/1000 files reason="its lead left"',
    ]


def test_a_team_whose_directory_goes_at_once_ends_at_once(home: Home, begin: Begin) -> None:
    whole(home)
    watched = begin()
    shutil.rmtree(home.path / "teams/session-1")
    assert watched.look(11) == [
        (
            'now mail.lost bob lost/team-lead/m5 files mail_id="m5" from="bob" to="team-lead" why="the team '
            'ended before it was read" text="text 5"'
        ),
        'now member.left team-lead left/team-lead/1000 files member="team-lead" reason="the team ended"',
        'now member.left bob left/bob/2000 files member="bob" reason="the team ended"',
        'now team.ended - ended/1000 files reason="its lead left"',
    ]


def test_a_task_that_is_deleted_is_reported(home: Home, begin: Begin) -> None:
    whole(home)
    watched = begin()
    (home.path / "tasks/session-1/1.json").unlink()
    assert watched.look(11) == [
        'now task.deleted bob task/1/deleted/now files task_id="1" subject="parser" owner="bob"'
    ]


@pytest.mark.slow
def test_a_file_that_is_too_large_is_named_once(home: Home, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    home.config("bob")
    home.lead()
    watched = begin()
    monkeypatch.setattr(disk, "LARGEST", 2 << 20)
    home.put("teams/session-1/inboxes/bob.json", b"[" + b" " * (2 << 20), 11)
    home.put("sessions/77.json", b"[" + b" " * (2 << 20), 11)
    (row,) = watched.look(11)
    path = f"{home.text}/teams/session-1/inboxes/bob.json"
    text = f"{path} is larger than 2 MiB: what it says is not shown until it is smaller"
    assert row == f'00:11 notice @session-1 - - text="{text}" code="too_large"'
    home.put("teams/session-1/inboxes/bob.json", b"[" + b" " * (3 << 20), 12)
    assert watched.look(12) == []


def test_a_lead_that_leaves_the_register_is_dead_a_second_later(home: Home, begin: Begin) -> None:
    home.config("bob")
    home.lead()
    watched = begin()
    (home.path / f"sessions/{os.getpid()}.json").unlink()
    assert watched.look(11) == []
    assert watched.look(11.9) == []
    pid = os.getpid()
    assert watched.look(12) == [
        f'00:12 team.stale - stale/1000 process reason="its lead (pid {pid}) is gone" pid={pid}',
        '00:12 member.left bob left/bob/2000 process member="bob" reason="its lead died"',
    ]
    assert watched.look(14) == []


def test_a_lead_that_comes_back_leads_again(home: Home, begin: Begin) -> None:
    home.config("bob")
    watched = begin()
    assert watched.look(11) == []
    assert watched.look(12) == [
        '00:12 team.stale - stale/1000 process reason="no process leads it"',
        '00:12 member.left bob left/bob/2000 process member="bob" reason="its lead died"',
    ]
    home.lead(12, status="idle", statusUpdatedAt=12000)
    assert watched.look(12.1) == ['00:12 member.idle team-lead idle/team-lead/12000 process member="team-lead"']
    (team,) = watched.teams.diff.teams.values()
    assert (team.lead_pid, team.is_stale) == (os.getpid(), False)


def test_a_team_that_beam_made_needs_no_lead(home: Home, begin: Begin) -> None:
    value = {"name": "t", "createdAt": 1, "leadSessionId": "s", "madeBy": "beam", "members": []}
    home.put("teams/t/config.json", value, 1)
    watched = begin()
    assert watched.look(99) == []
    (home.path / "teams/t/config.json").unlink()
    watched.look(100)
    watched.look(101)
    assert watched.look(104) == [
        '01:44 team.ended - ended/1 files reason="its config.json is gone and nobody leads it"'
    ]


def call(**payload: Any) -> bytes:
    return json.dumps({"at_ns": 10 * S, "payload": payload}).encode() + b"\n"


def test_a_call_of_a_hook_waits_half_a_second_for_its_team(home: Home, begin: Begin, tmp_path: Path) -> None:
    home.config("bob")
    home.lead()
    watched = begin()
    (tmp_path / "hooks").mkdir()
    given = {"hook_event_name": "PostToolUse", "tool_name": "TaskCreate"}
    record = {"tool_response": {"task": {"id": "7", "subject": "s"}}}
    where = {"transcript_path": f"{home.text}/projects/-p/x.jsonl"}
    known, later, never = (
        call(**given, **record, **where, session_id=one, tool_use_id=one) for one in ("sid", "abcdefgh-1", "other")
    )
    (tmp_path / "hooks/1.jsonl").write_bytes(known + later + never)
    assert watched.look(11) == [
        '00:10 task.created team-lead task/7/created/10000 hook task_id="7" subject="s" by="team-lead"'
    ]
    assert watched.look(11.5) == []
    home.put("tasks/session-abcdefgh/1.json", {"id": "1"}, 11)
    assert watched.look(11.51) == [
        '00:10 task.created team-lead task/7/created/10000 hook task_id="7" subject="s" by="team-lead"',
        '00:11 task.created - task/1/created/11000 files task_id="1"',
    ]
    assert watched.teams._unclaimed == []


def test_a_team_that_begins_has_its_transcripts_looked_for_once(home: Home, begin: Begin) -> None:
    watched = begin()
    home.lead()
    home.say(11, "before anybody knew")
    home.config("bob")
    watched.teams._changes.sweep()
    found = watched.look(11, is_all=False)
    assert '00:11 text team-lead@session-1 - - text="before anybody knew"' in found
    home.say(12, "nobody told of this")
    assert watched.look(12, is_all=False) == []
    assert [row.partition(" text=")[2] for row in watched.look(12)] == ['"nobody told of this"']


def test_a_session_is_reported_with_its_team_and_any_other_is_not(home: Home, begin: Begin) -> None:
    whole(home)
    watched = begin()
    path = str(home.path / "projects/-p/sid.jsonl")
    assert [watched.teams.has_session(*one) for one in (("sid", ""), ("", path), ("other", ""), ("", f"{path}x"))] == [
        True,
        True,
        False,
        False,
    ]
    shutil.rmtree(home.path / "teams/session-1")
    watched.look(11)
    assert not watched.teams.has_session("sid", "")


def test_the_last_lines_of_a_teams_transcripts_are_read_again_for_who_asks(home: Home, begin: Begin) -> None:
    whole(home)
    watched = begin()
    (team,) = watched.teams.diff.teams.values()
    ends = watched.teams.last_lines(team)
    assert [(name, [event.text for event in line.bodies]) for name, line in ends] == [  # type: ignore[attr-defined]
        ("team-lead", ["I begin"]),
        ("team-lead", ["I go on"]),
    ]


def test_the_living_teams_are_looked_at_more_often(home: Home, begin: Begin) -> None:
    whole(home)
    home.config("eve", name="my team")
    watched = begin()
    watched.look()
    assert watched.teams._changes.hot == {home.text: frozenset({"session-1", "my team", "my-team"})}


def test_a_member_in_a_pane_whose_process_is_not_found_is_no_orphan(home: Home, begin: Begin) -> None:
    home.config("bob", tmuxPaneId="%1")
    watched = begin()
    assert watched.look(11.5) == [
        '00:11.500000 team.stale - stale/1000 process reason="no process leads it"',
        '00:11.500000 member.left bob left/bob/2000 process member="bob" reason="its lead died"',
    ]


def test_how_long_a_watcher_waits_is_how_soon_something_is_due(home: Home, begin: Begin) -> None:
    home.config("bob")
    home.lead()
    watched, waits = begin(), list[float]()

    class Wake:
        def wait(self, timeout: float) -> None:
            waits.append(timeout)

        def clear(self) -> None: ...
        def set(self) -> None: ...

    watched.teams.wake = Wake()  # type: ignore[assignment]
    watched.teams.wait(5)
    home.put("tasks/session-1/1.json", b"{", 11)
    watched.look(11)
    watched.teams.wait(5)
    watched.teams.wait(0.01)
    home.put("tasks/session-1/2.json", {"id": "2"}, 11)
    watched.teams._changes.sweep()
    watched.teams.poll()
    watched.teams.wait(5)
    watched.teams.wait(0.001)
    assert waits == [5, 0.04, 0.01, 0.004, 0.001]


def test_where_things_lie_is_what_claude_code_and_beam_use() -> None:
    assert watch.homes({"HOME": "/h"}) == ("/h/.claude",)
    assert watch.homes({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/x"}) == ("/x",)
    assert watch.homes({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/x"}, ["/a", "/b", "/a"]) == ("/a", "/b")
    assert watch.spool_dir({"HOME": "/h"}) == Path("/h/.local/state/beam/hooks")
    assert watch.spool_dir({"HOME": "/h", "BEAM_STATE": "/s"}) == Path("/s/hooks")


_PAST = {
    0: [
        '00:01 team.started - started/1000 files lead="team-lead" session_id="sid" cwd="/p"',
        '00:01 member.joined team-lead joined/team-lead/1000 files member="team-lead" cwd="/p"',
        '00:02 member.joined bob joined/bob/2000 files member="bob"',
        '00:03 member.working team-lead working/team-lead/3000 process member="team-lead" why="busy"',
        '00:04 task.started bob task/1/started/4000 files task_id="1" subject="parser" owner="bob"',
        '00:05 mail.sent bob sent/team-lead/m5 files mail_id="m5" from="bob" to="team-lead" text="text 5"',
        '00:06 text team-lead@session-1 - - text="I begin"',
        '00:08 text team-lead@session-1 - - text="I go on"',
    ],
    6: [
        '00:06 text team-lead@session-1 - - text="I begin"',
        '00:08 text team-lead@session-1 - - text="I go on"',
    ],
    7: ['00:08 text team-lead@session-1 - - text="I go on"'],
    9: [],
}


def test_a_session_that_is_resumed_speaks_for_its_new_team(home: Home, begin: Begin) -> None:
    home.config("bob")
    home.lead()
    home.say(6, "I begin")
    meta = {"agentType": "bob", "name": "bob", "taskKind": "in_process_teammate", "teamName": "session-1"}
    home.put("projects/-p/sid/subagents/agent-abob-1.meta.json", meta, 6)
    home.say(6, "me too", name="sid/subagents/agent-abob-1")
    watched = begin()
    watched.look()
    home.say(11, "in the first team")
    assert [row.split()[2] for row in watched.look() if " text " in row] == ["team-lead@session-1"]
    shutil.rmtree(home.path / "teams/session-1")
    watched.look(12)
    lead = {"name": "team-lead", "agentId": "team-lead@x", "joinedAt": 20_000, "cwd": "/p"}
    amy = {"name": "amy", "agentId": "amy@x", "joinedAt": 21_000}
    value = {"name": "session-2", "createdAt": 20_000, "leadAgentId": "team-lead@x", "leadSessionId": "sid-2"}
    home.lead(20, startedAt=20_000)
    home.put("teams/session-2/config.json", {**value, "members": [lead, amy]}, 21)
    watched.look(22)
    home.say(23, "in the second team")
    home.put("projects/-p/sid/subagents/agent-aamy-2.meta.json", {**meta, "name": "amy", "teamName": "session-2"}, 24)
    home.say(24, "I am new", name="sid/subagents/agent-aamy-2")
    assert [row.partition(" text ")[2] for row in watched.look(25) if " text " in row] == [
        'team-lead@session-2 - - text="in the second team"',
        'amy@session-2 - - text="I am new"',
    ]
