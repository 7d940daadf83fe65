"""The verdict on a turn of Claude Code, from its result line, or from how the process ended without one.

`is_error`, the API's status, the stop reason and `terminal_reason` count; the exit code and `subtype` alone prove
nothing (an API failure is a "success" of exit code 1, a turn that a hook stopped has exit code 0). A turn is completed
only if its result says that it is a success, that it is no error, and that nothing ended it early. Does not depend on
how lines become events.
"""

from __future__ import annotations

from itertools import takewhile

import msgspec
from msgspec import field

from beam.agents import figures
from beam.agents.base import Exit, Turn, Verdict, died, raw_json
from beam.agents.claude.counted import UsageCounter, plain_name
from beam.agents.claude.hooks import words_of_block, words_of_stop
from beam.agents.failures import is_refusal
from beam.agents.fields import Object, integer, obj, objects, string, strings
from beam.model.outcome import Class, Denial, SessionNote, Status, Total

_STATUS_BY_STOP = {
    "timeout": (Status.TIMEOUT, "the turn ran out of time and was stopped"),
    "idle": (Status.TIMEOUT, "the agent was silent for too long and was stopped"),
    "cancelled": (Status.CANCELLED, "the turn was cancelled"),
    "interrupted": (Status.CANCELLED, "the turn was interrupted"),
}
_CLASS_BY_HTTP = {
    400: Class.BAD_REQUEST,
    401: Class.AUTH,
    403: Class.AUTH,
    404: Class.BAD_REQUEST,
    408: Class.STALLED,
    413: Class.CONTEXT_OVERFLOW,
    429: Class.RATE_LIMIT,
    529: Class.OVERLOADED,
}
_CLASS_BY_WORD = {  # `error` of api_retry and of the assistant line that stands for a failure
    "authentication_failed": Class.AUTH,
    "billing_error": Class.BAD_REQUEST,
    "invalid_request": Class.BAD_REQUEST,
    "model_not_found": Class.BAD_REQUEST,
    "rate_limit": Class.RATE_LIMIT,
    "overloaded": Class.OVERLOADED,
    "server_error": Class.OVERLOADED,
}
_CLASS_BY_TEXT = (  # parts of the text of a failure for which the API gave no status
    ("prompt is too long", Class.CONTEXT_OVERFLOW),
    ("unable to connect", Class.NETWORK),
    ("connection refused", Class.NETWORK),
    ("can't reach the api server", Class.NETWORK),
    ("no internet route", Class.NETWORK),
    ("couldn't connect through your proxy", Class.NETWORK),
    ("connection to the api was lost", Class.NETWORK),
    ("connection dropped", Class.NETWORK),
    ("timed out", Class.STALLED),
    ("overloaded", Class.OVERLOADED),
    ("invalid api key", Class.AUTH),
    ("not logged in", Class.AUTH),
    ("please run /login", Class.AUTH),
    ("failed to authenticate", Class.AUTH),
    ("oauth token", Class.AUTH),
    ("rate limit", Class.RATE_LIMIT),
    ("usage limit", Class.RATE_LIMIT),
    ("session limit", Class.RATE_LIMIT),
    ("weekly limit", Class.RATE_LIMIT),
    ("credit balance", Class.BAD_REQUEST),
    ("no message found with message.uuid", Class.BAD_REQUEST),  # of `--resume-session-at`
)
_SIGNALS = {129: "SIGHUP", 130: "SIGINT", 134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
LOST_SESSION_TEXT = "No conversation found with session ID: "
_WITHHELD_TEXT = "safeguards stopped the response above"  # of a notice, where the line after it is not marked
WITHHELD = "a safeguard of the model withheld a part of the answer"
TRUNCATED_STOP_REASONS = ("max_tokens", "model_context_window_exceeded", "pause_turn", "compaction")
_END_BY_SUBTYPE = {  # of versions whose results have no `terminal_reason`
    "error_max_turns": "max_turns",
    "error_max_budget_usd": "budget_exhausted",
    "error_max_structured_output_retries": "structured_output_retry_exhausted",
}
_VERDICT_BY_END: dict[str, tuple[Status, Class | None]] = {  # by `terminal_reason`: all that version 2.1.332 has
    "": (Status.COMPLETED, None),
    "completed": (Status.COMPLETED, None),
    "max_turns": (Status.LIMIT, None),
    "budget_exhausted": (Status.LIMIT, None),
    "aborted_streaming": (Status.CANCELLED, None),
    "aborted_tools": (Status.CANCELLED, None),
    "hook_stopped": (Status.FAILED, Class.STOPPED),
    "stop_hook_prevented": (Status.FAILED, Class.STOPPED),
    "tool_deferred": (Status.FAILED, Class.STOPPED),
    "tool_deferred_unavailable": (Status.FAILED, Class.STOPPED),
    "background_requested": (Status.FAILED, Class.STOPPED),
    "blocking_limit": (Status.FAILED, Class.CONTEXT_OVERFLOW),
    "prompt_too_long": (Status.FAILED, Class.CONTEXT_OVERFLOW),
    "rapid_refill_breaker": (Status.FAILED, Class.CONTEXT_OVERFLOW),
    "structured_output_retry_exhausted": (Status.FAILED, Class.SCHEMA),
    "image_error": (Status.FAILED, Class.BAD_REQUEST),
    "malformed_tool_use_exhausted": (Status.FAILED, Class.UNKNOWN),
    "turn_setup_failed": (Status.FAILED, Class.UNKNOWN),
    "model_error": (Status.FAILED, Class.UNKNOWN),
    "api_error": (Status.FAILED, Class.UNKNOWN),
}
_REASON_BY_END = {
    "hook_stopped": "a hook stopped the turn",
    "stop_hook_prevented": "a hook stopped the turn",
    "tool_deferred": "a hook deferred a tool call, which ended the turn",
    "tool_deferred_unavailable": "a hook deferred a tool call that claude can't go on with",
    "background_requested": "the turn was moved to the background",
    "structured_output_retry_exhausted": "the answer does not follow the schema",
}


class OutputSummary(msgspec.Struct, kw_only=True):
    """The facts of a turn that a decoder has recorded.

    `session_id` and `model` are the latest that a line named. `opened`: a session was opened. Six fields are about the
    time since the last result: `error` is the CLI's word for an API failure, `texts` are the agent's texts after its
    last call, `cut_off` says that the answer was cut off (claude lets the model continue on its own), `withheld` that a
    safeguard withheld the rest of an answer (claude lets the model continue once), `blocked` that a hook kept the
    prompt from the model, and `hook` has the words of the last hook that would stop the turn. `decided` maps a call's
    id to who decided its request: a person's name or `rule`. `withdrawn` are the calls whose requests were withdrawn
    before anybody decided. `denied` are the denied requests in earlier results of this turn. `counted` has the tokens.
    """

    session_id: str | None = None
    opened: bool = False
    model: str | None = None
    error: str = ""
    texts: list[str] = []
    cut_off: bool = False
    withheld: bool = False
    blocked: bool = False
    hook: str = ""
    decided: dict[str, str] = {}
    withdrawn: set[str] = set()
    denied: tuple[Denial, ...] = ()
    counted: UsageCounter = field(default_factory=UsageCounter)

    def text(self) -> str | None:
        """Return the agent's last text; None if there is none."""
        return ("" if self.cut_off else "\n\n").join(self.texts) or None

    def on_stop_told(self, message: Object) -> None:
        """Record what a line about the conversation itself says of a stop: by a hook, or by a safeguard."""
        subtype = string(message, "subtype")
        is_noticed = subtype == "informational" and _WITHHELD_TEXT in string(message, "content")
        if message.get("refusal_retry") is True or is_noticed:
            self.withheld = True
        elif message.get("prevent_continuation") is True:
            self.blocked, self.hook = True, words_of_block(message)
        elif subtype == "hook_response":
            self.hook = words_of_stop(message) or self.hook

    def on_result(self) -> None:
        """Begin with the lines after a result."""
        self.texts, self.error, self.hook = [], "", ""
        self.cut_off = self.withheld = self.blocked = False


def failure_class(http_status: int | None, word: str, text: str) -> Class:
    """Return the class of an API failure: from the API's status, else from the text, else from the CLI's own word. A
    text that says that the prompt is too long wins over the status."""
    lowered = text.lower()
    if "prompt is too long" in lowered:
        return Class.CONTEXT_OVERFLOW
    if http_status is not None:
        if http_status in _CLASS_BY_HTTP:
            return _CLASS_BY_HTTP[http_status]
        return Class.OVERLOADED if http_status >= 500 else Class.BAD_REQUEST
    by_text = next((class_ for part, class_ in _CLASS_BY_TEXT if part in lowered), None)
    return by_text or _CLASS_BY_WORD.get(word, Class.UNKNOWN)


def lost_session_id(turn: Turn, text: str) -> str | None:
    """Return the resume id if the text proves that the CLI has no such session, else None."""
    requested = turn.session_id
    proof = requested and any(line.strip() == LOST_SESSION_TEXT + requested for line in text.splitlines())
    return requested if proof else None


def verdict_of_result(turn: Turn, result: Object, summary: OutputSummary) -> Verdict:
    """Return the verdict of one result line, without the facts that are known only at the end of the process."""
    denials = denials_of(result, summary)
    status, class_, reason = judge(turn, result, summary, denials)
    text = result.get("result")
    reply = text if isinstance(text, str) and result.get("is_error") is False and not summary.blocked else None
    if summary.cut_off or summary.withheld or (not reply and status is not Status.FAILED):
        reply = summary.text() or reply
    usage, used = summary.counted.usage_of_turn(turn, result, aborted=is_aborted(result))
    api_s = summary.counted.api_s_of_turn(turn, result)
    lost = status is Status.FAILED and lost_session_id(turn, "\n".join(strings(result, "errors"))) is not None
    return Verdict(
        status=status,
        class_=class_,
        reason=reason,
        reply=(reply or None) if status is Status.FAILED else reply,
        session_id=None if lost else string(result, "session_id") or summary.session_id,
        session="lost" if lost else "resumed" if turn.session_id and not turn.fork else "new",
        model=summary.model or next(map(plain_name, obj(result, "modelUsage")), None),
        usage=usage,
        cost_usd=used.cost_usd,
        models=used.models,
        api_s=api_s if api_s or (figures.is_nothing(usage) and used != Total()) else None,  # each call takes some time
        denials=denials,
        structured=raw_json(result["structured_output"]) if "structured_output" in result else msgspec.UNSET,
    )


def judge(
    turn: Turn, result: Object, summary: OutputSummary, denials: tuple[Denial, ...]
) -> tuple[Status, Class | None, str | None]:
    """Return the status, the class and the reason of a turn with this result."""
    stop, subtype = string(result, "stop_reason"), string(result, "subtype")
    end = string(result, "terminal_reason") or _END_BY_SUBTYPE.get(subtype, "")
    status, class_ = _VERDICT_BY_END.get(end, (Status.FAILED, Class.UNKNOWN))
    reported = "; ".join(strings(result, "errors"))
    if stop == "refusal":
        return Status.REFUSED, None, _first_line(string(result, "result")) or "the model refused"
    if status is Status.LIMIT:
        return status, None, reported or subtype
    if "max_output_tokens" in (summary.error, string(result, "api_error")):
        return Status.TRUNCATED, None, _first_line(string(result, "result"))
    if result.get("stopped_by_permission_check") is True:
        return Status.FAILED, Class.STOPPED, reported or "a permission check of claude's stopped the turn"
    if status is Status.CANCELLED:
        if end == "aborted_tools" and denials:
            return Status.DENIED, None, "the turn was ended by a denied request"
        if end == "aborted_tools" and summary.hook:  # it denied a request, and interrupted the turn
            return Status.FAILED, Class.STOPPED, f"a hook stopped the turn: {summary.hook}"
        return status, None, "the turn was interrupted"
    if class_ is Class.SCHEMA:
        return status, class_, reported or _REASON_BY_END[end]
    if result.get("is_error") is True:
        text = string(result, "result") or reported or subtype
        if is_refusal(text):
            return Status.REFUSED, None, _first_line(text)
        if lost_session_id(turn, "\n".join(strings(result, "errors"))):
            return Status.FAILED, Class.BAD_REQUEST, text
        found = failure_class(integer(result, "api_error_status"), summary.error, text)
        return Status.FAILED, (class_ or found) if found is Class.UNKNOWN else found, text
    if summary.blocked:
        return Status.FAILED, Class.STOPPED, f"a hook stopped the prompt: {summary.hook}"
    if status is Status.FAILED:
        why = _REASON_BY_END.get(end) or f"claude ended the turn: {end.replace('_', ' ')}"
        return status, class_, f"{why}: {summary.hook}" if class_ is Class.STOPPED and summary.hook else why
    if stop in TRUNCATED_STOP_REASONS:
        return Status.TRUNCATED, None, f"the answer was cut off ({stop})"
    refused = [denial.tool for denial in denials if denial.by == "default"]
    if refused:
        return Status.DENIED, None, f"not permitted: {', '.join(dict.fromkeys(refused))}"
    if subtype != "success" or result.get("is_error") is not False:
        reported = reported or (subtype if subtype != "success" else "")
        class_ = failure_class(None, summary.error, reported)
        return Status.FAILED, class_, reported or "claude's result does not say success"
    if summary.withheld:
        return Status.TRUNCATED, None, WITHHELD
    if turn.schema is not None and "structured_output" not in result:
        return Status.FAILED, Class.SCHEMA, "the answer does not follow the schema"
    return Status.COMPLETED, None, None


def is_aborted(result: Object) -> bool:
    """Return whether the result belongs to an interrupted turn."""
    return string(result, "terminal_reason").startswith("aborted_")


def is_continuation(result: Object) -> bool:
    """Return whether the result belongs to a continuation that followed a background task's end."""
    return string(obj(result, "origin"), "kind") == "task-notification"


def denials_of(result: Object, summary: OutputSummary) -> tuple[Denial, ...]:
    """Return the requests of the turn that were denied, each with who denied it (`default` if nobody decided)."""
    listed = objects(result, "permission_denials")
    requested = [item for item in listed if string(item, "tool_use_id") not in summary.withdrawn]
    if not requested:
        return summary.denied
    own = tuple(
        Denial(
            tool=string(item, "tool_name"),
            call_id=string(item, "tool_use_id"),
            input=raw_json(item.get("tool_input")),
            by=summary.decided.get(string(item, "tool_use_id"), "default"),
        )
        for item in requested
    )
    known = {denial.call_id for denial in own}
    return (*(denial for denial in summary.denied if denial.call_id not in known), *own)


def verdict_of_exit(turn: Turn, exit: Exit, summary: OutputSummary, before: Verdict | None = None) -> Verdict:
    """Return the verdict on a process whose last turn has no result line. The figures come from `before`, the verdict
    of the process's last result."""
    verdict = _verdict_without_result(turn, exit, summary)
    verdict = msgspec.structs.replace(verdict, session_id=summary.session_id, model=summary.model)
    if before is None:
        return verdict
    return msgspec.structs.replace(
        verdict,
        usage=before.usage,
        cost_usd=before.cost_usd,
        models=before.models,
        api_s=before.api_s,
        denials=before.denials,
        session=before.session,
    )


def _verdict_without_result(turn: Turn, exit: Exit, summary: OutputSummary) -> Verdict:
    note: SessionNote | None = None
    if summary.opened:
        note = "resumed" if turn.session_id and not turn.fork else "new"
    stopped = stopped_verdict(exit)
    if stopped is not None:
        return msgspec.structs.replace(stopped, session=note, reply=summary.text())
    tail = exit.stderr_tail
    if lost_session_id(turn, tail):
        reason = f"{LOST_SESSION_TEXT}{turn.session_id}"
        return Verdict(status=Status.FAILED, class_=Class.BAD_REQUEST, reason=reason, session="lost")
    complaint = _complaint(tail) if exit.code == 1 and not summary.opened else ""
    if complaint:
        class_ = failure_class(None, "", complaint)
        class_ = Class.BAD_REQUEST if class_ is Class.UNKNOWN else class_
        return Verdict(status=Status.FAILED, class_=class_, reason=_with_hint(complaint, turn.agent), session=note)
    signal = exit.signal or _SIGNALS.get(exit.code or 0)
    ended = msgspec.structs.replace(exit, signal=signal)
    return msgspec.structs.replace(died(ended, "claude"), session=note)


def stopped_verdict(exit: Exit) -> Verdict | None:
    """Return the verdict if beam itself ended the process, else None."""
    if exit.stopped_by is None:
        return None
    status, reason = _STATUS_BY_STOP.get(
        exit.stopped_by, (Status.CANCELLED, f"the turn was stopped ({exit.stopped_by})")
    )
    return Verdict(status=status, reason=reason)


def _complaint(tail: str) -> str:
    """Return stderr's complaint about the command line, up to 500 characters; "" if there is none."""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    for start, line in enumerate(lines):
        if line.lower().startswith(("error: ", "error parsing")) or line.startswith(("--", "No conversation found")):
            texts = takewhile(lambda line: not line.startswith("at "), lines[start:])  # a stack trace may follow
            return " ".join(texts)[:500]
    return ""


def _with_hint(complaint: str, agent: str) -> str:
    if "cannot be used with root/sudo" in complaint:
        name = agent.partition("@")[0]  # a session of a run is gone when the run is over
        return (
            f"{complaint.rstrip('.')}: claude refuses full access to root; "
            "run beam as another user or, inside a container, say that it is one: "
            f'beam agent set {name} env.IS_SANDBOX=1, in a scenario: agents: {{{name}: {{env: {{IS_SANDBOX: "1"}}}}}}'
        )
    if "is already in use" in complaint:
        return f"{complaint.rstrip('.')}: claude has a session with this id already"
    if "unknown option" in complaint:
        return f"{complaint}: this claude is older than beam knows; claude update"
    return complaint


def _first_line(text: str) -> str:
    return text.partition("\n")[0].strip()
