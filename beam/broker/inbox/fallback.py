"""Lets another model or agent answer a message that its own agent can't answer now (`policy: fallback`).

The message stays in its queue and its journal: another model of the agent runs the next attempt in the agent's session,
another agent runs it in a session of its own, with the history of the first one quoted below the prompt. So whoever
waits for the message gets the answer, and only its outcome says who gave it. Does not depend on how a turn is run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, structs

from beam.agents import registry
from beam.base.errors import BeamError, NotFoundError
from beam.broker.inbox import usage_limit
from beam.model import events
from beam.model.message import Message
from beam.model.outcome import Class, StandIn, Status
from beam.model.settings import FallbackAgent, Policy

if TYPE_CHECKING:
    from beam.broker.inbox.context import RootContext
    from beam.broker.inbox.log import AgentLog
    from beam.config.resolve import ResolvedAgent
    from beam.model.events import Event, TurnFinished
    from beam.rules.ruleset import Ruleset

_CAUSES = frozenset({Class.RATE_LIMIT, Class.OVERLOADED, Class.AUTH})
# A stand-in that can't answer for one of these reasons is followed by the next one, too.
_OF_STAND_INS = _CAUSES | {Class.BAD_REQUEST, Class.UNSUPPORTED, Class.NOT_INSTALLED, Class.NETWORK}


def stand_ins(policy: Policy, agent: str) -> list[StandIn]:
    """Return who may answer in place of this agent, in order: first its other models, then other agents. The place in
    this list, from 1, is `Message.fallback`."""
    models = [StandIn(agent=agent, model=each) for each in policy.fallback if isinstance(each, str)]
    others = [each for each in policy.fallback if isinstance(each, FallbackAgent)]
    own = [StandIn(agent=each.agent, model=each.model) for each in others if each.agent == agent and each.model]
    return [*models, *own, *(StandIn(agent=each.agent, model=each.model) for each in others if each.agent != agent)]


def next_stand_in(log: AgentLog, message: Message, finished: TurnFinished) -> int | None:
    """Return the place of whoever is to answer the message after this outcome; None if nobody is: the policy names
    nobody else, the failure is of another kind, or the agent may have begun its work."""
    used = finished.stand_in.place if finished.stand_in is not UNSET else 0
    causes = _OF_STAND_INS if used else _CAUSES
    if finished.status is not Status.FAILED or finished.class_ not in causes or not _may_stand_in(log, message):
        return None
    if _may_have_begun(log, finished):
        return None
    return used + 1 if used < len(stand_ins(log.context.config.policy, message.to)) else None


def passed_on(message: Message, finished: TurnFinished, place: int) -> Message:
    """Return the message for its next attempt, which the stand-in at this place makes."""
    attempt, limited = finished.attempt + 1, message.limited + 1
    return structs.replace(message, attempt=attempt, limited=limited, fallback=place, deadline=None)


def after_all(log: AgentLog, message: Message, finished: TurnFinished) -> tuple[Message, str] | None:
    """Return the message for its next attempt, and when that may begin (RFC 3339), if no stand-in could answer and the
    agent's own usage limit ends some time; else None."""
    limited = usage_limit.limited_account(log.context, log.context.settings_of(log.paths.agent))
    if finished.stand_in is UNSET or finished.status is not Status.FAILED or limited is None:
        return None
    return passed_on(message, finished, 0), limited.until


def _may_stand_in(log: AgentLog, message: Message) -> bool:
    """Return whether another agent could run this message: it is no command of its own CLI, and nothing is replayed."""
    return message.options.slash is not True and message.options.recording is UNSET and log.context.recordings is None


def _may_have_begun(log: AgentLog, finished: TurnFinished) -> bool:
    """Return whether the turn may have done some work. If its mode reports no tool calls, any output may hide one."""
    turn = log.state.open_turn
    if finished.worked is True or (turn is not None and turn.calls):
        return True
    try:
        card = registry.adapter(turn.adapter).card if turn is not None else None
    except BeamError:
        return True
    can = next((can for face, can in card.faces.items() if face == finished.via), None) if card is not None else None
    return can is not None and not can.tools and bool(finished.usage.output_tokens or finished.reply)


