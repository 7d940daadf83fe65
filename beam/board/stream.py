"""The stream: a line for each of the last events, a date where the day changes, and a filter that a person types.

Pure: events in, lines out.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator

from msgspec import Struct

from beam import AnyEvent, Wanted, clock, events
from beam.board.names import Names
from beam.board.words import Piece, StyledLine, cell, safe_line, safe_lines
from beam.cli.render import asks as render_asks
from beam.cli.render.calls import brief_call
from beam.cli.render.days import Days, time_of_day
from beam.cli.render.event_text import is_internal, sign_and_text

KEPT_EVENTS = 5_000
_STYLES = {
    "✗": "bad",
    "!": "bad",
    "†": "bad",
    "?": "ask",
    "■": "good",
    "▶": "good",
    "←": "name",
    "⚙": "tool",
    "┊": "dim",
}
_FIELDS = ("agent", "team", "type")
_LONGEST_NAME = 24


class StreamEvent(Struct, frozen=True):
    """One event of the stream, with the key of its row, the name to show, its sign and its text."""

    event: AnyEvent
    key: str
    name: str
    sign: str
    text: str


class Filter(Struct, frozen=True):
    """A filter of the stream. An event passes if it matches `wanted`, if all `words` are in its name or text (case does
    not matter), and if its row has this `key` (an empty `key` fits every row)."""

    wanted: Wanted = Wanted()
    words: tuple[str, ...] = ()
    key: str = ""

    @property
    def is_empty(self) -> bool:
        """Return whether the filter lets every event pass."""
        return self == Filter()

    def fits(self, shown: StreamEvent) -> bool:
        """Return whether the event passes."""
        if self.key and shown.key != self.key:
            return False
        if not self.wanted.fits(shown.event):
            return False
        if not self.words:
            return True
        text = f"{shown.name} {shown.text}".casefold()
        return all(word in text for word in self.words)


def parse_filter(text: str, *, key: str = "") -> Filter:
    """Return the filter that the text describes. `agent:NAME`, `team:PART` and `type:PATTERN` do what these options of
    `beam watch` do; any other word must be in the event's name or text.

    The `key` of a row limits the filter to the events of that row.
    """
    found: dict[str, list[str]] = {name: [] for name in _FIELDS}
    words = []
    for word in text.split():
        name, colon, value = word.partition(":")
        if colon and value and name in found:
            found[name].append(value)
        else:
            words.append(word.casefold())
    wanted = Wanted(agents=tuple(found["agent"]), teams=tuple(found["team"]), types=tuple(found["type"]))
    return Filter(wanted, tuple(words), key)


def stream_event(event: AnyEvent, key: str, name: str) -> StreamEvent | None:
    """Return the event for the stream; None for an event that is not shown to people."""
    if is_internal(event):
        return None
    match event:
        case events.ToolCalled():
            sign, text = "⚙", brief_call(event.name, bytes(event.input))
        case events.ToolReturned():
            sign, text = ("✗" if event.is_error else "✓"), event.output[:500] or "returned nothing"
        case events.PermissionAsked():
            about = render_asks.request_text(event.description, bytes(event.input))
            sign, text = "?", f"asks for {event.tool}: {about}"
        case _:
            found = sign_and_text(event)
            if found is None:
                return None
            sign, text = found
    return StreamEvent(event, key, safe_line(name), sign, safe_line(text))


class Stream:
    """The last events that pass the filter, as lines: events, and dates where the day changes. `now` returns seconds
    since 1970."""

    def __init__(self, kept: int = KEPT_EVENTS, *, now: Callable[[], float] = time.time) -> None:
        self._kept = kept
        self._now = now
        self._all: deque[StreamEvent] = deque(maxlen=kept)
        self.set_filter(Filter())

    def add(self, shown: StreamEvent) -> None:
        """Add an event."""
        self._all.append(shown)
        if self.filter.fits(shown):
            self._add_line(shown)

    def set_filter(self, new: Filter) -> None:
        """Use this filter for the kept events and for new ones."""
        self.filter = new
        self.dropped = 0  # how many lines were dropped so far
        self._lines: deque[StreamEvent | str] = deque()
        self._days = Days(clock.rfc3339(int(self._now() * 1e9)))
        for shown in self._all:
            if new.fits(shown):
                self._add_line(shown)

    def _add_line(self, shown: StreamEvent) -> None:
        heading = self._days.heading(shown.event.ts)
        self._lines += [heading, shown] if heading else [shown]
        while len(self._lines) > self._kept:
            before = len(self._lines)
            date = self._lines.popleft() if isinstance(self._lines[0], str) else ""
            self._lines.popleft()
            if date and self._lines and not isinstance(self._lines[0], str):
                self._lines.appendleft(date)  # it is the date of the next event, too
            self.dropped += before - len(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, at: int) -> StreamEvent | str:
        return self._lines[at]


def draw_line(shown: StreamEvent | str, width: int, names: Names) -> StyledLine:
    """Return an event as one line of that width: when, who, and what; a date as it is."""
    if isinstance(shown, str):
        return (Piece(cell(shown, width), "dim"),)
    name = max(8, min(_LONGEST_NAME, width // 5))
    who = names.short(shown.key, name) if shown.key in names else shown.name
    style = _STYLES.get(shown.sign[:1], "")
    return (
        Piece(safe_line(time_of_day(shown.event.ts)) + " ", "dim"),
        Piece(cell(who, name) + " ", "name"),
        Piece(cell(shown.sign, 2), style),
        Piece(cell(shown.text, max(0, width - name - 12)), style if style in ("bad", "dim", "ask") else ""),
    )


def detail_lines(shown: StreamEvent) -> Iterator[str]:
    """Yield all lines about the event: its whole text, then its fields."""
    event = shown.event
    yield safe_line(f"{shown.name}  {event.__struct_config__.tag}  {event.ts}")
    yield ""
    found = sign_and_text(event)
    text = event.output if isinstance(event, events.ToolReturned) else found[1] if found is not None else ""
    if text:
        yield from safe_lines(text)
        yield ""
    data = events.encode(event)
    try:
        yield from safe_lines(json.dumps(json.loads(data), indent=2, ensure_ascii=False))
    except RecursionError:  # the input of a tool is nested as deeply as an agent likes
        yield from safe_lines(data.decode("utf-8", "replace"))
