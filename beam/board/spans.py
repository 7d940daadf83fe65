"""When each row worked, and the costs of the turns over time: both are computed from events and drawn as bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from beam import AnyEvent, estimated_usd, events
from beam.board.words import Piece, StyledLine, cell, count, money

_KEPT_SPANS = 500  # spans of one row
_KEPT_COSTS = 20_000
_BARS = "▁▂▃▄▅▆▇█"
SCALES_S = (60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)


class Span(Struct):
    """A period in which a row was `working` or `asking`, in seconds since 1970. `end_s` is None while the period
    lasts."""

    kind: str
    begin_s: float
    end_s: float | None = None


class Spans:
    """The spans of all rows, by key."""

    def __init__(self) -> None:
        self.by_key: dict[str, list[Span]] = {}

    def mark_busy(self, key: str, kind: str, since_s: float) -> None:
        """Begin a span at that time, unless one is open."""
        spans = self.by_key.setdefault(key, [])
        if not spans or spans[-1].end_s is not None:
            spans.append(Span(kind, since_s))

    def mark_idle(self, key: str, now_s: float) -> None:
        """End the open span at that time, if there is one."""
        spans = self.by_key.get(key)
        if spans and spans[-1].end_s is None:
            spans[-1].end_s = now_s

    def apply(self, key: str, event: AnyEvent, at_s: float) -> None:
        """Update the row's spans for an event that happened at `at_s`."""
        match event:
            case events.TurnStarted() | events.SessionPrompted() | events.MemberWorking():
                self._begin_span(key, "working", at_s)
            case events.PermissionAsked() if event.expires is not None:
                self._begin_span(key, "asking", at_s)
            case events.PermissionDecided() if self._is_asking(key):
                self._begin_span(key, "working", at_s)
            case events.TurnFinished() | events.SessionIdle() | events.MemberIdle() | events.MemberLeft():
                self.mark_idle(key, at_s)

    def _is_asking(self, key: str) -> bool:
        spans = self.by_key.get(key)
        return bool(spans) and spans is not None and spans[-1].end_s is None and spans[-1].kind == "asking"

    def _begin_span(self, key: str, kind: str, at_s: float) -> None:
        self.mark_idle(key, at_s)
        spans = self.by_key.setdefault(key, [])
        spans.append(Span(kind, at_s))
        del spans[:-_KEPT_SPANS]


def bar(spans: Sequence[Span], begin_s: float, end_s: float, width: int) -> StyledLine:
    """Return a bar of that width from begin to end: `█` worked, `?` asked, `·` neither."""
    signs = ["·"] * width
    scale = width / (end_s - begin_s)
    for span in spans:
        end = end_s if span.end_s is None else span.end_s
        if end < begin_s or span.begin_s > end_s:
            continue
        first = max(0, int((span.begin_s - begin_s) * scale))
        last = min(width - 1, int((end - begin_s) * scale))
        for at in range(first, last + 1):
            signs[at] = "?" if span.kind == "asking" or signs[at] == "?" else "█"
    edges = [0, *(at for at in range(1, width) if signs[at] != signs[at - 1]), width]
    styles = {"█": "good", "?": "ask", "·": "dim"}
    return tuple(Piece("".join(signs[a:b]), styles[signs[a]]) for a, b in pairwise(edges) if b > a)


def axis(end_s: float, scale_s: float, width: int, clock: str) -> StyledLine:
    """Return the axis of the bars: how long ago the left edge is, and the time now."""
    left = f"{_scale_text(scale_s)} ago"
    return (Piece(left + cell(clock, max(0, width - len(left)), right=True), "dim"),)


def _scale_text(seconds: float) -> str:
    return f"{int(seconds // 3600)}h" if seconds >= 3600 else f"{int(seconds // 60)}m"


class Cost(Struct, frozen=True):
    """The cost of one turn that ended at `at_s` (seconds since 1970). `usd` is None if the cost is unknown; with
    `is_estimate`, `usd` is computed from list prices."""

    at_s: float
    key: str
    usd: float | None
    is_estimate: bool
    tokens: int


class Costs:
    """The costs of the turns that the board saw end."""

    def __init__(self) -> None:
        self.known: list[Cost] = []

    def apply(self, key: str, event: AnyEvent, at_s: float) -> None:
        """Add the cost of the turn if the event ends a turn."""
        if not isinstance(event, events.TurnFinished | events.SessionIdle):
            return
        used = event.usage
        parts = (used.input_tokens, used.output_tokens, used.cached_tokens, used.cache_write_tokens)
        usd, is_estimate = event.cost_usd, False
        if usd is None and event.model is not None:
            usd, is_estimate = estimated_usd(event.model, used), True
        self.known.append(Cost(at_s, key, usd, is_estimate, sum(part or 0 for part in parts)))
        del self.known[:-_KEPT_COSTS]

    def sparkline(self, begin_s: float, end_s: float, width: int) -> tuple[str, float]:
        """Return a text of `width` bars, one for each part of the time from begin to end, and the amount (USD) of the
        highest bar."""
        sums = [0.0] * max(1, width)
        for cost in self.known:
            if cost.usd and begin_s <= cost.at_s <= end_s:
                at = min(len(sums) - 1, int((cost.at_s - begin_s) / (end_s - begin_s) * len(sums)))
                sums[at] += cost.usd
        return sparkline_of(sums), max(sums)

    def by_key(self, begin_s: float) -> dict[str, tuple[float, int, bool]]:
        """Return the sums since `begin_s` of each row: USD, tokens, whether an estimate is among them."""
        found: dict[str, tuple[float, int, bool]] = {}
        for cost in self.known:
            if cost.at_s >= begin_s:
                usd, tokens, is_estimate = found.get(cost.key, (0.0, 0, False))
                found[cost.key] = (usd + (cost.usd or 0), tokens + cost.tokens, is_estimate or cost.is_estimate)
        return found


def sparkline_of(sums: Sequence[float]) -> str:
    """Return a bar for each sum, full for the highest, a blank for zero."""
    most = max(sums, default=0.0)
    if not most:
        return " " * len(sums)
    return "".join(" " if not each else _BARS[min(7, int(each / most * 7.999))] for each in sums)


def cost_line(name: str, usd: float, tokens: int, most: float, width: int, *, is_estimate: bool) -> StyledLine:
    """Return one line of the costs: name, sums, and a bar relative to `most`."""
    amount = money(usd, is_estimate=is_estimate)
    space = max(0, width - 16 - 11 - 9 - 2)
    filled = round(space * usd / most) if most else 0
    return (
        Piece(cell(name, 16), "name"),
        Piece(cell(amount, 11, right=True) + cell(count(tokens), 9, right=True) + "  "),
        Piece("█" * min(space, filled), "good"),
    )
