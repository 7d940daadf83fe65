"""The contract of a CLI's own session files: where they are, and how one of them becomes events.

An adapter whose CLI stores its sessions in files has a module `sessions` with the names in `Sessions`. That module
knows the CLI's format. It opens no files, starts no processes and has no clock: it gets the content of a file and
returns events. The content of a file is untrusted, so no instruction in it is followed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct, structs

from beam.agents.base import json_object, raw_json
from beam.agents.fields import Object
from beam.agents.figures import sum_costs
from beam.base.clock import parse_rfc3339, rfc3339
from beam.model import events
from beam.model.events import Event, PermissionDecision
from beam.model.outcome import Usage, without_impossible_figures

MOST_ROWS = 4_000
NOT_JSON = "not JSON"
_MAX_KEYS = 10_000  # more than two pages of rows, because a page begins with the end of the one before
_MAX_SHARED = 200_000
_NAME = 60  # characters of a type's name
_ODD = re.compile(r"[^\w .,:/$-]")
_YEAR_10000_MS = 253_402_300_800_000


class SessionFiles(Struct, frozen=True, kw_only=True):
    """Where a CLI keeps its sessions, and in which form.

    `folder` begins with HOME or an XDG variable. If the variable `moved_by` is set, its value replaces the folder. The
    files are in the subfolder `below`, and `name` is a regular expression for their paths relative to that subfolder.
    Files in the subfolder `archive` have the same names. `like` is a regular expression for the paths of further files
    that are sessions by their name, but have a form that beam can't read. `beside` is the path, relative to the folder
    of the session's file, of another file with more facts about the session. `shape` is the form of a file: `lines`
    grows at its end, `document` is rewritten as a whole, `database` is SQLite. Among files of lines, `*.json` is a
    document, and `*.zst` are compressed lines. For a database, each of `query` selects at most `MOST_ROWS` rows (time
    in ms, JSON text) that are not older than `:since` (ms), and each of `history` the last rows of the session
    `:session`, the newest first; a query for tables that the database lacks is left out. A `folder` of CWD means the
    working folder of each running process of the CLI. A process whose arguments begin with one of `helpers` has no
    session. A process whose arguments begin with one of `spares` has only the session that the CLI's register names.
    `tells_asks`: the files say when the session waits for a permission. `programs` are other names of the CLI's
    program.
    """

    folder: str
    name: str
    below: str = ""
    moved_by: str = ""
    shape: Literal["lines", "document", "database"] = "lines"
    archive: str = ""
    like: str = ""
    query: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    beside: str = ""
    helpers: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()
    tells_asks: bool = False
    programs: tuple[str, ...] = ()


class Session(Struct, frozen=True, kw_only=True):
    """The facts about a session in its file.

    `root_id` is the id of the session that started this one as its subagent, "" if no session did. `member_of` is the
    name of the session's Claude team, "" if it has none.
    """

    id: str = ""
    root_id: str = ""
    cwd: str = ""
    model: str | None = None
    member_of: str = ""


class SessionReader(Protocol):
    """Reads the file of one session. `session` has the facts that are known so far; for a database, they are about the
    session of the last row."""

    session: Session

    def read(self, data: bytes) -> Sequence[Event]:
        """Return the events of one line, of one row, or of the new part of a whole document.

        Each event has a time, "" if the file names none. A record, or a part of one, that is neither told nor known to
        say nothing to a person becomes `events.Unknown`: it is counted, not told. Never raises.
        """


@runtime_checkable
class ReadsBeside(Protocol):
    """A reader that also takes the content of the file `SessionFiles.beside`."""

    def beside(self, data: bytes) -> None:
        """Record the facts in the content of the file `SessionFiles.beside`. Never raises."""


class SharedRecords:
    """The records of all files of one CLI, by their ids. A copy of a session (a fork) repeats the records of the
    original under the same ids; each record belongs to the file that told it first."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def belongs_to(self, key: str, path: str) -> bool:
        """Return whether the record belongs to this file. A new record does. Only the last 200,000 are kept."""
        owner = self._owners.setdefault(key, path)
        if len(self._owners) > _MAX_SHARED:
            del self._owners[next(iter(self._owners))]
        return owner == path


@runtime_checkable
class SharesRecords(Protocol):
    """A reader whose file may repeat the records of another file."""

    def share(self, records: SharedRecords) -> None:
        """Skip the records that belong to other files from now on."""


