"""A usage limit through the real `beam`: it is waited for, by all agents of the account, and uses up no attempts."""

from __future__ import annotations

import json
import time

import pytest

from beam.base.clock import rfc3339
from tests.support.cli import Cli, eventually

pytestmark = pytest.mark.acceptance

AGENTS = """\
  one: {adapter: scripted, script: limited.yaml, account: work}
  two: {adapter: scripted, script: answers.yaml, account: work}
  own: {adapter: scripted, script: answers.yaml, account: own}
"""


def limit_for(beam: Cli, seconds: float, policy: str = "usage_limit: wait") -> str:
    """Have `one` run into a limit that ends in so many seconds; return its end."""
    ends = rfc3339(time.time_ns() + int(seconds * 1e9))
    (beam.project / "limited.yaml").write_text(
        f'replies:\n- [{{fail: {{class: rate_limit, reason: "usage limit reached, resets at {ends}"}}}}]\n- ["done"]\n'
    )
    (beam.project / "answers.yaml").write_text('default: ["done"]\n')
    beam.config(f"policy: {{{policy}}}\nagents:\n{AGENTS}")
    return ends


def test_all_agents_of_the_account_wait_for_the_limit_and_then_go_on_by_themselves(beam: Cli) -> None:
    ends = limit_for(beam, 3)
    sent = [beam("send", agent, "x", "--no-wait").out.strip() for agent in ("one", "one", "one")]
    done = [beam("wait", message, "--json").json for message in sent]
    assert [(each["status"], each["reply"]) for each in done] == [("completed", "done")] * 3
    (requeued,) = [event for event in beam.journal("one") if event["type"] == "message.requeued"]
    assert (requeued["reason"], requeued["attempt"]) == ("usage_limit", 2)
    turns = [event for event in beam.journal("one") if event["type"] == "turn.finished"]
    assert turns[0]["resets_at"] == ends and "resets_at" not in turns[1]
    started = [event["ts"] for event in beam.journal("one") if event["type"] == "turn.started"]
    assert all(ts > ends for ts in started[1:]), "nothing was tried before the limit ended"
    assert "message.dead" not in beam.types("one") and "circuit.opened" not in beam.types("one")


def test_another_agent_of_the_account_waits_and_one_of_another_account_does_not(beam: Cli) -> None:
    ends = limit_for(beam, 3600)
    beam("send", "one", "x", "--no-wait")
    eventually(lambda: "message.requeued" in beam.types("one"))
    waits = beam("send", "two", "x", "--no-wait").out.strip()
    lane = beam("send", "two", "x", "--once", "--no-wait").out.strip()
    status = {line["agent"]: line for line in beam("status", "--json").lines}
    assert status["one"]["limited_until"] == status["two"]["limited_until"] > ends
    assert status["own"]["limited_until"] is None
    assert "usage limit reached: waits until" in beam("status").out
    assert "the usage limit is reached; it waits until" in beam("log", "one").out
    assert beam("send", "own", "x", "--json").json["status"] == "completed"
    for message in (waits, lane):
        assert beam("wait", message, "--timeout", "1s").code == 12, "it waits for the limit"
    beam("queue", "drop", waits)
    assert beam("send", "two", "at a person's own risk", "--no-circuit").code == 0
    assert beam("wait", lane, "--json").json["status"] == "completed", "an answer ends the wait of all"


def test_a_sender_waits_for_the_end_of_the_limit_too(beam: Cli) -> None:
    ends = limit_for(beam, 2)
    done = beam("send", "one", "x", "--json").json
    assert (done["status"], done["reply"], done["attempt"]) == ("completed", "done", 2)
    assert rfc3339(time.time_ns()) > ends


def test_without_the_policy_the_outcome_says_when_the_limit_ends(beam: Cli) -> None:
    ends = limit_for(beam, 3600, "attempts: 1")
    done = beam("send", "one", "x", "--json")
    assert (done.code, done.json["class"], done.json["resets_at"]) == (1, "rate_limit", ends)


@pytest.mark.parametrize("point", ["finish.recorded", "offer.rewritten", "offer.recorded", "requeue.moved"])
def test_a_holder_that_is_killed_on_the_way_loses_neither_the_wait_nor_an_attempt(beam: Cli, point: str) -> None:
    ends = limit_for(beam, 3)
    assert beam("send", "one", "x", env={"BEAM_CRASH_AT": point}).code == 137
    message = next(event["message_id"] for event in beam.journal("one") if event["type"] == "message.queued")
    done = beam("wait", message, "--json").json
    assert (done["status"], done["attempt"], done["reply"]) == ("completed", 2, "done")
    assert next(e["reason"] for e in beam.journal("one") if e["type"] == "message.requeued") == "usage_limit"
    started = [event["ts"] for event in beam.journal("one") if event["type"] == "turn.started"]
    assert len(started) == 2 and started[1] > ends


def test_a_person_is_told_once_that_the_messages_wait(beam: Cli) -> None:
    told = beam.base / "told"
    own = beam.base / "home" / ".config" / "beam" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(f"notify: [{{command: [sh, -c, 'cat >> {told}'], on: [failed]}}]\n")
    limit_for(beam, 3600)
    messages = [beam("send", "one", text, "--no-wait").out.strip() for text in ("x", "y")]
    eventually(lambda: told.exists() and told.read_text().endswith("}\n"), 20, "nobody was told")
    (said,) = [json.loads(line) for line in told.read_text().splitlines()]
    assert said["event"] == "budget"
    assert said["text"].startswith("the usage limit of one is reached: the messages of its account wait until ")
    for message in messages:
        assert beam("queue", "drop", message).code == 0
