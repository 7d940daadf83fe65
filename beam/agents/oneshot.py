"""Code shared by the adapters of headless CLIs: checks of a turn's options, reading lines, and the verdict on the
output.

A decoder fills an `OutputSummary` and hands it to `verdict`. Does not depend on any CLI.
"""

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct, structs

from beam.agents.base import Capabilities, Exit, Turn, Verdict, died, json_object, last_line, raw_json
from beam.agents.failures import class_of, is_refusal
from beam.agents.fields import Object
from beam.agents.figures import Work, sum_by_model, sum_costs
from beam.agents.images import replace_image_data
from beam.base.errors import UnsupportedError
from beam.base.typed_values import replace_surrogates
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import ANSWERS, BY_DEFAULT, Class, Denial, ModelUsage, SessionNote, Status, Unfinished, Usage
from beam.model.settings import DEFAULT_LIMITS

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_set_field = msgspec.structs.force_setattr  # only for an event that no other code has yet, so it need not be copied
_STATUS_BY_STOP = {"timeout": Status.TIMEOUT, "idle": Status.TIMEOUT}
VERDICT_BY_END: dict[str, tuple[Status, Class | None, str | None]] = {
    "length": (Status.TRUNCATED, None, "the answer was cut off by its token limit"),
    "refused": (Status.REFUSED, None, "the model refused"),
    "loop": (Status.LIMIT, None, "the CLI stopped the model: it repeated itself"),
    "limit": (Status.LIMIT, None, "the CLI stopped the model at its own limit of model calls"),
}


# -- launching ---------------------------------------------------------------------------------------------------------


def check_access(turn: Turn, name: str, face: Capabilities) -> None:
    """Raise UnsupportedError if this mode can't enforce the access of the turn."""
    if turn.access not in face.access:
        raise UnsupportedError(
            f"{name} can't enforce access {turn.access!r}",
            f"say `access: {face.access[-1]}` for this agent, or --access {face.access[-1]}: it then asks nobody"
            if face.access == ("full",)
            else f"use one of: {', '.join(face.access)}",
            subject=turn.access,
        )


def checked_session_id(name: str, form: re.Pattern[str], session_id: str, hint: str = "") -> str:
    """Return the session id unchanged. Raises UnsupportedError if it does not have the form of the CLI's ids."""
    if not form.match(session_id):
        shown = session_id[:80]
        raise UnsupportedError(f"{shown!r} is not a session id of {name}'s", hint, subject=shown)
    return session_id


def checked_argument(name: str, what: str, value: str) -> str:
    """Return the value unchanged. Raises UnsupportedError if it can't be an argument, or could be taken for a flag."""
    if value.startswith("-") or "\0" in value or not value:
        raise UnsupportedError(
            f"{name} can't be given the {what} {value[:80]!r}",
            "use a value that is not empty, begins with no -, and contains no NUL",
            subject=what,
        )
    return value


def model_flags(name: str, turn: Turn, flag: str = "--model") -> tuple[str, ...]:
    """Return the arguments that name the turn's model; none if it has none. Raises UnsupportedError."""
    return () if turn.model is None else (flag, checked_argument(name, "model", turn.model))


def prompt_argument(name: str, text: str) -> str:
    """Return the prompt for a CLI that takes its prompt only as an argument. Lone surrogates become U+FFFD.

    Raises UnsupportedError for a prompt that can't be an argument.
    """
    if "\0" in text:
        raise UnsupportedError(f"{name} takes its prompt as an argument, and no argument can hold a NUL", subject=name)
    if len(text.encode("utf-8", "replace")) > DEFAULT_LIMITS.argv_text_bytes:
        raise UnsupportedError(
            f"{name} takes its prompt as an argument, which is limited to {DEFAULT_LIMITS.argv_text_bytes} bytes",
            "write the text to a file and name the file in the prompt",
            subject=name,
        )
    return replace_surrogates(text)


# -- reading -----------------------------------------------------------------------------------------------------------


def read(line: bytes, decode: Callable[[Object], list[Event]]) -> Sequence[Event]:
    """Return the events of a line that should be a JSON object. The first event has the line in `raw`, unless the event
    is a text delta."""
    value = json_object(line)
    return non_json_events(line) if value is None else with_raw_line(decode(value), line)


def non_json_events(line: bytes) -> Sequence[Event]:
    """Return the events of a line that is not a JSON object: one `Unknown`, or none for a blank line."""
    return () if not line.strip() else (events.Unknown(what="not JSON", raw=line.decode("utf-8", "replace")),)


def with_raw_line(emitted: list[Event], line: bytes, *, images: Sequence[events.ImageSeen] = ()) -> list[Event]:
    """Return the events of this line. The first event gets the line in `raw`, unless the event is a text delta. The
    line is stored without the content of the images among the events and in `images`."""
    if not emitted or type(emitted[0]) is events.TextDelta:
        return emitted
    try:
        raw = line.decode()
    except UnicodeDecodeError:
        raw = line.decode("utf-8", "replace")
    _set_field(emitted[0], "raw", replace_image_data(raw, (*emitted, *images)))
    return emitted


