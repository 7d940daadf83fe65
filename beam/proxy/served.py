"""The result of one request to a proxy, and an explanation for a request without a recorded answer."""

from __future__ import annotations

import json

from msgspec import Struct

from beam.model.outcome import Usage
from beam.proxy.differences import Difference
from beam.proxy.wire.values import Stop


class ServedRequest(Struct, frozen=True, kw_only=True):
    """The result of one request. `kind`: ask, count or other. `step`: exact, minor, major or unmatched (see `ladder`),
    `live`, `filled`, `refused`, or `over` (the budget is used up). `recorded` is the number of the recorded call that
    answered the request, or under which the request was recorded; `nearest` is the number of the most similar recorded
    call. `why` is the reason of a refusal or failure. `stop` is how the model ended its answer, None if nobody knows.
    `likeness` says how much the call looks like one of the agent itself, and not like one that its CLI makes for a
    title or a summary: 2 if it asks the turn's text and offers tools, 1 if it asks that text, else 0."""

    number: int
    kind: str
    model: str = ""
    step: str = "live"
    recorded: int | None = None
    nearest: int | None = None
    differences: tuple[Difference, ...] = ()
    usage: Usage | None = None
    why: str = ""
    stop: Stop | None = None
    likeness: int = 0


def explain(served: ServedRequest) -> str:
    """Return an explanation why a request has no recorded answer. It names the most similar recorded call and the first
    difference from that call."""
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
