"""Tokens and what they cost."""

from __future__ import annotations

import json

from beam.agents.claude.history import TranscriptLine, read
from beam.model import prices
from beam.model.outcome import Usage as Tokens
from beam.teams.usage import Turns, Usage


def line(reply: str, model: str, output: int, stop: str | None = None) -> TranscriptLine:
    usage = {
        "input_tokens": 104,
        "output_tokens": output,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 0,
    }
    message = {"id": reply, "model": model, "usage": usage, "stop_reason": stop}
    found = read(json.dumps({"type": "assistant", "message": message}).encode())
    assert found is not None and found.usage == Tokens(input_tokens=114, output_tokens=output, cached_tokens=10)
    return found


def test_a_reply_counts_once_and_its_last_line_counts() -> None:
    usage = Usage()
    for output in (1, 20):
        usage.add("bob", line("r", "claude-opus-4-8", output))
    (used,) = usage.used()
    assert (used.replies, used.tokens) == (1, prices.Tokens(fresh=104, output=20, cache_read=10))


def test_the_price_is_what_claude_code_says_for_the_same_tokens() -> None:
    assert round(prices.cost_usd("claude-opus-4-8[1m]", prices.Tokens(104, 20, 10, 0)) or 0, 9) == 0.001025
    assert round(prices.cost_usd("claude-haiku-4-5-20251001", prices.Tokens(101, 20, 10, 0)) or 0, 9) == 0.000202


def test_a_model_without_a_price_has_no_cost() -> None:
    usage = Usage()
    usage.add("bob", line("r", "claude-next-9", 1))
    assert usage.used()[0].cost_usd is None


def test_a_turns_figures_come_with_the_line_that_ends_it_and_each_reply_counts_once() -> None:
    turns = Turns()
    assert turns.add("bob", line("r1", "claude-opus-4-8", 1), is_member=True) == {}
    assert turns.add("bob", line("r1", "claude-opus-4-8", 20, "tool_use"), is_member=True) == {}
    assert turns.add("eve", line("r2", "claude-opus-4-8", 5), is_member=True) == {}
    assert turns.add("bob", line("r3", "claude-haiku-4-5", 7, "end_turn"), is_member=False) == {}
    assert turns.add("bob", line("r4", "claude-opus-4-8", 3, "end_turn"), is_member=True) == {
        "claude-opus-4-8": prices.Tokens(fresh=208, output=23, cache_read=20),
        "claude-haiku-4-5": prices.Tokens(fresh=104, output=7, cache_read=10),
    }
    assert turns.add("bob", line("r4", "claude-opus-4-8", 3, "end_turn"), is_member=True) == {}
    assert turns.add("bob", line("r4", "claude-opus-4-8", 9, "end_turn"), is_member=True) == {
        "claude-opus-4-8": prices.Tokens(output=6)
    }
