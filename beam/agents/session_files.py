"""The contract of a CLI's own session files: where they are, and how one of them becomes events.

An adapter whose CLI keeps its sessions has a module `sessions` with the names of `Sessions`. It knows its CLI's format
and nothing of files, clocks and processes: it is given what a file holds and returns events. The content of a file is
untrusted: nothing in it is obeyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from beam.agents.base import raw_json
from beam.base.clock import parse_rfc3339, rfc3339
from beam.model import events
from beam.model.claims import taken
from beam.model.events import Event
from beam.model.outcome import Usage

_REMEMBERED = 5_000
_YEAR_10000_MS = 253_402_300_800_000


Decision = Literal["allow", "deny"] | None  # None: the request needs no answer any more


class SessionFiles(Struct, frozen=True, kw_only=True):
    """Where a CLI keeps its sessions.

    `folder` begins with HOME or an XDG variable; if the variable `moved_by` is set, its value replaces the folder. The
    files are in its subfolder `below`, and `name` is a regular expression of their paths from there. `beside` is the
    path of another file that says more of the session, from the folder of the session's file. `shape`: `lines` grow at
    their end, `document` is written anew as a whole, `database` is SQLite: `query` yields rows (time in ms, JSON text)
    that are not older than `:since` (ms), and `history` the last rows of the session `:session`, the newest first. A
    `folder` of CWD means the working folder of each running process of the CLI. A process whose arguments begin with
    one of `helpers` has no session, and one whose arguments begin with one of `spares` has only the session that the
    CLI's register names. `tells_asks`: the files say when the session waits for a permission. `programs` are other
    names of the CLI's program.
    """

    folder: str
    name: str
    below: str = ""
    moved_by: str = ""
    shape: Literal["lines", "document", "database"] = "lines"
    query: str = ""
    history: str = ""
    beside: str = ""
    helpers: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()
    tells_asks: bool = False
    programs: tuple[str, ...] = ()


class Session(Struct, frozen=True, kw_only=True):
    """What a file says of its session.

    `root_id` is the session that started this one as its subagent, "" if none did. `member_of` is the Claude team that
    it belongs to.
    """

    id: str = ""
    root_id: str = ""
    cwd: str = ""
    model: str | None = None
    member_of: str = ""


class SessionReader(Protocol):
    """One session's file as it is read. `session` is what is known so far; for a database, the session of the last
    row."""

    session: Session

    def read(self, data: bytes) -> Sequence[Event]:
        """Return the events of a line, of a row, or of what is new in a whole document.

        Each has a time, "" if the file names none. Never raises.
        """


@runtime_checkable
class ReadsBeside(Protocol):
    """A reader that also takes the content of the file `SessionFiles.beside`."""

    def beside(self, data: bytes) -> None:
        """Take the content of that file. Never raises."""


class Registered(Struct, frozen=True, kw_only=True):
    """What a CLI's register says of one of its processes. `state`: working, idle, asking, "" if it does not say.
    `start_ticks` is when the process began, as the kernel counts; None if it does not say."""

    session_id: str
    state: str = ""
    since: str = ""
    start_ticks: int | None = None


@runtime_checkable
class HasRegister(Protocol):
    """A module `sessions` whose CLI keeps a file for each of its processes.

    `register` is the path of that file, with `{pid}` in it, from the folder that contains `SessionFiles.below`.
    """

    register: str

    def registered(self, data: bytes) -> Registered | None:
        """Return what that file says; None if it is not understood."""


class ModelCall(Struct, frozen=True, kw_only=True):
    """One model call in a session's file. `prompt` is the CLI's own id of the message that it belongs to."""

    prompt: str
    usage: Usage
    cost_usd: float | None = None


@runtime_checkable
class TellsCalls(Protocol):
    """A module `sessions` whose CLI reports the tokens of a turn only in its database.

    `calls` is a query of rows as in `SessionFiles`: the model calls of the session `:session` since `:since`.
    """

    calls: str

    def call(self, row: bytes) -> ModelCall | None:
        """Return the model call in that row; None for one without figures, such as one that was stopped."""


class Sessions(Protocol):
    """The module `sessions` of an adapter."""

    files: SessionFiles

    def reader(self, path: str) -> SessionReader:
        """Return a reader for the file with this path below the folder."""


class Account:
    """Makes the events of one session: a prompt, then what the agent does, then what the turn used.

    An item with an id becomes an event once, however often the file repeats it.
    """

    def __init__(self) -> None:
        self._told: dict[str, None] = {}
        self._usage: dict[str, Usage] = {}
        self._cost: float | None = None
        self._began = ""
        self._is_working = False

    def is_new(self, key: str) -> bool:
        """Return whether this is the first time that the key is asked about."""
        if key in self._told:
            return False
        self._told[key] = None
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        return True

    def prompt(self, text: str, at: str) -> list[Event]:
        """Begin a turn."""
        self._usage, self._cost, self._began, self._is_working = {}, None, at, True
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
        """Return the event of a tool call, once."""
        self._is_working = True
        if not self.is_new(f"called {call_id}"):
            return []
        return [events.ToolCalled(ts=at, call_id=call_id, name=name, input=raw_json(given))]

    def on_returned(self, call_id: str, output: str, at: str, *, is_error: bool) -> list[Event]:
        """Return the event of a tool's result, once."""
        if not self.is_new(f"returned {call_id}"):
            return []
        return [events.ToolReturned(ts=at, call_id=call_id, output=output, is_error=is_error)]

    def asks(self, ask_id: str, tool: str, given: object, at: str, *, call_id: str | None = None) -> list[Event]:
        """Return the event of a request for a permission, once."""
        if not self.is_new(f"asks {ask_id}"):
            return []
        return [events.PermissionAsked(ts=at, ask_id=ask_id, tool=tool, input=raw_json(given), call_id=call_id)]

    def decided(self, ask_id: str, at: str, *, decision: Decision) -> list[Event]:
        """Return the event of the answer to a reported request, once."""
        if f"asks {ask_id}" not in self._told or not self.is_new(f"decided {ask_id}"):
            return []
        if decision is None:
            return [events.PermissionCancelled(ts=at, ask_id=ask_id)]
        return [events.PermissionDecided(ts=at, ask_id=ask_id, decision=decision, by="its person")]

    def count_call(self, reply_id: str, usage: Usage, cost_usd: float | None = None) -> None:
        """Count a model call; later figures of the same call replace earlier ones."""
        self._usage[reply_id] = usage
        if cost_usd is not None:
            self._cost = (self._cost or 0.0) + cost_usd

    def idle(self, at: str, model: str | None, *, why: str = "", usage: Usage | None = None) -> list[Event]:
        """End the turn, if one runs."""
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
        found = events.SessionIdle(ts=at, usage=total, cost_usd=self._cost, model=model, duration_s=seconds, reason=why)
        self._usage, self._cost = {}, None
        return [taken(found)[0]]


def when(text: str) -> str:
    """Return an RFC 3339 time in the form that events use, "" for anything else."""
    try:
        return rfc3339(parse_rfc3339(text)) if text else ""
    except (ValueError, OverflowError):
        return ""


def when_ms(value: object) -> str:
    """Return a time in milliseconds since the epoch in the form that events use, "" for anything else."""
    if isinstance(value, int | float) and 0 < value < _YEAR_10000_MS:
        return rfc3339(int(value) * 1_000_000)
    return ""
