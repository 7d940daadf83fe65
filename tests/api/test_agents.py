"""What an agent is."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.api.agents import agent_line
from tests.support.context import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_an_agent_line_says_what_is_missing(root: Root) -> None:
    assert agent_line(root.context, "worker").installed == ""
    assert agent_line(root.context, "claude").installed is None
    assert "nobody" in (agent_line(root.context, "nobody").error or "")
