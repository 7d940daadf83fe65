"""Tool calls and what came of them, one line each: what a call was is kept until its result is there.

A call is told when it begins only if it lasts. Must not know: streams, colours, clocks.
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
_TELLING = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt", "text")
_GOES_ON = (events.Text, events.Thinking, events.TurnFinished, events.MemberIdle)

Key = tuple[str, str]


class Call(Struct):
    """A call; `is_told` once its beginning was printed."""

    event: events.ToolCalled
    is_told: bool = False


class Calls:
    """The calls that have not returned."""

    def __init__(self) -> None:
        self._open: dict[Key, Call] = {}

    def called(self, event: events.ToolCalled) -> None:
        """A call began."""
        self._open[event.agent, event.call_id] = Call(event)
        if len(self._open) > _KEPT:
            del self._open[next(iter(self._open))]

    def returned(self, event: events.ToolReturned) -> events.ToolCalled | None:
        """The call that this is the result of; None where nobody saw it."""
        call = self._open.pop((event.agent, event.call_id), None)
        return call.event if call is not None else None

    def before(self, event: Event) -> list[events.ToolCalled]:
        """The calls whose beginning has to be told before this event is: they last, or their agent goes on."""
        parent = getattr(event, "parent", None)
        own = (event.agent, event.call_id) if isinstance(event, events.ToolReturned) else None
        told = []
        for key, call in self._open.items():
            is_parent = key == (event.agent, parent)
            is_left = isinstance(event, _GOES_ON) and key[0] == event.agent and call.event.parent == parent
            if not call.is_told and key != own and (is_parent or is_left or lasts(call.event, event.ts)):
                told.append(call)
        return _tell(told)

    def due(self, now: str) -> list[events.ToolCalled]:
        """The calls that last, at that time (RFC 3339)."""
        return _tell([call for call in self._open.values() if not call.is_told and lasts(call.event, now)])

    def rest(self) -> list[events.ToolCalled]:
        """The calls that nobody told of yet."""
        return _tell([call for call in self._open.values() if not call.is_told])


def _tell(calls: list[Call]) -> list[events.ToolCalled]:
    for call in calls:
        call.is_told = True
    return [call.event for call in calls]


def lasts(call: events.ToolCalled, now: str) -> bool:
    """Whether the call has been running for long."""
    return (seconds_between(call.ts, now) or 0.0) >= LASTS_S


def seconds_between(begin: str, end: str) -> float | None:
    """The time between two events; None where one of them has none."""
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    except ValueError:
        return None


def took(call: events.ToolCalled, result: events.ToolReturned) -> str:
    """How long the call took, for people."""
    seconds = seconds_between(call.ts, result.ts)
    return durations.show(seconds) if seconds is not None and seconds >= 0.001 else ""


def what(call: events.ToolCalled) -> str:
    """The tool and the part of its input that says most."""
    return f"{call.name} {given(call)}".rstrip()


def given(call: events.ToolCalled) -> str:
    """The part of a call's input that says most."""
    return _told(bytes(call.input))


def brief(doing: str) -> str:
    """The same of a call as `beam team show --json` has it: its tool and its input."""
    name, _, given = doing.partition(" ")
    return f"{name} {_told(given.encode())}".rstrip() if given.startswith("{") else doing


def undone(works: Sequence[Unfinished]) -> str:
    """What a turn left undone, and the CLI's word for how it ended, in one line; "" for nothing."""
    said = [f"{one_line(f'{work.tool} {_told(bytes(work.input))}'.rstrip(), 100)} ({work.how})" for work in works]
    return f"not done when its turn was over: {', '.join(said)}" if said else ""


def _told(data: bytes) -> str:
    try:
        value = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        return data.decode(errors="replace")
    if isinstance(value, dict):
        alone = next(iter(value.values())) if len(value) == 1 else None
        said = next((value[key] for key in _TELLING if isinstance(value.get(key), str) and value[key]), alone)
        value = said if isinstance(said, str | int | float) else value
    return "" if value in (None, {}, []) else value if isinstance(value, str) else msgspec.json.encode(value).decode()
