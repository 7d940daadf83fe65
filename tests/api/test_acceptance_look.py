"""`log`, `status`, `watch`, `show` and `doctor`: what happened and what happens can be seen, by people and programs."""

from __future__ import annotations

import json
import signal

import pytest

from tests.support.claims import said_once
from tests.support.cli import Cli, asleep, eventually, processes_with, watching
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance


@pytest.fixture
def two_turns(beam: Cli) -> Cli:
    beam("send", "scripted", "one")
    beam("send", "scripted", "two")
    return beam


def test_log_json_prints_every_event_from_the_first(two_turns: Cli) -> None:
    lines = two_turns("log", "scripted", "--json").lines
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines == two_turns.journal("scripted")


def test_log_shows_one_turn_or_what_comes_after(two_turns: Cli) -> None:
    turn = two_turns("log", "scripted", "--turn", "2", "--json").lines
    assert {line["turn"] for line in turn} == {2}
    after = two_turns("log", "scripted", "--after", "10", "--json").lines
    assert after[0]["seq"] == 11
    text = two_turns("log", "scripted", "--turn", "1").out
    assert "You said: one" in text
    assert "You said: two" not in text


def test_log_raw_prints_the_lines_of_the_agent(two_turns: Cli) -> None:
    lines = two_turns("log", "scripted", "--raw").lines
    assert {"init", "text"} <= {line["frame"] for line in lines}


def test_log_json_and_raw_exclude_each_other(two_turns: Cli) -> None:
    done = two_turns("log", "scripted", "--raw", "--json")
    assert (done.code, done.json["error"]["kind"]) == (2, "usage")


def test_log_verify_says_that_all_is_whole(two_turns: Cli) -> None:
    done = two_turns("log", "scripted", "--verify")
    assert (done.code, done.out) == (0, "")
    said_once(done, "undamaged")


def test_log_verify_names_the_line_in_which_a_word_was_changed(two_turns: Cli) -> None:
    (segment,) = (two_turns.root / "agents/scripted/journal").glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    number = next(at for at, line in enumerate(lines, 1) if b'"type":"turn.finished"' in line)
    lines[number - 1] = lines[number - 1].replace(b"You said: one", b"You said: 0ne")
    segment.write_bytes(b"".join(lines))
    done = two_turns("log", "scripted", "--verify")
    assert done.code == 13
    (said,) = done.out.splitlines()
    assert said.startswith(f"{segment}:{number}: ")
    said_once(done, "scripted", "damaged")
    assert two_turns("send", "scripted", "three").code == 0, "who only reads or goes on is not held up"
    assert two_turns("log", "scripted", "--verify").out == done.out


def test_log_of_an_agent_that_never_worked_is_empty(beam: Cli) -> None:
    done = beam("log", "scripted")
    assert (done.code, done.out) == (0, "")


def test_log_for_people_is_one_line_an_event_without_bookkeeping(two_turns: Cli) -> None:
    out = two_turns("log", "scripted").out
    assert "← human: one" in out
    assert "■ completed" in out
    assert "text.delta" not in out
    assert all(line[2] == ":" for line in out.splitlines())


def test_status_says_who_is_idle_and_how_the_last_turn_ended(two_turns: Cli) -> None:
    line = two_turns("status", "--json").json
    assert (line["agent"], line["state"], line["waiting"], line["dead"]) == ("scripted", "idle", 0, 0)
    assert (line["last"]["status"], line["totals"]["turns"]) == ("completed", 2)
    rows = [row.split("\t") for row in two_turns("status").out.splitlines()]
    assert rows[0] == ["AGENT", "STATE", "WAIT", "DEAD", "TURNS", "COST", "LAST"]
    assert rows[1][:5] == ["scripted", "idle", "0", "0", "2"]


def test_status_where_nothing_was_done_yet_says_how_to_begin(beam: Cli) -> None:
    done = beam("status")
    assert (done.code, done.out) == (0, "")
    said_once(done, "beam send")


def test_status_shows_a_running_turn_and_a_dead_holder(beam: Cli) -> None:
    (beam.project / "tester.yaml").write_text("default: [{tool: {name: Bash, delay: 30}}, done]\n")
    beam.config("agents:\n  tester: {adapter: scripted, script: ./tester.yaml}\n")
    process = beam.start("send", "tester", "go")
    eventually(lambda: "tool.called" in beam.types("tester"))
    line = beam("status", "--json").json
    assert (line["state"], line["running"]["tools"], line["running"]["alive"]) == ("running", ["Bash"], True)
    assert "Bash" in beam("status").out
    process.kill()
    process.communicate(timeout=10)
    eventually(lambda: beam("status", "--json").json["state"] == "died")


