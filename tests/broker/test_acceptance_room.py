"""How many agents work at once, how far apart the turns of an account begin, and a kept process that dies."""

from __future__ import annotations

import itertools
import os
import signal

import pytest

from beam.base.clock import parse_rfc3339
from tests.support.cli import Cli, eventually

pytestmark = pytest.mark.acceptance

SLOW = 'default: [{delay: 0.6}, "done"]\n'


def spans(beam: Cli, *agents: str) -> list[tuple[int, int]]:
    """When each turn of these agents, and of their lanes, began and ended."""
    found = []
    for agent in agents:
        for journal in beam.root.glob(f"agents/{agent}/**/journal"):
            began = 0
            for event in beam.journal(str(journal.parent.relative_to(beam.root / "agents"))):
                if event["type"] == "turn.started":
                    began = parse_rfc3339(event["ts"])
                elif event["type"] == "turn.finished":
                    found.append((began, parse_rfc3339(event["ts"])))
    return sorted(found)


def at_once(found: list[tuple[int, int]]) -> int:
    """The largest number of turns that ran at the same time."""
    return max(sum(began <= each[0] < ended for began, ended in found) for each in found)


def test_no_more_agents_work_at_once_than_the_limit_says_and_the_first_comes_first(beam: Cli) -> None:
    (beam.project / "slow.yaml").write_text(SLOW)
    names = ("one", "two", "three")
    agents = "".join(f"  {name}: {{adapter: scripted, script: slow.yaml}}\n" for name in names)
    beam.config(f"limits: {{agents: 1}}\nagents:\n{agents}")
    sent = [beam("send", name, "x", "--no-wait").out.strip() for name in names]
    sent.append(beam("send", "one", "x", "--once", "--no-wait").out.strip())
    for message in sent:
        assert beam("wait", message).code == 0
    found = spans(beam, *names)
    assert len(found) == 4 and at_once(found) == 1
    assert list((beam.root / "locks/at-work").iterdir()) == []


def test_a_message_that_another_turn_waits_for_needs_no_room(beam: Cli) -> None:
    beam.config(
        "limits: {agents: 1}\nagents:\n  helper: {command: [cat]}\n"
        '  asker: {command: [sh, -c, \'cat >/dev/null; "$BEAM_BIN" send helper "need help"\']}\n'
    )
    assert "need help" in beam("send", "asker", "x", "--timeout", "20s").out


def test_the_place_of_a_process_that_was_killed_is_free(beam: Cli) -> None:
    (beam.project / "slow.yaml").write_text(SLOW)
    beam.config(
        "limits: {agents: 1}\nagents:\n  one: {adapter: scripted, script: slow.yaml}\n  two: {command: [cat]}\n"
    )
    assert beam("send", "one", "x", env={"BEAM_CRASH_AT": "turn.started"}).code == 137
    assert beam("send", "two", "x").out == "x\n"


def test_turns_of_one_account_begin_a_pace_apart_also_those_beside_the_queue(beam: Cli) -> None:
    (beam.project / "slow.yaml").write_text(SLOW)
    same = "adapter: scripted, script: slow.yaml, account: work, pace: 1s"
    beam.config(f"agents:\n  one: {{{same}}}\n  two: {{{same}}}\n")
    sent = [beam("send", "one", "x", "--once", "--no-wait").out.strip() for _ in range(3)]
    sent.append(beam("send", "two", "x", "--no-wait").out.strip())
    for message in sent:
        assert beam("wait", message).code == 0
    begun = [began for began, _ in spans(beam, "one", "two")]
    assert len(begun) == 4
    assert all(later - earlier > 0.9e9 for earlier, later in itertools.pairwise(begun)), begun


def test_a_kept_process_that_dies_between_two_turns_is_replaced_and_that_is_said(beam: Cli) -> None:
    beam.config("agents:\n  one: {adapter: scripted, script: chat.yaml}\n")
    (beam.project / "chat.yaml").write_text("replies: [[first], [second]]\n")
    beam("broker", "start")
    assert beam("send", "one", "x", "--via", "dialogue").out == "first\n"
    started = next(event for event in beam.journal("one") if event["type"] == "agent.started")
    os.kill(started["pid"], signal.SIGKILL)
    eventually(lambda: "agent.exited" in beam.types("one"))
    done = beam("send", "one", "y", "--via", "dialogue", "--json").json
    assert (done["reply"], done["session"]) == ("second", "resumed")
    said = [event["text"] for event in beam.journal("one") if event["type"] == "notice"]
    assert said == ["its kept process ended by itself (SIGKILL): the next turn resumes its session in a new one"]
    assert beam("broker", "stop").code == 0
