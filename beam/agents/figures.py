"""Computes the figures of one turn (tokens, cost, and so on) for a CLI that reports running totals: of a process, or of
a whole session.

The code names each figure and does not loop over the names: a loop takes several times as long, and a result has many
figures. Does not depend on any CLI.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from beam.agents.fields import Object, integer
from beam.model.outcome import COST_DIGITS, FIGURES, ModelUsage, Total, Usage

NOTHING_YET = Total(**dict.fromkeys(FIGURES, 0), cost_usd=0.0, models=(), api_s=0.0, lines_added=0, lines_removed=0)
_UNKNOWN_USAGE = Usage()


class Work(Struct, frozen=True, kw_only=True):
    """Figures of a turn besides tokens and cost: the seconds of its model calls, and the numbers of lines that it added
    to files and removed from files."""

    api_s: float | None = None
    lines_added: int | None = None
    lines_removed: int | None = None


def work_of_turn(total: Work | Total, before: Total | None) -> Work:
    """Return the increase of a running total since `before`. A figure is None if it is unknown, or if the CLI counted
    it anew."""
    known: dict[str, Any] = {}
    for name in Work.__struct_fields__:
        now, then = getattr(total, name), None if before is None else getattr(before, name)
        known[name] = None if now is None or then is None or now < then else round(now - then, 3)
    return Work(**known)


def with_work(total: Total, work: Work) -> Total:
    """Return the total with the figures of `work` in place of its own."""
    return structs.replace(total, **structs.asdict(work))


def usage_since(before: Usage | None, total: Usage) -> Usage:
    """Return the tokens and calls that were counted after `before`.

    All figures are None if `before` is None, or if the CLI began to count anew.
    """
    if before is None:
        return Usage()
    if before is NOTHING_YET:
        return Usage() if _is_negative(total) else usage_of(total, calls=total.calls)
    found = Usage(
        input_tokens=_count_since(total.input_tokens, before.input_tokens),
        output_tokens=_count_since(total.output_tokens, before.output_tokens),
        cached_tokens=_count_since(total.cached_tokens, before.cached_tokens),
        reasoning_tokens=_count_since(total.reasoning_tokens, before.reasoning_tokens),
        cache_write_tokens=_count_since(total.cache_write_tokens, before.cache_write_tokens),
        calls=_count_since(total.calls, before.calls),
    )
    return Usage() if _is_negative(found) else found


def of_turn(total: Total, before: Total | None, seen: Usage) -> Total | None:
    """Return the figures of the turn, for a CLI whose total of a resumed session continues from `before` or begins
    anew.

    `seen` is the least that the turn used. If `total` minus `before` is less than `seen`, the CLI began anew, and the
    whole total belongs to the turn. If `before` is unknown, the total belongs to the turn only if nothing was counted
    besides `seen`. Return None if the figures can't be known.
    """
    more = None if before is None else _total_since(before, total)
    if more is not None and covers(more, seen):
        return more
    is_own = covers(seen, total) if before is None else covers(total, seen)
    return total if is_own else None


def covers(whole: Usage, part: Usage) -> bool:
    """Return whether the input, output, cached and cache-write tokens of `part` are each at most as many as in `whole`.
    Other figures are not compared."""
    return (
        (part.input_tokens or 0) <= (whole.input_tokens or 0)
        and (part.output_tokens or 0) <= (whole.output_tokens or 0)
        and (part.cached_tokens or 0) <= (whole.cached_tokens or 0)
        and (part.cache_write_tokens or 0) <= (whole.cache_write_tokens or 0)
    )


def is_nothing(usage: Usage) -> bool:
    """Return whether all counts are zero or unknown."""
    return not (
        usage.input_tokens
        or usage.output_tokens
        or usage.cached_tokens
        or usage.reasoning_tokens
        or usage.cache_write_tokens
        or usage.calls
    )


def usage_in(
    used: Object, *, given: str, output: str, cached: str, reasoning: str = "", written: str = "", calls: int | None = 1
) -> Usage:
    """Return the figures that a CLI reports in the fields of these names in the object `used`. Its input (`given`)
    includes the tokens from a cache, and that of the returned value does not."""
    whole, from_cache = integer(used, given), integer(used, cached)
    return Usage(
        input_tokens=None if whole is None else max(0, whole - (from_cache or 0)),
        output_tokens=integer(used, output),
        cached_tokens=from_cache,
        reasoning_tokens=integer(used, reasoning),
        cache_write_tokens=integer(used, written),
        calls=calls,
    )


def make_total(
    usage: Usage, *, cost_usd: float | None, models: tuple[ModelUsage, ...] | None, api_s: float | None = None
) -> Total:
    """Return a `Total` of these figures: the usage, its cost, the share of each model, and the seconds of the model
    calls."""
    return Total(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        calls=usage.calls,
        cost_usd=cost_usd,
        models=models,
        api_s=api_s,
    )


def usage_of(whole: Usage, *, calls: int | None = None) -> Usage:
    """Return only the token counts of `whole`, with `calls` as the number of model calls."""
    return Usage(
        input_tokens=whole.input_tokens,
        output_tokens=whole.output_tokens,
        cached_tokens=whole.cached_tokens,
        reasoning_tokens=whole.reasoning_tokens,
        cache_write_tokens=whole.cache_write_tokens,
        calls=calls,
    )


def sum_by_model(shares: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """Return one share per model, in the order in which the models first occur. The cost of a model is None unless each
    of its shares has a cost."""
    found: dict[str, ModelUsage] = {}
    for share in shares:
        one = found.get(share.model)
        usage, cost_usd = share.usage, share.cost_usd
        if one is not None:
            usage = one.usage.plus(usage)
            cost_usd = None if one.cost_usd is None or cost_usd is None else one.cost_usd + cost_usd
        cost_usd = None if cost_usd is None else sum_costs((cost_usd,))
        found[share.model] = ModelUsage(model=share.model, usage=usage, cost_usd=cost_usd)
    return tuple(found.values())


def sum_shares(shares: Iterable[ModelUsage]) -> Usage:
    """Return the usage of all models together."""
    usage = Usage()
    for share in shares:
        usage = usage.plus(share.usage)
    return usage


def sum_calls(calls: Iterable[ModelUsage]) -> tuple[Usage, tuple[ModelUsage, ...] | None]:
    """Return the sum of the usage of single calls, and the sums per model. The sums per model are None if the model of
    a call is unknown, or if there are no calls."""
    models = sum_by_model(calls)
    return sum_shares(models), models if models and all(share.model for share in models) else None


def _total_since(before: Total, whole: Total) -> Total | None:
    """Return `whole` minus `before`; None if a figure would be negative."""
    more = usage_since(before, whole)
    if more == _UNKNOWN_USAGE and usage_of(whole) != _UNKNOWN_USAGE:
        return None
    cost_usd = _cost_since(before.cost_usd, whole.cost_usd)
    if cost_usd is not None and cost_usd < 0:
        return None
    models = None
    if before.models is not None and whole.models is not None:
        models = _models_since(before.models, whole.models)
        if models is None:
            return None
    return make_total(more, cost_usd=cost_usd, models=models)


def _models_since(before: tuple[ModelUsage, ...], whole: tuple[ModelUsage, ...]) -> tuple[ModelUsage, ...] | None:
    was = {share.model: share for share in before}
    found = []
    for share in whole:
        old = was.pop(share.model, None)
        more = share.usage if old is None else usage_since(old.usage, share.usage)
        if more == _UNKNOWN_USAGE or _is_negative(more):
            return None
        if is_nothing(more):
            continue
        if old is None:
            found.append(share)
        else:
            cost_usd = _cost_since(old.cost_usd, share.cost_usd)
            found.append(ModelUsage(model=share.model, usage=more, cost_usd=cost_usd))
    return None if was else tuple(found)


def sum_costs(parts: Iterable[float]) -> float:
    """Return the sum in US dollars, rounded so that errors of floating-point addition do not show."""
    return round(sum(parts), COST_DIGITS)


def _is_negative(usage: Usage) -> bool:
    return (
        (usage.input_tokens or 0) < 0
        or (usage.output_tokens or 0) < 0
        or (usage.cached_tokens or 0) < 0
        or (usage.reasoning_tokens or 0) < 0
        or (usage.cache_write_tokens or 0) < 0
        or (usage.calls or 0) < 0
    )


def _count_since(total: int | None, before: int | None) -> int | None:
    return None if total is None or before is None else total - before


def _cost_since(before: float | None, total: float | None) -> float | None:
    return None if total is None or before is None else round(total - before, COST_DIGITS)
