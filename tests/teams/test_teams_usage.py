"""Tokens and what they cost."""

from __future__ import annotations

import json

from beam.agents.claude.history import Line, read
from beam.outcome import Usage as Tokens
from beam.teams import prices
from beam.teams.usage import Usage


def line(reply: str, model: str, output: int) -> Line:
    usage = {
        "input_tokens": 104,
        "output_tokens": output,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 0,
    }
    found = read(json.dumps({"type": "assistant", "message": {"id": reply, "model": model, "usage": usage}}).encode())
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
