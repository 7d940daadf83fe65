"""Makes the first and the last event of a turn: its start, and its outcome from the verdict and beam's own knowledge.

Starts and writes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec

from beam.agents.base import Capabilities, Face, Verdict
from beam.base import durations
from beam.base.errors import BeamError, LimitError, NotFoundError, ShortageError, UnsupportedError
from beam.model import events
from beam.model.events import TurnFinished, TurnStarted
from beam.model.outcome import Class, SessionNote, Status, exit_code
from beam.model.policy import is_answer
from beam.model.rule_lists import RuleLists
from beam.secrets.redact import redact_event
from beam.turns import denied
from beam.turns.answer import require_answer
from beam.turns.choice import max_access_of_messages
from beam.turns.login import login_link_in
from beam.turns.replay import REPLAY_VIA
from beam.turns.request import TurnRequest
from beam.turns.ruled import is_denied_by_rule
from beam.turns.stop import Stop

STRUCTURED_EVIDENCE = frozenset({"history", "osc"})  # by these the agent itself reports the state of its turn


def turn_started_event(order: TurnRequest, via: str, why: str | None) -> TurnStarted:
    """Return the event with which the turn begins.

    `via` is its mode, or the requested mode if none could be chosen. `why` says why `auto` chose it.
    """
    return TurnStarted(
        attempt=order.message.attempt,
        owner=order.owner,
        turn_key=order.turn_key,
        adapter=order.adapter_name,
        via=via if order.recorded is None else REPLAY_VIA,
        why=why,
        at_most=max_access_of_messages(order),
        rules=_rules_to_report(order),
    )


def refusal_verdict(error: BeamError) -> Verdict:
    """Return the verdict on a turn that beam could not start: `limit`, or `failed` with a class."""
    if isinstance(error, LimitError):
        return Verdict(status=Status.LIMIT, reason=str(error))
    by_type = {
        UnsupportedError: Class.UNSUPPORTED,
        NotFoundError: Class.NOT_INSTALLED,
        ShortageError: Class.UNKNOWN,
    }
    class_ = next((word for kind, word in by_type.items() if isinstance(error, kind)), Class.BAD_REQUEST)
    if isinstance(error, NotFoundError) and error.kind != "not_installed":
        class_ = Class.BAD_REQUEST
    return Verdict(status=Status.FAILED, class_=class_, reason=str(error))


def require_structured_evidence(verdict: Verdict) -> Verdict:
    """Return the verdict for a sender that requires structured evidence. Text from a screen does not count as an answer
    then."""
    if not is_answer(verdict.status) or verdict.evidence in STRUCTURED_EVIDENCE:
        return verdict
    known = f"only its {verdict.evidence} said" if verdict.evidence is not None else "nothing said"
    return msgspec.structs.replace(
        verdict,
        status=Status.FAILED,
        class_=Class.UNSUPPORTED,
        reason=f"{known} that the turn was over, and structured evidence was required; `beam log` has what it wrote",
        reply=None,
    )


def outcome_to_record(
    order: TurnRequest,
    verdict: Verdict,
    stop: Stop,
    face: Face | None,
    duration_s: float,
    *,
    why: str | None = None,
    heard: Sequence[str] = (),
    worked: bool = False,
) -> TurnFinished:
    """Return the outcome in the form that is recorded: with a login link if one is needed, and without secrets.

    An answer without the evidence that the sender requires becomes a failure. So does a success without an answer, if
    the turn asked a model; `worked`: an event of the turn was work (`answer.is_work`). `heard` are the CLI's texts that
    may contain the link.
    """
    verdict = denied.mark_rule_denials(verdict, functools.partial(is_denied_by_rule, order))  # may make it a success
    if _asks_model(order):
        ends_at_denial = face in order.adapter.card.ends_at_denial
        verdict = require_answer(verdict, order.adapter_name, worked=worked, ends_at_denial=ends_at_denial)
    if order.message.options.require == "structured" and face == "terminal":
        verdict = require_structured_evidence(verdict)
    outcome = msgspec.structs.replace(outcome_from_verdict(order, verdict, stop, face, duration_s), why=why)
    if worked and outcome.status is not Status.COMPLETED:
        outcome = msgspec.structs.replace(outcome, worked=True)
    link = login_link_in((outcome.reason or "", *reversed(heard))) if outcome.class_ is Class.AUTH else None
    if link is not None:
        outcome = msgspec.structs.replace(outcome, login_url=link)
    finished, blanked = redact_event(outcome)
    return msgspec.structs.replace(finished, redacted=blanked)


def _asks_model(order: TurnRequest) -> bool:
    """Return whether a model answers this turn. The CLI itself answers a command, and a recording what it replays."""
    return order.adapter.card.asks_model and order.recorded is None and not _is_command(order)


def _is_command(order: TurnRequest) -> bool:
    """Return whether the message is a command of the CLI's own: `--slash`, or a command that a person types on its
    screen."""
    options, text = order.message.options, order.message.payload.text
    is_typed = options.via == "terminal" and not order.from_agent
    return options.slash is True or (is_typed and text.startswith("/") and "\n" not in text)


def tolerates(order: TurnRequest, status: Status) -> bool:
    """Return whether the sender, or else the agent's settings, count this status as success."""
    asked = order.message.options.tolerate
    return status == (order.settings.tolerate if asked is msgspec.UNSET else asked)


