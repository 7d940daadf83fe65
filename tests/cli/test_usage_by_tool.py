"""`beam status --usage --by tool`: the calls of each tool."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from beam import Beam
from beam.api.status import AgentStatus
from beam.cli import main
from beam.model.state import ToolSum, Totals
from tests.support.statuses import agent_status


def line(agent: str, **tools: tuple[int, int]) -> AgentStatus:
    sums = {name: ToolSum(calls=calls, failed=failed) for name, (calls, failed) in tools.items()}
    return agent_status(agent, totals=Totals(by_tool=sums))


def test_each_agents_tools_are_reported_with_their_calls_and_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line("ann", Bash=(3, 1), Edit=(2, 0)), line("bob"), line("cy", Bash=(1, 0))]

    def status(self: Beam, agents: Sequence[str] = (), *, all: bool = False) -> list[AgentStatus]:
        return [each for each in lines if not agents or each.agent in agents]

    monkeypatch.setattr(Beam, "status", status)
    assert main.run(["status", "--usage", "--by", "tool", "--json"]) == 0
    told = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [(one["agent"], one["tool"], one["calls"], one["failed"]) for one in told] == [
        ("ann", "Bash", 3, 1),
        ("ann", "Edit", 2, 0),
        ("cy", "Bash", 1, 0),
    ]
    assert main.run(["status", "--usage", "--by", "tool", "cy"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split("\t")[:3] == ["cy", "Bash", "1"]
