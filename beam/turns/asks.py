"""What a running agent asks, and what it is asked.

An ask is a request for permission. It is created once, and stays open until a rule of the turn, a person or the clock
decides it, or it is cancelled. A face creates an ask, waits until it is settled, and acts on the decision; the holder
delivers decisions and checks the timeouts. A call is a request that only the agent's process can answer, such as a
change of its model. It is forwarded when the process can take it, and answered exactly once, by a deadline, even if the
process ends. Does not depend on how the agent gets an answer, on who may decide, or on the source of a call.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from beam.agents.base import HasRules, Verdict, raw_json
from beam.base import durations
from beam.base.clock import Clock, rfc3339
from beam.base.errors import NotFoundError, UnsupportedError
from beam.model import events
from beam.model.message import new_id
from beam.model.outcome import BY_DEFAULT, BY_RULE, Denial, Status
from beam.rules.rule import ToolCall
from beam.rules.ruleset import Ruling
from beam.turns.input import TurnInput, folder_of
from beam.turns.request import Record, TurnRequest

if TYPE_CHECKING:
    from beam.agents.link import AnsweredIntent
    from beam.rules.match import AgentPlace


JSON_NULL, EMPTY_JSON_LIST = Raw(b"null"), Raw(b"[]")
DECIDED_BY_DEFAULT = BY_DEFAULT
_NS_PER_S = 1_000_000_000


class Decision(Struct, frozen=True, kw_only=True):
    """The answer to an ask. `by` is who decided. `message` is a text for the agent, "" for none. `always`: similar
    calls are allowed for the rest of the session. `stop`: the turn ends. `input` is the input that is allowed in place
    of the requested input, None if it is unchanged."""

    decision: Literal["allow", "deny"]
    by: str
    message: str = ""
    always: bool = False
    stop: bool = False
    input: Raw | None = None


class AcceptedAnswers(Struct, frozen=True, kw_only=True):
    """The answers that an ask accepts besides a plain denial. `allow`: it can be allowed (False if beam does not know
    how). `always`: it can be allowed for the rest of the session. `message`: a denial can have a message. `changes`: an
    approval can change the input."""

    allow: bool = True
    always: bool = False
    message: bool = False
    changes: bool = False


class Ask:
    """One ask. It is settled once `decision` is set, or `cancelled` (the reason). It expires at `until` (monotonic
    seconds), also if somebody sets the machine's clock."""

    def __init__(self, asked: events.PermissionAsked, takes: AcceptedAnswers, until: float) -> None:
        self.asked = asked
        self.takes = takes
        self.until = until
        self.decision: Decision | None = None
        self.cancelled: str | None = None
        self._settled = asyncio.Event()

    @property
    def id(self) -> str:
        return self.asked.ask_id

    @property
    def is_settled(self) -> bool:
        return self._settled.is_set()

    async def wait(self) -> Decision | None:
        """Return the decision once it is made; None once the ask is cancelled."""
        await self._settled.wait()
        return self.decision

    def settle(self, decision: Decision | None, cancelled: str | None = None) -> None:
        """Close the ask: with this decision, or as cancelled for the reason `cancelled`."""
        self.decision, self.cancelled = decision, cancelled
        self._settled.set()


