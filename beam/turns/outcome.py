"""The first and the last event of a turn: its start, and its outcome from the verdict and beam's own knowledge.

This is the one place that decides whether a turn that its CLI calls a success has an answer, what denials make of a
verdict, and which link logs a person in. An adapter adds only what its CLI reports: a stop by a hook, an answer that
was cut off, its own words for an empty answer. Starts and writes nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from beam.agents.base import Capabilities, Face, Verdict
from beam.base import durations
from beam.base.clock import rfc3339
from beam.base.errors import BeamError, LimitError, NotFoundError, ShortageError, UnsupportedError
from beam.model import events
from beam.model.events import Event, TurnFinished, TurnStarted
from beam.model.message import RANK, Access, RuleLists
from beam.model.outcome import BY_DEFAULT, BY_RULE, Class, Denial, SessionNote, Status, denial_text, exit_code
from beam.model.settings import is_answer
from beam.secrets.redact import redact_event
from beam.turns.asks import is_denied_by_rule
from beam.turns.choice import max_access_of_messages
from beam.turns.handle import Stop
from beam.turns.request import REPLAY_VIA, TurnRequest


def with_denial_reason(verdict: Verdict, can: Capabilities, access: Access | None) -> Verdict:
    """Return the verdict. If its status is `denied`, its reason names the denied calls, and the access that would allow
    them.

    `access` is the access of the turn, None if the agent has none.
    """
    calls = dict.fromkeys(denial_text(denial) for denial in verdict.denials if denial.by == BY_DEFAULT)
    if verdict.status is not Status.DENIED or not calls:
        return verdict
    who = "nobody decided on" if access == "ask" else "not permitted:"
    reason = f"{who} {', '.join(calls)}; the answer may be incomplete"
    return msgspec.structs.replace(verdict, reason=reason + _wider_access_hint(can, access))


def mark_rule_denials(verdict: Verdict, is_denied_by_rule: Callable[[Denial], bool]) -> Verdict:
    """Return the verdict, in which `by` names a rule for each denial that a rule of the turn demands.

    A CLI that enforces a rule itself reports only that it denied the request. If a person or a rule decided all
    denials, a status `denied` becomes `completed`, because a denial by a rule is an ordinary answer.
    """
    denials = tuple(
        msgspec.structs.replace(denial, by=BY_RULE) if denial.by == BY_DEFAULT and is_denied_by_rule(denial) else denial
        for denial in verdict.denials
    )
    if denials == verdict.denials:
        return verdict
    verdict = msgspec.structs.replace(verdict, denials=denials)
    if verdict.status is not Status.DENIED or any(denial.by == BY_DEFAULT for denial in denials):
        return verdict
    return msgspec.structs.replace(verdict, status=Status.COMPLETED, reason=None)


def denials_to_report(denials: Sequence[Denial], can: Capabilities, access: Access | None) -> tuple[Denial, ...] | None:
    """Return the denials; None (unknown) if there are none and the agent's CLI does not report denials.

    With access `ask` the agent asks before everything that it may not do. Each request was answered here, so no denial
    is missing.
    """
    return tuple(denials) if denials or can.denials or access == "ask" else None


def _wider_access_hint(can: Capabilities, access: Access | None) -> str:
    if access is None or access not in can.access:
        return ""
    wider = [wider_access for wider_access in can.access if RANK[wider_access] > RANK[access]]
    if wider:
        words = " or ".join(filter(None, (", ".join(wider[:-1]), wider[-1])))
        return f"; it ran with access `{access}`: --access {words} allows more"
    if access == "ask":
        return "; it ran with access `ask`: a request that waits is answered with beam approve or beam deny"
    return f"; it ran with access `{access}`, the widest it has: what denied it is a setting of its own"


# Control sequences of a terminal: their characters are printable, but nothing of them is shown.
_SEQUENCE = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-~]"
# Letters and marks without ink: fillers, the empty Braille pattern, selectors of a variant.
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0" + "".join(
    map(chr, range(0xFE00, 0xFE10))
)


def is_blank(text: str | None) -> bool:
    """Return whether the text shows nothing: it has only white space, control characters and their sequences, and
    characters without width or ink."""
    text = text or ""
    if any(sign in text for sign in "\x1b\x9b\x9d"):
        text = re.sub(_SEQUENCE, "", text)
    return not any(sign.isprintable() and not sign.isspace() and sign not in _FILLERS for sign in text)


def is_work(event: Event) -> bool:
    """Return whether the event proves that the agent did some work in its turn."""
    match event:
        case events.ToolReturned():
            return not (event.is_error or event.unfinished)
        case events.FileChanged() | events.ImageSeen():
            return True
    return False


def require_answer(verdict: Verdict, name: str, *, worked: bool, ends_at_denial: bool = False) -> Verdict:
    """Return the verdict on a turn that asked a model. A success without an answer becomes a failure of class `empty`.

    `name` is the CLI's name. `worked`: an event of the turn was work (`is_work`). `ends_at_denial`: the CLI may end its
    turn where a person or a rule denies a request, which is an answer; otherwise the model is asked again.
    """
    if verdict.status is not Status.COMPLETED:
        return verdict
    if _calls(verdict) == 0 and not verdict.usage.output_tokens:
        return _empty(verdict, f"{name} called no model")
    if worked or not isinstance(verdict.structured, msgspec.UnsetType) or not is_blank(verdict.reply):
        return verdict
    if ends_at_denial and any(denial.by != BY_DEFAULT for denial in verdict.denials):
        return verdict
    return _empty(verdict, f"{name} ended its turn without an answer")


def _calls(verdict: Verdict) -> int | None:
    """Return the number of model calls of the turn; None if nobody counted them."""
    if not isinstance(verdict.model_calls, msgspec.UnsetType):
        return verdict.model_calls.calls
    return verdict.usage.calls


def _empty(verdict: Verdict, reason: str) -> Verdict:
    return msgspec.structs.replace(verdict, status=Status.FAILED, class_=Class.EMPTY, reason=reason, reply=None)


# Patterns as text are compiled at their first use: few turns need them.
_LINK = r"https?://[A-Za-z0-9\[][!#-&(-;=?-Z_a-z~\[\]]{3,2000}"  # characters of an address; no quotes, no <>
_LOGIN_WORDS = r"(?i)log-?in|sign-?in|auth|device|activate|verif|account|api-?key|console"
_COLOURS = r"\x1b\[[0-9;]*[A-Za-z]|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)"
_TRAILING_MARKS = ".,;:!?)]"
_MAX_TEXTS = 16
_MAX_TEXT_CHARS = 8192


def login_link_in(texts: Iterable[str]) -> str | None:
    """Return the first link whose words show that it is for logging in, else the first link; None if there is none."""
    found = [
        link.rstrip(_TRAILING_MARKS)
        for text in texts
        for link in re.findall(_LINK, re.sub(_COLOURS, "", text[-_MAX_TEXT_CHARS:]))
    ]
    return next((link for link in found if re.search(_LOGIN_WORDS, link)), found[0] if found else None)


def asks_to_log_in(text: str) -> bool:
    """Return whether the text has a link whose words show that it is for logging in."""
    link = login_link_in((text,))
    return link is not None and re.search(_LOGIN_WORDS, link) is not None


class CliTexts:
    """The texts of the CLI itself in a turn that contain a link, or may say when a limit ends: its notices, status and
    errors. Texts of its model or of a tool are left out."""

    types = (events.Notice, events.StatusChanged, events.AgentExited)

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add_text(self, event: events.Notice | events.StatusChanged | events.AgentExited) -> None:
        """Remember the CLI's text in this event, if it is one of these texts."""
        match event:
            case events.Notice():
                text = event.text
            case events.StatusChanged():
                text = event.detail
            case events.AgentExited():
                text = event.stderr_tail
        if "://" in text or "reset" in text or "again" in text or "retry" in text:
            self.texts = [*self.texts[-_MAX_TEXTS:], text]


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
    now_ns: int = 0,
) -> TurnFinished:
    """Return the outcome in the form that is recorded: with a login link if one is needed, with the time at which a
    usage limit ends, and without secrets.

    An answer without the evidence that the sender requires becomes a failure. So does a success without an answer, if
    the turn asked a model; `worked`: an event of the turn was work (`answer.is_work`). `heard` are the CLI's texts that
    may contain the link or the time; `now_ns` is the current time.
    """
    verdict = mark_rule_denials(verdict, functools.partial(is_denied_by_rule, order))  # may make it a success
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
    if outcome.class_ is Class.RATE_LIMIT:
        from beam.turns.resets import reset_ns

        ends_ns = reset_ns((outcome.reason or "", *reversed(heard)), now_ns)
        if ends_ns is not None:
            outcome = msgspec.structs.replace(outcome, resets_at=rfc3339(ends_ns))
    finished, blanked = redact_event(outcome)
    return msgspec.structs.replace(finished, redacted=blanked)


def passed_budget(order: TurnRequest, verdict: Verdict) -> str:
    """Return what to say of a budget that the CLI itself kept, and that the turn passed; "" if it did not."""
    budget = order.message.options.budget_usd or order.settings.budget_usd
    cost = verdict.cost_usd
    if budget is None or cost is None or cost <= budget or order.is_proxied or order.recorded is not None:
        return ""
    return (
        f"the turn cost ${cost:.4f}, and its budget was ${budget:.4f}, which the CLI kept itself; "
        "only the proxy refuses the next call: --max-tokens N sends the calls through it"
    )


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
    verdict = with_denial_reason(verdict, can, access)
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
        denials=denials_to_report(verdict.denials, can, access),
        at_most=access,
        rules=_rules_to_report(order),
    )


def _via(order: TurnRequest, face: Face | None) -> str | None:
    return face if order.recorded is None else REPLAY_VIA


def _rules_to_report(order: TurnRequest) -> RuleLists | msgspec.UnsetType:
    """Return the rules that bind messages sent by this turn; UNSET if there are none."""
    return order.rules.lists if order.rules.rules else msgspec.UNSET
