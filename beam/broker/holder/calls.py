"""Forwards the requests that only the agent's process can answer: to give a text to the running turn, to change a
setting, to query something, or to carry out an action.

Each request is forwarded once: to the running turn or, between turns, to the kept process. The answer of that process
is recorded as the answer to the request. Does not depend on the protocols of agents or on the origin of requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from beam.base import typed_values
from beam.base.clock import parse_rfc3339
from beam.base.errors import NotFoundError, UnsupportedError, UsageError
from beam.model import events
from beam.turns.asks import CALL_TIMEOUT_S, CallAnswer

if TYPE_CHECKING:
    import asyncio

    from beam.agents.link import AnsweredIntent
    from beam.broker.inbox.log import AgentLog
    from beam.store.control import ControlRequest
    from beam.turns.asks import Asks
    from beam.turns.handle import Stop, TurnHandle
    from beam.turns.process import ProcessKeeper

FORWARDED_VERBS = ("steer", "set", "query", "act")
_RIGHTS_SETTINGS = ("access", "mode")  # settings whose changes are recorded in the journal
STEER_TIMEOUT_S = 600.0  # an agent reads a text when its tool has returned


class Action(Struct, frozen=True):
    """An action that the agent's process is to carry out and that is not a turn. `given` has the arguments, a JSON
    object."""

    name: str
    given: Raw = Raw(b"{}")


class RunningTurn:
    """The turn that runs under a lease. `handle` is None until its agent is started."""

    def __init__(self, message_id: str, stop: Stop) -> None:
        self.message_id = message_id
        self.stop = stop
        self.handle: TurnHandle | None = None
        self.news: asyncio.Event | None = None  # set when a request came

    @property
    def asks(self) -> Asks | None:
        """Return the asks of the turn; None before its agent is started."""
        return self.handle.asks if self.handle is not None else None


class ForwardedCalls:
    """The forwarded requests of one lease. `turn` returns the running turn, None if there is none. `on_answer` is
    called when an answer has arrived."""

    def __init__(self, log: AgentLog, keeper: ProcessKeeper, turn: Callable[[], RunningTurn | None]) -> None:
        self._log = log
        self._keeper = keeper
        self._turn = turn
        self._waiting: dict[str, AnsweredIntent] = {}
        self._answers: dict[str, CallAnswer] = {}
        self.on_answer: Callable[[], None] = _do_nothing

    def carry_out(self, request: ControlRequest) -> CallAnswer | None:
        """Forward the request on the first call, and return its answer; return None while the answer has not arrived.

        Raises NotFoundError if there is no process that can answer, UnsupportedError if the running turn is not in
        dialogue mode, UsageError if the request has expired or names no valid action.
        """
        if request.id in self._answers:
            return self._answers.pop(request.id)
        if request.id in self._waiting:
            return None
        if self._log.context.clock.now_ns() > parse_rfc3339(request.expires):
            raise UsageError("the request came too late")
        self._forward(request, _call_of(request))
        return self._answers.pop(request.id, None)

    def _forward(self, request: ControlRequest, call: AnsweredIntent) -> None:
        agent, turn, target = self._log.paths.agent, self._turn(), request.target or ""
        seconds = STEER_TIMEOUT_S if request.verb == "steer" else CALL_TIMEOUT_S
        if turn is None:
            if request.verb == "steer":
                raise NotFoundError(f"{target} is not running", f"beam send {agent}", subject=target)
            if self._keeper.process is None:
                raise NotFoundError(
                    f"no process of {agent} is kept or in a turn",
                    f"beam send {agent} --via dialogue --keep 10m …",
                    subject=agent,
                )
            self._keeper.call(call, lambda answer: self._record_answer(request, call, answer), seconds=seconds)
            self._remember_waiting(call)
            return
        if request.verb == "steer" and turn.message_id != target:
            raise NotFoundError(f"{target} is not running", f"beam status {agent}", subject=target)
        open_turn = self._log.state.open_turn
        via = open_turn.via if open_turn is not None else "dialogue"
        if via != "dialogue":
            raise UnsupportedError(
                f"a turn of {agent} in {via} mode takes no such request", "beam send --via dialogue can", subject=agent
            )
        calls = turn.handle.calls if turn.handle is not None else None
        if calls is None or not (calls.takes or calls.is_closed):
            return  # the turn begins: the next poll forwards the request
        if calls.add(call, lambda answer: self._record_answer(request, call, answer), seconds=seconds):
            self._remember_waiting(call)

    def _turn_number(self) -> int | None:
        open_turn = self._log.state.open_turn
        return None if open_turn is None else open_turn.turn

    def _remember_waiting(self, call: AnsweredIntent) -> None:
        if call.id not in self._answers:
            self._waiting[call.id] = call

    def _record_answer(self, request: ControlRequest, call: AnsweredIntent, answer: CallAnswer) -> None:
        from beam.agents.link import Set

        self._waiting.pop(call.id, None)
        self._answers[call.id] = answer
        if isinstance(call, Set) and answer.ok:
            if request.always or call.name == "access":  # a turn with other rights needs another process
                self._keeper.record_setting(call.name, call.value)
            if call.name in _RIGHTS_SETTINGS:
                text = f"{call.name} is {call.value} in the running process: set by {request.sender}"
                self._log.record(events.Notice(code="live_set", text=text), turn=self._turn_number())
        self.on_answer()


def _call_of(request: ControlRequest) -> AnsweredIntent:
    from beam.agents.link import Act, Query, Set, Steer

    text = request.text or ""
    if request.verb == "steer":
        return Steer(id=request.id, text=text)
    if request.verb == "query":
        return Query(id=request.id, name=text)
    if request.verb == "act":
        try:
            wanted = typed_values.decode(text, Action)
        except (ValueError, RecursionError) as error:
            raise UsageError("the request names nothing that could be done") from error
        return Act(id=request.id, name=wanted.name, given=wanted.given)
    name, _, value = text.partition("=")
    return Set(id=request.id, name=name, value=value)


def _do_nothing() -> None:
    """Do nothing: the default for `on_answer`."""
