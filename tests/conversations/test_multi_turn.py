"""Which agents of a run come back, and which of their CLIs tell as much over their own protocol."""

from __future__ import annotations

import pytest

from beam.agents import registry
from beam.conversations.held import dialogue_reports_as_much
from tests.conversations.test_read import read


@pytest.mark.parametrize(
    ("steps", "multi_turn"),
    [
        ("- {send: a, prompt: x}", set()),
        ("- {send: a, prompt: x}\n- {send: [a, b], prompt: y}", {"a"}),
        ("- {chat: [a, b], prompt: x, moderator: m, order: moderator}", {"a", "b", "m"}),
        ("- parallel:\n  - {send: a, prompt: x}\n  - {send: b, prompt: x}\n- {send: b, prompt: y}", {"b"}),
        ("- {send: a, id: one, prompt: x}\n- {judge: b, of: one, rubric: good}", set()),
        ("- {send: a, id: one, prompt: x}\n- {judge: a, of: one, rubric: good}", {"a"}),
    ],
)
def test_an_agent_that_speaks_in_several_steps_or_in_a_chat_comes_back(steps: str, multi_turn: set[str]) -> None:
    assert read(f"beam: 1\nsteps:\n{steps}\n").multi_turn_agents() == multi_turn


@pytest.mark.parametrize(
    ("name", "is_so"),
    [("claude", True), ("codex", True), ("qwen", True), ("opencode", True), ("copilot", False), ("acp", False)],
)
def test_a_protocol_that_tells_less_than_the_headless_mode_is_not_chosen_in_a_run(name: str, is_so: bool) -> None:
    assert dialogue_reports_as_much(registry.adapter(name)) == is_so
