"""Tool calls and their results, one line each: each call is kept until its result arrives.

The beginning of a call is printed only if the call runs for long. Does not depend on streams, colours or clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from beam import Event, Unfinished, durations, events
from beam.cli.render.text import one_line

LASTS_S = 2.0
_KEPT = 2_000
_TELLING_KEYS = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt", "text")
_GOES_ON = (events.Text, events.Thinking, events.TurnFinished, events.MemberIdle)

Key = tuple[str, str]


class Call(Struct):
    """One call; `is_printed` once its beginning was printed."""

    event: events.ToolCalled
    is_printed: bool = False


class Calls:
    """The calls that have not returned."""

    def __init__(self) -> None:
        self._open: dict[Key, Call] = {}

    def on_called(self, event: events.ToolCalled) -> None:
        """Record that a call began."""
        self._open[event.agent, event.call_id] = Call(event)
        if len(self._open) > _KEPT:
            del self._open[next(iter(self._open))]

    def returned(self, event: events.ToolReturned) -> events.ToolCalled | None:
        """Return the call that this result belongs to; None if its beginning was not seen."""
        call = self._open.pop((event.agent, event.call_id), None)
        return call.event if call is not None else None

    def last_of(self, agent: str) -> events.ToolCalled | None:
        """Return the call that this agent made last, of those that have not returned."""
        return next((call.event for key, call in reversed(self._open.items()) if key[0] == agent), None)

    def before(self, event: Event) -> list[events.ToolCalled]:
        """Return the calls to print before this event: they run for long, or their agent continues."""
        parent = getattr(event, "parent", None)
        own = (event.agent, event.call_id) if isinstance(event, events.ToolReturned) else None
        due = []
        for key, call in self._open.items():
            is_parent = key == (event.agent, parent)
            is_left = isinstance(event, _GOES_ON) and key[0] == event.agent and call.event.parent == parent
            if not call.is_printed and key != own and (is_parent or is_left or lasts(call.event, event.ts)):
                due.append(call)
        return _mark_printed(due)

    def due(self, now: str) -> list[events.ToolCalled]:
        """Return the calls that have run for long at that time (RFC 3339)."""
        return _mark_printed([call for call in self._open.values() if not call.is_printed and lasts(call.event, now)])

    def rest(self) -> list[events.ToolCalled]:
        """Return the calls that were not printed yet."""
        return _mark_printed([call for call in self._open.values() if not call.is_printed])


def _mark_printed(calls: list[Call]) -> list[events.ToolCalled]:
    for call in calls:
        call.is_printed = True
    return [call.event for call in calls]


def lasts(call: events.ToolCalled, now: str) -> bool:
    """Return whether the call has been running for long."""
    return (seconds_between(call.ts, now) or 0.0) >= LASTS_S


def seconds_between(begin: str, end: str) -> float | None:
    """Return the seconds between two events; None if one of them has no time."""
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    except ValueError:
        return None


def took(call: events.ToolCalled, result: events.ToolReturned) -> str:
    """Return how long the call took, as text for people."""
    seconds = seconds_between(call.ts, result.ts)
    return durations.show(seconds) if seconds is not None and seconds >= 0.001 else ""


def what(call: events.ToolCalled) -> str:
    """Return the tool and the most telling part of its input."""
    return brief_call(call.name, bytes(call.input))


def given(call: events.ToolCalled) -> str:
    """Return the most telling part of a call's input."""
    return _brief_input(bytes(call.input))


def brief_call(name: str, input: bytes) -> str:
    """Return a call's tool and the most telling part of its input."""
    return f"{name} {_brief_input(input)}".rstrip()


def brief(doing: str) -> str:
    """Return the tool and input of a `doing` text of `beam team show --json`, on one line."""
    name, _, given = doing.partition(" ")
    return f"{name} {_brief_input(given.encode())}".rstrip() if given.startswith("{") else doing


def undone(works: Sequence[Unfinished]) -> str:
    """Return what a turn left undone, and how the CLI says it ended, on one line; "" if it left nothing."""
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