class Failure(Struct, frozen=True):
    """A failure that the CLI reports: its class, its reason, and its HTTP status, if there is one."""

    class_: Class
    reason: str
    http_status: int | None = None


class OutputSummary(Struct, kw_only=True):
    """The facts that one process has reported so far.

    `ended` is the CLI's own proof that the turn is over: `stop`, `length` (cut off), `refused`, or by the CLI itself
    `loop` (the model repeated itself) or `limit` (its limit of model calls); "" until then.
    `texts` are the agent's texts since its last tool call. `lost` is the CLI's proof that it has no session with the
    requested id, "" if there is no proof. `nameless`: the CLI reports no session id, so each turn is a new session.
    `retry` is the reason of the last retry. `retried` says how the answer ended that the last retry replaces: `length`,
    `refused` or "" (otherwise). If beam ends the turn at that retry, the turn ended in the same way. `counts`: the
    figures of a model call were counted. `partial`: the figures lack some calls, such as a subagent's. `calls` maps the
    ids of the open tool calls to their names and inputs. Figures that the CLI does not report stay None.
    """

    name: str
    session_id: str | None = None
    model: str | None = None
    texts: list[str] = []
    reply: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    models: tuple[ModelUsage, ...] | None = None
    work: Work = Work()
    failure: Failure | None = None
    retry: Failure | None = None
    retried: str = ""
    counts: bool = False
    partial: bool = False
    ended: str = ""
    lost: str = ""
    nameless: bool = False
    denials: list[Denial] = []
    calls: dict[str, tuple[str, object]] = {}

    def on_opened(
        self, turn: Turn, session_id: str, *, model: str | None = None, version: str | None = None
    ) -> list[Event]:
        """Return the event of the opened session; none if this session's event was returned before.

        If the CLI opened another session than the requested one, the requested session is reported as lost: the turn
        ran in the other session, and must not run again. If a fork continues the original session, the turn is reported
        as failed.
        """
        self.model = model or self.model
        if self.session_id == session_id or not session_id:
            return []
        if turn.fork and session_id == turn.session_id:
            return self.on_failed(f"{self.name} went on in session {session_id} itself", None, Class.UNKNOWN)
        self.session_id = session_id
        resumed = not turn.fork and turn.session_id == session_id
        started = events.SessionStarted(
            session_id=session_id, resumed=resumed, model=model, cwd=turn.cwd or None, version=version
        )
        if resumed or turn.session_id is None or turn.fork:
            return [started]
        self.lost = f"{self.name} did not go on with session {turn.session_id}: this turn ran in a new one"
        return [started, events.Notice(text=self.lost, code="session_lost")]

    def find_lost_session(self, turn: Turn, exit: Exit, proof: str) -> None:
        """Record that the CLI has no session with the requested id, if the CLI's own sentence for this is on stderr:
        `proof`, with the id in it."""
        gone = proof.format(turn.session_id)
        if turn.session_id and self.session_id is None and gone in exit.stderr_tail:
            self.lost = gone

    def text(self, text: str) -> list[Event]:
        """Return the events to record when a piece of the agent's text is complete."""
        if not text:
            return []
        self.texts.append(text)
        return [events.Text(text=text)]

    def on_called(self, call_id: str, name: str, arguments: object, *, parent: str | None = None) -> list[Event]:
        """Return the events of a tool call. The texts before a call of the agent itself do not count as the answer.
        `parent` is the call of the subagent that makes this call, None for the agent itself."""
        if parent is None:
            self.texts = []
        self.calls[call_id] = (name, arguments)
        return [events.ToolCalled(call_id=call_id, name=name, input=raw_json(arguments), parent=parent)]

    def on_returned(
        self, call_id: str, output: str, *, is_error: bool = False, parent: str | None = None
    ) -> list[Event]:
        """Return the events of the result of a tool call."""
        self.calls.pop(call_id, None)
        return [events.ToolReturned(call_id=call_id, output=output, is_error=is_error, parent=parent)]

    def on_failed(self, text: str, http_status: int | None = None, class_: Class | None = None) -> list[Event]:
        """Record a failure of the turn that the CLI reports, and return its event."""
        text = text or f"{self.name} failed and gave no reason"
        self.failure = Failure(class_ or class_of(http_status, text), text)
        return [events.Notice(text=text, code="api_error")]

    def retrying(
        self,
        text: str,
        *,
        attempt: int | None = None,
        of: int | None = None,
        http_status: int | None = None,
        class_: Class | None = None,
    ) -> list[Event]:
        """Record a retry that the CLI reports, and return its event. `attempt` is the number of the retry, `of` the
        largest number of retries, `text` the reason."""
        self.retry = Failure(class_ or class_of(http_status, text), text, http_status)
        found = self.retry.class_
        return [
            events.StatusChanged(
                state="retrying", detail=text, attempt=attempt, of=of, class_=found, http_status=http_status
            )
        ]

    def counted(self, usage: Usage, cost_usd: float | None, model: str = "") -> list[Event]:
        """Add the figures of one more model call, and return an event with the sums. `model` is the name of the model,
        "" if the CLI does not report it. Without the cost of every call, the cost of the sum is unknown."""
        is_first, self.counts = not self.counts, True
        if model and (is_first or self.models is not None):
            self.models = sum_by_model((*(self.models or ()), ModelUsage(model=model, usage=usage, cost_usd=cost_usd)))
        else:
            self.models = None
        self.usage = self.usage.plus(usage)
        if is_first:
            self.cost_usd = cost_usd
        else:
            self.cost_usd = None if self.cost_usd is None or cost_usd is None else sum_costs((self.cost_usd, cost_usd))
        return [events.UsageSeen(usage=self.usage, cost_usd=self.cost_usd)]


