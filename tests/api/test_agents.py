"""What an agent is."""

from __future__ import annotations

from beam.api.agents import agent_line
from tests.support.context import Root


def test_an_agent_line_says_what_is_missing(root: Root) -> None:
    assert agent_line(root.context, "worker").installed == ""
    assert agent_line(root.context, "claude").installed is None
    assert "nobody" in (agent_line(root.context, "nobody").error or "")
