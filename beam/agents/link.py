"""The protocol side of an adapter: the messages between beam and an agent's process.

A link holds the whole conversation with one process. It takes intents of beam and lines of the process, and returns
steps, which the turn carries out in order. A link is pure: it writes nothing, waits for nothing, has no clock, and
never raises.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Raw, Struct

from beam.agents.base import Exit, Host, Launch, Turn, Verdict
from beam.model.events import Event
from beam.model.outcome import Class
from beam.rules.rule import ToolCall

# -- intents: what beam wants of the agent -----------------------------------------------------------------------------


class Prompt(Struct, frozen=True, kw_only=True):
    """Intent: run this turn. Sent only after `Ready`, and never while another turn runs."""

    turn: Turn


class Interrupt(Struct, frozen=True):
    """Intent: end the running turn, and keep the session. All open requests were decided as `cancelled` before."""


class Steer(Struct, frozen=True, kw_only=True):
    """Intent: pass a text to the running turn. One `Answered` step with the same `id` answers it. This is also true of
    `Set`, `Query` and `Act`."""

    id: str
    text: str


class Decide(Struct, frozen=True, kw_only=True):
    """Intent: answer the agent's request `key`. `cancelled`: nobody will decide the request, because the turn ends.
    `message` is a text for the agent, "" for none. `always`: the agent may do the same in this session without asking.
    `input` is the input that is allowed in place of the requested one, None if the requested input is unchanged."""

    key: str
    decision: Literal["allow", "deny", "cancelled"]
    message: str = ""
    always: bool = False
    input: Raw | None = None


class Set(Struct, frozen=True, kw_only=True):
    """Intent: change a setting of the process, such as its model."""

    id: str
    name: str
    value: str


class Query(Struct, frozen=True, kw_only=True):
    """Intent: ask the process about its state, such as its commands or how full its context is."""

    id: str
    name: str


class Act(Struct, frozen=True, kw_only=True):
    """Intent: carry out an action that is not a turn, such as reconnecting an MCP server. `given` is a JSON object with
    the arguments."""

    id: str
    name: str
    given: Raw = Raw(b"{}")


class Close(Struct, frozen=True):
    """Intent: end the process politely, because no turn follows."""


Intent = Prompt | Interrupt | Steer | Decide | Set | Query | Act | Close
AnsweredIntent = Steer | Set | Query | Act  # the intents that an `Answered` step answers

# -- steps: what there is to do ----------------------------------------------------------------------------------------


class Send(Struct, frozen=True):
    """Step: write these bytes to the process, after all bytes of earlier steps."""

    data: bytes


class Eof(Struct, frozen=True):
    """Step: close the standard input of the process, after all bytes of earlier steps are written."""


class Say(Struct, frozen=True):
    """Step: record an event of the turn."""

    event: Event


class Ready(Struct, frozen=True):
    """Step: the process can take its first prompt. Sent once."""


class Acknowledged(Struct, frozen=True):
    """Step: the agent has received the prompt. (`Over` is the step for the end of the turn.)"""


class Asked(Struct, frozen=True, kw_only=True):
    """Step: the agent waits for a decision. `Decide` refers to the request by `key`; the other fields are for the
    person or rule that decides, as in `events.PermissionAsked`. `allow`, `always`, `message` and `changes` (of the
    input) say which answers are possible besides a plain denial. `call` is the requested call in the terms of rules. If
    `call` is None, the call is unknown and no rule decides. `granted`: the access allows the call, so it is allowed
    unless a rule says otherwise."""

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
    """Step: the agent has cancelled its request `key` for a decision."""

    key: str
    why: str


class Answered(Struct, frozen=True, kw_only=True):
    """Step: the answer to the intent `id`. If the intent failed (`ok` is false), `code` and `message` say why. `result`
    is a JSON value."""

    id: str
    ok: bool = True
    code: str = ""
    message: str = ""
    result: Raw = Raw(b"null")


def failed_answer(call_id: str, why: str, *, is_late: bool = False) -> Answered:
    """Return the answer for an attempt that failed. `is_late`: nobody knows whether the attempt succeeded later."""
    return Answered(id=call_id, ok=False, code="unfinished" if is_late else "failed", message=why)


def refused_answer(call_id: str, why: str) -> Answered:
    """Return the answer to a request that this process can't carry out. Nothing was changed."""
    return Answered(id=call_id, ok=False, code="unsupported", message=why)


class Stirred(Struct, frozen=True):
    """Step: the agent began to work without a prompt, between two turns."""


class Over(Struct, frozen=True, kw_only=True):
    """Step: the turn is over, with this verdict. `fit`: the process can take another turn."""

    verdict: Verdict
    fit: bool = True


class Broken(Struct, frozen=True, kw_only=True):
    """Step: the conversation can't continue, because the process violated the protocol, did not answer in time, or
    refused something that the turn needs."""

    reason: str
    class_: Class = Class.CRASHED


Step = Send | Eof | Say | Ready | Acknowledged | Asked | Withdrawn | Answered | Stirred | Over | Broken


class Link(Protocol):
    """The conversation with one process, for the whole life of the process. `now` is the time of a monotonic clock, in
    seconds. `due` is the time at which `on_due` has to be called because a request of the protocol times out; None: no
    request can time out. `busy`: a turn runs; a turn lasts from `Prompt` to `Over`."""

    @property
    def due(self) -> float | None: ...

    @property
    def busy(self) -> bool: ...

    def open(self, now: float) -> Sequence[Step]:
        """Return the steps that begin the conversation. `Ready` comes later, once the process can take a prompt."""

    def do(self, intent: Intent, now: float) -> Sequence[Step]:
        """Return the steps that carry out the intent."""

    def line(self, line: bytes, now: float) -> Sequence[Step]:
        """Return the steps that follow from a complete line of the process, without its newline."""

    def on_due(self, now: float) -> Sequence[Step]:
        """Return the steps for requests that have timed out."""

    def end(self, exit: Exit) -> Sequence[Step]:
        """Return the steps that follow from the end of the process. If a turn was running, one of them is `Over`."""


@runtime_checkable
class ErrorListener(Protocol):
    """A link that also reads stderr, because its CLI reports some facts only there."""

    def error_line(self, line: bytes) -> None:
        """Record a line of stderr. Never raises."""


class Dialogue(Protocol):
    """The dialogue mode: one process that speaks a protocol, for one turn or for several. A module with the functions
    `launch` and `link` is a `Dialogue`."""

    def launch(self, turn: Turn, host: Host) -> Launch:
        """Return how to start a process for this turn and later turns with the same options. The `stdin` of the result
        is not used.

        Raises UnsupportedError for what this CLI can't do.
        """

    def link(self, turn: Turn, host: Host) -> Link:
        """Return a new conversation with one process; `turn` is the first turn of the process."""


@runtime_checkable
class HasDialogue(Protocol):
    """An adapter with a dialogue mode."""

    dialogue: Dialogue