class Asks:
    """The asks of one turn. `limit` is how many seconds an ask may stay open; after that it is denied by default."""

    def __init__(self, agent: str, record: Record, clock: Clock, limit: float) -> None:
        self.denials: list[Denial] = []
        self.always: list[str] = []  # the ids of the asks that a person allowed for the rest of the session
        self._agent = agent
        self._record = record
        self._clock = clock
        self._limit = limit
        self._open: dict[str, Ask] = {}
        self._over: dict[str, str] = {}  # by id: how each closed ask ended, in words

    @property
    def are_open(self) -> bool:
        """Return whether the turn waits for a decision. Meanwhile its idle timeout does not run."""
        return bool(self._open)

    def ask(
        self,
        tool: str,
        *,
        input: Raw = JSON_NULL,
        description: str = "",
        call_id: str | None = None,
        suggestions: Raw = EMPTY_JSON_LIST,
        takes: AcceptedAnswers = AcceptedAnswers(),
        waits: bool = True,
    ) -> Ask:
        """Create an ask, record it on disk, and return it.

        `waits`: a person may decide the ask; otherwise beam decides it immediately. `takes` are the answers that it
        accepts.
        """
        now = self._clock.now_ns()
        expires_ns = now + int(self._limit * _NS_PER_S)
        body = events.PermissionAsked(
            ask_id=new_id(self._agent, now, self._clock.random(4)),
            tool=tool,
            input=input,
            description=description,
            call_id=call_id,
            suggestions=suggestions,
            expires=rfc3339(expires_ns) if waits else None,
        )
        ask = Ask(body, takes, self._clock.monotonic() + self._limit)
        self._open[ask.id] = ask
        self._record(body, sync=True)
        return ask

    def decide(self, ask_id: str, decision: Decision) -> None:
        """Record the decision on disk, and wake whoever waits for it.

        Raises NotFoundError if no ask of this turn with that id is open, and UnsupportedError for an answer that the
        agent does not accept.
        """
        ask = self._open.get(ask_id)
        if ask is None:
            over = self._over.get(ask_id, "")
            raise NotFoundError(f"no ask {ask_id} is open{over}", "beam asks", subject=ask_id)
        if decision.decision == "allow" and not ask.takes.allow:
            raise UnsupportedError(f"{ask_id} can only be answered on the agent's own screen", subject=ask_id)
        if decision.always and not ask.takes.always:
            raise UnsupportedError(f"{self._agent} does not offer to allow this always", subject=ask_id)
        if decision.message and not ask.takes.message:
            raise UnsupportedError(
                f"{self._agent} takes no reason for a denial: deny it without a message", subject=ask_id
            )
        if decision.input is not None and not ask.takes.changes:
            raise UnsupportedError(
                f"{self._agent} runs what it asked for or nothing: approve that, or deny it with what to do instead",
                subject=ask_id,
            )
        self._record_decision(ask, decision, decision.message)
        if decision.always and decision.decision == "allow":
            self.always.append(ask_id)

    def deny_by_default(self, ask: Ask, why: str) -> None:
        """Deny the ask, because nobody decided it. `why` is the reason that the journal records."""
        self._record_decision(ask, Decision(decision="deny", by=DECIDED_BY_DEFAULT), why)

    def apply_ruling(self, ask: Ask, ruling: Ruling) -> None:
        """Record a rule's decision on this ask on disk, and settle it."""
        verb: Literal["allow", "deny"] = "allow" if ruling.behavior == "allow" else "deny"
        reason = f"denied by the rule {ruling.text} of {ruling.whose}" if verb == "deny" and ask.takes.message else ""
        self._record_decision(ask, Decision(decision=verb, by=BY_RULE, message=reason), "", ruling)

    def _record_decision(self, ask: Ask, decision: Decision, why: str, ruling: Ruling | None = None) -> None:
        del self._open[ask.id]
        verb = "allowed" if decision.decision == "allow" else "denied"
        self._over[ask.id] = f": it was {verb} by {decision.by}"
        decided = events.PermissionDecided(
            ask_id=ask.id,
            decision=decision.decision,
            by=decision.by,
            why=why,
            rule=ruling.text if ruling is not None else "",
            whose=ruling.whose if ruling is not None else "",
            input=UNSET if decision.input is None else decision.input,
        )
        self._record(decided, sync=True)
        if decision.decision == "deny":
            asked = ask.asked
            input = asked.input
            if bytes(input) == bytes(JSON_NULL) and asked.description:
                input = raw_json({"description": asked.description})
            denial = Denial(tool=asked.tool, call_id=asked.call_id or "", input=input, by=decision.by)
            self.denials.append(denial)
        ask.settle(decision)

    def cancel(self, ask: Ask, why: str) -> None:
        """Cancel the ask, because the decision is no longer needed."""
        if self._open.pop(ask.id, None) is not None:
            self._over[ask.id] = f": {why}"
            self._record(events.PermissionDecided(ask_id=ask.id, decision="cancelled", why=why), sync=True)
            ask.settle(None, why)

    def close(self, why: str) -> None:
        """Cancel all asks, because the turn is over."""
        for ask in list(self._open.values()):
            self.cancel(ask, why)

    def expire(self) -> None:
        """Deny the asks that were open for too long."""
        now = self._clock.monotonic()
        for ask in list(self._open.values()):
            if now >= ask.until:
                self.deny_by_default(ask, f"nobody decided within {durations.show(self._limit)}")


