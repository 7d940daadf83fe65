"""Stores tool calls until their results arrive, so that a call and its result are printed on one line.

The beginning of a call is printed separately only if the call runs for long or the agent continues meanwhile. This
module does not depend on streams, colours or clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from beam import Event, Unfinished, durations, events
from beam.cli.render.text import one_line

LONG_CALL_S = 2.0
_MAX_CALLS = 2_000
_TELLING_KEYS = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt", "text")
_CONTINUING_EVENTS = (events.Text, events.Thinking, events.TurnFinished, events.MemberIdle)

CallKey = tuple[str, str]


class Call(Struct):
    """One tool call. `is_printed` is true once the call's beginning was printed."""

    event: events.ToolCalled
    is_printed: bool = False


class Calls:
    """The tool calls that have not returned yet."""

    def __init__(self) -> None:
        self._open: dict[CallKey, Call] = {}

    def on_called(self, event: events.ToolCalled) -> None:
        """Record that a call began."""
        self._open[event.agent, event.call_id] = Call(event)
        if len(self._open) > _MAX_CALLS:
            del self._open[next(iter(self._open))]

    def take_returned(self, event: events.ToolReturned) -> events.ToolCalled | None:
        """Remove and return the call that this result belongs to; None if the beginning of the call was not seen."""
        call = self._open.pop((event.agent, event.call_id), None)
        return call.event if call is not None else None

    def last_of(self, agent: str) -> events.ToolCalled | None:
        """Return the latest call of this agent that has not returned; None if there is none."""
        return next((call.event for key, call in reversed(self._open.items()) if key[0] == agent), None)

    def due_before(self, event: Event) -> list[events.ToolCalled]:
        """Return the calls to print before this event, and mark them as printed: calls that have run for long, and
        calls whose agent continues although they have not returned."""
        parent = getattr(event, "parent", None)
        own = (event.agent, event.call_id) if isinstance(event, events.ToolReturned) else None
        due = []
        for key, call in self._open.items():
            is_parent = key == (event.agent, parent)
            is_left = isinstance(event, _CONTINUING_EVENTS) and key[0] == event.agent and call.event.parent == parent
            if not call.is_printed and key != own and (is_parent or is_left or is_long(call.event, event.ts)):
                due.append(call)
        return _mark_printed(due)

    def due(self, now: str) -> list[events.ToolCalled]:
        """Return the calls that have run for long at the time `now` (RFC 3339) and were not printed yet, and mark them
        as printed."""
        return _mark_printed([call for call in self._open.values() if not call.is_printed and is_long(call.event, now)])

    def due_at_end(self) -> list[events.ToolCalled]:
        """Return the calls that were not printed yet, and mark them as printed."""
        return _mark_printed([call for call in self._open.values() if not call.is_printed])


def _mark_printed(calls: list[Call]) -> list[events.ToolCalled]:
    for call in calls:
        call.is_printed = True
    return [call.event for call in calls]


def is_long(call: events.ToolCalled, now: str) -> bool:
    """Return whether the call has run for long (2 seconds) at the time `now` (RFC 3339)."""
    return (seconds_between(call.ts, now) or 0.0) >= LONG_CALL_S


def seconds_between(begin: str, end: str) -> float | None:
    """Return the seconds between two times (RFC 3339); None if one of them is not a valid time."""
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    except ValueError:
        return None


def duration_text(call: events.ToolCalled, result: events.ToolReturned) -> str:
    """Return how long the call took, as text for people; "" if this is unknown or less than a millisecond."""
    seconds = seconds_between(call.ts, result.ts)
    return durations.show(seconds) if seconds is not None and seconds >= 0.001 else ""


def call_text(call: events.ToolCalled) -> str:
    """Return the tool of a call and the most telling part of the call's input."""
    return brief_call(call.name, bytes(call.input))


def telling_input(call: events.ToolCalled) -> str:
    """Return the most telling part of a call's input."""
    return _brief_input(bytes(call.input))


def brief_call(name: str, input: bytes) -> str:
    """Return a tool's name and the most telling part of the input of a call."""
    return f"{name} {_brief_input(input)}".rstrip()


def brief_doing(doing: str) -> str:
    """Return the tool and input of a `doing` text of `beam team show --json`, on one line."""
    name, _, given = doing.partition(" ")
    return f"{name} {_brief_input(given.encode())}".rstrip() if given.startswith("{") else doing


def unfinished_line(works: Sequence[Unfinished]) -> str:
    """Return one line that names the work which a turn left unfinished, and says how each piece ended according to the
    CLI; "" if there is no such work."""
    phrases = [
        f"{one_line(f'{work.tool} {_brief_input(bytes(work.input))}'.rstrip(), 100)} ({work.how})" for work in works
    ]
    return f"unfinished when its turn ended: {', '.join(phrases)}" if phrases else ""


def _brief_input(data: bytes) -> str:
    try:
        value = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        return data.decode(errors="replace")
    if isinstance(value, dict):
        alone = next(iter(value.values())) if len(value) == 1 else None
        telling = next((value[key] for key in _TELLING_KEYS if isinstance(value.get(key), str) and value[key]), alone)
        value = telling if isinstance(telling, str | int | float) else value
    return "" if value in (None, {}, []) else value if isinstance(value, str) else msgspec.json.encode(value).decode()
