"""`beam run` with agents that speak a protocol: one process serves all turns of a run, and ends with it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from typing import Any

import pytest

from tests.support import acp_agent
from tests.support.cli import Cli, eventually, processes_with

pytestmark = pytest.mark.acceptance


@pytest.fixture
def place(beam: Cli) -> Cli:
    """A place with two agents that speak the Agent Client Protocol."""
    lines = []
    for name in ("one", "two"):
        (beam.base / name).mkdir()
        program = shutil.copy(acp_agent.__file__, beam.base / name / "agent.py")
        lines.append(f"  {name}: {{command: {json.dumps([sys.executable, str(program)])}, protocol: acp, access: ask}}")
    (beam.base / "two" / "agent.json").write_text('{"earlier": 1}')  # so that their sessions have other names
    beam.config("agents:\n" + "\n".join(lines) + "\n")
    return beam


def scenario(place: Cli, *prompts: str) -> None:
    steps = "".join(f"- {{send: [one, two], prompt: {json.dumps(prompt)}}}\n" for prompt in prompts)
    (place.project / "s.yaml").write_text(f"beam: 1\nname: s\nsteps:\n{steps}")


def events(place: Cli, agent: str, kind: str) -> list[Any]:
    return [event for event in place.journal(f"{agent}@s") if event["type"] == kind]


def no_process_is_left(place: Cli) -> None:
    for name in ("one", "two"):
        eventually(lambda name=name: not processes_with(str(place.base / name)), what=f"{name} is gone")  # type: ignore[misc]


def test_one_process_of_each_agent_serves_all_its_turns_and_ends_with_the_run(place: Cli) -> None:
    scenario(place, "a", "b", "c")
    assert place("run", "s.yaml", timeout=120).code == 0
    for agent in ("one", "two"):
        assert [event["reply"] for event in events(place, agent, "turn.finished")] == [
            "a turns=1",
            "b turns=2",
            "c turns=3",
        ]
        assert [event["since"] for event in events(place, agent, "agent.started")] == [None, 1, 1]
        assert len({event["pid"] for event in events(place, agent, "agent.started")}) == 1
        assert len(events(place, agent, "agent.exited")) == 1
    no_process_is_left(place)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_where_the_run_is_ended_in_a_turn(place: Cli, number: signal.Signals) -> None:
    scenario(place, "a", "!wait", "c")
    running = place.start("run", "s.yaml")
    turns = ("one", "two")
    eventually(lambda: all(events(place, name, "text.delta")[1:] for name in turns), timeout=60, what="both wait")
    os.kill(running.pid, number)
    running.communicate(timeout=60)
    no_process_is_left(place)
    if number is signal.SIGINT:
        assert running.returncode == -signal.SIGINT
        assert [event["status"] for event in events(place, "one", "turn.finished")] == ["completed", "cancelled"]
