"""The outcome of a message: its statuses, the classes of failure, and the exit code that follows from both."""

from enum import StrEnum
from typing import Literal, TypeVar

import msgspec

from beam.base.errors import ExitCode
from beam.base.typed_values import one_line

SCREEN = "; its screen:\n"  # in a reason, before the rows of a screen that it quotes
COST_DIGITS = 9  # decimal places of a cost in USD; hides rounding errors, such as that of 0.1 + 0.2
MAX_USD = 1e6
MAX_COUNT = 10**12  # tokens, calls, lines or seconds

S = TypeVar("S", bound=msgspec.Struct)


class Status(StrEnum):
    """How a turn ended. `unknown` means that nobody can know the outcome; it is never used instead of `failed`."""

    COMPLETED = "completed"
    FAILED = "failed"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    DENIED = "denied"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LIMIT = "limit"
    UNKNOWN = "unknown"


class Class(StrEnum):
    """The cause of a failed turn, as a class that a retry policy can use."""

    AUTH = "auth"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    CONTEXT_OVERFLOW = "context_overflow"
    NETWORK = "network"
    STALLED = "stalled"
    CRASHED = "crashed"
    BAD_REQUEST = "bad_request"
    SCHEMA = "schema"
    EMPTY = "empty"
    STOPPED = "stopped"
    UNSUPPORTED = "unsupported"
    NOT_INSTALLED = "not_installed"
    UNKNOWN = "unknown"


ANSWERS = frozenset({Status.COMPLETED, Status.TRUNCATED, Status.REFUSED, Status.DENIED})  # the agent did its work

_BY_STATUS = {
    Status.COMPLETED: ExitCode.COMPLETED,
    Status.FAILED: ExitCode.FAILED,
    Status.REFUSED: ExitCode.REFUSED,
    Status.TRUNCATED: ExitCode.TRUNCATED,
    Status.DENIED: ExitCode.DENIED,
    Status.TIMEOUT: ExitCode.TIMEOUT,
    Status.CANCELLED: ExitCode.CANCELLED,
    Status.LIMIT: ExitCode.LIMIT,
    Status.UNKNOWN: ExitCode.UNKNOWN,
}
_FAILED_BY_CLASS = {Class.UNSUPPORTED: ExitCode.UNSUPPORTED, Class.NOT_INSTALLED: ExitCode.NOT_FOUND}


def exit_code(status: Status, class_: Class | None) -> ExitCode:
    """Return the exit code for this status and class."""
    if status is Status.FAILED and class_ is not None:
        return _FAILED_BY_CLASS.get(class_, ExitCode.FAILED)
    return _BY_STATUS[status]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one turn. A figure is null if the agent does not report it, never 0 instead.

    `input_tokens` were not read from a cache, but include the tokens that were written to one (`cache_write_tokens`);
    `cached_tokens` were read from a cache. `output_tokens` include `reasoning_tokens`. `calls` is the number of model
    calls to which all these figures belong.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    calls: int | None = None

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum for each figure. If only one side has a figure, that figure is the sum."""
        return Usage(  # each by its name: a loop over the names takes ten times as long
            input_tokens=_add(self.input_tokens, other.input_tokens),
            output_tokens=_add(self.output_tokens, other.output_tokens),
            cached_tokens=_add(self.cached_tokens, other.cached_tokens),
            reasoning_tokens=_add(self.reasoning_tokens, other.reasoning_tokens),
            cache_write_tokens=_add(self.cache_write_tokens, other.cache_write_tokens),
            calls=_add(self.calls, other.calls),
        )

    def minus(self, other: "Usage") -> "Usage":
        """Return the difference for each figure. A figure that is None here stays None; a missing figure in `other`
        counts as 0, and a negative difference becomes 0."""
        return Usage(
            **{
                name: None if (mine := getattr(self, name)) is None else max(0, mine - (getattr(other, name) or 0))
                for name in FIGURES
            }
        )


FIGURES = Usage.__struct_fields__


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one model in a turn."""

    model: str
    usage: Usage = Usage()
    cost_usd: float | None = None


class Total(Usage, frozen=True, kw_only=True):
    """The count of an agent CLI over a whole session. A figure is null if the CLI does not count it."""

    cost_usd: float | None = None
    models: tuple[ModelUsage, ...] | None = None
    api_s: float | None = None
    lines_added: int | None = None
    lines_removed: int | None = None


