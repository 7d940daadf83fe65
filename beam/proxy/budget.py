"""Counts the tokens and the cost of a turn's model calls, and checks them against a budget.

A used-up budget refuses the next call; the call that exceeds the budget is not interrupted. Does not depend on sockets
or files.
"""

from __future__ import annotations

import threading

from msgspec import Struct, structs

from beam.model.outcome import Usage
from beam.model.prices import estimated_usd
from beam.proxy.wire.values import Stop


class Budget(Struct, frozen=True, kw_only=True):
    """The limits of one turn; null means no limit. All billed tokens count: input, cached input and output."""

    max_tokens: int | None = None
    usd: float | None = None


class Spending:
    """The tokens and the cost that a turn has used so far. Thread-safe. `cost_usd` is null as soon as a model without a
    known price was used."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._mutex = threading.Lock()
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self.calls = 0

    def add(self, model: str, usage: Usage) -> None:
        """Count one call of the model `model`, with its tokens."""
        with self._mutex:
            self.calls += 1
            self.usage = self.usage.plus(structs.replace(usage, calls=1))
            cost = estimated_usd(model, usage)
            self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost

    def refusal(self, model: str) -> str:
        """Return the reason why the budget refuses a call of this model; "" if the call is allowed."""
        budget = self._budget
        with self._mutex:
            tokens = billed_tokens(self.usage)
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


def billed_tokens(usage: Usage) -> int:
    """Return the number of billed tokens: input, cached input and output."""
    return (usage.input_tokens or 0) + (usage.cached_tokens or 0) + (usage.output_tokens or 0)


class AnswerMeter:
    """Collects the token counts of one answer while it is passed on, and how the model ended it (`stop`, None if the
    answer does not say so). Counts that the API does not report are estimated at four bytes per token. `sent` is the
    size of the request in bytes."""

    def __init__(self, sent: int) -> None:
        self._sent_bytes = sent
        self._received_bytes = 0
        self._reported = Usage()
        self.stop: Stop | None = None

    def add(self, used: Usage | None, size: int, stop: Stop | None = None) -> None:
        """Add one event of a stream, or a whole answer, of `size` bytes. `used` are the token counts in it, and `stop`
        is how the model ended (None: it has none, or does not say so)."""
        self._received_bytes += size
        self.stop = stop or self.stop
        if used is not None:  # a stream reports totals so far, so the last ones count
            told = {name: value for name in used.__struct_fields__ if (value := getattr(used, name)) is not None}
            self._reported = structs.replace(self._reported, **told)

    @property
    def usage(self) -> Usage:
        """Return the token counts of the answer, reported or estimated."""
        told = self._reported
        if told.input_tokens is None and told.cached_tokens is None:
            told = structs.replace(told, input_tokens=max(1, self._sent_bytes // 4))
        if told.output_tokens is None:
            told = structs.replace(told, output_tokens=max(1, self._received_bytes // 4))
        return told
