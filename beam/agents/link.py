"""The protocol side of an adapter: the messages between beam and an agent's process.

A link holds the whole conversation with one process. Intents and lines go in. Steps come out, and the turn carries them
out in order. It is pure: it writes nothing, waits for nothing, has no clock, and never raises.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Raw, Struct

from beam.agents.base import Exit, Host, Launch, Turn, Verdict
from beam.model.events import Event
from beam.model.outcome import Class
from beam.rules.call import ToolCall

# -- intents: what beam wants of the agent -----------------------------------------------------------------------------


class Prompt(Struct, frozen=True, kw_only=True):
    """Take this turn. Sent only after `Ready`, and never while another turn runs."""

    turn: Turn


class Interrupt(Struct, frozen=True):
    """End the running turn, and keep the session. All open requests were decided (`cancelled`) before."""


class Steer(Struct, frozen=True, kw_only=True):
    """Pass a text to the running turn. One `Answered` with the same `id` answers it, as with `Set`, `Query` and
    `Act`."""

    id: str
    text: str


class Decide(Struct, frozen=True, kw_only=True):
    """Answer the request `key`. `cancelled`: nobody will decide it, because the turn ends. `message` is for the
    agent, "" for none; `always`: it may do the same in this session without asking; `input`: what is allowed in
    place of the requested input, None if that is unchanged."""

    key: str
    decision: Literal["allow", "deny", "cancelled"]
    message: str = ""
    always: bool = False
    input: Raw | None = None


class Set(Struct, frozen=True, kw_only=True):
    """Change a setting of the process, such as its model."""

    id: str
    name: str
    value: str


class Query(Struct, frozen=True, kw_only=True):
    """Ask the process about its state, such as its commands or how full its context is."""

    id: str
    name: str


class Act(Struct, frozen=True, kw_only=True):
    """Carry out an action that is no turn, such as reconnecting an MCP server. `given` is a JSON object."""

    id: str
    name: str
    given: Raw = Raw(b"{}")


class Close(Struct, frozen=True):
    """End the process politely: no turn follows."""


Intent = Prompt | Interrupt | Steer | Decide | Set | Query | Act | Close
Call = Steer | Set | Query | Act  # those that are answered

# -- steps: what there is to do ----------------------------------------------------------------------------------------


class Send(Struct, frozen=True):
    """Write these bytes to the process, after everything sent before."""

    data: bytes


class Eof(Struct, frozen=True):
    """Close its standard input, after everything sent before."""


class Say(Struct, frozen=True):
    """Record an event of the turn."""

    event: Event


class Ready(Struct, frozen=True):
    """The process can take its first prompt. Sent once."""


class Acknowledged(Struct, frozen=True):
    """The agent has received the prompt. (The end of the turn is `Over`.)"""


class Asked(Struct, frozen=True, kw_only=True):
    """The agent waits for a decision. `Decide` refers to it by `key`; the other fields are for whoever decides, as
    in `events.PermissionAsked`. `allow`, `always`, `message` and `changes` (of the input) say which answers are
    possible besides a plain denial. `call` is the requested call in the terms of rules; None if it is unknown, and
    then no rule decides. `granted`: the access allows it, so it is allowed unless a rule says otherwise."""

    key: str
    tool: str
    input: Raw = Raw(b"null")
    description: str = ""
    call_id: str | None = None
    suggestions: Raw = Raw(b"[]")
    allow: bool = True
    always: bool = False
    message: bool = False
    changes: bool = False
    call: ToolCall | None = None
    granted: bool = False


class Withdrawn(Struct, frozen=True, kw_only=True):
    """The agent has cancelled this request for a decision."""

    key: str
    why: str


class Answered(Struct, frozen=True, kw_only=True):
    """The answer to the intent `id`: `code` and `message` say why it failed, `result` is a JSON value."""

    id: str
    ok: bool = True
    code: str = ""
    message: str = ""
    result: Raw = Raw(b"null")


class Stirred(Struct, frozen=True):
    """The agent began to work without a prompt, between two turns."""


class Over(Struct, frozen=True, kw_only=True):
    """The turn is over, with this verdict. `fit`: the process can take another turn."""

    verdict: Verdict
    fit: bool = True


class Broken(Struct, frozen=True, kw_only=True):
    """The conversation is broken: the process violated the protocol, or did not answer in time."""

    reason: str
    class_: Class = Class.CRASHED


Step = Send | Eof | Say | Ready | Acknowledged | Asked | Withdrawn | Answered | Stirred | Over | Broken


class Link(Protocol):
    """The conversation with one process, for its whole life. `now` is the time of a monotonic clock, in seconds. `due`
    is the time at which `on_due` has to be called, because a request of the protocol times out then; None for never.
    `busy`: a turn runs, from `Prompt` to `Over`."""

    @property
    def due(self) -> float | None: ...

    @property
    def busy(self) -> bool: ...

    def open(self, now: float) -> Sequence[Step]:
        """Begin the conversation; `Ready` comes once a prompt can be taken."""

    def do(self, intent: Intent, now: float) -> Sequence[Step]:
        """Return the steps that carry the intent out."""

    def line(self, line: bytes, now: float) -> Sequence[Step]:
        """Return the steps that follow from a complete line of the process, without its newline."""

    def on_due(self, now: float) -> Sequence[Step]:
        """Return the steps for requests that have timed out."""

    def end(self, exit: Exit) -> Sequence[Step]:
        """Return the steps that follow from the end of the process; `Over`, if a prompt was in flight."""


@runtime_checkable
class ErrorListener(Protocol):
    """A link that also reads stderr, because its CLI reports some things only there."""

    def error_line(self, line: bytes) -> None:
        """Record a line of stderr. Never raises."""


class Dialogue(Protocol):
    """The dialogue mode: one process, kept or for one turn, that speaks a protocol. A module with these names satisfies
    it."""

    def launch(self, turn: Turn, host: Host) -> Launch:
        """Return how to start a process that takes this turn and others like it; its `stdin` is not used.

        Raises UnsupportedError for what this CLI can't do.
        """

    def link(self, turn: Turn, host: Host) -> Link:
        """Return a new conversation for one process; `turn` is its first."""


@runtime_checkable
class HasDialogue(Protocol):
    """An adapter with a dialogue mode."""

    dialogue: Dialogue