def place_at_once(log: AgentLog, message: Message, *, is_open: bool, is_limited: bool) -> int:
    """Return the place of whoever is to answer a message whose agent is not asked now, because its circuit is open or
    the usage limit of its account is reached. Return 0 if nobody else can; then the message waits."""
    if message.fallback or not (is_open or is_limited) or not _may_stand_in(log, message):
        return message.fallback
    found = stand_ins(log.context.config.policy, message.to)
    others = [place for place, each in enumerate(found, 1) if not (is_limited and _is_limited(log.context, each.agent))]
    return others[0] if others else 0


def _is_limited(context: RootContext, agent: str) -> bool:
    return usage_limit.limited_account(context, context.settings_of(agent)) is not None


def stand_in_of(log: AgentLog, message: Message) -> StandIn | None:
    """Return who answers the next attempt of this message in place of its agent, and why; None if its agent does."""
    found = stand_ins(log.context.config.policy, message.to)
    if not 0 < message.fallback <= len(found):
        return None
    return structs.replace(found[message.fallback - 1], place=message.fallback, why=_why(log, message))


def _why(log: AgentLog, message: Message) -> str:
    known, last = log.state.known.get(message.id), log.state.last
    if known is not None and known.attempt > 1 and last is not None and last.message_id == message.id:
        return f"{last.class_ or last.status}: {last.reason or ''}".rstrip(": ")
    return "circuit" if log.state.circuit_until is not None else "usage limit"


def message_for(
    log: AgentLog, message: Message, stand_in: StandIn, rules_of: Callable[[ResolvedAgent], Ruleset]
) -> Message:
    """Return the message as the stand-in gets it. `rules_of` returns the rules of the message at an agent. Another
    agent gets no wider access and no looser rules than the message had at its own agent, and the history of that
    agent."""
    options = structs.replace(message.options, model=stand_in.model or message.options.model)
    if stand_in.agent == message.to:
        return structs.replace(message, options=options)
    context = log.context
    own = context.config.resolve(message.to)
    rules = rules_of(own)
    options = structs.replace(options, model=stand_in.model, via=None, keep=UNSET)
    text = with_history(log, message.text, before=message.id)
    return structs.replace(
        message,
        to=stand_in.agent,
        at_most=context.access_for(own, message),
        rules_at_most=rules.lists if rules.rules else message.rules_at_most,
        payload=structs.replace(message.payload, text=text),
        options=options,
    )


def with_history(log: AgentLog, text: str, *, before: str, after: int = 0) -> str:
    """Return the text with a quote of this agent's history below it, without the message `before`; only the text if
    there is no history. With `after`, only events with a higher number are quoted."""
    from beam.model.hand_over import quote
    from beam.store.reader import Reader

    if log.paths.lane is not None:
        return text
    in_session = (events.SessionStarted, events.SessionLost) if after else ()
    found = (
        event
        for event in Reader(log.paths.journal, after).poll()
        if event.message_id != before and not isinstance(event, in_session)
    )
    try:
        return f"{text}\n\n{quote(log.paths.agent, found, 'recent')}"
    except NotFoundError:
        return text


Record = Callable[..., Any]


def recorder(record: Record, stand_in: StandIn, agent: str) -> Record:
    """Return a function that records the events of a turn of a stand-in in the journal of `agent`. Its outcome names
    the stand-in. The session of another agent is not recorded, because this agent goes on in its own."""
    is_other = stand_in.agent != agent

    def one(body: Event, *, sync: bool = False) -> Event:
        if is_other and isinstance(body, (events.SessionStarted, events.SessionLost)):
            return body
        if is_other and isinstance(body, events.UsageSeen):
            body = structs.replace(body, total=None)
        if isinstance(body, events.TurnFinished):
            own = {"session_id": None, "session": None, "point": UNSET} if is_other else {}
            body = structs.replace(body, stand_in=stand_in, **own)
        written: Event = record(body, sync=sync)
        return written

    return one
