"""Computes the price of tokens of the models of Claude, Codex and Gemini from a dated table. A model that is not in the
table has no price.

The table has list prices in USD per million tokens, for requests of usual length (some models cost more beyond 200,000
tokens). The prices of the Claude models agree with the costs that Claude Code reports at the date of the table.
"""

from __future__ import annotations

import re

from msgspec import Struct

from beam.model.outcome import Usage

PRICES_AS_OF = "2026-11-21"
_MILLION = 1_000_000
_VARIANT = re.compile(r"(-\d{8}|-\d{4}-\d\d-\d\d)?(\[\w+\])?\Z")  # a date, and what Claude Code appends to a name


class Price(Struct, frozen=True):
    """The price of a model in USD per million tokens: fresh input (neither read from the cache nor written to it),
    output, input read from the cache, and input written to the cache."""

    fresh: float
    output: float
    cache_read: float
    cache_write: float


_OPUS = Price(5.0, 25.0, 0.5, 6.25)
_OPUS_4 = Price(15.0, 75.0, 1.5, 18.75)
_SONNET = Price(3.0, 15.0, 0.3, 3.75)
_GPT_5 = Price(1.25, 10.0, 0.125, 1.25)
_GPT_5_2 = Price(1.75, 14.0, 0.175, 1.75)
_GEMINI_FLASH = Price(0.75, 3.75, 0.075, 0.75)
_GEMINI_PRO = Price(2.0, 12.0, 0.2, 2.0)
_TABLE = {  # if writing to the cache has no price of its own, it costs as much as fresh input
    "claude-opus-5-5": Price(4.0, 20.0, 0.2, 5.0),
    "claude-opus-5": _OPUS,
    "claude-opus-4-8": _OPUS,
    "claude-opus-4-7": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-5": _OPUS,
    "claude-opus-4-1": _OPUS_4,
    "claude-opus-4": _OPUS_4,
    "claude-sonnet-5-5": Price(2.0, 10.0, 0.1, 2.5),
    "claude-sonnet-5": Price(2.0, 10.0, 0.2, 2.5),
    "claude-sonnet-4-6": _SONNET,
    "claude-sonnet-4-5": _SONNET,
    "claude-sonnet-4": _SONNET,
    "claude-haiku-4-5": Price(1.0, 5.0, 0.1, 1.25),
    "claude-3-5-haiku": Price(0.8, 4.0, 0.08, 1.0),
    "gpt-6-astra": Price(10.0, 50.0, 1.0, 12.5),
    "gpt-6-sol": Price(2.0, 10.0, 0.2, 2.5),
    "gpt-6-luna": Price(0.1, 0.5, 0.01, 0.125),
    "gpt-5.6-sol": Price(4.0, 20.0, 0.4, 5.0),
    "gpt-5.6-terra": Price(2.0, 12.0, 0.2, 2.5),
    "gpt-5.6-luna": Price(0.2, 1.2, 0.02, 0.25),
    "gpt-5.5": Price(5.0, 30.0, 0.5, 5.0),
    "gpt-5.4": Price(2.5, 15.0, 0.25, 2.5),
    "gpt-5.4-mini": Price(0.75, 4.5, 0.075, 0.75),
    "gpt-5.3-codex": _GPT_5_2,
    "gpt-5.2": _GPT_5_2,
    "gpt-5.2-codex": _GPT_5_2,
    "gpt-5.1": _GPT_5,
    "gpt-5.1-codex": _GPT_5,
    "gpt-5.1-codex-max": _GPT_5,
    "gpt-5.1-codex-mini": Price(0.25, 2.0, 0.025, 0.25),
    "gpt-5": _GPT_5,
    "gpt-5-codex": _GPT_5,
    "gpt-5-mini": Price(0.25, 2.0, 0.025, 0.25),
    "gemini-3.8-flash": _GEMINI_FLASH,
    "gemini-3.7-flash": _GEMINI_FLASH,
    "gemini-3.6-flash": _GEMINI_FLASH,
    "gemini-3.5-flash": Price(1.5, 9.0, 0.15, 1.5),
    "gemini-3.5-flash-lite": Price(0.3, 2.5, 0.03, 0.3),
    "gemini-3.1-pro-preview": _GEMINI_PRO,
    "gemini-3.1-flash-lite": Price(0.25, 1.5, 0.025, 0.25),
    "gemini-3-pro-preview": _GEMINI_PRO,
    "gemini-3-flash-preview": Price(0.5, 3.0, 0.05, 0.5),
    "gemini-2.5-pro": Price(1.25, 10.0, 0.125, 1.25),
    "gemini-2.5-flash": Price(0.3, 2.5, 0.03, 0.3),
    "gemini-2.5-flash-lite": Price(0.1, 0.4, 0.01, 0.1),
}


class Tokens(Struct, frozen=True):
    """Numbers of tokens, by the kinds that have different prices: fresh input (neither read from the cache nor written
    to it), output, input read from the cache, and input written to the cache."""

    fresh: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def plus(self, other: Tokens) -> Tokens:
        """Return the sum for each kind of token."""
        return Tokens(
            self.fresh + other.fresh,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    def minus(self, other: Tokens) -> Tokens:
        """Return the difference for each kind of token; a negative difference becomes 0."""
        return Tokens(
            max(0, self.fresh - other.fresh),
            max(0, self.output - other.output),
            max(0, self.cache_read - other.cache_read),
            max(0, self.cache_write - other.cache_write),
        )

    @property
    def total(self) -> int:
        """Return the sum of all kinds of tokens."""
        return self.fresh + self.output + self.cache_read + self.cache_write


def cost_usd(model: str, tokens: Tokens) -> float | None:
    """Return the price of these tokens in USD; None for a model that is not in the table."""
    price = _TABLE.get(_VARIANT.sub("", model, count=1))
    if price is None:
        return None
    return (
        tokens.fresh * price.fresh
        + tokens.output * price.output
        + tokens.cache_read * price.cache_read
        + tokens.cache_write * price.cache_write
    ) / _MILLION


def estimated_usd(model: str, usage: Usage) -> float | None:
    """Return the price of a turn's usage in USD; None if the model is not in the table, or if the input or output
    tokens are unknown."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    written = usage.cache_write_tokens or 0
    fresh = max(0, usage.input_tokens - written)
    return cost_usd(model, Tokens(fresh, usage.output_tokens, usage.cached_tokens or 0, written))
