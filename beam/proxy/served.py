"""The result of one request to a proxy, and its description for people."""

from __future__ import annotations

import json

from msgspec import Struct

from beam.model.outcome import Usage
from beam.proxy.differences import Difference


class ServedRequest(Struct, frozen=True, kw_only=True):
    """What became of one request. `kind`: ask, count, other. `step` is that of the ladder, or `live`, `filled`,
    `refused`, `over` (the budget is used up); `recorded` is the number of the recorded call that answered it, `nearest`
    that of the recorded call that is nearest to it."""

    number: int
    kind: str
    model: str = ""
    step: str = "live"
    recorded: int | None = None
    nearest: int | None = None
    differences: tuple[Difference, ...] = ()
    usage: Usage | None = None
    why: str = ""


def explain(served: ServedRequest) -> str:
    """Return why a request has no recorded answer: the nearest recorded call and its first difference."""
    if served.nearest is None:
        return f"model call {served.number} was not recorded, and nothing like it was"
    first = served.differences[0] if served.differences else None
    if first is None:
        return f"model call {served.number} was not recorded; the nearest is {served.nearest}"
    return (
        f"model call {served.number} was not recorded; the nearest, {served.nearest}, differs first in {first.path}: "
        f"recorded {_quote(first.recorded)}, got {_quote(first.got)}"
    )


def _quote(text: str | None) -> str:
    return "nothing" if text is None else json.dumps(text, ensure_ascii=False)
