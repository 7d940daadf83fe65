"""The figures of one turn, for a CLI that says what it has counted so far: over a process, or over a whole session.

Must not know any CLI.
"""

from __future__ import annotations

from collections.abc import Iterable

from beam.model.outcome import FIGURES, ModelUsage, Total, Usage

NOTHING_YET = Total(**dict.fromkeys(FIGURES, 0), cost_usd=0.0, models=())
_DIGITS = 9  # of a cost: what is left of 0.1 + 0.2 - 0.3 is no money


def since(before: Usage | None, total: Usage) -> Usage:
    """What was used since `before`; null figures where that is not known, or where the CLI began to count anew."""
    if before is None:
        return Usage()
    found = {name: _less(getattr(total, name), getattr(before, name)) for name in FIGURES}
    return Usage() if any(figure is not None and figure < 0 for figure in found.values()) else Usage(**found)


def of_turn(total: Total, before: Total | None, seen: Usage) -> Total | None:
    """What the turn used, for a CLI whose total of a resumed session goes on from `before` or begins anew.

    `seen` is what the turn used at least. Where the difference is less, the CLI began anew and all of the total is the
    turn's. Where `before` is not known, the total is the turn's only if nothing was counted besides `seen`. Null where
    nobody knows.
    """
    more = None if before is None else _difference(before, total)
    if more is not None and covers(more, seen):
        return more
    is_own = covers(seen, total) if before is None else covers(total, seen)
    return total if is_own else None


def covers(whole: Usage, part: Usage) -> bool:
    """Whether no figure of the part is more than the whole's; the number of calls does not count."""
    names = [name for name in FIGURES if name not in ("calls", "reasoning_tokens")]
    return all((getattr(part, name) or 0) <= (getattr(whole, name) or 0) for name in names)


def is_nothing(usage: Usage) -> bool:
    """Whether no token was counted."""
    return not any(getattr(usage, name) for name in FIGURES)


def total(usage: Usage, *, cost_usd: float | None, models: tuple[ModelUsage, ...] | None) -> Total:
    """The figures with their cost, and with what each model had of them."""
    return Total(**{name: getattr(usage, name) for name in FIGURES}, cost_usd=cost_usd, models=models)


def usage_of(whole: Usage, *, calls: int | None = None) -> Usage:
    """The tokens alone, and the number of calls that they are of."""
    return Usage(**{name: getattr(whole, name) for name in FIGURES if name != "calls"}, calls=calls)


def summed(shares: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """One share a model, in the order in which they came first."""
    found: dict[str, ModelUsage] = {}
    for share in shares:
        one = found.get(share.model, ModelUsage(model=share.model))
        costs = [cost for cost in (one.cost_usd, share.cost_usd) if cost is not None]
        usage = one.usage.plus(share.usage)
        found[share.model] = ModelUsage(model=share.model, usage=usage, cost_usd=cost(costs) if costs else None)
    return tuple(found.values())


def added(calls: Iterable[ModelUsage]) -> tuple[Usage, tuple[ModelUsage, ...] | None]:
    """The sum of single calls, and of those of each model; null where the model of one is not known."""
    usage, models = Usage(), summed(calls)
    for share in models:
        usage = usage.plus(share.usage)
    return usage, models if models and all(share.model for share in models) else None


def _difference(before: Total, total: Total) -> Total | None:
    """The total without `before`; None where a figure would be below 0."""
    more = since(before, total)
    if more == Usage() and usage_of(total) != Usage():
        return None
    cost_usd = _cost_since(before.cost_usd, total.cost_usd)
    if cost_usd is not None and cost_usd < 0:
        return None
    models = None
    if before.models is not None and total.models is not None:
        models = _models_since(before.models, total.models)
        if models is None:
            return None
    return Total(**{name: getattr(more, name) for name in FIGURES}, cost_usd=cost_usd, models=models)


def _models_since(before: tuple[ModelUsage, ...], total: tuple[ModelUsage, ...]) -> tuple[ModelUsage, ...] | None:
    was = {share.model: share for share in before}
    found = []
    for share in total:
        old = was.pop(share.model, None) or ModelUsage(model=share.model, usage=NOTHING_YET, cost_usd=0.0)
        more = since(old.usage, share.usage)
        if more == Usage():
            return None
        cost_usd = _cost_since(old.cost_usd, share.cost_usd)
        if not is_nothing(more):
            found.append(ModelUsage(model=share.model, usage=more, cost_usd=cost_usd))
    return None if was else tuple(found)


def cost(parts: Iterable[float]) -> float:
    """The sum in US dollars, without what adding leaves over."""
    return round(sum(parts), _DIGITS)


def _less(total: int | None, before: int | None) -> int | None:
    return None if total is None or before is None else total - before


def _cost_since(before: float | None, total: float | None) -> float | None:
    return None if total is None or before is None else round(total - before, _DIGITS)
