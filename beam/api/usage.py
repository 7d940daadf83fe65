"""Returns the usage of agents: turns, tokens and cost by agent and model, from their journals."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from beam.base.errors import BeamError
from beam.broker.inbox.context import RootContext
from beam.model.outcome import COST_DIGITS, Usage
from beam.model.prices import PRICES_AS_OF, estimated_usd
from beam.model.state import Totals, UsageSum
from beam.store.segment import read_state


class UsageLine(Struct, frozen=True, kw_only=True):
    """The usage of one agent with one model. `agent` is null in the sum of all agents; `model` is null if unknown, and
    in that sum. `cost_usd` is the cost that CLIs reported; `estimated_usd` is the cost of the other turns by the list
    prices of the day `prices_as_of`. `error`: the journal can't be read, so its turns are not counted."""

    agent: str | None
    model: str | None
    turns: int
    usage: Usage
    cost_usd: float | None
    estimated_usd: float | None = None
    prices_as_of: str = PRICES_AS_OF
    error: str | None = None


def usage_lines(context: RootContext, agents: Sequence[str]) -> list[UsageLine]:
    """Return a line for each agent and model that was used; the last line is the sum."""
    found: list[UsageLine] = []
    for agent in agents:
        paths = context.agent_paths(agent)
        by_model: dict[str | None, UsageSum] = {}
        error = None
        for each in (paths, *paths.lanes()):
            try:
                totals = read_state(each.journal).totals
            except BeamError as trouble:
                error = trouble.message
                continue
            for model, share in sums_by_model(totals).items():
                by_model.setdefault(model, UsageSum()).add(share.turns, share.usage, share.cost_usd)
        if error is not None and not by_model:
            by_model[None] = UsageSum()
        found += [_line(agent, model, share, error) for model, share in by_model.items()]
    everything = UsageSum()
    for line in found:
        everything.add(line.turns, line.usage, line.cost_usd)
    estimates = [line.estimated_usd for line in found if line.estimated_usd is not None]
    total = _line(None, None, everything, None)
    return [*found, replace(total, estimated_usd=round(sum(estimates), COST_DIGITS) if estimates else None)]


def sums_by_model(totals: Totals) -> dict[str | None, UsageSum]:
    """Return the totals by model, without models that had no turn; the key None is for turns of unknown models."""
    known = UsageSum()
    for share in totals.by_model.values():
        known.add(share.turns, share.usage, share.cost_usd)
    rest = UsageSum(
        turns=totals.turns - known.turns,
        usage=totals.usage.minus(known.usage),
        cost_usd=None if totals.cost_usd is None else max(0.0, totals.cost_usd - (known.cost_usd or 0.0)),
    )
    found: dict[str | None, UsageSum] = {model: totals.by_model[model] for model in sorted(totals.by_model)}
    return {**found, None: rest} if rest.turns else found


def estimate(totals: Totals) -> float | None:
    """Return the cost, by the price table, of those turns whose CLI reported no cost; None if the table has no price
    for them."""
    found = [_estimate(model, share) for model, share in totals.by_model.items()]
    known = [each for each in found if each is not None]
    return round(sum(known), COST_DIGITS) if known else None


def _estimate(model: str | None, share: UsageSum) -> float | None:
    if model is None or share.cost_usd is not None:
        return None
    found = estimated_usd(model, share.usage)
    return None if found is None else round(found, COST_DIGITS)


def _line(agent: str | None, model: str | None, share: UsageSum, error: str | None) -> UsageLine:
    return UsageLine(
        agent=agent,
        model=model,
        turns=share.turns,
        usage=share.usage,
        cost_usd=share.cost_usd,
        estimated_usd=_estimate(model, share),
        error=error,
    )
