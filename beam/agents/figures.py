"""The figures of one turn, for a CLI that reports running totals: of a process, or of a whole session.

Does not depend on any CLI.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from beam.model.outcome import COST_DIGITS, FIGURES, ModelUsage, Total, Usage

NOTHING_YET = Total(**dict.fromkeys(FIGURES, 0), cost_usd=0.0, models=(), api_s=0.0, lines_added=0, lines_removed=0)


class Work(Struct, frozen=True, kw_only=True):
    """What a CLI tells of a turn besides tokens and cost: the seconds of its model calls, and the lines it changed."""

    api_s: float | None = None
    lines_added: int | None = None
    lines_removed: int | None = None


def work_of_turn(total: Work | Total, before: Total | None) -> Work:
    """Return the part of a running total that came since `before`; None for what is unknown or was counted anew."""
    known: dict[str, Any] = {}
    for name in Work.__struct_fields__:
        now, then = getattr(total, name), None if before is None else getattr(before, name)
        known[name] = None if now is None or then is None or now < then else round(now - then, 3)
    return Work(**known)


def with_work(total: Total, work: Work) -> Total:
    """Return the total with what the CLI tells besides tokens and cost."""
    return structs.replace(total, **structs.asdict(work))


def since(before: Usage | None, total: Usage) -> Usage:
    """Return what was used since `before`.

    The figures are None if that is unknown, or if the CLI began to count anew.
    """
    if before is None:
        return Usage()
    found = {name: _less(getattr(total, name), getattr(before, name)) for name in FIGURES}
    return Usage() if any(figure is not None and figure < 0 for figure in found.values()) else Usage(**found)


def of_turn(total: Total, before: Total | None, seen: Usage) -> Total | None:
    """Return what the turn used, for a CLI whose total of a resumed session continues from `before` or begins anew.

    `seen` is what the turn used at least. If the difference is less, the CLI began anew and the whole total belongs to
    the turn. If `before` is unknown, the total belongs to the turn only if nothing was counted besides `seen`. None if
    it can't be known.
    """
    more = None if before is None else _difference(before, total)
    if more is not None and covers(more, seen):
        return more
    is_own = covers(seen, total) if before is None else covers(total, seen)
    return total if is_own else None


def covers(whole: Usage, part: Usage) -> bool:
    """Return whether no figure of `part` exceeds that of `whole`; the number of calls does not count."""
    names = [name for name in FIGURES if name not in ("calls", "reasoning_tokens")]
    return all((getattr(part, name) or 0) <= (getattr(whole, name) or 0) for name in names)


def is_nothing(usage: Usage) -> bool:
    """Return whether no token was counted."""
    return not any(getattr(usage, name) for name in FIGURES)


def total(usage: Usage, *, cost_usd: float | None, models: tuple[ModelUsage, ...] | None) -> Total:
    """Return the figures with their cost, and each model's share of them."""
    return Total(**{name: getattr(usage, name) for name in FIGURES}, cost_usd=cost_usd, models=models)


def usage_of(whole: Usage, *, calls: int | None = None) -> Usage:
    """Return the tokens alone, and the number of calls that they are for."""
    return Usage(**{name: getattr(whole, name) for name in FIGURES if name != "calls"}, calls=calls)


def summed(shares: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """Return one share per model, in the order of their first occurrence."""
    found: dict[str, ModelUsage] = {}
    for share in shares:
        one = found.get(share.model)
        before = one.cost_usd if one is not None else None
        costs = [cost for cost in (before, share.cost_usd) if cost is not None]
        usage = one.usage.plus(share.usage) if one is not None else share.usage
        found[share.model] = ModelUsage(model=share.model, usage=usage, cost_usd=cost(costs) if costs else None)
    return tuple(found.values())


def added(calls: Iterable[ModelUsage]) -> tuple[Usage, tuple[ModelUsage, ...] | None]:
    """Return the sum of single calls, and the sums per model; None for the latter if the model of a call is unknown."""
    usage, models = Usage(), summed(calls)
    for share in models:
        usage = usage.plus(share.usage)
    return usage, models if models and all(share.model for share in models) else None


def _difference(before: Total, total: Total) -> Total | None:
    """Return the total without `before`; None if a figure would be negative."""
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
    """Return the sum in US dollars, rounded so that adding leaves no residue."""
    return round(sum(parts), COST_DIGITS)


def _less(total: int | None, before: int | None) -> int | None:
    return None if total is None or before is None else total - before


def _cost_since(before: float | None, total: float | None) -> float | None:
    return None if total is None or before is None else round(total - before, COST_DIGITS)