def test_watch_now_prints_all_agents_in_the_order_of_time(beam: Cli) -> None:
    beam.config("agents:\n  a: {command: [cat]}\n  b: {command: [cat]}\n")
    for name in ("a", "b", "a"):
        beam("send", name, f"to {name}")
    events = beam("watch", "--now", "--json").lines
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    assert [event["agent"] for event in events if event["type"] == "turn.started"] == ["a", "b", "a"]
    assert {event["agent"] for event in beam("watch", "--now", "--json", "b").lines} == {"b"}


def test_watch_since_leaves_older_events_out(beam: Cli) -> None:
    beam("send", "scripted", "old")
    (segment,) = (beam.root / "agents" / "scripted" / "journal").glob("*.jsonl")
    now = beam.journal("scripted")[0]["ts"][:10]
    segment.write_bytes(segment.read_bytes().replace(now.encode(), b"2026-01-01"))
    beam("send", "scripted", "new")
    out = beam("watch", "--now", "--since", "1h").out
    assert "You said: new" in out
    assert "You said: old" not in out


def test_watch_sees_a_turn_of_another_process(beam: Cli) -> None:
    beam("send", "scripted", "before")
    process = beam.start("watch", "--json")
    assert process.stdout is not None
    watching(process)
    asleep(process)  # it knows the end of each journal only a moment after it watches their folder
    beam("send", "scripted", "now")
    seen: list[dict[str, object]] = []
    while not seen or seen[-1]["type"] != "turn.finished":
        seen.append(json.loads(process.stdout.readline()))
    assert "before" not in [event.get("text") for event in seen]
    assert seen[0]["type"] == "message.queued"
    process.send_signal(2)
    process.communicate(timeout=10)


def test_watch_begins_before_anything_exists_and_takes_new_agents_in(beam: Cli) -> None:
    process = beam.start("watch", "--json")
    assert process.stdout is not None
    asleep(process)
    beam("send", "scripted", "first of all")
    line = json.loads(process.stdout.readline())
    assert (line["type"], line["text"]) == ("message.queued", "first of all")
    process.send_signal(2)
    process.communicate(timeout=10)


def test_one_damaged_journal_does_not_blind_the_watch_for_others(beam: Cli) -> None:
    beam.config("agents:\n  a: {command: [cat]}\n  b: {command: [cat]}\n")
    for name in ("a", "b"):
        beam("send", name, "hi")
    (segment,) = (beam.root / "agents/a/journal").glob("*.jsonl")
    lines = segment.read_bytes().split(b"\n")
    lines[2] = b"junk"
    segment.write_bytes(b"\n".join(lines))
    done = beam("watch", "--now", "--json")
    assert done.code == 74
    said_once(done, str(segment))
    assert [event["type"] for event in done.lines if event.get("agent") == "b"][-1] == "turn.closed"


def test_show_is_the_outcome_of_what_is_over(two_turns: Cli) -> None:
    message = two_turns("send", "scripted", "three", "--json").json
    done = two_turns("show", message["message_id"], "--json")
    assert (done.code, done.json) == (0, message)


def test_doctor_finds_a_healthy_place_healthy(two_turns: Cli) -> None:
    done = two_turns("doctor", "--json")
    assert done.code == 0, done
    assert {line["result"] for line in done.lines} <= {"ok", "note", "missing"}
    assert any(line["what"] == "journal scripted" and line["detail"] == "whole" for line in done.lines)


def test_doctor_tells_how_to_install_what_is_missing(beam: Cli) -> None:
    beam.config("agents:\n  mine: {adapter: claude}\n")
    done = beam("doctor", "--json", env={"PATH": "/nonexistent"})
    assert done.code == 13
    bad = [line for line in done.lines if line["result"] == "bad"]
    assert [line["what"] for line in bad] == ["agent mine"]
    assert "install" in bad[0]["detail"]
    said_once(done, "agent mine")


def test_doctor_tells_all_else_before_a_cli_that_never_answers(beam: Cli) -> None:
    beam("agent", "add", "bad", "--command", "false")
    beam("send", "bad", "x")
    tools = beam.base / "tools"
    tools.mkdir()
    for name, script in (("aider", "echo begun >&2; sleep 600"), ("vibe", "echo vibe 3.0.2")):
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    env = {"PATH": f"{tools}:/usr/bin:/bin"}
    shown = Terminal(beam, "doctor", env=env)
    for line in ("missing  claude ", "unverified ", "journal bad ", "error bad ", "vibe              3.0.2, tested\n"):
        shown.until(line)
    assert " aider " not in shown.seen
    shown.interrupt()
    assert shown.end() == 130
    told = beam.start("doctor", "--json", env=env)
    assert told.stdout is not None
    whats = set[str]()
    while not {"error bad", "agent vibe"} <= whats:
        whats.add(json.loads(told.stdout.readline())["what"])
    assert {"root", "agent claude", "journal bad"} <= whats and "agent aider" not in whats
    told.terminate()
    assert told.wait(20) in (143, -signal.SIGTERM)
    eventually(lambda: processes_with(str(tools)) == [], what="a CLI is left")