def _capabilities_of(order: TurnRequest, face: Face | None) -> Capabilities:
    return Capabilities() if face is None else order.adapter.card.faces[face]


def outcome_from_verdict(
    order: TurnRequest, verdict: Verdict, stop: Stop, face: Face | None, duration_s: float
) -> TurnFinished:
    """Return the outcome: the adapter's verdict, plus beam's own knowledge (who stopped the turn, how long it took)."""
    can, access = _capabilities_of(order, face), max_access_of_messages(order)
    verdict = denied.with_denial_reason(verdict, can, access)
    status, class_, reason = verdict.status, verdict.class_, verdict.reason
    if stop.reason is not None and status is not Status.COMPLETED:
        limit, idle = durations.show(order.timeout), durations.show(order.idle_timeout)
        status, class_, reason = {
            "timeout": (Status.TIMEOUT, None, f"stopped after {limit}, the turn's timeout"),
            "idle": (Status.TIMEOUT, Class.STALLED, f"stopped: no sign of life for {idle}"),
            "cancelled": (Status.CANCELLED, None, f"stopped by {stop.by or 'a request'}"),
            "interrupted": (Status.CANCELLED, None, f"stopped by {stop.by or 'a signal'}"),
            "retries": (status, class_, reason),
            "broken": (status, class_, reason),
            "budget": (Status.LIMIT, None, f"the turn's budget is used up: {stop.why}"),
            "unmatched": (Status.FAILED, Class.BAD_REQUEST, stop.why),
        }[stop.reason]
    session: SessionNote | None = verdict.session
    if session is None and verdict.session_id is not None:
        session = "resumed" if order.session_id is not None and not order.fork else "new"
    model = verdict.model
    if model is None and verdict.usage.output_tokens:  # a CLI that reports no model used the requested one
        model = order.message.options.model or order.settings.model
    verdict = msgspec.structs.replace(
        verdict, status=status, class_=class_, reason=reason, session=session, model=model
    )
    return events.turn_finished(
        verdict,
        attempt=order.message.attempt,
        via=_via(order, face),
        duration_s=round(duration_s, 3),
        exit_code=0 if tolerates(order, status) else exit_code(status, class_),
        denials=denied.denials_to_report(verdict.denials, can, access),
        at_most=access,
        rules=_rules_to_report(order),
    )


def _via(order: TurnRequest, face: Face | None) -> str | None:
    return face if order.recorded is None else REPLAY_VIA


def _rules_to_report(order: TurnRequest) -> RuleLists | msgspec.UnsetType:
    """Return the rules that bind messages sent by this turn; UNSET if there are none."""
    return order.rules.lists if order.rules.rules else msgspec.UNSET
