"""The live side of an adapter: what passes between beam and an agent's process that speaks a protocol.

A link is the whole conversation with one process. Intents and lines go in; steps come out, which the turn carries out
in their order. It is pure: it writes nothing, waits for nothing, has no clock, and never raises.
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
    """Take this turn. There is never another one in flight, and `Ready` came before."""

    turn: Turn


class Interrupt(Struct, frozen=True):
    """End the turn that runs, and keep the session. Every open request was decided (`cancelled`) before."""


class Steer(Struct, frozen=True, kw_only=True):
    """A text for the turn that runs. It is answered by one `Answered` of the same `id`, as are `Set` and `Query`."""

    id: str
    text: str


class Decide(Struct, frozen=True, kw_only=True):
    """The answer to the request `key`. `cancelled`: nobody will decide it, because the turn ends. `message` is for the
    agent, "" for none; `always`: it may do the same in this session without asking; `input`: the input that is allowed
    instead of the requested one, None if that is unchanged."""

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
    """Tell something of the process, such as its commands or how full its context is."""

    id: str
    name: str


class Close(Struct, frozen=True):
    """No turn follows: end politely."""


Intent = Prompt | Interrupt | Steer | Decide | Set | Query | Close
Call = Steer | Set | Query  # those that are answered

# -- steps: what there is to do ----------------------------------------------------------------------------------------


class Send(Struct, frozen=True):
    """Write these bytes to the process, after all that was sent before."""

    data: bytes


class Eof(Struct, frozen=True):
    """Close its standard input, after all that was sent before."""


class Say(Struct, frozen=True):
    """An event of the turn."""

    event: Event


class Ready(Struct, frozen=True):
    """The process takes a prompt now. Said once."""


class Acknowledged(Struct, frozen=True):
    """The agent has the prompt. The turn is not over: that is `Over`."""


class Asked(Struct, frozen=True, kw_only=True):
    """The agent waits for a decision. `key` names the request to `Decide`; the rest is for who decides, as in
    `events.PermissionAsked`. `allow`, `always`, `message` and `changes` (of the input): which answers it takes besides
    a plain no. `call` is what is asked for as rules see it; null where nobody can tell, and then no rule decides."""

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


class Withdrawn(Struct, frozen=True, kw_only=True):
    """The agent does not wait for that decision any more."""

    key: str
    why: str


class Answered(Struct, frozen=True, kw_only=True):
    """What came of the call `id`: `code` and `message` say why it failed, `result` is a JSON value."""

    id: str
    ok: bool = True
    code: str = ""
    message: str = ""
    result: Raw = Raw(b"null")


class Stirred(Struct, frozen=True):
    """The agent began to work though nobody gave it a prompt."""


class Over(Struct, frozen=True, kw_only=True):
    """The turn is over, and this is what the agent says of it. `fit`: the process can take another one."""

    verdict: Verdict
    fit: bool = True


class Broken(Struct, frozen=True, kw_only=True):
    """Nothing more can be said to this process: it spoke out of turn, or did not answer in time."""

    reason: str
    class_: Class = Class.CRASHED


Step = Send | Eof | Say | Ready | Acknowledged | Asked | Withdrawn | Answered | Stirred | Over | Broken


class Link(Protocol):
    """The conversation with one process, for its whole life. `now` is a monotonic clock's seconds; `due` is when `woke`
    wants to be called, null for never: a call of the protocol that gets no answer until then is late. `busy`: a prompt
    is in flight, from `Prompt` to `Over`."""

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

    def woke(self, now: float) -> Sequence[Step]:
        """Return the steps that follow from the time."""

    def end(self, exit: Exit) -> Sequence[Step]:
        """Return the steps that follow from the end of the process; `Over`, if a prompt was in flight."""


@runtime_checkable
class ErrorListener(Protocol):
    """A link that also reads stderr, where its CLI says what its protocol leaves out."""

    def error_line(self, line: bytes) -> None:
        """Take note of a line of stderr. Never raises."""


class Dialogue(Protocol):
    """The dialogue mode: one process, kept or for one turn, that speaks a protocol. A module may be one."""

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
