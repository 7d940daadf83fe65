"""A terminal between its turns: who may go on in it, and when it is over. Real programs with Claude Code's look."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents.base import Host, Launch, Turn, Verdict
from beam.agents.claude.screen import profile as CLAUDE
from beam.base.clock import SystemClock
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status
from beam.model.settings import AgentSettings
from beam.turns import terminal
from beam.turns.process import ProcessKeeper
from tests.support import tui
from tests.support.turns import handle, services, turn_input

pytestmark = pytest.mark.usefixtures("memory")  # and as acceptance tests with real processes


class Face:
    """The agent `tui.py` as an adapter's terminal face."""

    profile = structs.replace(CLAUDE, columns=100, rows=40, start_seconds=30.0)

    def __init__(self, manner: str = "echo") -> None:
        self.manner = manner

    def launch(self, turn: Turn, host: Host) -> Launch:
        return Launch(argv=(sys.executable, tui.__file__, self.manner), files={"startup": b"x"})


class Agent:
    """Turns of one agent whose holder keeps its terminal."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.events: list[Event] = []
        self.number = 0
        self.keeper = ProcessKeeper(tmp_path, self._record, SystemClock(), keeps=True)

    async def turn(self, text: str, *, face: Face | None = None, keep: float = 60.0, **fields: Any) -> Verdict:
        self.number += 1
        scratch = self.path / f"scratch-{self.number}"
        scratch.mkdir()
        turn = Turn(text=text, message_id="x-1", agent="x", cwd=str(self.path), scratch=str(scratch), **fields)
        input = turn_input(turn, commands=True, number=self.number, keep=keep)
        return await terminal.run_turn(
            face or Face(), None, input, services(self._record, keeper=self.keeper), handle(self._record)
        )

    def _record(self, body: Event, *, sync: bool = False) -> Event:
        self.events.append(body)
        return body

    def started(self) -> list[int | None]:
        """Of each `agent.started`: the turn that started it, where it was kept."""
        return [event.since for event in self.events if isinstance(event, events.AgentStarted)]

    def exited(self) -> list[str | None]:
        return [event.stopped_by for event in self.events if isinstance(event, events.AgentExited)]


def scene(tmp_path: Path, play: Callable[[Agent], Awaitable[None]]) -> Agent:
    agent = Agent(tmp_path)

    async def run() -> None:
        try:
            await play(agent)
        finally:
            await agent.keeper.end("the test is over")

    asyncio.run(run())
    return agent


@pytest.mark.slow
def test_the_next_turn_goes_on_in_the_same_process_and_its_files_stay_so_long(tmp_path: Path) -> None:
    async def play(agent: Agent) -> None:
        for text in ("one", "two", "two"):
            verdict = await agent.turn(text)
            assert (verdict.status, verdict.reply) == (Status.COMPLETED, f"ECHO[{text}]")
            assert (tmp_path / "scratch-1" / "startup").exists()

    agent = scene(tmp_path, play)
    assert agent.started() == [None, 1, 1]
    assert agent.exited() == ["the test is over"]
    assert not (tmp_path / "scratch-1").exists() and not (tmp_path / "terminal.sock").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "unlike", [{"model": "m"}, {"access": "full"}, {"session_id": "s"}, {"settings": AgentSettings(system="x")}]
)
def test_a_turn_that_is_unlike_begins_another_one(tmp_path: Path, unlike: dict[str, Any]) -> None:
    async def play(agent: Agent) -> None:
        await agent.turn("one")
        await agent.turn("two", **unlike)

    agent = scene(tmp_path, play)
    assert agent.started() == [None, None]
    assert agent.exited()[0] == "the next turn wants another session or other settings"


@pytest.mark.slow
def test_what_was_granted_counts_in_the_place_of_the_settings_and_for_later_turns_too(tmp_path: Path) -> None:
    async def play(agent: Agent) -> None:
        keeper = agent.keeper
        keeper.keeps = False
        assert keeper.idle_s(60.0) == 0.0
        keeper.grant(1000.0)
        assert keeper.idle_s(0.0) == math.inf and keeper.left_s(math.inf) == 1000.0
        await agent.turn("one", keep=math.inf)
        assert keeper.reason_to_end(None) == "" and keeper.idle_s(0.0) == math.inf
        assert 0 < keeper.left_s(math.inf) <= 1000.0
        assert keeper._until is not None
        keeper._until -= 1000.0
        assert keeper.reason_to_end(None) == "its time is over" and keeper.idle_s(60.0) == 0.0
        await keeper.end("its time is over")
        assert keeper.idle_s(60.0) == 60.0

    agent = scene(tmp_path, play)
    (kept,) = [event for event in agent.events if isinstance(event, events.AgentKept)]
    assert kept.until is not None


@pytest.mark.slow
def test_one_that_takes_no_message_any_more_is_replaced_and_nothing_was_typed(tmp_path: Path) -> None:
    async def play(agent: Agent) -> None:
        await agent.turn("one")
        assert agent.keeper.process is not None
        await agent.keeper.process.window.press("left behind")
        assert (await agent.turn("two")).reply == "ECHO[two]"

    agent = scene(tmp_path, play)
    assert agent.started() == [None, 1, None]
    assert agent.exited()[0] == "it accepted no more messages"
    assert sum(isinstance(event, events.PromptSent) for event in agent.events) == 2


@pytest.mark.slow
def test_after_a_command_of_its_own_it_is_not_kept(tmp_path: Path) -> None:
    async def play(agent: Agent) -> None:
        await agent.turn("/clear")
        assert agent.keeper.process is None

    scene(tmp_path, play)


@pytest.mark.slow
def test_it_is_over_after_its_time_and_when_its_session_is_another(tmp_path: Path) -> None:
    async def play(agent: Agent) -> None:
        await agent.turn("one", session_id="s", keep=1000.0)
        assert agent.keeper.reason_to_end("s") == ""
        assert agent.keeper.reason_to_end(None) == agent.keeper.reason_to_end("t") == "its session was archived"
        agent.keeper._since -= 1000.0
        assert agent.keeper.reason_to_end("s") == "no turn for 16m40s"
        agent.keeper.unwanted = "reset"
        assert agent.keeper.reason_to_end("s") == "reset"
        assert agent.keeper.process is not None
        os.kill(agent.keeper.process.window.child.pid, 9)
        await agent.keeper.process.ended
        assert agent.keeper.reason_to_end("s") == "it exited"
        await agent.keeper.end("it exited")

    agent = scene(tmp_path, play)
    assert agent.exited() == [None]


@pytest.mark.slow
def test_one_is_dropped_at_once_and_unsaid_where_nobody_can_wait(tmp_path: Path) -> None:
    async def play(agent: Agent) -> None:
        await agent.turn("one")
        process = agent.keeper.process
        assert process is not None
        agent.keeper.drop()
        await process.ended

    assert scene(tmp_path, play).exited() == []
