"""Removes impossible figures from the usage that an agent reports.

The cost and the tokens that a CLI reports are added to sums, budgets and tables, and an agent may write any number.
Does not depend on any CLI.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs

from beam.model import events
from beam.model.events import Event
from beam.model.outcome import FIGURES, ModelUsage, Usage

MAX_USD = 1e6
MAX_COUNT = 10**12  # tokens, calls, lines or seconds

U = TypeVar("U", bound=Usage)
_COUNTS = (*FIGURES, "lines_added", "lines_removed", "api_s", "used", "size")
EVENTS_WITH_FIGURES = (events.UsageSeen, events.ContextUsed, events.TurnFinished, events.SessionIdle)


def without_impossible_figures(body: Event) -> tuple[Event, tuple[str, ...]]:
    """Return the event with None in place of each figure that is out of range, and the names of these figures. The type
    of the event is one of EVENTS_WITH_FIGURES."""
    refused: dict[str, None] = {}
    changes = _changes(body, refused)
    return (structs.replace(body, **changes), tuple(refused)) if refused else (body, ())


def _changes(value: object, refused: dict[str, None]) -> dict[str, object]:
    """Return the fields of `value` that change, each with its new value. Add the names of the figures that are out of
    range to `refused`."""
    changes: dict[str, object] = {}
    for name in _COUNTS:
        if _is_out_of_range(getattr(value, name, None), MAX_COUNT):
            changes[name] = refused[name] = None
    if _is_out_of_range(getattr(value, "cost_usd", None), MAX_USD):
        changes["cost_usd"] = refused["cost_usd"] = None
    for name in ("usage", "total"):
        part = getattr(value, name, None)
        if isinstance(part, Usage):
            changes[name] = _without_refused(part, refused)
    models: tuple[ModelUsage, ...] | None = getattr(value, "models", None)
    if models:
        changes["models"] = tuple(structs.replace(one, **_changes(one, refused)) for one in models)
    return changes


def _without_refused(part: U, refused: dict[str, None]) -> U:
    changes = _changes(part, refused)
    return structs.replace(part, **changes) if changes else part


def _is_out_of_range(figure: float | None, most: float) -> bool:
    """Return whether the figure is below 0, above `most`, or NaN. A figure of None is in range."""
    return figure is not None and not 0 <= figure <= most