# -- the end -----------------------------------------------------------------------------------------------------------


def verdict(turn: Turn, exit: Exit, summary: OutputSummary) -> tuple[list[Event], Verdict]:
    """Return the events that are known only at the end, and the verdict. A turn is completed only with the CLI's own
    proof."""
    emitted: list[Event] = [events.ToolReturned(call_id=call_id, unfinished=True) for call_id in summary.calls]
    if summary.lost and summary.session_id is None:
        emitted.insert(0, events.SessionLost(session_id=turn.session_id or "", reason=summary.lost))
    status, class_, reason = _status_of(exit, summary)
    if status is Status.COMPLETED and exit.stopped_by is None and (exit.code or exit.signal):
        how = f"was ended by {exit.signal}" if exit.signal else f"exited with {exit.code}"
        emitted.append(events.Notice(text=f"{summary.name} {how} after a good answer", code="exit_code"))
    reply = summary.reply if summary.reply is not None else "\n\n".join(summary.texts) or None
    return emitted, Verdict(
        status=status,
        class_=class_,
        reason=reason,
        reply=None
        if status in (Status.FAILED, Status.REFUSED)
        else reply or ("" if status is Status.COMPLETED else None),
        session_id=summary.session_id or (None if summary.lost or turn.fork else turn.session_id),
        session=_session_note(turn, summary),
        model=summary.model or turn.model,
        usage=summary.usage,
        cost_usd=summary.cost_usd,
        models=summary.models,
        **structs.asdict(summary.work),
        denials=tuple(summary.denials),
        unfinished=_unfinished_calls(summary) if status in ANSWERS else (),
        partial=True if summary.partial else msgspec.UNSET,
    )


def _unfinished_calls(summary: OutputSummary) -> tuple[Unfinished, ...]:
    """Return the calls that continue although the CLI says that the turn is over."""
    return tuple(
        Unfinished(tool=name, call_id=call_id, input=raw_json(arguments))
        for call_id, (name, arguments) in summary.calls.items()
    )


def _status_of(exit: Exit, summary: OutputSummary) -> tuple[Status, Class | None, str | None]:
    over = bool(summary.ended) and summary.failure is None
    if exit.stopped_by == "retries" and summary.retry is not None and not over:
        if summary.retried:
            return VERDICT_BY_END[summary.retried]
        return Status.FAILED, summary.retry.class_, f"stopped after its retries: {summary.retry.reason}"
    if exit.stopped_by is not None and not over:
        return _STATUS_BY_STOP.get(exit.stopped_by, Status.CANCELLED), None, f"the turn was stopped ({exit.stopped_by})"
    if (
        summary.failure is not None
        and summary.failure.class_ is not Class.STOPPED
        and is_refusal(summary.failure.reason)
    ):
        return Status.REFUSED, None, summary.failure.reason
    if summary.failure is not None:
        return Status.FAILED, summary.failure.class_, summary.failure.reason
    if summary.lost and summary.session_id is None:
        return Status.FAILED, Class.BAD_REQUEST, summary.lost
    denied = dict.fromkeys(denial.tool for denial in summary.denials if denial.by == BY_DEFAULT)
    nobody = f"not permitted: {', '.join(denied)}"
    if not over:
        if denied and exit.code == 0:  # it ended on its own after the denial
            return Status.DENIED, None, nobody
        complaint = _stderr_reason(exit.stderr_tail)
        if exit.code and complaint and summary.session_id is None:
            found = class_of(None, complaint)
            return Status.FAILED, Class.BAD_REQUEST if found is Class.UNKNOWN else found, complaint
        gone = died(exit, summary.name)
        return gone.status, gone.class_, gone.reason
    if summary.ended in VERDICT_BY_END:
        return VERDICT_BY_END[summary.ended]
    return (Status.DENIED, None, nobody) if denied else (Status.COMPLETED, None, None)


def _stderr_reason(tail: str) -> str:
    """Return the first line of stderr that begins with "error:", else the last line that is not blank; at most 500
    characters."""
    lines = (_COLOURS.sub("", line).strip() for line in tail.splitlines())
    return next((line[:500] for line in lines if line.lower().startswith("error:")), last_line(tail))


def _session_note(turn: Turn, summary: OutputSummary) -> SessionNote | None:
    if summary.lost:
        return "lost"
    if summary.nameless and (summary.ended or summary.texts):
        return "new"
    if summary.session_id is None:
        return None
    return "resumed" if turn.session_id is not None and not turn.fork else "new"