class Registered(Struct, frozen=True, kw_only=True):
    """One process in a CLI's register of its processes. `state` is working, idle or asking, "" if the register does not
    say; `since` is the time of the last change of the state. `start_ticks` is the start time of the process in the
    kernel's clock ticks, None if the register does not say."""

    session_id: str
    state: str = ""
    since: str = ""
    start_ticks: int | None = None


@runtime_checkable
class HasRegister(Protocol):
    """A module `sessions` whose CLI keeps a register: one file for each of its processes.

    `register` is the path of such a file, with `{pid}` in it, relative to the folder that contains
    `SessionFiles.below`.
    """

    register: str

    def registered(self, data: bytes) -> Registered | None:
        """Return what a register file, with this content, says of its session; None if the content is not
        understood."""


class ModelCall(Struct, frozen=True, kw_only=True):
    """One model call in a session's file. `prompt` is the CLI's own id of the message to which the call belongs."""

    prompt: str
    usage: Usage
    cost_usd: float | None = None


@runtime_checkable
class TellsCalls(Protocol):
    """A module `sessions` whose CLI reports the tokens of a turn only in its database.

    `calls` is a query for rows, as in `SessionFiles`. It selects the model calls of the session `:session` since
    `:since`.
    """

    calls: str

    def call(self, row: bytes) -> ModelCall | None:
        """Return the model call in this row; None for a call without figures, such as one that was stopped."""


@runtime_checkable
class TellsUsage(Protocol):
    """A module `sessions` whose CLI reports all tokens of a turn only in its session file, a file of lines."""

    def usage_since(self, lines: Sequence[bytes], since_ms: int) -> Usage:
        """Return the sum of the model calls in these lines since `since_ms`; figures are None if there are none."""


class AnswerEnd(Struct, frozen=True, kw_only=True):
    """How the model ended an answer: `length` (its token limit cut the answer off), `refused`, or `stop` (anything
    else). `at_ms` is the time in ms since the epoch, 0 if the record has none."""

    how: Literal["stop", "length", "refused"]
    at_ms: int = 0


@runtime_checkable
class TellsEnds(Protocol):
    """A module `sessions` whose files say how each answer of the model ended, for modes (`Card.ends_in_files`) whose
    own output does not say so."""

    def answer_end(self, record: bytes) -> AnswerEnd | None:
        """Return how the answer in this line, or in this row of `TellsCalls.calls`, ended; None for a record of
        anything else."""


class Sessions(Protocol):
    """The names that the module `sessions` of an adapter defines."""

    files: SessionFiles

    def reader(self, path: str) -> SessionReader:
        """Return a reader for the session file with this path."""


