"""The policy of failure through the real `beam`: retries, the circuit, budgets, and an agent that is blocked."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.support.cli import Cli, eventually

pytestmark = pytest.mark.acceptance

FLAKY = """\
import pathlib, sys
sys.stdin.read()
count = pathlib.Path("count")
number = int(count.read_text()) + 1 if count.exists() else 1
new = pathlib.Path("new-count")
new.write_text(str(number))
new.replace(count)  # it may be killed at any moment
if number <= int(sys.argv[1]):
    print("no luck", file=sys.stderr)
    sys.exit(1)
print("answer", number)
"""


def flaky(beam: Cli, failures: int, policy: str) -> None:
    (beam.project / "flaky.py").write_text(FLAKY)
    beam.config(f"policy: {{{policy}}}\nagents:\n  a: {{command: [{sys.executable}, flaky.py, '{failures}']}}\n")


def test_a_failure_that_the_policy_names_is_tried_again_until_it_succeeds(beam: Cli) -> None:
    flaky(beam, 2, "attempts: 3, retry: [crashed], backoff: 100ms")
    done = beam("send", "a", "x", "--json").json
    assert (done["status"], done["attempt"], done["reply"]) == ("completed", 3, "answer 3")
    requeued = [event for event in beam.journal("a") if event["type"] == "message.requeued"]
    assert [(event["attempt"], event["reason"]) for event in requeued] == [(2, "retry"), (3, "retry")]
    failed = [event["ts"] for event in beam.journal("a") if event["type"] == "turn.finished"][:2]
    assert all(event["not_before"] > ended for event, ended in zip(requeued, failed, strict=True))
    assert beam.types("a").count("turn.closed") == 1, "one message, one end"
    assert beam.box("a", "cur") == beam.box("a", "new") == beam.box("a", "dead") == []


def test_when_the_attempts_are_used_up_the_last_failure_is_the_outcome(beam: Cli) -> None:
    flaky(beam, 9, "attempts: 2, retry: [crashed], backoff: 50ms")
    done = beam("send", "a", "x", "--json")
    assert (done.code, done.json["attempt"], done.json["class"]) == (1, 2, "crashed")
    assert len(beam.box("a", "dead")) == 1


@pytest.mark.parametrize("point", ["offer.rewritten", "offer.recorded"])
def test_a_holder_killed_while_it_puts_a_retry_back_is_followed_exactly(beam: Cli, point: str) -> None:
    flaky(beam, 1, "attempts: 2, retry: [crashed], backoff: 50ms")
    assert beam("send", "a", "x", env={"BEAM_CRASH_AT": point}).code == 137
    message = next(event["message_id"] for event in beam.journal("a") if event["type"] == "message.queued")
    done = beam("wait", message, "--json").json
    assert (done["status"], done["attempt"], done["reply"]) == ("completed", 2, "answer 2")


def test_five_failures_open_the_circuit_and_the_next_sender_is_told_at_once(beam: Cli) -> None:
    flaky(beam, 5, "circuit_failures: 5, circuit_open: 5s")
    for _ in range(5):
        assert beam("send", "a", "x").code == 1
    refused = beam("send", "a", "x")
    assert refused.code == 7
    assert "a failed 5 times in a row, the last one with: no luck;" in refused.err
    assert re.search(r"nothing is sent to it until \d\d:\d\d:\d\d \(its circuit is open\)", refused.err)
    assert "--no-circuit" in refused.err
    assert beam.box("a", "new") == []
    waiting = beam("send", "a", "x", "--no-wait").out.strip()
    done = beam("wait", waiting, "--json").json
    assert (done["status"], done["reply"]) == ("completed", "answer 6"), "the probe went through, and closed it"
    assert [kind for kind in beam.types("a") if kind.startswith("circuit")] == ["circuit.opened", "circuit.closed"]
    assert beam("send", "a", "x").code == 0


def test_a_person_can_send_through_an_open_circuit(beam: Cli) -> None:
    flaky(beam, 1, "circuit_failures: 1, circuit_open: 1h")
    assert beam("send", "a", "x").code == 1
    assert beam("send", "a", "x").code == 7
    done = beam("send", "a", "x", "--no-circuit", "--json")
    assert (done.code, done.json["reply"]) == (0, "answer 2")
    assert beam("send", "a", "x").code == 0, "an answer closes it"


def test_an_unknown_outcome_is_run_again_by_itself_only_where_the_policy_says_so(beam: Cli) -> None:
    (beam.project / "slow.py").write_text(FLAKY.replace("number = int", "import time\nnumber = int"))
    flaky(beam, 0, "retry_unknown: 1")
    crashed = beam("send", "a", "x", env={"BEAM_CRASH_AT": "prompt.written"})
    assert crashed.code == 137
    message = next(event["message_id"] for event in beam.journal("a") if event["type"] == "message.queued")
    done = beam("wait", message, "--json").json
    assert (done["status"], done["attempt"]) == ("completed", 2)
    statuses = [event["status"] for event in beam.journal("a") if event["type"] == "turn.finished"]
    assert statuses == ["unknown", "completed"]


def test_a_thread_ends_when_its_budget_of_turns_is_used_up(beam: Cli) -> None:
    agents = "".join(f"  {name}: {{command: [echo, I am {name}]}}\n" for name in ("ping", "pong"))
    beam.config(f"policy: {{thread_turns: 4}}\nagents:\n{agents}")
    assert beam("send", "ping", "go", "--from", "pong", "--no-wait", "--replies", "20").code == 0

    def is_over() -> bool:
        states = [json.loads(line) for line in beam("status", "--json").out.splitlines()]
        return bool(beam.box("ping", "dead")) and all(state["waiting"] == 0 for state in states)

    eventually(is_over)
    finished = [event for name in ("ping", "pong") for event in beam.journal(name) if event["type"] == "turn.finished"]
    assert len(finished) == 4
    dead = [event for event in beam.journal("ping") if event["type"] == "message.dead"]
    assert [(event["reason"], event["status"]) for event in dead] == [("budget", "limit")]
    assert "thread_turns is 4" in dead[0]["detail"]


def test_a_root_that_used_up_its_budget_runs_nothing_more(beam: Cli) -> None:
    beam.config("policy: {root_turns: 2}\nagents:\n  a: {command: [echo, hi]}\n")
    assert [beam("send", "a", "x").code for _ in range(3)] == [0, 0, 7]
    assert "root_turns is 2" in beam("send", "a", "x").err


def test_a_blocked_agent_says_why_and_a_person_can_say_that_nothing_is_left(beam: Cli) -> None:
    beam.config("agents:\n  a: {command: [echo, hi]}\n")
    assert beam("send", "a", "x", env={"BEAM_CRASH_AT": "agent.running"}).code == 137
    segment = next((beam.root / "agents" / "a" / "journal").glob("*.jsonl"))
    owner = next(event["owner"] for event in beam.journal("a") if event["type"] == "turn.started")
    text = segment.read_text().replace(owner["boot_id"], "another boot")
    segment.write_text(text.replace(f'"host":"{owner["host"]}"', '"host":"elsewhere"'))
    blocked = beam("send", "a", "y")
    assert blocked.code == 12
    assert "elsewhere" in blocked.err
    assert "beam agent unblock a" in blocked.err
    assert beam("agent", "unblock", "a").code == 0
    waiting = next(event["message_id"] for event in reversed(beam.journal("a")) if event["type"] == "message.queued")
    assert beam("send", "a", "z").out == "hi\n"
    assert beam("show", waiting).code in (0, 8)
    assert beam("agent", "unblock", "a").code == 2