def _add(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right


BY_DEFAULT, BY_RULE = "default", "rule"  # `by` of a decision that no person made
_ARGUMENTS = ("command", "file_path", "filePath", "absolute_path", "path", "url", "reason")
_LONGEST = 80


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the agent that was denied. `by` says who denied it: `default` (no person and no rule decided),
    `rule`, or a person's name. If the agent only described its request, as on a screen, `input` has the text of the
    description in `description`."""

    tool: str
    call_id: str = ""
    input: msgspec.Raw = msgspec.Raw(b"null")
    by: str = BY_DEFAULT


def denial_text(denial: Denial) -> str:
    """Return the name of the denied tool and its main argument, for a person to read."""
    argument = _argument(denial)
    return f"{denial.tool} ({argument})" if argument else denial.tool


def _argument(denial: Denial) -> str:
    try:
        given = msgspec.json.decode(denial.input)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(given, dict):
        return ""
    texts = {key: value for key, value in given.items() if isinstance(value, str) and value}
    found = next((texts[key] for key in _ARGUMENTS if key in texts), next(iter(texts.values()), ""))
    return one_line(found, _LONGEST)


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """Work that the agent started and that was not done when the agent's turn was over, such as a background command or
    a subagent.

    `how` is the CLI's word for the end of the work (`stopped`, `killed`), or `running` if the CLI gave none. Running
    work was ended with the turn, unless a broker keeps the agent's process.
    """

    tool: str
    call_id: str = ""
    input: msgspec.Raw = msgspec.Raw(b"null")
    how: str = "running"


class ModelCallCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The model calls of a turn, as the turn's proxy counted them. `live` calls went to the model. `exact`, `minor` and
    `major` calls were answered from a recording; `unmatched` calls matched no recording. `filled` calls went to the
    model because no recording matched. `recording` is the directory of the recordings."""

    calls: int = 0
    live: int = 0
    exact: int = 0
    minor: int = 0
    major: int = 0
    unmatched: int = 0
    filled: int = 0
    recording: str = ""

    @property
    def told(self) -> str:
        """Return the counts as a text for people."""
        most = f"{self.exact} exact, {self.minor} minor, {self.major} major, {self.unmatched} unmatched"
        return f"{self.calls} model calls: {most}, {self.live} live" + (
            f", {self.filled} filled" if self.filled else ""
        )


SessionNote = Literal["new", "resumed", "lost"]
Evidence = Literal["history", "osc", "title", "screen", "prompt"]


class Point(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place of a turn in its session: `begins` is the CLI's own id of the message that began the turn, `ends` that
    of the turn's last message. The session can be cut after the message `ends`. An id is null if the CLI does not
    report it."""

    begins: str | None = None
    ends: str | None = None


class StandIn(msgspec.Struct, frozen=True, kw_only=True):
    """Who answered a message in place of its agent (`policy: fallback`): another `model` of that agent, or another
    `agent`. `why` is the reason: the class and the text of the failure before, `circuit` or `usage limit`. `place` is
    the place in the policy's list, from 1."""

    agent: str
    model: str | None = None
    why: str = ""
    place: int = 0

    @property
    def named(self) -> str:
        """Return a short text that names who answered, and why."""
        return f"{self.agent}{f' {self.model}' if self.model else ''} ({self.why.partition(':')[0]})"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a turn, as its adapter reads it from the CLI's output. beam adds the facts that only it knows
    (times, reasons for a stop).

    The event `turn.finished` and the outcome have all these fields, too: `events.turn_finished` builds the event,
    `events.outcome_of` the outcome.
    """

    status: Status
    class_: Class | None = None
    reason: str | None = None
    reply: str | None = None
    session_id: str | None = None
    session: SessionNote | None = None
    model: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    models: tuple[ModelUsage, ...] | None = None
    api_s: float | None = None
    lines_added: int | None = None
    lines_removed: int | None = None
    denials: tuple[Denial, ...] = ()
    unfinished: tuple[Unfinished, ...] = ()
    structured: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    lossy: bool | msgspec.UnsetType = msgspec.UNSET
    evidence: Evidence | None = None
    point: Point | msgspec.UnsetType = msgspec.UNSET
    model_calls: ModelCallCounts | msgspec.UnsetType = msgspec.UNSET
    partial: bool | msgspec.UnsetType = msgspec.UNSET


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a message: the output of `send/wait/show --json`, and the result of `Beam().send(...)`. Times are
    in seconds.

    `turn` is null for a message that ended before any turn (dropped, expired). `reply` is the agent's text; the text of
    an error is in `reason`. `via` is the mode of the turn, and `why` the reason for that mode, null if somebody chose
    the mode or it is the only one. `exit_code` is beam's own exit code. `redacted` is the number of secrets that were
    removed from the outcome. `usage` and `cost_usd` belong to the same model calls; `models` has the share of each
    model, null if the agent's CLI does not report it. `api_s` is the total time of the turn's model calls,
    `lines_added` and `lines_removed` are the numbers of lines that the turn changed in files; each is null if the
    agent's CLI does not report it. `structured` is the JSON value for a requested schema. `evidence` is the evidence
    that ended a turn in terminal mode: the agent's transcript (`history`), its report to the terminal (`osc`), its
    `title`, its `screen`, or the `prompt` that came back; null in other modes, and if no evidence ended the turn.
    `denials` is null if there are none and the agent's CLI would not report any; `unfinished` is the work that was not
    done when the turn was over. `login_url` is the link by which a person can log in, for a turn of class `auth` whose
    CLI named a link. `resets_at` is the time at which the usage limit ends (RFC 3339), for a turn of class `rate_limit`
    whose CLI said one. `images` are the files of the images that the agent sent, absent if there are none. `point` is
    the place of the turn in its session, by the CLI's own ids. `model_calls` is set if a proxy was between the agent
    and its model. `partial`: `usage` and `cost_usd` lack some model calls of the turn, such as those of a subagent;
    absent if they lack none, or if nobody knows. `worked`: the turn did not complete, but the agent did some work in it
    before (a tool call that succeeded, a changed file), so to run it again may do that work twice; absent otherwise.
    `stand_in`: who answered in place of the agent; absent if the agent did.
    """

    v: int = 1
    message_id: str
    agent: str
    turn: int | None
    attempt: int
    status: Status
    class_: Class | None = msgspec.field(name="class", default=None)
    reason: str | None = None
    login_url: str | msgspec.UnsetType = msgspec.UNSET
    resets_at: str | msgspec.UnsetType = msgspec.UNSET
    images: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    reply: str | None = None
    session_id: str | None = None
    session: SessionNote | None = None
    via: str | None = None
    why: str | None = None
    model: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    models: tuple[ModelUsage, ...] | None = None
    api_s: float | None = None
    lines_added: int | None = None
    lines_removed: int | None = None
    duration_s: float | None = None
    exit_code: int = 0
    denials: tuple[Denial, ...] | None = None
    unfinished: tuple[Unfinished, ...] = ()
    structured: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    lossy: bool | msgspec.UnsetType = msgspec.UNSET
    evidence: Evidence | None = None
    point: Point | msgspec.UnsetType = msgspec.UNSET
    redacted: int = 0
    model_calls: ModelCallCounts | msgspec.UnsetType = msgspec.UNSET
    partial: bool | msgspec.UnsetType = msgspec.UNSET
    worked: bool | msgspec.UnsetType = msgspec.UNSET
    stand_in: StandIn | msgspec.UnsetType = msgspec.UNSET


_COUNTS = (*FIGURES, "lines_added", "lines_removed", "api_s", "used", "size")


def without_impossible_figures(body: S) -> tuple[S, tuple[str, ...]]:
    """Return what an agent reports with None in place of each figure that is out of range, and the names of these
    figures. An agent may write any number, and cost and tokens are added to sums, budgets and tables."""
    refused: dict[str, None] = {}
    changes = _changes(body, refused)
    return (msgspec.structs.replace(body, **changes), tuple(refused)) if refused else (body, ())


def _changes(value: object, refused: dict[str, None]) -> dict[str, object]:
    """Return the fields of `value` that change, each with its new value. Add the names of the figures that are out of
    range to `refused`."""
    changes: dict[str, object] = {}
    for name in _COUNTS:
        if _is_out_of_range(getattr(value, name, None), MAX_COUNT):
            changes[name] = refused[name] = None
    if _is_out_of_range(getattr(value, "cost_usd", None), MAX_USD):
        changes["cost_usd"] = refused["cost_usd"] = None
    for name in ("usage", "total"):
        part = getattr(value, name, None)
        if isinstance(part, Usage):
            changes[name] = _without_refused(part, refused)
    models: tuple[ModelUsage, ...] | None = getattr(value, "models", None)
    if models:
        changes["models"] = tuple(msgspec.structs.replace(one, **_changes(one, refused)) for one in models)
    return changes


def _without_refused(part: S, refused: dict[str, None]) -> S:
    changes = _changes(part, refused)
    return msgspec.structs.replace(part, **changes) if changes else part


def _is_out_of_range(figure: float | None, most: float) -> bool:
    """Return whether the figure is below 0, above `most`, or NaN. A figure of None is in range."""
    return figure is not None and not 0 <= figure <= most
