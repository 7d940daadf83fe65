"""What tokens cost: list prices of one day, and none for a model that nobody looked up."""

from __future__ import annotations

import pytest

from beam.model.outcome import Usage
from beam.model.prices import Tokens, cost_usd, estimated_usd

A_MILLION = Tokens(fresh=1_000_000, output=1_000_000, cache_read=1_000_000, cache_write=1_000_000)


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("claude-opus-5-5", 29.2),  # as Claude Code 2.1.330 says for these tokens
        ("claude-opus-5", 36.75),
        ("claude-sonnet-5-5", 14.6),
        ("claude-sonnet-4-6", 22.05),
        ("claude-haiku-4-5-20251001", 7.35),
        ("claude-opus-4-8[1m]", 36.75),
        ("gpt-6-sol", 14.7),
        ("gpt-5-2025-08-07", 12.625),
        ("gemini-2.5-flash", 3.13),
    ],
)
def test_a_model_of_the_table_has_its_price_with_a_date_behind_its_name_too(model: str, usd: float) -> None:
    assert round(cost_usd(model, A_MILLION) or 0, 6) == usd


@pytest.mark.parametrize("model", ["", "gpt-7", "gpt-5-max", "claude-opus-5-9", "gemini-2.5", "openrouter/gpt-5"])
def test_a_model_that_only_sounds_like_one_of_the_table_has_no_price(model: str) -> None:
    assert cost_usd(model, A_MILLION) is None


def test_what_was_written_to_a_cache_is_part_of_the_input_and_has_its_own_price() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=0, cached_tokens=1_000_000, cache_write_tokens=400_000)
    assert round(estimated_usd("gpt-6-sol", usage) or 0, 6) == round(0.6 * 2 + 0.4 * 2.5 + 0.2, 6)
    assert estimated_usd("gpt-6-sol", Usage(output_tokens=5)) is None
