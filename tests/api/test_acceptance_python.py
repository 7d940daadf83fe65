"""What only Python has: a function that decides asks, a turn as a loop, and a conversation of agents."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import threading
from typing import Any

import pytest

from beam import (
    Allow,
    AskLine,
    Beam,
    BeamError,
    Conversation,
    Deny,
    NotFoundError,
    Spoken,
    Status,
    UsageError,
    events,
)
from tests.support import acp_agent
from tests.support.cli import Cli, eventually, processes_with

pytestmark = pytest.mark.acceptance
SCRIPTS = {
    "writer": "replies: [A first draft., A second draft.]",
    "reviewer": "rules: [{match: second, reply: 'OK, ship it.'}]\ndefault: 'It lacks a second thought, @writer.'",
    "hangs": "replies: [[{stream: {text: one two, chunk: 4}}, {hang: true}]]",
    "spends": "replies: [[{usage: {input_tokens: 90, output_tokens: 20}}, {cost_usd: 0.5}, {hang: true}]]",
    "mod": "replies: [reviewer, writer, DONE]",
    "fails": "replies: [{fail: {class: auth, reason: no key}}]",
}


@pytest.fixture
def place(beam: Cli) -> Cli:
    """A place with agents that talk, and `mine`, which asks before it makes a file."""
    (beam.base / "mine").mkdir()
    program = shutil.copy(acp_agent.__file__, beam.base / "mine" / "agent.py")
    agents = [f"  mine: {{command: {json.dumps([sys.executable, str(program)])}, protocol: acp, access: ask}}"]
    for name, script in SCRIPTS.items():
        (beam.project / f"{name}.yaml").write_text(script + "\n")
        agents.append(f"  {name}: {{adapter: scripted, script: {name}.yaml}}")
    beam.config("agents:\n" + "\n".join(agents) + "\n")
    return beam


@pytest.fixture
def python(place: Cli) -> Beam:
    return Beam(cwd=place.project, environ=place.env)


def raises(ask: AskLine) -> bool:
    raise ValueError("no idea")


async def later(ask: AskLine) -> bool:
    await asyncio.sleep(0.01)
    return ask.description == "make made"


@pytest.mark.parametrize(
    ("on_ask", "is_made", "says"),
    [
        (lambda ask: True, True, ""),
        (lambda ask: Allow(), True, ""),
        (later, True, ""),
        (lambda ask: False, False, ""),
        (lambda ask: Deny(message="not now"), False, ""),  # this agent can't be told why
        (raises, False, "no idea"),
        (lambda ask: sys.exit(3), False, "SystemExit"),
        (lambda ask: None, False, "on_ask returned NoneType"),
        (lambda ask: Allow(input={"path": "x"}), False, "what it asked for"),  # this agent takes no other input
        (lambda ask: Allow(always=True), False, "always"),
        (lambda ask: Allow(input=object()), False, "object"),
    ],
)  # fmt: skip
def test_a_function_decides_and_what_it_can_not_decide_is_denied(
    place: Cli, python: Beam, caplog: pytest.LogCaptureFixture, on_ask: Any, is_made: bool, says: str
) -> None:
    outcome = python.send("mine", "!make made", on_ask=on_ask)
    assert (outcome.status, (place.project / "made").exists()) == (Status.COMPLETED, is_made)
    (decided,) = [event for event in python.events("mine") if isinstance(event, events.PermissionDecided)]
    assert (decided.decision, decided.by) == ("allow" if is_made else "deny", "human")
    assert bool(caplog.records) is bool(says)
    assert says in caplog.text
    if says:
        assert f"on_ask could not decide {decided.ask_id} of mine, so it is denied" in caplog.text


def test_who_decides_first_has_decided_and_the_turn_waits_for_no_function(place: Cli, python: Beam) -> None:
    asked, may_end = threading.Event(), threading.Event()

    def slow(ask: AskLine) -> bool:
        asked.set()
        return may_end.wait(60)

    def elsewhere() -> None:
        asked.wait(60)
        place("deny", python.asks(["mine"])[0].id)

    other = threading.Thread(target=elsewhere)
    other.start()
    outcome = python.send("mine", "!make made", on_ask=slow)
    may_end.set()
    other.join()
    assert (outcome.status, (place.project / "made").exists()) == (Status.COMPLETED, False)


def test_an_agent_gets_no_function_that_decides(python: Beam, place: Cli) -> None:
    message = python.message("writer", "x")
    agent = Beam(cwd=place.project, environ={**place.env, "BEAM_AGENT": "writer"})
    with pytest.raises(UsageError, match="only a person decides"):
        agent.deliver(message, on_ask=lambda ask: True)
    with pytest.raises(UsageError, match="only a person"):
        Conversation(agent, ["writer", "reviewer"], "x")


def test_a_turn_is_a_loop_over_its_events_and_has_a_result(python: Beam) -> None:
    stream = python.stream("writer", "Write it.")
    with pytest.raises(UsageError, match="not over"):
        _ = stream.result
    kinds = [type(event) for event in stream]
    assert kinds[0] is events.MessageQueued
    assert {events.TurnStarted, events.Text, events.TurnFinished} <= set(kinds)
    assert stream.result.reply == "A first draft."
    with pytest.raises(UsageError, match="read before"):
        list(stream)
    with pytest.raises(NotFoundError):
        python.stream("nobody", "Write it.")


def test_who_leaves_the_loop_ends_the_turn(place: Cli, python: Beam) -> None:
    stream = python.stream("hangs", "go")
    for event in stream:
        if isinstance(event, events.TextDelta):
            break
    eventually(lambda: stream.result.status is not Status.COMPLETED)
    assert stream.result.exit_code == 9
    assert not processes_with(str(place.project / "hangs.yaml"))


def test_a_turn_is_a_loop_in_an_event_loop_too(python: Beam) -> None:
    async def both() -> list[str]:
        async def one(text: str) -> str:
            stream = python.stream("writer", text)
            return "".join([event.text async for event in stream if isinstance(event, events.TextDelta | events.Text)])

        async def left() -> str:
            stream = python.stream("hangs", "go")
            async with contextlib.aclosing(aiter(stream)) as found:  # type: ignore[type-var]
                async for event in found:
                    if isinstance(event, events.TextDelta):
                        break
            return stream.result.status

        return list(await asyncio.gather(one("x"), left()))

    assert asyncio.run(both()) == ["A first draft.", "cancelled"]


def talked(python: Beam, *agents: str, **more: Any) -> tuple[list[str], str, int]:
    result = Conversation(python, agents, "Write a draft.", **more).run()
    return [f"{spoken.agent}: {spoken.text}" for spoken in result.said], result.why, result.exit_code


DRAFTS = [
    "writer: A first draft.",
    "reviewer: It lacks a second thought, @writer.",
    "writer: A second draft.",
    "reviewer: OK, ship it.",
]


@pytest.mark.parametrize(
    ("agents", "more", "said", "why"),
    [
        (("writer", "reviewer"), {"phrase": "ship it"}, 4, "reviewer said 'ship it'"),
        (("writer", "reviewer"), {"turns": 3}, 3, "3 turns were taken"),
        (("writer", "reviewer"), {"until": lambda one: "second d" in one.text}, 3, "writer's text meets `until`"),
        (("writer", "reviewer"), {"by_address": True}, 1, "nobody was addressed"),
    ],
)  # fmt: skip
def test_agents_take_turns_until_a_limit(
    python: Beam, agents: tuple[str, ...], more: dict[str, Any], said: int, why: str
) -> None:
    assert talked(python, *agents, **more) == (DRAFTS[:said], why, 0)


def test_a_moderator_names_who_speaks(python: Beam) -> None:
    said, why, _ = talked(python, "writer", "reviewer", moderator="mod")
    assert said == ["reviewer: It lacks a second thought, @writer.", "writer: A first draft."]
    assert why == "mod said that it is settled"


def test_a_program_steps_in_and_ends_it_and_gets_each_event(python: Beam) -> None:
    talk = Conversation(python, ["writer", "reviewer"], "Write a draft.", name="pair")
    speakers = []

    def seen(event: events.Event) -> None:
        if isinstance(event, events.TurnFinished):
            speakers.append(event.agent)
            if len(speakers) == 1:
                talk.say("A second one, please.")
            else:
                talk.stop("that will do")

    result = talk.run(seen)
    assert speakers == ["writer@pair", "reviewer@pair"]
    assert [(spoken.agent, spoken.is_of_person) for spoken in result.said] == [
        ("writer", False), ("human", True), ("reviewer", False),
    ]  # fmt: skip
    assert result.said[-1] == Spoken(agent="reviewer", text="OK, ship it.")
    assert (result.why, result.exit_code, result.turns, len(result.outcomes)) == ("that will do", 0, 2, 2)
    for wrong in (lambda: talk.say("x", "nobody"), lambda: talk.say(" "), lambda: talk.give_floor("nobody"), talk.run):
        with pytest.raises(UsageError):
            wrong()


def test_a_conversation_is_a_loop_and_who_leaves_it_ends_it(place: Cli, python: Beam) -> None:
    stream = Conversation(python, ["writer", "hangs"], "Write a draft.").stream()
    for event in stream:
        if event.agent == "hangs@chat" and isinstance(event, events.TextDelta):
            break
    assert (stream.result.why, stream.result.turns) == ("the program left it", 1)
    assert not processes_with(str(place.project / "hangs.yaml"))


def test_a_turn_that_uses_up_the_budget_is_ended_in_the_middle(python: Beam) -> None:
    for more, why in (({"cost_usd": 0.4}, "it cost $0.4"), ({"tokens": 100}, "it used 100 tokens")):
        result = Conversation(python, ["spends", "writer"], "Write a draft.", **more).run()  # type: ignore[arg-type]
        assert (result.why, result.exit_code, result.cost_usd, result.tokens) == (why, 7, 0.5, 110)
        assert [outcome.status for outcome in result.outcomes] == [Status.CANCELLED]


def test_a_failure_ends_it_and_what_can_not_be_is_reported_before_anyone_speaks(place: Cli, python: Beam) -> None:
    result = Conversation(python, ["fails", "writer"], "Write a draft.").run()
    assert (result.why, result.exit_code) == ("fails failed (failed)", 1)
    with pytest.raises(NotFoundError):
        Conversation(python, ["writer", "nobody"], "x")
    place.config("agents: {gone: {adapter: claude}, writer: {adapter: scripted, script: writer.yaml}}\n")
    there = Beam(cwd=place.project, environ={**place.env, "PATH": "/usr/bin:/bin"})
    with pytest.raises(NotFoundError, match="not installed"):
        Conversation(there, ["writer", "gone"], "x", name="none").run()
    assert "writer@none" not in place.home.agents()


def test_what_agents_of_a_conversation_ask_is_decided_by_its_function(place: Cli, python: Beam) -> None:
    asked: list[str] = []

    def decide(ask: AskLine) -> bool:
        asked.append(f"{ask.agent} {ask.description}")
        return True

    with python:
        result = Conversation(python, ["mine", "writer"], "!make made", turns=2, on_ask=decide).run()
    assert asked
    assert asked[0].startswith("mine@chat make made")
    assert result.turns == 2


def test_what_several_agents_ask_is_decided_by_one_function(place: Cli, python: Beam) -> None:
    asked: list[str] = []

    def decide(ask: AskLine) -> bool:
        asked.append(ask.agent)
        return ask.agent == "mine"

    mine, second = place.base / "mine", place.base / "second"
    shutil.copytree(mine, second)
    config = (place.project / "beam.yaml").read_text()
    line = next(line for line in config.splitlines() if line.startswith("  mine:"))
    (place.project / "beam.yaml").write_text(config + line.replace("mine", "second") + "\n")
    messages = [python.message("mine", "!make one"), python.message("second", "!make two")]
    outcomes = python.deliver_several(messages, on_ask=decide)
    assert not any(isinstance(outcome, BeamError) for outcome in outcomes), outcomes
    assert sorted(asked) == ["mine", "second"]
    assert [(place.project / name).exists() for name in ("one", "two")] == [True, False]
