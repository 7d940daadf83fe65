"""Reads the past events of one session of an agent CLI from the CLI's own files, for an agent that adopts the session.

Only the last events of a long session are returned, within the limits below. Only regular files of this user below the
CLI's own folder are read; nothing is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from msgspec import Struct, structs

from beam.agents import registry
from beam.agents.base import raw_json
from beam.agents.images import without_image_data
from beam.agents.session_files import MOST_ROWS, Session
from beam.foreign import database
from beam.foreign.places import SessionPlace, places
from beam.foreign.tail import NOTICES, Tail
from beam.foreign.unreadable import LeftOut, UnreadableError
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
    that are not included; `is_cut`: there are even more, which were not read. `unread` is the number of the records
    that could not be read, by the reason."""

    events: tuple[Event, ...] = ()
    left_out: int = 0
    is_cut: bool = False
    unread: dict[str, int] = {}


class _LastEvents:
    """Collects the events of a session, and keeps only the last ones, within the limits."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, Event]] = deque()
        self._characters = 0
        self._left_out = 0
        self.is_cut = False
        self.unread = LeftOut()

    def add(self, event: Event) -> None:
        """Add an event, and drop the oldest events if there are too many."""
        event, size = _shortened(event)
        self._events.append((size, event))
        self._characters += size
        while len(self._events) > MAX_EVENTS or self._characters > MAX_CHARACTERS:
            self._characters -= self._events.popleft()[0]
            self._left_out += 1

    def add_imported(self, event: Event) -> None:
        """Add an event of a session's file, marked as imported and without secrets, if it is part of the
        conversation."""
        if isinstance(event, _KINDS):
            event, _ = redact_event(without_image_data(structs.replace(event, imported=event.ts, ts="")))
            self.add(event)

    @property
    def past(self) -> PastEvents:
        """Return the events that are kept, and how many were dropped."""
        return PastEvents(
            events=tuple(event for _, event in self._events),
            left_out=self._left_out,
            is_cut=self.is_cut,
            unread=self.unread.counts,
        )


def past_events(adapter: str, session_id: str, *, folder: str, environ: Mapping[str, str]) -> PastEvents | None:
    """Return the last events of the session. Return None if the CLI does not keep its sessions in files, or if no file
    of that session was found.

    If several sessions have that id, the one that ran in `folder` is preferred.
    """
    if adapter not in registry.WITH_SESSIONS:
        return None
    kept, is_found = _LastEvents(), False
    for place in places(environ, [adapter]):
        read = _read_rows if place.is_database else _read_files
        is_found = read(place, session_id, folder, kept) or is_found
    return kept.past if is_found else None


def _read_files(place: SessionPlace, session_id: str, folder: str, kept: _LastEvents) -> bool:
    """Add the events of the session's files, and return whether there are any such files. A session may have several
    files in one folder. Files in another folder belong to another session with the same id; the session that ran in
    `folder` is preferred."""
    found: dict[str, list[tuple[str, Session]]] = {}
    for path, _ in place.paths():
        if session_id[:_ID_LENGTH_IN_PATHS] not in place.below(path):
            continue
        known = Tail(place, path).session_of_file()
        is_named = place.shape(path) in ("compressed", "unknown") and session_id in place.below(path)
        if (known.id == session_id and not known.root_id) or is_named:
            found.setdefault(path.rpartition("/")[0], []).append((path, known))
    here = [paths for paths in found.values() if any(known.cwd == folder for _, known in paths)]
    for path, _ in sorted((here or [*found.values(), []])[0], key=lambda one: one[0]):
        tail = Tail(place, path)
        for _, event in tail.read_to_end():
            if not isinstance(event, events.Notice) or event.code not in NOTICES:
                kept.add_imported(event)
        kept.is_cut = kept.is_cut or tail.skipped > 0
        kept.unread.update(tail.left_out.counts)
    return bool(found)


def _read_rows(place: SessionPlace, session_id: str, folder: str, kept: _LastEvents) -> bool:
    """Add the events of the session's rows, and return whether there are any, or may be some in a database that can't
    be read."""
    is_found = False
    for path, _ in place.paths():
        reader = place.reader(path)
        try:
            rows = database.rows(path, place.sessions.files.history, since_ms=0, session=session_id)
        except UnreadableError as error:
            kept.unread.add(str(error))
            is_found = True
            continue
        kept.is_cut = kept.is_cut or len(rows) >= MOST_ROWS
        for _, row in reversed(rows):
            is_found = True
            for event in reader.read(row):
                if isinstance(event, events.Unknown):
                    kept.unread.add(event.what)
                else:
                    kept.add_imported(event)
    return is_found


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