def with_denials(verdict: Verdict, denials: Sequence[Denial]) -> Verdict:
    """Return the verdict on a turn in which these requests were denied.

    A turn that was completed or cancelled gets another status: `denied` if one of the requests was denied by default,
    otherwise `completed`. So a denial by a person or a rule does not count, even if the agent ended its turn because of
    it.
    """
    if not denials:
        return verdict
    verdict = structs.replace(verdict, denials=(*verdict.denials, *denials))
    if verdict.status not in (Status.COMPLETED, Status.CANCELLED):
        return verdict
    first = next((denial for denial in denials if denial.by == DECIDED_BY_DEFAULT), None)
    if first is not None:
        return structs.replace(verdict, status=Status.DENIED, reason=f"{first.tool} was denied: nobody decided")
    return structs.replace(verdict, status=Status.COMPLETED, reason=None)


def ruling_on(call: ToolCall | None, input: TurnInput) -> Ruling | None:
    """Return the decision of the turn's rules on the call; None if no rule decides, or the call is unknown."""
    if call is None or not input.turn.rules.rules:
        return None
    return input.turn.rules.decide(call, place_of(input.turn.cwd, input.host.home))


def is_denied_by_rule(order: TurnRequest, denial: Denial) -> bool:
    """Return whether a rule of the turn denies the call of this denial."""
    if not order.rules.with_behavior("deny") or not isinstance(order.adapter, HasRules):
        return False
    try:
        call = order.adapter.tool_rules.call(denial.tool, msgspec.json.decode(denial.input))
    except (ValueError, RecursionError):
        return False
    place = place_of(str(folder_of(order)), order.environ.get("HOME", ""))
    ruling = order.rules.decide(call, place) if call is not None else None
    return ruling is not None and ruling.behavior == "deny"


def place_of(folder: str, home: str) -> AgentPlace:
    """Return the `AgentPlace` for matching paths, with the current state of the file system."""
    from beam.rules.match import AgentPlace  # few turns have rules

    return AgentPlace(folder, home, os.path.realpath)


CALL_TIMEOUT_S = 30.0


class CallAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a call. `code` (as in `control.done`) and `message` say why it failed; `result` is a JSON value."""

    ok: bool = True
    code: str = ""
    message: str = ""
    result: Raw = Raw(b"null")


class _WaitingCall(Struct, kw_only=True):
    """One call without an answer."""

    call: AnsweredIntent
    until: float
    answer: Callable[[CallAnswer], None]
    is_passed_on: bool = False


class AgentCalls:
    """The calls of one turn, or of a process between its turns. `takes`: the process accepts calls now. `is_closed`: it
    will never accept a call again."""

    def __init__(self, clock: Clock) -> None:
        self.takes = False
        self.is_closed = False
        self._clock = clock
        self._waiting: dict[str, _WaitingCall] = {}

    @property
    def are_open(self) -> bool:
        """Return whether a call waits for its answer."""
        return bool(self._waiting)

    def add(
        self, call: AnsweredIntent, answer: Callable[[CallAnswer], None], *, seconds: float = CALL_TIMEOUT_S
    ) -> bool:
        """Add a call. `answer` is called once with its answer, within `seconds`.

        Return False if a call with this id already waits. Raises UnsupportedError if the process accepts no calls now.
        """
        if call.id in self._waiting:
            return False
        if not self.takes:
            raise UnsupportedError(
                "the agent accepts no such request at the moment", "beam agent list", subject=call.id
            )
        self._waiting[call.id] = _WaitingCall(call=call, until=self._clock.monotonic() + seconds, answer=answer)
        return True

    def take_unforwarded(self) -> list[AnsweredIntent]:
        """Return the calls that were not forwarded yet, oldest first, and mark them as forwarded."""
        found = [waiting for waiting in self._waiting.values() if not waiting.is_passed_on]
        for waiting in found:
            waiting.is_passed_on = True
        return [waiting.call for waiting in found]

    def answer_call(self, call_id: str, answer: CallAnswer) -> bool:
        """Answer the call; return False if it no longer waits."""
        waiting = self._waiting.pop(call_id, None)
        if waiting is not None:
            waiting.answer(answer)
        return waiting is not None

    def expire(self) -> None:
        """Answer the calls that have timed out: they failed."""
        now = self._clock.monotonic()
        for call_id, waiting in list(self._waiting.items()):
            if now >= waiting.until:
                text = "the agent did not answer in time"
                self.answer_call(call_id, CallAnswer(ok=False, code="unfinished", message=text))

    def close(self, why: str) -> None:
        """Refuse new calls from now on, and answer the waiting calls: they failed, for the reason `why`."""
        self.takes, self.is_closed = False, True
        for call_id in list(self._waiting):
            self.answer_call(call_id, CallAnswer(ok=False, code="unfinished", message=why))
