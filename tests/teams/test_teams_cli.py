"""`beam team` and `beam watch`, the real ones, over a recorded team."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from beam.api.teams import TeamsHere
from beam.process import tree
from tests.support.cli import BEAM, Cli, asleep, eventually
from tests.teams.teams_replay import Scratch, proved

pytestmark = pytest.mark.acceptance


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    """The in-process team, a moment before its lead leaves."""
    found = Scratch(tmp_path / "team", "in-process")
    end = next(
        at for at, one, _ in found.steps() if one and one["op"] == "delete" and one["path"].startswith("sessions/")
    )
    found.replay(None, until=end - 0.001, with_hooks=False)
    return found


def test_the_team_is_listed_shown_and_its_tasks_and_mail_are_there(beam: Cli, scratch: Scratch) -> None:
    home = ("--claude-home", str(scratch.home))
    (line,) = beam("team", "list", "--json", *home).lines
    assert (line["state"], line["lead_pid"], line["tasks"]) == ("live", os.getpid(), {"completed": 1, "pending": 1})
    shown = beam("team", "show", "session", "--json", *home).json
    assert [member["member"] for member in shown["members"]] == ["team-lead"]
    assert {used["member"] for used in shown["usage"]} == {"team-lead", "alice", "bob"}
    assert all(used["cost_usd"] > 0 for used in shown["usage"]) and shown["prices_as_of"]
    assert [task["id"] for task in beam("team", "tasks", line["team"], "--json", *home).lines] == ["2", "1"]
    assert len(beam("team", "mail", line["team"], "--json", *home).lines) == len(proved("in-process").mails)
    for command in ("list", "show session", "tasks session", "mail session --thread"):
        done = beam("team", *command.split(), *home)
        assert done.code == 0 and done.out and "Traceback" not in done.err


def test_a_program_may_look_at_a_team_again_and_sees_the_same(scratch: Scratch) -> None:
    here = TeamsHere({}, claude_homes=[str(scratch.home)])
    first = here.show("session")
    assert first.usage and here.show("session").usage == first.usage
    assert len(here.mail("session")) == len(here.mail("session")) == len(proved("in-process").mails)


def test_a_team_that_is_not_there_is_reported_with_the_next_step(beam: Cli, tmp_path: Path) -> None:
    done = beam("team", "show", "nobody", "--claude-home", str(tmp_path))
    assert done.code == 4 and "beam team list" in done.err


def test_watch_now_tells_the_past_and_filters_it(beam: Cli, scratch: Scratch) -> None:
    home = ("--claude-home", str(scratch.home))
    every = beam("watch", "--now", "--json", *home).lines
    tasks = beam("watch", "--now", "--json", "--type", "task.*", *home).lines
    assert tasks and tasks == [event for event in every if event["type"].startswith("task.")]
    bobs = beam("watch", "--now", "--json", "--agent", "bob", *home).lines
    assert {event["agent"].partition("@")[0] for event in bobs} == {"bob"}
    assert beam("watch", "--now", "--json", "--team", "other", *home).lines == []
    wrong = beam("watch", "--now", "--type", "tsk.*", *home)
    assert (wrong.code, wrong.out) == (0, "") and "no event type matches 'tsk.*'" in wrong.err and "task.*" in wrong.err
    plain = beam("watch", "--now", "--plain", "--type", "task.*", *home)
    assert plain.out.isascii() and "#1 Write parser" in plain.out


def test_watch_stuck_says_who_waits_for_what(beam: Cli, scratch: Scratch) -> None:
    waits = beam("watch", "--stuck", "1ms", "--json", "--claude-home", str(scratch.home)).lines
    assert any(wait["what"] == "Write tests: nobody took it" for wait in waits)
    nobody = beam("watch", "--stuck", "10m", "--claude-home", str(beam.base / "none"))
    assert (nobody.code, nobody.out) == (0, "") and "no member" in nobody.err


def test_the_live_stream_prints_what_happens_and_ends_with_the_interrupt(beam: Cli, tmp_path: Path) -> None:
    recording = Scratch(tmp_path / "team", "p1")
    process = beam.start("watch", "--json", "--claude-home", str(recording.home))
    output = tmp_path / "output"
    try:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        seen = b""

        def has(text: bytes) -> bool:
            nonlocal seen
            seen += process.stdout.read() or b"" if process.stdout else b""
            return text in seen

        eventually(lambda: len(list((Path("/proc") / str(process.pid) / "task").iterdir())) > 1)
        asleep(process)  # it does not report what it finds when it starts
        recording.replay(20, with_hooks=False)
        eventually(lambda: has(b"team.ended"))
        output.write_bytes(seen)
        ids = {json.loads(line).get("mail_id") for line in seen.splitlines() if b"mail.sent" in line}
        assert ids == set(proved("p1").mails)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_hooks_are_put_into_the_settings_and_taken_out(beam: Cli) -> None:
    settings = beam.base / "home" / ".claude" / "settings.json"
    assert beam("team", "hook", "--install").code == 0
    assert "beam team hook" in settings.read_text()
    assert beam("team", "hook", "--uninstall").code == 0
    assert not settings.parent.exists()
    assert beam("team", "hook", "--install", "--project").code == 0
    assert (beam.project / ".claude" / "settings.json").is_file()
    assert beam("team", "hook", stdin='{"hook_event_name": "Stop"}').code == 0
    assert list((beam.base / "home/.local/state/beam/hooks").iterdir())


def test_a_hook_is_a_veto_only_where_it_is_told_to_be(beam: Cli) -> None:
    call = '{"hook_event_name": "TaskCompleted", "task_id": "1"}'
    assert (beam("team", "hook", stdin=call).code, beam("team", "hook", stdin="nonsense").code) == (0, 0)
    no = beam("team", "hook", "--veto", "run the tests first", stdin=call)
    assert (no.code, no.out, no.err) == (2, "", "run the tests first\n")
    (spool,) = (beam.base / "home/.local/state/beam/hooks").iterdir()
    assert len(spool.read_text().splitlines()) == 2
    assert beam("team", "hook", "--install", "--veto", "x").code == 2


def test_a_watcher_started_again_with_its_cursor_goes_on_without_gap_or_repeat(beam: Cli, tmp_path: Path) -> None:
    home = tmp_path / "claude"
    session = {"pid": os.getpid(), "procStart": str(tree.start_ticks(os.getpid())), "sessionId": "sid"}
    (home / "sessions").mkdir(parents=True)
    (home / "sessions" / "1.json").write_text(json.dumps(session))
    lead = {"name": "team-lead", "agentId": "team-lead@session-1", "joinedAt": 1, "cwd": "/p"}
    config = {"name": "session-1", "createdAt": 1, "leadAgentId": lead["agentId"], "leadSessionId": "sid"}
    for folder in ("teams/session-1/inboxes", "tasks/session-1", "projects/-p"):
        (home / folder).mkdir(parents=True)
    (home / "teams/session-1/config.json").write_text(json.dumps({**config, "members": [lead]}))

    def put(number: int) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        sent = {"success": True, "msg_id": f"m{number}", "routing": {"target": "@bob", "content": f"text {number}"}}
        use = {"type": "tool_use", "id": f"c{number}", "name": "SendMessage", "input": {"to": "bob"}}
        back = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "ok"}
        with (home / "projects/-p/sid.jsonl").open("a") as file:
            for kind, block, more in (("assistant", use, {}), ("user", back, {"toolUseResult": sent})):
                line = {"type": kind, "timestamp": at, "message": {"id": f"r{number}", "content": [block]}, **more}
                file.write(json.dumps(line) + "\n")
        (home / f"tasks/session-1/{number}.json").write_text(json.dumps({"id": str(number), "subject": "s"}))

    def watched(until: int) -> list[str]:
        process = beam.start("watch", "--json", "--after", "mine", "--claude-home", str(home))
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        seen = b""

        def has() -> bool:
            nonlocal seen
            seen += process.stdout.read() or b"" if process.stdout else b""
            cursor = beam.base / "home/.local/state/beam/cursors/mine.json"
            words = (f'"m{until}"', f'"task_id":"{until}"') if until else ()
            return cursor.is_file() and all(word.encode() in seen for word in words)

        eventually(has)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        seen += process.communicate(timeout=20)[0] or b""
        events = [json.loads(line) for line in seen.splitlines()]
        return [
            event.get("mail_id") or event["task_id"]
            for event in events
            if event["type"] in ("mail.sent", "task.created")
        ]

    assert watched(0) == []
    put(1)
    put(2)
    first = watched(2)
    put(3)
    assert sorted(first) == ["1", "2", "m1", "m2"]
    assert sorted(watched(3)) == ["3", "m3"]


def test_a_line_that_was_cut_names_its_event_which_is_then_printed_whole(beam: Cli, scratch: Scratch) -> None:
    home = ("--claude-home", str(scratch.home))
    cut = next(line for line in beam("watch", "--now", *home).out.splitlines() if "… (" in line)
    whole = beam("watch", "--event", cut.split()[-1], *home).out
    assert "<usage>subagent_tokens:" in whole and "<usage>subagent_tokens:" not in cut
    assert beam("watch", "--event", "-----", *home).code in (2, 4)
    assert beam("watch", "--event", "00000", *home).code == 4


def test_all_is_of_every_root_that_was_used(beam: Cli, tmp_path: Path) -> None:
    for name in ("shop", "bank"):
        (beam.base / name).mkdir()
    assert beam("-C", "../shop", "send", "scripted", "one").code == 0
    assert beam("-C", "../bank", "send", "scripted", "two").code == 0
    assert beam("watch", "--now", "--json").lines == []
    queued = beam("watch", "--all", "--now", "--json", "--type", "message.queued").lines
    assert [(event["text"], Path(event["project"]).name) for event in queued] == [("one", "shop"), ("two", "bank")]
    shown = beam("watch", "--all", "--now", "--type", "message.queued").out
    assert "shop/scripted ← human: one" in shown and "bank/scripted ← human: two" in shown
    assert beam("watch", "--all", "scripted").code == 2


def test_hooks_are_written_and_read_where_state_dir_says(beam: Cli) -> None:
    own = beam.base / "home" / ".config" / "beam"
    own.mkdir(parents=True)
    (own / "config.yaml").write_text("state_dir: ~/elsewhere\n")
    assert beam("team", "hook", stdin='{"hook_event_name": "Stop"}').code == 0
    assert list((beam.base / "home" / "elsewhere" / "hooks").glob("*.jsonl"))
    (own / "config.yaml").write_text("state_dir: relative\n")
    assert beam("team", "hook", stdin='{"hook_event_name": "Stop"}').code == 0


def test_an_event_of_a_team_that_is_gone_is_printed_whole_and_told_since(beam: Cli, tmp_path: Path) -> None:
    recording = Scratch(tmp_path / "team", "in-process", is_now=True)
    end = next(
        at for at, one, _ in recording.steps() if one and one["op"] == "delete" and one["path"].startswith("sessions/")
    )
    recording.replay(None, until=end - 0.001)
    home = ("--claude-home", str(recording.home))
    before = beam("watch", "--now", *home).out.splitlines()
    shutil.rmtree(recording.home / "teams")
    cut = [line.split()[-1] for line in before if "… (" in line or line.split()[-2].endswith("…")]
    assert cut
    for event_id in cut:
        assert beam("watch", "--event", event_id, *home).code == 0, event_id
    sent = beam("watch", "--since", "1h", "--json", "--now", "--type", "mail.sent", *home).lines
    assert len(sent) == len(proved("in-process").mails)
    assert {event["agent"] for event in sent} >= {"alice@session-2a65d3be", "team-lead@session-2a65d3be"}


def test_throw_away_sessions_have_names_of_their_own_and_log_says_where_they_are(beam: Cli) -> None:
    for text in ("one", "two"):
        assert beam("send", "scripted", "--once", text).code == 0
    assert beam("send", "scripted", "three").code == 0
    queued = beam("watch", "--now", "--json", "--type", "message.queued").lines
    lanes = {event["text"]: event.get("lane") for event in queued}
    assert lanes["three"] is None and len({lanes["one"], lanes["two"], None}) == 3
    assert all(event["message_id"].endswith(event["lane"]) for event in queued if "lane" in event)
    shown = beam("watch", "--now", "--type", "message.queued").out.splitlines()
    assert {line.split()[1] for line in shown} == {
        "scripted",
        f"scripted:{lanes['one'][-5:]}",
        f"scripted:{lanes['two'][-5:]}",
    }
    alone = beam("log", "scripted")
    assert "one" not in alone.out and "beam log scripted --once" in alone.err
    every = beam("log", "scripted", "--once")
    assert f"scripted:{lanes['one'][-5:]}" in every.out and "three" in every.out and "--once" not in every.err
    assert {event.get("lane") for event in beam("log", "scripted", "--once", "--json").lines} == {None, *lanes.values()}


def test_who_begins_to_watch_is_told_who_does_what_and_who_is_stuck(beam: Cli, tmp_path: Path) -> None:
    home = tmp_path / "claude"
    for folder in ("sessions", "teams/session-1/inboxes", "tasks/session-1", "projects/-p/sid/subagents"):
        (home / folder).mkdir(parents=True)
    session = {"pid": os.getpid(), "procStart": str(tree.start_ticks(os.getpid())), "sessionId": "sid"}
    (home / "sessions" / "1.json").write_text(json.dumps(session))
    long_ago = int((time.time() - 3600) * 1000)
    members = [
        {"name": name, "agentId": f"{name}@session-1", "joinedAt": long_ago, "cwd": "/p", "color": "green"}
        for name in ("team-lead", "amy", "bob")
    ]
    config = {"name": "session-1", "createdAt": long_ago, "leadSessionId": "sid", "members": members}
    (home / "teams/session-1/config.json").write_text(json.dumps(config))
    at = datetime.fromtimestamp(time.time() - 600, UTC).isoformat(timespec="milliseconds")
    asks = {"type": "permission_request", "request_id": "r", "tool_name": "Bash", "description": "rm -rf build"}
    mail = [{"from": "bob", "msg_id": "m", "timestamp": at, "text": json.dumps(asks)}]
    (home / "teams/session-1/inboxes/team-lead.json").write_text(json.dumps(mail))
    (home / "tasks/session-1/1.json").write_text(
        json.dumps({"id": "1", "subject": "Build", "status": "in_progress", "owner": "amy"})
    )
    ship = home / "tasks/session-1/2.json"
    ship.write_text(json.dumps({"id": "2", "subject": "Ship", "status": "in_progress", "owner": "bob"}))
    os.utime(ship, (long_ago / 1000, long_ago / 1000))
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "make test"}}
    for name, content, stop in (("amy", [call], "tool_use"), ("bob", [{"type": "text", "text": "I ask"}], "end_turn")):
        path = home / f"projects/-p/sid/subagents/agent-a{name}-1.jsonl"
        message = {"id": name, "stop_reason": stop, "content": content}
        path.write_text(json.dumps({"type": "assistant", "timestamp": at, "message": message}) + "\n")
        meta = {"name": name, "taskKind": "in_process_teammate", "teamName": "session-1"}
        path.with_suffix("").with_suffix(".meta.json").write_text(json.dumps(meta))
    waits = beam("watch", "--stuck", "5m", "--json", "--claude-home", str(home)).lines
    assert {(wait["who"], wait["on"], wait["what"]) for wait in waits} == {
        ("bob", "team-lead", "an answer: permission (Bash) rm -rf build"),
        ("bob", "team-lead", "its mail to be read"),
        ("#2", "bob", "Ship: in progress, and its owner is idle"),
        ("amy", "", "a sign of life: it works and says nothing"),
    }
    output = tmp_path / "output"
    with output.open("wb") as file:
        argv = [*BEAM, "watch", "--claude-home", str(home)]
        process = subprocess.Popen(argv, cwd=beam.project, env=beam.env, stdout=file, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: output.read_text().count("\n") >= 8, 30)
        told = output.read_text()
        assert "3 members, " in told and "tasks: 2 in progress" in told
        assert "@1          ? #2 waits for bob 10m already: Ship: in progress, and its owner is idle" in told
        assert "amy@1       ▶ works for 10m: Bash make test" in told
        assert "bob@1       ■ idle for 10m: I ask" in told
        assert "bob@1       ? waits for team-lead 10m already: an answer: permission (Bash) rm -rf build" in told
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def test_a_team_whose_lead_is_dead_shows_its_members_and_says_that_they_read_nothing(beam: Cli, tmp_path: Path) -> None:
    home, name = tmp_path / "claude", "session-272adbdf"
    (home / "teams" / name / "inboxes").mkdir(parents=True)
    at = {"joinedAt": 1, "cwd": "/p", "backendType": "in-process"}
    names = ("team-lead", "planner", "permy")
    members = [{**at, "name": one, "agentId": f"{one}@{name}"} for one in names]
    config = {
        "name": name,
        "createdAt": 1,
        "leadAgentId": f"team-lead@{name}",
        "leadSessionId": "s",
        "members": members,
    }
    (home / "teams" / name / "config.json").write_text(json.dumps(config))
    (home / "teams" / name / "inboxes" / "planner.json").write_text("[]")
    where = ("--claude-home", str(home))
    shown = beam("team", "show", "272a", "--json", *where).json
    assert [(one["member"], one["state"]) for one in shown["members"]] == [(one, "gone") for one in names]
    assert beam("team", "list", "--json", *where).json["members"] == 3
    sent = beam("team", "send", "272a", "planner", "hurry", *where)
    assert (sent.code, "nobody reads it: the process of the lead" in sent.err) == (0, True), sent
    (waits,) = beam("watch", "--stuck", "0s", "--json", *where).lines
    assert (waits["on"], waits["what"]) == ("planner", "its mail to be read; the team has no lead")
