"""Counts what a turn's model calls use as they pass, and checks it against a budget.

A budget refuses the next call; it does not cut the one that goes over it. Does not depend on sockets or files.
"""

from __future__ import annotations

import threading

from msgspec import Struct, structs

from beam.model.outcome import Usage
from beam.model.prices import estimated_usd


class Budget(Struct, frozen=True, kw_only=True):
    """The most that one turn may use; null: no limit. All billed tokens count: sent, from a cache, answered."""

    max_tokens: int | None = None
    usd: float | None = None


class Spending:
    """What was used so far; safe to use from several threads. `cost_usd` is null once a model has no known price."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._mutex = threading.Lock()
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self.calls = 0

    def add(self, model: str, usage: Usage) -> None:
        """Count one model call."""
        with self._mutex:
            self.calls += 1
            self.usage = self.usage.plus(structs.replace(usage, calls=1))
            cost = estimated_usd(model, usage)
            self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost

    def refusal(self, model: str) -> str:
        """Return why a call of this model may not begin; "" if it may."""
        budget = self._budget
        with self._mutex:
            tokens = total(self.usage)
            if budget.max_tokens is not None and tokens >= budget.max_tokens:
                return f"max_tokens is {budget.max_tokens}, and {tokens} were used in {self.calls} model calls"
            if budget.usd is None:
                return ""
            if estimated_usd(model, Usage(input_tokens=0, output_tokens=0)) is None or self.cost_usd is None:
                return f"the price of {model or 'the model'} is not known, so a budget in USD can't be kept"
            if self.cost_usd >= budget.usd:
                return (
                    f"the budget is {budget.usd:g} USD, and {self.cost_usd:.6f} were used in {self.calls} model calls"
                )
        return ""


def total(usage: Usage) -> int:
    """Return all tokens that are billed."""
    return (usage.input_tokens or 0) + (usage.cached_tokens or 0) + (usage.output_tokens or 0)


class Meter:
    """Reads the token figures of one answer as it passes; what the API does not report is estimated at four bytes a
    token."""

    def __init__(self, sent: int) -> None:
        self._sent = sent
        self._came = 0
        self._told = Usage()

    def see(self, used: Usage | None, size: int) -> None:
        """Take note of one event, or a whole answer, of that many bytes."""
        self._came += size
        if used is not None:  # figures in a stream are those so far
            told = {name: value for name in used.__struct_fields__ if (value := getattr(used, name)) is not None}
            self._told = structs.replace(self._told, **told)

    @property
    def usage(self) -> Usage:
        """Return the figures."""
        told = self._told
        if told.input_tokens is None and told.cached_tokens is None:
            told = structs.replace(told, input_tokens=max(1, self._sent // 4))
        if told.output_tokens is None:
            told = structs.replace(told, output_tokens=max(1, self._came // 4))
        return told
