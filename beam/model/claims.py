"""Drops figures that an agent claims to have used and that no turn can have.

The cost and the tokens that a CLI reports go into sums, budgets and tables, and an agent may write any number. Does not
depend on any CLI.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs

from beam.model import events
from beam.model.events import Event
from beam.model.outcome import FIGURES, ModelUsage, Usage

MOST_USD = 1e6
MOST_COUNT = 10**12  # tokens, calls, lines or seconds

U = TypeVar("U", bound=Usage)
_COUNTS = (*FIGURES, "lines_added", "lines_removed", "api_s", "used", "size")
CLAIMS = (events.UsageSeen, events.ContextUsed, events.TurnFinished, events.SessionIdle)


def taken(body: Event) -> tuple[Event, tuple[str, ...]]:
    """Return the event, one of CLAIMS, with null in place of each figure out of range, and the names of these
    figures."""
    refused: dict[str, None] = {}
    changes = _changes(body, refused)
    return (structs.replace(body, **changes), tuple(refused)) if refused else (body, ())


def _changes(value: object, refused: dict[str, None]) -> dict[str, object]:
    """Return the new values of the fields that change, and add the names of the refused figures to `refused`."""
    changes: dict[str, object] = {}
    for name in _COUNTS:
        if _is_out(getattr(value, name, None), MOST_COUNT):
            changes[name] = refused[name] = None
    if _is_out(getattr(value, "cost_usd", None), MOST_USD):
        changes["cost_usd"] = refused["cost_usd"] = None
    for name in ("usage", "total"):
        part = getattr(value, name, None)
        if isinstance(part, Usage):
            changes[name] = _without(part, refused)
    models: tuple[ModelUsage, ...] | None = getattr(value, "models", None)
    if models:
        changes["models"] = tuple(structs.replace(one, **_changes(one, refused)) for one in models)
    return changes


def _without(part: U, refused: dict[str, None]) -> U:
    changes = _changes(part, refused)
    return structs.replace(part, **changes) if changes else part


def _is_out(figure: float | None, most: float) -> bool:
    """Return whether a figure is out of range; NaN is."""
    return figure is not None and not 0 <= figure <= most
