"""The price of tokens of Claude's models, from a dated table; a model that is not in it has no price.

List prices in USD per million tokens. They agree with the costs that Claude Code of that date reports.
"""

from __future__ import annotations

from msgspec import Struct

AS_OF = "2026-11-21"
_MILLION = 1_000_000


class Price(Struct, frozen=True):
    """USD per million tokens: fresh input, output, read from the cache, written to it."""

    fresh: float
    output: float
    cache_read: float
    cache_write: float


_OPUS = Price(5.0, 25.0, 0.5, 6.25)
_OPUS_4 = Price(15.0, 75.0, 1.5, 18.75)
_SONNET = Price(3.0, 15.0, 0.3, 3.75)
_HAIKU = Price(1.0, 5.0, 0.1, 1.25)
_TABLE = {  # the beginning of a model's name; the longest that fits counts
    "claude-opus-4-8": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-5": _OPUS,
    "claude-opus-4-1": _OPUS_4,
    "claude-opus-4-2025": _OPUS_4,
    "claude-sonnet-4": _SONNET,
    "claude-haiku-4-5": _HAIKU,
    "claude-3-5-haiku": Price(0.8, 4.0, 0.08, 1.0),
}


class Tokens(Struct, frozen=True):
    """Tokens as they are billed."""

    fresh: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def plus(self, other: Tokens) -> Tokens:
        """Return the sum."""
        return Tokens(
            self.fresh + other.fresh,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    def minus(self, other: Tokens) -> Tokens:
        """Return the difference, with 0 as the least of each figure."""
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
    """Return the price of these tokens; None for a model that is not in the table."""
    name = max((name for name in _TABLE if model.startswith(name)), key=len, default=None)
    if name is None:
        return None
    price = _TABLE[name]
    return (
        tokens.fresh * price.fresh
        + tokens.output * price.output
        + tokens.cache_read * price.cache_read
        + tokens.cache_write * price.cache_write
    ) / _MILLION
