"""The live watcher: recordings replayed into a scratch home at three speeds, and what a real home can do to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beam import TeamsHere
from beam.model import events
from beam.model.events import Event
from beam.process import tree
from beam.teams.watch import LEAVING_NS, Teams, homes
from tests.support.cli import eventually
from tests.support.secrets import SECRETS
from tests.teams.teams_replay import ALL, WITH_TRANSCRIPTS, Scratch, drain, first_value, proved

pytestmark = pytest.mark.acceptance


def watched(scratch: Scratch, speed: float | None, pause: float = 3.0, **given: Any) -> list[Event]:
    """Everything that a watcher which began before the recording says.

    With a speed the time between two changes is that in which the watcher looks: on a busy machine it is late for none
    that stood as long as in the recording.
    """
    teams = scratch.teams(**given)
    if speed is None:
        player = threading.Thread(target=scratch.replay, args=(None,))
        player.start()
        while player.is_alive():
            teams.wait(0.05)
            scratch.seen += teams.poll()
    else:

        def look(seconds: float) -> None:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                teams.wait(min(left, 0.05))
                scratch.seen += teams.poll()

        scratch.replay(speed, pause=pause, sleep=look)
    drain(teams, scratch.seen, 1.2)
    teams.close()
    return scratch.seen


def of(found: list[Event], cls: type[Event]) -> list[Any]:
    return [event for event in found if isinstance(event, cls)]


def tasks(found: list[Event], cls: type[Event]) -> Counter[tuple[str, str]]:
    return Counter((event.team, event.task_id) for event in of(found, cls))


@pytest.mark.parametrize("name", ALL)
def test_ten_times_faster_everything_that_the_recording_proves_is_told_once(tmp_path: Path, name: str) -> None:
    told_once(watched(Scratch(tmp_path, name, is_now=True), 10), name)


def test_as_fast_as_it_was_everything_that_the_recording_proves_is_told_once(tmp_path: Path) -> None:
    told_once(watched(Scratch(tmp_path, "in-process", is_now=True), 1, pause=1.0), "in-process")


@pytest.mark.soak
@pytest.mark.parametrize("name", ALL)
def test_with_all_its_pauses_everything_that_the_recording_proves_is_told_once(tmp_path: Path, name: str) -> None:
    told_once(watched(Scratch(tmp_path, name, is_now=True), 1, pause=1e9), name)


def told_once(found: list[Event], name: str) -> None:
    """The events are those that the recording proves, each once."""
    truth = proved(name)
    ids = Counter(
        event.mail_id if not event.mail_id.startswith("~") else event.text for event in of(found, events.MailSent)
    )
    assert ids == truth.mails
    assert Counter(e.member for e in of(found, events.MemberJoined)) == Counter(n for n, _ in truth.joined)
    assert Counter(e.member for e in of(found, events.MemberLeft)) == truth.left
    assert tasks(found, events.TaskCreated) == truth.created
    assert tasks(found, events.TaskStarted) == +truth.started
    assert tasks(found, events.TaskCompleted) == +truth.completed
    assert tasks(found, events.TaskDeleted) == truth.deleted
    claims = Counter((e.team, e.task_id, e.owner) for e in of(found, events.TaskClaimed))
    assert claims == truth.claims
    keys = Counter(e.key for e in found if hasattr(e, "key"))
    assert not [key for key, count in keys.items() if count > 1]


@pytest.mark.parametrize("name", ALL)
def test_as_fast_as_possible_nothing_that_is_proved_is_lost_and_nothing_is_told_twice(
    tmp_path: Path, name: str
) -> None:
    merged(watched(Scratch(tmp_path, name, is_now=True), None), name)


def merged(found: list[Event], name: str) -> None:
    """Nothing that a hook or a transcript proves is missing, however short its file was there; nothing is told that
    was not, or twice. A team may have come and gone before anybody saw its configuration."""
    truth = proved(name)
    sent = of(found, events.MailSent)
    ids = Counter(event.mail_id for event in sent)
    assert not [mail_id for mail_id, count in ids.items() if count > 1]
    assert truth.sent <= set(ids)
    assert {event.mail_id for event in sent if not event.mail_id.startswith("~")} <= set(truth.mails)
    if name in WITH_TRANSCRIPTS:
        assert len(sent) == len(truth.mails)
    assert tasks(found, events.TaskCreated) == truth.created
    assert tasks(found, events.TaskStarted) == +truth.started
    assert tasks(found, events.TaskCompleted) == +truth.completed
    assert tasks(found, events.TaskDeleted) == truth.deleted
    claims = Counter((e.team, e.task_id, e.owner) for e in of(found, events.TaskClaimed))
    assert claims == truth.claims
    joined = Counter(e.member for e in of(found, events.MemberJoined))
    assert truth.spawned <= set(joined)
    assert joined <= Counter(member for member, _ in truth.joined)
    assert Counter(e.member for e in of(found, events.MemberLeft)) <= truth.left
    keys = Counter(e.key for e in found if hasattr(e, "key"))
    assert not [key for key, count in keys.items() if count > 1]


def looked_at_seldom(scratch: Scratch, every: int, *, with_hooks: bool, with_inboxes: bool) -> list[Event]:
    """What a watcher tells that looks only after this many steps of the recording (0: when all is over). Without
    inboxes, it never looks while a mail is in one."""
    teams = scratch.teams()
    scratch.seen += teams.poll()
    for number, (at, version, payload) in enumerate(scratch.steps(), 1):
        if version is not None:
            is_mail = "/inboxes/" in version["path"] and version["op"] == "write" and first_value(version["content"])
            if with_inboxes or not is_mail:
                scratch.do(version, at)
        elif payload is not None and with_hooks:
            scratch.call(payload, at)
        if every and number % every == 0:
            teams.wait(0.0)
            scratch.seen += teams.poll()
    drain(teams, scratch.seen, 1.2)
    teams.close()
    return scratch.seen


@pytest.mark.parametrize("name", WITH_TRANSCRIPTS)
@pytest.mark.parametrize("with_hooks", [True, False])
@pytest.mark.parametrize(("every", "with_inboxes"), [(1, False), (25, True), (0, True), (0, False)])
def test_mail_that_no_look_finds_in_its_inbox_is_told_from_the_transcripts_of_both_ends(
    tmp_path: Path, name: str, with_hooks: bool, every: int, with_inboxes: bool
) -> None:
    found = looked_at_seldom(
        Scratch(tmp_path, name, is_now=True), every, with_hooks=with_hooks, with_inboxes=with_inboxes
    )
    truth, sent = proved(name), of(found, events.MailSent)
    assert len(sent) == len(truth.mails)
    assert {event.mail_id for event in sent if not event.mail_id.startswith("~")} <= set(truth.mails)
    assert tasks(found, events.TaskCreated) == truth.created
    assert tasks(found, events.TaskCompleted) == +truth.completed


def test_a_task_that_came_and_went_before_its_team_was_known_is_told_from_hooks(tmp_path: Path) -> None:
    found = looked_at_seldom(Scratch(tmp_path, "i1", is_now=True), 0, with_hooks=True, with_inboxes=True)
    truth = proved("i1")
    assert sum(truth.deleted.values()) == 1
    assert tasks(found, events.TaskDeleted) == truth.deleted
    assert tasks(found, events.TaskCreated) == truth.created
    assert tasks(found, events.TaskStarted) == +truth.started


@pytest.mark.parametrize("name", ["p1", "tmux"])
def test_without_notification_the_same_is_told(tmp_path: Path, name: str) -> None:
    found, truth = watched(Scratch(tmp_path, name, is_now=True), 10, poll_only=True), proved(name)
    sent = of(found, events.MailSent)
    assert truth.sent <= {event.mail_id for event in sent}
    assert Counter(e.member for e in of(found, events.MemberJoined)) == Counter(n for n, _ in truth.joined)
    assert tasks(found, events.TaskCompleted) == +truth.completed


def test_a_watcher_that_comes_late_tells_the_past_from_the_transcripts(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, "in-process")
    end = next(
        at
        for at, version, _ in scratch.steps()
        if version and version["path"].startswith("sessions/") and version["op"] == "delete"
    )
    scratch.replay(None, until=end - 0.001)
    teams = scratch.teams(since_ns=0)
    found: list[Event] = []
    drain(teams, found)
    teams.close()
    assert len(of(found, events.MailSent)) == len(proved("in-process").mails)
    assert tasks(found, events.TaskCreated) == proved("in-process").created
    assert {event.member for event in of(found, events.MemberJoined)} == {"team-lead", "alice", "bob"}
    assert [event.text for event in of(found, events.Text)].count("lead waits") == 1


@contextmanager
def team(home: Path, name: str = "session-1", pid: int = 0, **member: Any) -> Iterator[tuple[Teams, list[Event]]]:
    """A team with a living lead, and a watcher that knows it."""
    pid = pid or os.getpid()
    for folder in ("teams", "tasks", "sessions", "projects"):
        (home / folder).mkdir(parents=True)
    session = {"pid": pid, "procStart": str(tree.start_ticks(pid)), "sessionId": "sid"}
    (home / "sessions" / f"{pid}.json").write_text(json.dumps(session))
    write_config(home, name, [{"name": "bob", "agentId": f"bob@{name}", "joinedAt": 1, **member}])
    teams = Teams([str(home)])
    try:
        yield teams, []
    finally:
        teams.close()


def write_config(home: Path, name: str, members: list[dict[str, Any]]) -> None:
    folder = home / "teams" / name
    (folder / "inboxes").mkdir(parents=True, exist_ok=True)
    lead = {"name": "team-lead", "agentId": f"team-lead@{name}", "joinedAt": 1, "cwd": "/p"}
    value = {"name": name, "createdAt": 1, "leadAgentId": f"team-lead@{name}", "leadSessionId": "sid"}
    (folder / "config.json").write_text(json.dumps({**value, "members": [lead, *members]}))


def put(home: Path, to: str, mails: list[dict[str, Any]], name: str = "session-1") -> None:
    path = home / "teams" / name / "inboxes" / f"{to}.json"
    temporary = path.with_name(path.name + ".tmp.1")
    temporary.write_text(json.dumps(mails))
    temporary.rename(path)


def test_a_thousand_messages_in_a_2_mb_inbox_are_told_once_each(tmp_path: Path) -> None:
    with team(tmp_path / "c") as (teams, found):
        for count in (500, 1000):
            put(tmp_path / "c", "bob", [{"from": "a", "msg_id": f"m{n}", "text": "x" * 2000} for n in range(count)])
            drain(teams, found)
        put(tmp_path / "c", "bob", [])
        drain(teams, found)
        assert Counter(e.mail_id for e in of(found, events.MailSent)) == {f"m{n}": 1 for n in range(1000)}
        assert len(of(found, events.MailDelivered)) == 1000


def test_tasks_of_a_headless_session_are_told_once_it_has_an_inbox(tmp_path: Path) -> None:
    home, session = tmp_path / "c", "c7b5231e-7e31-4756-9ebd-26edd280bfd2"
    with team(home) as (teams, found):
        folder = home / "tasks" / session
        folder.mkdir(parents=True)
        (folder / "1.json").write_text(json.dumps({"id": "1", "subject": "parser", "status": "pending"}))
        drain(teams, found)
        assert found == []
        (home / "teams" / session / "inboxes").mkdir(parents=True)
        put(home, "bob", [{"from": "team-lead", "msg_id": "m", "text": "#1 is yours"}], session)
        drain(teams, found)
        done = {"id": "1", "subject": "parser", "owner": "bob", "status": "completed"}
        (folder / "1.json").write_text(json.dumps(done))
        drain(teams, found)
    told = tasks(found, events.TaskCreated), tasks(found, events.TaskCompleted)
    assert told == (Counter({(session, "1"): 1}), Counter({(session, "1"): 1}))
    assert [event.team for event in of(found, events.MailSent)] == [session]


def test_malformed_files_keep_the_last_good_value(tmp_path: Path) -> None:
    with team(tmp_path / "c") as (teams, found):
        put(tmp_path / "c", "bob", [{"from": "a", "msg_id": "m", "text": "t"}])
        drain(teams, found)
        for path in ("teams/session-1/inboxes/bob.json", "teams/session-1/config.json"):
            (tmp_path / "c" / path).write_text('[{"from": "a", "te')
        drain(teams, found, 1.5)
        assert [type(event).__name__ for event in found] == ["MailSent"]
        put(tmp_path / "c", "bob", [])
        drain(teams, found)
        assert [type(event).__name__ for event in found][1] == "MailDelivered"


def test_a_configuration_that_vanishes_and_comes_back_is_a_notice_and_no_end(tmp_path: Path) -> None:
    with team(tmp_path / "c") as (teams, found):
        (tmp_path / "c/teams/session-1/config.json").unlink()
        drain(teams, found, 3.5)
        assert [event.code for event in of(found, events.Notice)] == ["team_config_gone"]
        write_config(tmp_path / "c", "session-1", [{"name": "bob", "agentId": "bob@session-1", "joinedAt": 1}])
        drain(teams, found)
        assert not of(found, events.TeamEnded) and not of(found, events.MemberJoined)
        shutil.rmtree(tmp_path / "c/teams/session-1")
        drain(teams, found)
        assert len(of(found, events.TeamEnded)) == 1


def test_a_team_whose_directory_goes_long_after_its_configuration_ends(tmp_path: Path) -> None:
    with team(tmp_path / "c") as (teams, found):
        (tmp_path / "c/teams/session-1/config.json").unlink()
        drain(teams, found, 1.0)
        assert not of(found, events.TeamEnded)
        shutil.rmtree(tmp_path / "c/teams/session-1")
        drain(teams, found, 2.5)
        assert len(of(found, events.TeamEnded)) == 1


def test_names_that_climb_and_names_that_are_escape_sequences_only_show(tmp_path: Path) -> None:
    with team(tmp_path / "c") as (teams, found):
        evil = ["../../../etc/passwd", "\x1b]0;owned\x07", "..", "/etc/passwd"]
        write_config(tmp_path / "c", "session-1", [{"name": name, "joinedAt": 5} for name in evil])
        value = {"leadSessionId": "../../../../etc/passwd", "createdAt": 1, "members": [{"name": "x", "cwd": "/../.."}]}
        (tmp_path / "c/teams/esc\x1b[31m/inboxes").mkdir(parents=True)
        (tmp_path / "c/teams/esc\x1b[31m/config.json").write_text(json.dumps(value))
        put(tmp_path / "c", "--bob", [{"from": "\x1b[2J", "msg_id": "m", "text": "\x1b]52;c;x\x07"}])
        drain(teams, found)
        assert {event.member for event in of(found, events.MemberJoined)} == {*evil, "x"}
        assert [event.sender for event in of(found, events.MailSent)] == ["\x1b[2J"]
        assert all(events.decode(events.encode(event)) == event for event in found)


def test_a_killed_lead_leaves_a_stale_team_and_names_who_runs_on(tmp_path: Path) -> None:
    lead = subprocess.Popen(["sleep", "60"])
    forks = "import os, time; os.fork(); open('forked', 'w').close(); time.sleep(60)"
    argv = [sys.executable, "-c", forks, "--agent-id", "bob@session-1"]
    orphan = subprocess.Popen(argv, cwd=tmp_path, start_new_session=True)
    try:
        eventually((tmp_path / "forked").exists)
        with team(tmp_path / "c", pid=lead.pid, backendType="tmux", tmuxPaneId="%1") as (teams, found):
            lead.kill()
            lead.wait()
            drain(teams, found, 1.5)
            assert [event.pid for event in of(found, events.TeamStale)] == [lead.pid]
            assert [(e.member, e.pid) for e in of(found, events.MemberOrphaned)] == [("bob", orphan.pid)]
    finally:
        lead.kill()
        os.killpg(orphan.pid, signal.SIGKILL)
        lead.wait()
        orphan.wait()


def test_a_lead_that_leaves_the_register_a_moment_before_its_team_goes_is_not_dead(tmp_path: Path) -> None:
    for is_leaving in (True, False):
        home, now, found = tmp_path / str(is_leaving), [time.time_ns()], list[Event]()
        with team(home):
            pass
        teams = Teams([str(home)], now=lambda now=now: now[0])  # type: ignore[misc]
        (home / f"sessions/{os.getpid()}.json").unlink()
        drain(teams, found)
        assert not of(found, events.TeamStale)
        if is_leaving:
            shutil.rmtree(home / "teams/session-1")
            drain(teams, found)
        now[0] += 2 * LEAVING_NS
        drain(teams, found)
        teams.close()
        told = [type(event) for event in found if isinstance(event, events.TeamStale | events.TeamEnded)]
        assert told == [events.TeamEnded if is_leaving else events.TeamStale]


def test_directories_that_appear_later_are_watched(tmp_path: Path) -> None:
    teams = Teams([str(tmp_path / "later")])
    found: list[Event] = []
    drain(teams, found)
    with_lead = Scratch(tmp_path / "s", "p1")
    assert with_lead.home.is_dir()
    write_config(tmp_path / "later", "session-1", [])
    drain(teams, found, 0.5)
    teams.close()
    assert [type(event).__name__ for event in found] == ["TeamStarted", "MemberJoined"]


def test_watching_leaves_no_trace(tmp_path: Path) -> None:
    def state() -> dict[str, tuple[int, ...]]:
        paths = list((tmp_path / "c").rglob("*"))
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_ctime_ns, p.stat().st_ino, p.stat().st_size) for p in paths}

    with team(tmp_path / "c") as (teams, found):
        put(tmp_path / "c", "bob", [{"from": "a", "text": "t"}])
        before = state()
        drain(teams, found)
        assert state() == before


def test_several_homes_are_watched_together(tmp_path: Path) -> None:
    teams = Teams([str(tmp_path / "a"), str(tmp_path / "b")])
    for name in "ab":
        write_config(tmp_path / name, "session-1", [])
    found: list[Event] = []
    drain(teams, found, 0.6)
    teams.close()
    assert {event.home for event in of(found, events.TeamStarted)} == {str(tmp_path / "a"), str(tmp_path / "b")}


def test_five_thousand_task_changes_are_all_told_and_in_order(tmp_path: Path) -> None:
    home = tmp_path / "c"
    with team(home) as (teams, found):
        (home / "tasks/session-1").mkdir()
        began = time.monotonic()
        for number in range(5000):
            (home / f"tasks/session-1/{number}.json").write_text(json.dumps({"id": str(number), "subject": "s"}))
            if number % 100 == 0:
                found += teams.poll()
                time.sleep(max(0.0, number / 1000 - (time.monotonic() - began)))
        drain(teams, found)
        assert [event.task_id for event in of(found, events.TaskCreated)] == [str(number) for number in range(5000)]


def test_a_watcher_that_starts_reads_nothing_of_the_transcripts_that_are_there(tmp_path: Path) -> None:
    home = tmp_path / "c"
    with team(home):
        (home / "projects/-p").mkdir()
        for name in ("sid", "other"):
            at = datetime.now(UTC).isoformat()
            with (home / f"projects/-p/{name}.jsonl").open("wb") as file:
                file.truncate(2_000_000_000)
                file.seek(0, 2)
                file.write(b"\n" + json.dumps({"type": "user", "timestamp": at}).encode() + b"\n")
        before = read_bytes()
        teams = Teams([str(home)])
        teams.poll()
        assert read_bytes() - before < 1_000_000
        with (home / "projects/-p/sid.jsonl").open("ab") as file:
            content = [{"type": "text", "text": "I am here"}]
            said = {"type": "assistant", "timestamp": at, "message": {"content": content}}
            file.write(json.dumps(said).encode() + b"\n")
        found: list[Event] = []
        drain(teams, found)
        teams.close()
        assert [event.text for event in of(found, events.Text)] == ["I am here"]


def read_bytes() -> int:
    """How much this process has read so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_the_home_is_the_one_that_claude_code_would_use(tmp_path: Path) -> None:
    assert homes({"HOME": "/h"}) == ("/h/.claude",)
    assert homes({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/x"}) == ("/x",)
    assert homes({"HOME": "/h"}, ["/a", "/b", "/a"]) == ("/a", "/b")


def test_a_secret_in_what_a_team_says_is_not_told(tmp_path: Path) -> None:
    text, _, secret = SECRETS["anthropic-key 0"]
    with team(tmp_path / "c", prompt=text) as (teams, found):
        put(tmp_path / "c", "bob", [{"from": "a", "msg_id": "m", "text": text}])
        (tmp_path / "c" / "tasks" / "session-1").mkdir()
        task = {"id": "1", "subject": text, "description": text, "status": "pending"}
        (tmp_path / "c" / "tasks" / "session-1" / "1.json").write_text(json.dumps(task))
        drain(teams, found)
    told = msgspec.json.encode(found).decode()
    assert len(of(found, events.MailSent)) == len(of(found, events.TaskCreated)) == 1
    assert secret not in told and told.count("[redacted:anthropic-key]") >= 2


def test_a_secret_in_what_a_team_says_is_not_shown(tmp_path: Path) -> None:
    text, _, secret = SECRETS["anthropic-key 0"]
    home = tmp_path / "c"
    with team(home, prompt=text):
        put(home, "bob", [{"from": "a", "msg_id": "m", "text": text}])
        (home / "tasks" / "session-1").mkdir()
        task = {"id": "1", "subject": text, "description": text, "status": "pending"}
        (home / "tasks" / "session-1" / "1.json").write_text(json.dumps(task))
        here = TeamsHere({"HOME": str(tmp_path)}, claude_homes=[str(home)])
        (line,) = here.teams()
        shown = [line, here.show(line.team), *here.tasks(line.team), *here.mail(line.team), *here.stuck(0)]
    assert len(shown) >= 4
    text = msgspec.json.encode(shown).decode()
    assert secret not in text and text.count("[redacted:anthropic-key]") >= 2