@pytest.mark.parametrize("words", [(), ("--all",), ("-v",), ("claude",)])
def test_no_line_of_doctor_is_longer_than_a_terminal_is_wide(beam: Cli, words: tuple[str, ...]) -> None:
    shown = Terminal(beam, "doctor", *words)
    assert shown.end() == 0
    lines = shown.seen.splitlines()
    assert lines[0] == "RESULT   WHAT              DETAIL"
    assert [line for line in lines if len(line) > 80] == []
    assert any(line.startswith("missing  claude ") for line in lines)


def test_a_turn_counts_as_running_until_its_reply_is_on_its_way(beam: Cli) -> None:
    """A poller that waits for `idle` finds the reply in the sender's queue."""
    beam.config("agents:\n  a: {command: [cat]}\n  box: {adapter: mailbox}\n")
    for point in ("route.before", "close.before"):
        beam("send", "a", "hi", "--from", "box", "--no-wait", env={"BEAM_CRASH_AT": point})
        eventually(lambda: json.loads(beam("status", "a", "--json").out)["state"] == "died", what=point)
        beam("send", "a", "next")
        assert json.loads(beam("status", "a", "--json").out)["state"] == "idle"


def test_status_counts_the_processes_of_a_turn_and_their_memory(beam: Cli) -> None:
    beam.config("agents:\n  slow: {command: [sh, -c, 'sleep 60 & sleep 60; cat']}\n")
    process = beam.start("send", "slow", "go")
    eventually(lambda: (beam("status", "slow", "--json").json["running"] or {}).get("processes") == 4)
    running = beam("status", "slow", "--json").json["running"]
    assert running["rss_mb"] > 1
    assert "4 processes" in beam("status").out
    process.terminate()
    process.communicate(timeout=20)
    assert beam("status", "slow", "--json").json["running"] is None


def test_status_says_that_the_circuit_is_open(beam: Cli) -> None:
    beam.config("agents:\n  bad: {command: [sh, -c, 'exit 3']}\npolicy: {circuit_failures: 1, circuit_open: 60}\n")
    beam("send", "bad", "x")
    line = beam("status", "--json").json
    assert (line["circuit"], line["circuit_until"] is not None) == ("open", True)
    assert "circuit open for" in beam("status").out
    assert 'beam_circuit{agent="bad",state="open"} 1' in beam("status", "--metrics").out.splitlines()


def test_usage_and_metrics_are_of_all_turns(two_turns: Cli) -> None:
    agent, total = two_turns("status", "--usage", "--json").lines
    assert (agent["agent"], agent["turns"]) == ("scripted", 2)
    assert (total["agent"], total["turns"], total["usage"]) == (None, 2, agent["usage"])
    assert two_turns("status", "--usage").out.splitlines()[-1].split("\t")[:3] == ["total", "", "2"]
    metrics = two_turns("status", "--metrics").out.splitlines()
    assert 'beam_turns_total{agent="scripted",status="completed"} 2' in metrics
    assert "beam_broker_up 0" in metrics
    assert two_turns("status", "--metrics", "--json").code == 2


def test_a_turn_that_never_was_is_said(beam: Cli) -> None:
    beam("send", "scripted", "hi")
    done = beam("log", "scripted", "--turn", "99")
    assert (done.code, done.out) == (4, "")
    assert "no turn 99" in done.err


def test_an_empty_log_says_that_it_is_empty(beam: Cli) -> None:
    beam("agent", "add", "mine", "scripted")
    beam("send", "scripted", "hi")
    later = beam("log", "scripted", "--since", "2099-01-01T00:00:00Z")
    assert (later.code, later.out) == (0, "") and "has no events of that time" in later.err
    assert "settings changed by" in beam("log", "mine").out
    never = beam("log", "claude")
    assert (never.code, never.out, never.err) == (0, "", "beam: claude has no events yet\n")


def test_tools_are_counted_in_the_metrics_and_by_tool(beam: Cli) -> None:
    beam.config("agents:\n  busy: {adapter: scripted, script: busy.yaml}\n")
    (beam.project / "busy.yaml").write_text(
        "replies: [[{tool: {name: Read, output: x}}, {tool: {name: Read, output: y, is_error: true}}, ok]]\n"
    )
    assert beam("send", "busy", "go").code == 0
    assert beam("status", "--usage", "--by", "tool").out.splitlines() == [
        "AGENT\tTOOL\tCALLS\tFAILED",
        "busy\tRead\t2\t1",
    ]
    assert beam("status", "--usage", "--by", "tool", "--json").lines == [
        {"agent": "busy", "tool": "Read", "calls": 2, "failed": 1}
    ]
    metrics = beam("status", "--metrics").out.splitlines()
    assert 'beam_tool_calls_total{agent="busy",tool="Read"} 2' in metrics
    assert 'beam_denials_total{agent="busy"} 0' in metrics
    assert beam("status", "--by", "tool").code == beam("status", "--usage", "--by", "model").code == 2
