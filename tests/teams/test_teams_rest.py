"""How the systems' notifications are used, what people look at of a team, and what is remembered of its members."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from beam.base.errors import UsageError
from beam.model.prices import Tokens
from beam.teams import act, board, disk, hook, notify_elsewhere
from beam.teams import usage as of_usage
from beam.teams.board import LastActivity, MailLine, MemberLine, TaskLine, TeamLine
from beam.teams.changes import Changes
from beam.teams.diff import Diff
from beam.teams.event_factory import Deduplicator
from beam.teams.model import Mail, Member, Session, Task
from beam.teams.notify_elsewhere import NotifyElsewhere
from beam.teams.task_files import TaskFiles
from beam.teams.usage import MemberUsage
from tests.teams.teams_home import Home
from tests.teams.teams_told import BOB, LEAD, H, S, T, line, roster, started, told
from tests.teams.teams_told import hook as called

# -- notifications -----------------------------------------------------------------------------------------------------


class Watchfiles:
    """The package `watchfiles`, as far as it is used: its turns are given."""

    def __init__(self, *turns: set[tuple[int, str]]) -> None:
        self.turns, self.given, self.is_closed = list(turns), dict[str, Any](), False

    def watch(self, *folders: str, **given: Any) -> Watchfiles:
        self.given = {"folders": folders, **given}
        return self

    def __iter__(self) -> Watchfiles:
        return self

    def __next__(self) -> set[tuple[int, str]]:
        if not self.turns:
            raise StopIteration
        return self.turns.pop(0)

    def close(self) -> None:
        self.is_closed = True


def test_where_the_system_has_no_inotify_each_turn_of_watchfiles_is_reported_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    burst = {(1, f"/a/{number}") for number in range(2001)}
    played = Watchfiles(set(), {(1, "/a/10"), (2, "/a/9")}, burst)
    monkeypatch.setattr(notify_elsewhere, "watchfiles", played)
    notify = NotifyElsewhere(["/a", "/b"])
    stop = played.given.pop("stop_event")
    assert played.given == {
        "folders": ("/a", "/b"),
        "watch_filter": None,
        "debounce": 1,
        "step": 20,
        "rust_timeout": 100,
        "yield_on_timeout": True,
        "ignore_permission_denied": True,
    }
    assert notify.wait(1000) == ([], False)
    assert notify.wait(0) == ([], False)
    assert notify.wait(1000) == (["/a/9", "/a/10"], False)
    paths, lost = notify.wait(1000)
    assert (len(paths), lost) == (2001, True)
    assert notify.wait(1000) == ([], False)
    assert isinstance(stop, threading.Event) and not stop.is_set()
    notify.interrupt()
    assert (stop.is_set(), played.is_closed) == (True, False)
    stop.clear()
    notify.close()
    assert (stop.is_set(), played.is_closed) == (True, True)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_a_watch_that_the_kernel_refuses_leaves_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.teams import notify as module

    def opened() -> list[str]:
        return sorted(path.name for path in Path("/proc/self/fd").iterdir())

    before = opened()
    one = module.Notify([str(tmp_path)], grown=[str(tmp_path / "none")])
    threading.Timer(0, one.interrupt).start()
    assert one.wait(30_000) == ([], False)
    one.close()
    one.interrupt()
    assert opened() == before

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.Inotify, "add", refuse)
    with pytest.raises(OSError, match="No space left"):
        module.Notify([str(tmp_path)])
    assert opened() == before


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_small_files_are_reported_when_they_are_closed_and_those_that_grow_at_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    changes = Changes([home.text], others=[str(tmp_path / "none")], wake=threading.Event())
    try:
        changes.start()
        assert sys.getswitchinterval() == pytest.approx(0.0005)
        assert changes._listener is not None and not changes._poll_only
        assert changes._watching == changes._folders
        changes.close()
    finally:
        sys.setswitchinterval(before)
    notify = changes._new_listener()
    with (home.path / "tasks/1.json").open("w") as small, (home.path / "projects/-p/x.jsonl").open("w") as grown:
        small.write("x")
        small.flush()
        grown.write("x")
        grown.flush()
        assert notify.wait(2000)[0] == [str(home.path / "projects/-p/x.jsonl")]
    assert set(notify.wait(2000)[0]) >= {str(home.path / "tasks/1.json")}
    notify.close()


# -- what people look at -----------------------------------------------------------------------------------------------


def test_a_teams_board_is_shown_whole() -> None:
    diff, team = started(BOB, Member(name="ann", agent_id="ann@x", joined_ns=2 * S))
    diff.lead_lives(team, Session(pid=7, start=1, session_id="sid"))
    team.members.on_working("bob", 3 * S, "hook", "why")
    team.members.on_idle("team-lead", 4 * S, "hook", summary="waits")
    for task in (
        Task(id="10", subject="later", description="d", blocks=("2",)),
        Task(id="2", subject="blocked", blocked_by=("10", "1")),
        Task(id="1", subject="done", status="completed", owner="bob"),
        Task(id="3", subject="going", status="in_progress", owner="bob", active_form="Going"),
        Task(id="x", subject="odd", status="held"),
        Task(id="9" * 20, subject="long"),
    ):
        diff.task(H, T, task, 5 * S)
    diff.inbox(H, T, "bob", [Mail(id="m", sender="team-lead", text="hi", summary="s", sent_ns=6 * S)], 6 * S)
    diff.inbox(H, T, "ghost", [Mail(id="g", sender="team-lead", text="boo", sent_ns=5 * S)], 6 * S)
    diff.inbox(H, T, "ghost", [], 7 * S)
    diff.inbox(H, T, "ghost", [Mail(id="h", sender="bob", text="boo", sent_ns=8 * S)], 8 * S)
    used = [
        MemberUsage(member="bob", model="a", tokens=Tokens(1, 2, 3, 4), replies=1, cost_usd=0.25),
        MemberUsage(member="bob", model="b", tokens=Tokens(1), replies=1, cost_usd=0.5),
        MemberUsage(member="ann", model="c", tokens=Tokens(2), replies=1, cost_usd=None),
    ]
    doing = {"ann": LastActivity("Bash ls", "words", "idle", "1970-01-01T00:00:01Z", "t")}
    assert board.team_line(team) == TeamLine(
        team="session-1",
        home="/home",
        state="live",
        lead="team-lead",
        lead_pid=7,
        session_id="sid",
        cwd="/p",
        created="1970-01-01T00:00:01.000000Z",
        members=3,
        working=1,
        tasks={"pending": 3, "completed": 1, "in_progress": 1, "held": 1},
        waiting_mail=2,
        orphan_inboxes=("ghost",),
    )
    assert board.member_lines(team, used, doing) == [
        MemberLine(
            member="team-lead",
            state="idle",
            since="1970-01-01T00:00:04.000000Z",
            kind="",
            model=None,
            colour=None,
            backend="",
            pane="",
            doing="",
            last_words="waits",
            tasks=(),
            unread=0,
            tokens=None,
            cost_usd=None,
            unpriced=(),
        ),
        MemberLine(
            member="bob",
            state="working",
            since="1970-01-01T00:00:03.000000Z",
            kind="tester",
            model="haiku",
            colour="blue",
            backend="tmux",
            pane="%2",
            doing="#3 Going",
            last_words="",
            tasks=("3",),
            unread=1,
            tokens=11,
            cost_usd=0.75,
            unpriced=(),
        ),
        MemberLine(
            member="ann",
            state="idle",
            since="1970-01-01T00:00:01Z",
            kind="",
            model="c",
            colour=None,
            backend="",
            pane="",
            doing="Bash ls",
            last_words="words",
            tasks=(),
            unread=0,
            tokens=2,
            cost_usd=None,
            unpriced=("c",),
        ),
    ]
    assert board.task_lines(team) == [
        TaskLine(
            team="session-1",
            id="3",
            status="in_progress",
            subject="going",
            owner="bob",
            is_ready=False,
            blocked_by=(),
            blocks=(),
            since="1970-01-01T00:00:05.000000Z",
            description="",
        ),
        TaskLine(
            team="session-1",
            id="99999999999999999999",
            status="pending",
            subject="long",
            owner=None,
            is_ready=True,
            blocked_by=(),
            blocks=(),
            since="1970-01-01T00:00:05.000000Z",
            description="",
        ),
        TaskLine(
            team="session-1",
            id="10",
            status="pending",
            subject="later",
            owner=None,
            is_ready=True,
            blocked_by=(),
            blocks=("2",),
            since="1970-01-01T00:00:05.000000Z",
            description="d",
        ),
        TaskLine(
            team="session-1",
            id="2",
            status="pending",
            subject="blocked",
            owner=None,
            is_ready=False,
            blocked_by=("10",),
            blocks=(),
            since="1970-01-01T00:00:05.000000Z",
            description="",
        ),
        TaskLine(
            team="session-1",
            id="x",
            status="held",
            subject="odd",
            owner=None,
            is_ready=False,
            blocked_by=(),
            blocks=(),
            since="1970-01-01T00:00:05.000000Z",
            description="",
        ),
        TaskLine(
            team="session-1",
            id="1",
            status="completed",
            subject="done",
            owner="bob",
            is_ready=False,
            blocked_by=(),
            blocks=(),
            since="1970-01-01T00:00:05.000000Z",
            description="",
        ),
    ]
    assert board.mail_lines(team) == [
        MailLine(
            team="session-1",
            mail_id="g",
            at="1970-01-01T00:00:05.000000Z",
            sender="team-lead",
            to="ghost",
            kind="message",
            summary="",
            text="boo",
            state="delivered",
            thread="ghost · team-lead",
        ),
        MailLine(
            team="session-1",
            mail_id="m",
            at="1970-01-01T00:00:06.000000Z",
            sender="team-lead",
            to="bob",
            kind="message",
            summary="s",
            text="hi",
            state="waiting",
            thread="bob · team-lead",
        ),
        MailLine(
            team="session-1",
            mail_id="h",
            at="1970-01-01T00:00:08.000000Z",
            sender="bob",
            to="ghost",
            kind="message",
            summary="",
            text="boo",
            state="waiting",
            thread="bob · ghost",
        ),
    ]


def test_a_team_without_a_configuration_is_called_by_what_it_has() -> None:
    diff = Diff()
    diff.task(H, "list", Task(id="1"), S)
    diff.inbox(H, "mail", "bob", [Mail(id="m", sender="a", text="x")], S)
    diff.config(H, "own", roster(LEAD, made_by="beam"), S)
    diff.config(H, "new", roster(LEAD, created_ns=0), S)
    diff.config(H, "dead", roster(LEAD), S)
    diff.lead_died(diff.teams[H, "dead"], 2 * S, orphans={})
    lines = [board.team_line(team) for team in diff.teams.values()]
    assert [(each.lead, each.cwd, each.session_id) for each in lines[:2]] == [("", "", "")] * 2
    assert [(each.team, each.state, each.members, each.working, each.created) for each in lines] == [
        ("list", "tasks", None, None, None),
        ("mail", "orphan", None, None, None),
        ("own", "live", 1, None, "1970-01-01T00:00:01.000000Z"),
        ("new", "starting", 1, None, None),
        ("dead", "stale", 1, None, "1970-01-01T00:00:01.000000Z"),
    ]


# -- what is remembered ------------------------------------------------------------------------------------------------


def test_who_a_record_shows_made_is_there_unless_it_left() -> None:
    _, team = started()
    eve = Member(name="eve", prompt="go")
    assert told(team.members.on_spawned(eve, "hook", 3 * S)) == [
        '00:03 member.joined eve joined/eve/3000 hook member="eve" prompt="go"'
    ]
    assert list(team.members.present) == ["team-lead", "eve"]
    team.members.on_left("eve", 4 * S, "gone", "files")
    team.members.on_spawned(eve, "hook", 5 * S)
    assert "eve" not in team.members.present
    team.members.on_idle("team-lead", 5 * S, "hook")
    assert team.members.states["team-lead"].summary == ""
    team.members.on_working("team-lead", 6 * S, "hook", "why", is_said=False)
    assert (team.members.states["team-lead"].since_ns, team.members.states["team-lead"].said_ns) == (6 * S, 5 * S)


def test_a_team_that_ended_has_only_the_members_that_its_next_configuration_names() -> None:
    diff, team = started(BOB)
    team.members.on_left("bob", 4 * S, "has shut down", "transcript")
    assert diff.config(H, T, roster(LEAD, BOB), 5 * S) == []
    assert list(team.members.present) == ["team-lead"]
    diff.team_gone(H, T, 6 * S)
    diff.config(H, T, roster(LEAD, BOB), 7 * S)
    assert list(team.members.present) == ["team-lead", "bob"]


def test_of_calls_and_keys_only_the_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.teams import diff as module
    from beam.teams import event_factory

    monkeypatch.setattr(module, "_CALLS", 2)
    diff, team = started(BOB)
    for number in range(3):
        call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {}}
        diff.line(team, "bob", line(number + 3, "assistant", [call]))
    assert list(team.calls) == ["c1", "c2"]
    monkeypatch.setattr(event_factory, "_KEPT_KEYS", 2)
    once = Deduplicator()
    assert [once.add_if_new(key) for key in "abac"] == [True, True, False, True]
    assert [once.add_if_new(key) for key in "bca"] == [False, False, True]
    assert [once.count_report("x", source=one) for one in ("files", "record", "record", "files")] == [
        True,
        False,
        True,
        False,
    ]
    owners = event_factory.KeyOwners()
    assert [owners.claim(("to", name), "t") for name in "abc"] == [True] * 3
    assert [owners.owner(("to", name)) for name in "abc"] == [None, "t", "t"]
    assert owners.claim(("to", "c"), "other") is False
    monkeypatch.setattr(of_usage, "_KEPT_REPLIES", 1)
    turns = of_usage.Turns()
    for number in range(2):
        message = {"id": f"r{number}", "model": "m", "usage": {"input_tokens": 5, "output_tokens": None}}
        assert turns.add("bob", line(3, "assistant", [], message=message), is_member=True) == {}
    assert list(turns._replies) == ["r1"]


def test_before_a_watch_began_changes_of_tasks_are_known_and_not_reported() -> None:
    diff = Diff(from_ns=5 * S)
    assert diff.task(H, T, Task(id="1"), 4 * S) == []
    assert [each[:5] for each in told(diff.task(H, T, Task(id="2"), 5 * S))] == ["00:05"]
    assert list(diff.teams[H, T].tasks.known) == ["1", "2"]
    diff.begin(6 * S)
    assert [each[:5] for each in told(diff.task(H, T, Task(id="3"), 4 * S))] == ["00:04"]
    assert diff.hook(H, called("TeammateIdle", session_id="x")) is None


def test_files_of_one_moment_come_by_folder_and_number() -> None:
    assert [disk.natural_key(path) for path in ("/a/10.json", "9.json")] == [("/a", 7, "10.json"), ("", 6, "9.json")]
    found = sorted(("/b/1", "/a/10", "/a/9"), key=disk.natural_key)
    assert found == ["/a/9", "/a/10", "/b/1"]


def test_old_calls_of_hooks_are_swept_by_the_hour(tmp_path: Path) -> None:
    now = 1_795_300_000 * S
    for name in ("2026-11-20T21.jsonl", "2026-11-20T22.jsonl", "2026-11-20T23.jsonl"):
        (tmp_path / name).touch()
    hook.sweep(bytes(tmp_path), now)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2026-11-20T22.jsonl", "2026-11-20T23.jsonl"]
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    hook.write(b"{}", bytes(tmp_path), now)
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before


def test_a_task_after_one_that_is_not_there_is_none(tmp_path: Path) -> None:
    tasks = TaskFiles(str(tmp_path), "t")
    tasks.add_task("one")
    with pytest.raises(UsageError):
        tasks.block_task("1", "1")
    assert act.LONGEST == 262_144
