"""Turns the token counts of one agent process into figures per turn.

An agent counts per model call, per turn, per process or per session, or not at all. The figures of a turn are never
guessed. Does not depend on the content of a turn.
"""

from __future__ import annotations

from beam.agents import figures
from beam.agents.acp.dialect import Dialect
from beam.agents.acp.wire import Update
from beam.agents.base import Turn
from beam.agents.fields import Object, integer, number, obj, object_of, string
from beam.model.outcome import Total, Usage


class Counter:
    """The figures of one process. `used` is the number of tokens in its context window, `size` the size of the window;
    both are None until the agent reports them."""

    def __init__(self, dialect: Dialect, turn: Turn) -> None:
        self.used: int | None = None
        self.size: int | None = None
        self._counts = dialect.counts
        is_new = turn.session_id is None
        self._total: Total | None = figures.NOTHING_YET
        if self._counts == "session" and not is_new:
            self._total = turn.carried
        self._spent: float | None = 0.0 if is_new else None  # the cost of the session before this turn
        self._cost: float | None = None
        self._is_told = False  # the agent reported the cost since the last turn began
        self._has_begun = False

    def record_context(self, reported: Update) -> None:
        """Record a report about the session's context window and the session's cost."""
        self.used = self.used if reported.used is None else reported.used
        self.size = self.size if reported.size is None else reported.size
        cost = object_of(reported.cost)
        if string(cost, "currency") in ("", "USD"):
            amount = number(cost, "amount")
            if amount is not None:
                self._cost, self._is_told = amount, True

    def begin_turn(self) -> None:
        """Record that a turn begins. The cost before this turn is unknown if the agent reported none in the turn
        before."""
        if self._has_begun:
            self._spent = self._cost if self._is_told else None
        self._has_begun, self._is_told = True, False

    def cost_of_turn(self) -> float | None:
        """Return the cost of the turn so far in US dollars, None if unknown. The agent reports the cost of the whole
        session, so the cost before the turn is subtracted."""
        if not self._is_told or self._cost is None or self._spent is None or self._cost < self._spent:
            return None
        return figures.sum_costs([self._cost, -self._spent])

    def usage_in_chunk(self, meta: object) -> Usage | None:
        """Return the usage of one model call, for an agent that reports it with a piece of its answer."""
        usage = obj(object_of(meta), "usage")
        return _usage(usage) if usage and self._counts == "calls" else None

    def usage_at_end(self, result: Object) -> tuple[Usage | None, Total | None]:
        """Return the usage of the turn, from the message that ends the turn, and the running total of the session. Each
        is None if the agent does not report it."""
        if self._counts in ("nothing", "calls"):
            return None, None
        quota = obj(obj(obj(result, "_meta"), "quota"), "token_count")
        reported = obj(result, "usage")
        if not quota and not reported:
            return None, None
        usage = _usage(reported) if reported else _usage_from_quota(quota)
        if self._counts == "turn":
            return _usage_or_unknown(usage), None
        total = figures.make_total(usage, cost_usd=None, models=None)
        before, self._total = self._total, total
        return _usage_or_unknown(figures.usage_since(before, total)), total if self._counts == "session" else None


def _usage_or_unknown(usage: Usage) -> Usage:
    """Return the figures of a turn. If the agent counted nothing, as for a call that failed, all figures are None."""
    return Usage() if figures.is_nothing(usage) else usage


def _usage(reported: Object) -> Usage:
    cached, written = integer(reported, "cachedReadTokens"), integer(reported, "cachedWriteTokens")
    given = integer(reported, "inputTokens")
    if given is not None and _excludes_cached_tokens(reported):
        given += written or 0
    elif given is not None:
        given = max(0, given - (cached or 0))
    return Usage(
        input_tokens=given,
        output_tokens=integer(reported, "outputTokens"),
        cached_tokens=cached,
        reasoning_tokens=integer(reported, "thoughtTokens"),
        cache_write_tokens=written,
    )


def _excludes_cached_tokens(reported: Object) -> bool:
    """Return whether the reported input tokens exclude those that were read from a cache or written to one. They do if
    all parts add up to the reported total, whether or not the output includes the thoughts."""
    names = ("inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens")
    parts = sum(integer(reported, name) or 0 for name in names)
    return integer(reported, "totalTokens") in (parts, parts + (integer(reported, "thoughtTokens") or 0))


def _usage_from_quota(reported: Object) -> Usage:
    return Usage(input_tokens=integer(reported, "input_tokens"), output_tokens=integer(reported, "output_tokens"))