class EventMaker:
    """Makes the events of one session. Each turn has a prompt, then the agent's texts and calls, then the usage of the
    turn.

    An item with an id becomes an event once, however often the file repeats it.
    """

    def __init__(self) -> None:
        self._told: dict[str, None] = {}
        self._usage: dict[str, Usage] = {}
        self._cost: float | None = 0.0
        self._began = ""
        self._is_working = False

    def is_new(self, key: str) -> bool:
        """Return whether the key is new, and record it. Only the last 10,000 keys are kept."""
        if key in self._told:
            return False
        self._told[key] = None
        if len(self._told) > _MAX_KEYS:
            del self._told[next(iter(self._told))]
        return True

    def prompt(self, text: str, at: str) -> list[Event]:
        """Begin a turn, and return the event of its prompt. A turn without an end goes on, with its figures."""
        if not self._is_working:
            self._usage, self._cost, self._began = {}, 0.0, at
        self._is_working = True
        return [events.SessionPrompted(ts=at, text=text)] if text.strip() else []

    def text(self, text: str, at: str, parent: str | None = None) -> list[Event]:
        """Return the event of a piece of the answer."""
        self._is_working = True
        return [events.Text(ts=at, text=text, parent=parent)] if text.strip() else []

    def thinking(self, text: str, at: str) -> list[Event]:
        """Return the event of a piece of thinking."""
        self._is_working = True
        return [events.Thinking(ts=at, text=text)] if text.strip() else []

    def on_called(self, call_id: str, name: str, given: object, at: str) -> list[Event]:
        """Return the event of a tool call; none if the event was returned before."""
        if not self.is_new(f"called {call_id}"):
            return []
        self._is_working = True
        return [events.ToolCalled(ts=at, call_id=call_id, name=name, input=raw_json(given))]

    def on_returned(self, call_id: str, output: str, at: str, *, is_error: bool) -> list[Event]:
        """Return the event of a tool's result; none if the event was returned before."""
        if not self.is_new(f"returned {call_id}"):
            return []
        return [events.ToolReturned(ts=at, call_id=call_id, output=output, is_error=is_error)]

    def on_asked(self, ask_id: str, tool: str, given: object, at: str, *, call_id: str | None = None) -> list[Event]:
        """Return the event of a request for a permission; none if the event was returned before."""
        if not self.is_new(f"asks {ask_id}"):
            return []
        return [events.PermissionAsked(ts=at, ask_id=ask_id, tool=tool, input=raw_json(given), call_id=call_id)]

    def on_decided(self, ask_id: str, at: str, *, decision: PermissionDecision) -> list[Event]:
        """Return the event of the decision on a reported request; none if the event was returned before."""
        if f"asks {ask_id}" not in self._told or not self.is_new(f"decided {ask_id}"):
            return []
        return [events.PermissionDecided(ts=at, ask_id=ask_id, decision=decision, by="its person")]

    def count_call(self, reply_id: str, usage: Usage, cost_usd: float | None = None) -> None:
        """Count a model call. Later token figures of the same call replace earlier ones; costs are added up.

        The turn's cost is unknown if a call has no cost, or if it is 0: CLIs report 0 for a model without a price.
        """
        self._usage[reply_id] = usage
        self._cost = None if self._cost is None or cost_usd is None else sum_costs((self._cost, cost_usd))

    def end_turn(self, at: str, model: str | None, *, why: str = "", usage: Usage | None = None) -> list[Event]:
        """End the running turn, and return its event; none if no turn runs. `usage` replaces the sum of the counted
        calls."""
        if not self._is_working:
            return []
        self._is_working = False
        total = usage or Usage()
        for one in self._usage.values() if usage is None else ():
            total = total.plus(one)
        began, self._began = self._began, ""
        seconds = None
        if began and at:
            seconds = max(0.0, (parse_rfc3339(at) - parse_rfc3339(began)) / 1e9)
        found = events.SessionIdle(
            ts=at, usage=total, cost_usd=self._cost or None, model=model, duration_s=seconds, reason=why
        )
        self._usage, self._cost = {}, 0.0
        return [without_impossible_figures(found)[0]]


class RecordReader:
    """The base of the readers (`SessionReader`) whose records are JSON objects. A subclass defines `on_record`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._maker = EventMaker()

    def read(self, data: bytes) -> Sequence[Event]:
        """Return the events of one record."""
        value = json_object(data)
        return no_record(data) if value is None else self.on_record(value)

    def on_record(self, value: Object) -> Sequence[Event]:
        """Return the events of one record, which is a JSON object."""
        raise NotImplementedError

    def _know(self, **facts: str | None) -> None:
        """Add these facts about the session to those that are known. An empty one replaces none."""
        self.session = structs.replace(self.session, **{name: fact for name, fact in facts.items() if fact})


def no_record(data: bytes) -> list[Event]:
    """Return the event of a line that is no JSON object; none for a blank line."""
    return [events.Unknown(what=NOT_JSON)] if data.strip() else []


def unknown_type(name: str, known: frozenset[str] | tuple[str, ...] = ()) -> list[Event]:
    """Return the event of a record of a type that the reader does not know; none for a type in `known`, which says
    nothing to a person."""
    if name in known:
        return []
    return [events.Unknown(what=f"type {_ODD.sub('?', name[:_NAME])}" if name else "no type")]


def time_from_text(text: str) -> str:
    """Return an RFC 3339 time in the form that events use, "" for anything else."""
    try:
        return rfc3339(parse_rfc3339(text)) if text else ""
    except (ValueError, OverflowError):
        return ""


def ms_from_text(text: str) -> int:
    """Return an RFC 3339 time in milliseconds since the epoch, 0 for anything else."""
    try:
        return parse_rfc3339(text) // 1_000_000 if text else 0
    except (ValueError, OverflowError):
        return 0


def time_from_ms(value: object) -> str:
    """Return a time in milliseconds since the epoch in the form that events use, "" for anything else."""
    if isinstance(value, int | float) and 0 < value < _YEAR_10000_MS:
        return rfc3339(int(value) * 1_000_000)
    return ""
