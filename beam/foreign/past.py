"""Reads the past events of one session of an agent CLI from the CLI's own files, for an agent that adopts the session.

Only the last events of a long session are returned, within the limits below. Only regular files of this user below the
CLI's own folder are read; nothing is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from beam.agents import registry
from beam.agents.base import raw_json
from beam.agents.images import without_image_data
from beam.agents.session_files import Session
from beam.foreign import database
from beam.foreign.places import SessionPlace, places
from beam.foreign.tail import Tail
from beam.model import events
from beam.model.events import Event
from beam.secrets.redact import redact_event

MAX_EVENTS = 2_000
MAX_CHARACTERS = 4_000_000  # of all events together
LONGEST = 20_000  # characters of one text, tool call or result
_ID_LENGTH_IN_PATHS = 8  # characters: the path of a session's file has at least so many of its id
_KINDS = (
    events.SessionPrompted,
    events.Text,
    events.Thinking,
    events.ToolCalled,
    events.ToolReturned,
    events.FileChanged,
    events.PlanUpdated,
    events.Notice,
    events.SessionIdle,
)


class PastEvents(Struct, frozen=True, kw_only=True):
    """The last events of a session, marked as imported and without secrets. `left_out` is the number of earlier events
    that are not included."""

    events: tuple[Event, ...] = ()
    left_out: int = 0


class _LastEvents:
    """Collects the events of a session, and keeps only the last ones, within the limits."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, Event]] = deque()
        self._characters = 0
        self._left_out = 0

    def add(self, event: Event) -> None:
        """Add an event, and drop the oldest events if there are too many."""
        event, size = _shortened(event)
        self._events.append((size, event))
        self._characters += size
        while len(self._events) > MAX_EVENTS or self._characters > MAX_CHARACTERS:
            self._characters -= self._events.popleft()[0]
            self._left_out += 1

    @property
    def past(self) -> PastEvents:
        """Return the events that are kept, and how many were dropped."""
        return PastEvents(events=tuple(event for _, event in self._events), left_out=self._left_out)


def past_events(adapter: str, session_id: str, *, folder: str, environ: Mapping[str, str]) -> PastEvents | None:
    """Return the last events of the session. Return None if the CLI does not keep its sessions in files, or if no event
    of that session was found.

    If several sessions have that id, the one that ran in `folder` is preferred.
    """
    if adapter not in registry.WITH_SESSIONS:
        return None
    kept, is_found = _LastEvents(), False
    for place in places(environ, [adapter]):
        found = (
            _events_of_rows(place, session_id)
            if place.shape == "database"
            else _events_of_files(place, session_id, folder)
        )
        for event in found:
            is_found = True
            if isinstance(event, _KINDS):
                event, _ = redact_event(without_image_data(structs.replace(event, imported=event.ts, ts="")))
                kept.add(event)
    return kept.past if is_found else None


def _events_of_files(place: SessionPlace, session_id: str, folder: str) -> Iterator[Event]:
    """Yield the events of the session's files. A session may have several files in one folder. Files in another folder
    belong to another session with the same id; the session that ran in `folder` is preferred."""
    found: dict[str, list[tuple[str, Session]]] = {}
    for path, _ in place.paths():
        if session_id[:_ID_LENGTH_IN_PATHS] not in place.below(path):
            continue
        known = Tail(place, path).session_of_file()
        if known.id == session_id and not known.root_id:
            found.setdefault(path.rpartition("/")[0], []).append((path, known))
    if not found:
        return
    here = [paths for paths in found.values() if any(known.cwd == folder for _, known in paths)]
    for path, _ in sorted((here or list(found.values()))[0], key=lambda one: one[0]):
        for _, event in Tail(place, path).read():
            yield event


def _events_of_rows(place: SessionPlace, session_id: str) -> Iterator[Event]:
    for path, _ in place.paths():
        reader = place.reader(path)
        rows = database.rows(path, place.sessions.files.history, since_ms=0, session=session_id)
        for _, row in reversed(rows):
            yield from reader.read(row)


def _shortened(event: Event) -> tuple[Event, int]:
    """Return the event with its long texts cut, and the number of characters of these texts after the cut."""
    size = 0
    for name in ("text", "output", "reason"):
        text = getattr(event, name, None)
        if isinstance(text, str):
            event = structs.replace(event, **{name: cut(text, LONGEST)})
            size += min(len(text), LONGEST)
    if isinstance(event, events.ToolCalled):
        given = bytes(event.input)
        if len(given) > LONGEST:
            beginning = given.decode("utf-8", "replace")[:LONGEST]
            event = structs.replace(event, input=raw_json({"beam_cut": beginning}))
        size += min(len(given), LONGEST)
    return event, size


def cut(text: str, most: int) -> str:
    """Return the text, cut to `most` characters. A note at its end says how many characters are missing."""
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} more characters]"
