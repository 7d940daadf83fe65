"""The events of a journal, one class per type, and their JSON lines.

Adapters create events whose header fields have their default values; the journal fills in the header. A reader ignores
unknown fields and turns an event of an unknown type into `Unknown`. An invalid field of a known type is an error that
names the field. Does not depend on files, clocks, processes or vendors.
"""

# No `from __future__ import annotations` where structs are decoded at start: each annotation would be read as text, and
# a start of beam would take 15 ms longer.
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from beam.base.errors import CorruptError
from beam.model.message import RuleLists
from beam.model.outcome import (
    COST_DIGITS,
    Class,
    Denial,
    Evidence,
    ModelCallCounts,
    ModelUsage,
    Outcome,
    Point,
    SessionNote,
    StandIn,
    Status,
    Total,
    Unfinished,
    Usage,
    Verdict,
)

VERSION = 1


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """The header that every event has.

    `seq` counts from 1 without gaps in one journal; `ts` is UTC, RFC 3339 with microseconds, and never decreases in one
    journal; `turn` is null outside a turn; `message_id` is null for an event that no message caused. `imported` marks
    an event that happened before the agent existed: it was read from the files of the session that the agent adopted.
    Its value is the time of the event (RFC 3339; "": the files don't contain the time).
    """

    v: int = VERSION
    seq: int = 0
    ts: str = ""
    agent: str = ""
    turn: int | None = None
    message_id: str | None = None
    imported: str | UnsetType = UNSET


class _CliEvent(Event, frozen=True, kw_only=True):
    """An event that an adapter made from output of its CLI. `raw` is the line of the CLI. If several events come from
    one line, only one of them has it."""

    raw: str | UnsetType = UNSET


class Owner(Struct, frozen=True, kw_only=True):
    """A process, identified so that no other process can be mistaken for it.

    `start_ticks` is field 22 of /proc/<pid>/stat (clock ticks since boot; on macOS the start time in microseconds);
    `boot_id` and `pid_namespace` are "" if the operating system has none.
    """

    pid: int
    start_ticks: int
    boot_id: str = ""
    pid_namespace: str = ""
    host: str = ""


# -- messages ----------------------------------------------------------------------------------------------------------


class MessageQueued(Event, frozen=True, kw_only=True, tag="message.queued"):
    """The holder saw the message for the first time, or for the first time after an edit.

    `text` is the text of the message, without secrets; `digest` is the SHA-256 of the message's sender, receiver, text,
    attachments and options (hex); `revision` counts edits; `position` is the number that orders the message in its
    queue. `actor` is who sent it in the sender's name, null if nobody did: a person, an agent, or a scenario (`run
    NAME`).
    """

    sender: str = field(name="from")
    kind: str = "message"
    text: str = ""
    thread: str = ""
    hops: int = 0
    reply: str = "none"
    reply_to: str | None = None
    key: str | None = None
    actor: str | None = None
    digest: str = ""
    revision: int = 0
    position: int = 0
    queued_at: str = ""


class MessageClaimed(Event, frozen=True, kw_only=True, tag="message.claimed"):
    """The holder claimed the message: its file moved from `new/` to `cur/`. `attempt` is the number of the attempt that
    begins, one higher for a retry."""

    attempt: int = 1


class MessageRequeued(Event, frozen=True, kw_only=True, tag="message.requeued"):
    """The message went back to `new/`. `reason`: its holder died before its agent was started (`holder_died`), the
    operating system had no resources to start the agent (`shortage`), its lease ran out (`lease_over`), it is tried
    again (`retry`), it waits for the end of a usage limit (`usage_limit`), or another
    model or agent answers it (`fallback`). `attempt` is the number of the next
    attempt, `not_before` the earliest time of that attempt (RFC 3339; null: immediately)."""

    attempt: int
    reason: str
    not_before: str | None = None


class MessageDead(Event, frozen=True, kw_only=True, tag="message.dead"):
    """The message was given up. Its file is a dead letter in `dead/`, or removed if a person dropped the message.

    `reason` is a keyword (dropped, expired, failed, unknown, id_reused, corrupt, no_such_session, holder_died, hops,
    budget, gone); `detail` explains it in a sentence. `status` and `class` are the outcome of the message if no turn
    gave one; `tell`: an agent that waits for a reply is informed next.
    """

    attempt: int = 1
    reason: str
    detail: str = ""
    status: Status = Status.FAILED
    class_: Class | None = field(name="class", default=None)
    file: str | None = None
    tell: bool = False


class QueuePaused(Event, frozen=True, kw_only=True, tag="queue.paused"):
    """The agent's queue is paused: it accepts messages, but none of them is claimed until it is resumed."""

    by: str | None = None


class QueueResumed(Event, frozen=True, kw_only=True, tag="queue.resumed"):
    """The agent's queue is no longer paused."""

    by: str | None = None


class CircuitOpened(Event, frozen=True, kw_only=True, tag="circuit.opened"):
    """The agent failed too often, and its circuit breaker opened: no message is claimed before the time `until` (RFC
    3339). After it, one message is tried. `failures` is the number of failures."""

    until: str
    failures: int = 0


class CircuitClosed(Event, frozen=True, kw_only=True, tag="circuit.closed"):
    """The agent answered again, and its circuit breaker closed."""


# -- sessions ----------------------------------------------------------------------------------------------------------


class SessionStarted(_CliEvent, frozen=True, kw_only=True, tag="session.started"):
    """The agent CLI opened a new session or, if it is `resumed`, continues an earlier one. `session_id` is the id by
    which the CLI resumes it; it may differ from the requested id, because some CLIs give a resumed session a new id.

    `forked_from` is set if the session is a copy of another one: it is the id of that session. `system` is the digest
    of the system prompt; it is set if the CLI takes no system prompt, so that this turn's message begins with it.
    """

    session_id: str
    resumed: bool = False
    model: str | None = None
    cwd: str | None = None
    access: str | None = None
    tools: tuple[str, ...] = ()
    version: str | None = None
    forked_from: str | UnsetType = UNSET
    system: str | UnsetType = UNSET


class SessionLost(_CliEvent, frozen=True, kw_only=True, tag="session.lost"):
    """The output of the agent CLI proves that the session no longer exists."""

    session_id: str
    reason: str = ""


class SessionArchived(Event, frozen=True, kw_only=True, tag="session.archived"):
    """The agent's current session was archived; the next turn starts a new session. The vendor's copy of the session is
    not deleted."""

    session_id: str
    reason: str = ""
    by: str | None = None


class SessionForked(Event, frozen=True, kw_only=True, tag="session.forked"):
    """The agent was created as a fork of the agent `of`. Its first turn continues in a copy of that agent's session
    `session_id`; the copy is made when that turn starts, and the original is unchanged. `upto` is the CLI's own id of
    the last message to copy; absent: the whole session is copied."""

    session_id: str
    of: str
    adapter: str
    by: str | None = None
    upto: str | UnsetType = UNSET


class SessionRewound(Event, frozen=True, kw_only=True, tag="session.rewound"):
    """A person took back the last turns of the agent's session. The next turn continues after the turn `to`. `upto` is
    the CLI's own id of the last message that remains."""

    session_id: str
    upto: str
    to: int | None = None
    by: str | None = None


class SessionSelected(Event, frozen=True, kw_only=True, tag="session.selected"):
    """A person chose the session in which the agent's next turn continues. It is an earlier session of the agent, or a
    session that the agent's CLI had before beam knew it."""

    session_id: str
    adapter: str
    by: str | None = None


class SessionImported(Event, frozen=True, kw_only=True, tag="session.imported"):
    """The import of an adopted session is complete: the events before this one that are marked `imported` are the
    content of the session. `events` is the number of these events; `left_out` is how many events at the beginning of
    the session were not imported (null: the session's files were not found); `is_cut`: there are even more, in a part
    that was not read. `unread` is the number of records that could not be read, by the reason."""

    session_id: str
    adapter: str
    events: int = 0
    left_out: int | None = 0
    is_cut: bool = False
    unread: dict[str, int] = {}


class SessionPrompted(Event, frozen=True, kw_only=True, tag="session.prompted"):
    """Somebody gave a prompt to a session that beam did not start. The session's agent works on the prompt now or, if
    the event is `imported`, worked on it earlier."""

    text: str


class SessionIdle(Event, frozen=True, kw_only=True, tag="session.idle"):
    """The agent of a session that beam did not start is waiting for its next prompt.

    `usage` is the agent's usage since its last prompt, and `cost_usd` the cost of that usage as its CLI reports it.
    `reason` says why the agent's turn failed or was cut short; "" if neither happened.
    """

    usage: Usage = Usage()
    cost_usd: float | None = None
    model: str | None = None
    duration_s: float | None = None
    reason: str = ""


# -- turns -------------------------------------------------------------------------------------------------------------


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn.started"):
    """A turn began; no process of it was started yet.

    `turn_key` is random and marks every process of the turn. `why` is the reason for the mode `via`, null if the sender
    or the settings named the mode. `lease_until` is set for a turn that no process of beam runs (a mailbox): until then
    the message belongs to the program that took it. `at_most` limits the access of messages that the turn's agent sends
    (null: no limit but the receiver's settings), and `rules` limit them in the same way.
    """

    attempt: int = 1
    owner: Owner
    turn_key: str
    adapter: str
    via: str
    why: str | None = None
    lease_until: str | None = None
    at_most: str | None = None
    rules: RuleLists | UnsetType = UNSET


class WorkTreeRecorded(Event, frozen=True, kw_only=True, tag="worktree.recorded"):
    """The content of the git work tree `folder`, or of this folder outside of git, was recorded, for `beam diff` and
    `beam undo`. `at` is `start`, before the turn's agent could change it, or `end`, after the turn. `tree` is the
    object id of the git tree in `snapshots/` of the root. If the content could not be recorded, `tree` is null and
    `reason` says why."""

    folder: str
    tree: str | None = None
    reason: str = ""
    at: Literal["start", "end"] = "start"


class WorkTreeUndone(Event, frozen=True, kw_only=True, tag="worktree.undone"):
    """`beam undo` is about to write `files` in the work tree `folder`: as they are in the git tree `to`, where they are
    as in the tree `tree`, which was recorded just before. `of` is the turn whose changes are taken back; with `redo` an
    undo of them is taken back. If the writing was cut short, `beam undo` does the rest."""

    folder: str
    tree: str
    to: str
    of: int | None = None
    files: tuple[str, ...] = ()
    redo: bool = False
    by: str | None = None


class PromptSent(Event, frozen=True, kw_only=True, tag="prompt.sent"):
    """The agent may act on the message from now on.

    After this event the message is never run again automatically, unless the agent's guard left proof that the agent
    was never executed.
    """

    bytes: int = 0


class TurnFinished(Event, frozen=True, kw_only=True, tag="turn.finished"):
    """A turn ended with this outcome (docs/exit-codes.md). The event is on disk before anyone is told of the outcome.
    `why` is as in `turn.started`, except for a turn whose protocol failed so that it ran headless. `login_url` is the
    link by which a person can log in; it is set if nobody is logged in and the CLI named a link. `images` are the files
    of the turn's images, as in `image`. `at_most` and `rules` are as in `turn.started`. `resets_at` is the time at
    which the usage limit ends that the turn ran into (RFC 3339); it is set if the CLI said one. `stand_in` is who
    answered in place of the agent, whose session is not touched by a turn of another agent."""

    attempt: int = 1
    status: Status
    class_: Class | None = field(name="class", default=None)
    reason: str | None = None
    login_url: str | UnsetType = UNSET
    resets_at: str | UnsetType = UNSET
    images: tuple[str, ...] | UnsetType = UNSET
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
    structured: Raw | UnsetType = UNSET
    lossy: bool | UnsetType = UNSET
    evidence: Evidence | None = None
    point: Point | UnsetType = UNSET
    redacted: int = 0
    at_most: str | None = None
    rules: RuleLists | UnsetType = UNSET
    model_calls: ModelCallCounts | UnsetType = UNSET
    partial: bool | UnsetType = UNSET
    worked: bool | UnsetType = UNSET
    stand_in: StandIn | UnsetType = UNSET


class TurnClosed(Event, frozen=True, kw_only=True, tag="turn.closed"):
    """The message is done: nothing more will happen to it.

    `reply` says what happened to the answer: `waited` (its sender waited for it), `queued` (it was sent to the agent
    `to` as the message `reply_id`), `dead` (it could not be delivered), or `none` (nobody asked for it, or it ends an
    exchange; `detail` gives the reason).
    """

    attempt: int = 1
    reply: Literal["waited", "queued", "dead", "none"] = "none"
    to: str | None = None
    reply_id: str | None = None
    detail: str = ""


# -- processes ---------------------------------------------------------------------------------------------------------


class AgentStarted(Event, frozen=True, kw_only=True, tag="agent.started"):
    """The agent's process exists. In exec mode, the agent's program is executed only after `prompt.sent`.

    `pid` is the process id of the agent, `guard_pid` that of its guard; `argv` has no secrets and no prompt. `since` is
    the number of the turn that started the process, if it was kept since that turn; null if this turn started it.
    """

    pid: int
    start_ticks: int
    guard_pid: int
    guard_start_ticks: int
    argv: tuple[str, ...] = ()
    cwd: str = ""
    since: int | None = None


class AgentKept(Event, frozen=True, kw_only=True, tag="agent.kept"):
    """The turn is over, and the agent's process stays alive for the next turn.

    Without a next turn, the process stays until `until` (RFC 3339), or longer while somebody looks at its terminal;
    null: as long as its holder lives. The `agent.exited` of the process comes later. If the process ends between two
    turns, that event belongs to no turn.
    """

    pid: int
    until: str | None = None


class AgentExited(Event, frozen=True, kw_only=True, tag="agent.exited"):
    """The agent's process and every process that it started have ended.

    Either `code` or `signal` is set; both are null if the guard was killed. `stopped_by` is beam's reason for ending
    the process, null if it ended by itself. `swept` is the number of processes that the agent left behind and the guard
    ended. `pid` is the process id of the agent, null if the CLI runs one process per turn.
    """

    code: int | None = None
    signal: str | None = None
    stopped_by: str | None = None
    stderr_tail: str = ""
    swept: int = 0
    pid: int | None = None


# -- what the agent says and does --------------------------------------------------------------------------------------


class TextDelta(Event, frozen=True, kw_only=True, tag="text.delta"):
    """A piece of the agent's text while it is being written; at most 20 a second.

    The complete text follows in an event `text`. `parent` is the tool call of the subagent that writes the text, null
    for the agent itself.
    """

    text: str
    parent: str | None = None


class Text(_CliEvent, frozen=True, kw_only=True, tag="text"):
    """A finished piece of the agent's text."""

    text: str
    parent: str | None = None


class Thinking(_CliEvent, frozen=True, kw_only=True, tag="thinking"):
    """A finished piece of the agent's reasoning, if its CLI reports it."""

    text: str
    parent: str | None = None


class ToolCalled(_CliEvent, frozen=True, kw_only=True, tag="tool.called"):
    """The agent calls a tool. `input` is the JSON value of the arguments, as the CLI reports it."""

    call_id: str
    name: str
    input: Raw = Raw(b"null")
    parent: str | None = None


class ToolProgress(_CliEvent, frozen=True, kw_only=True, tag="tool.progress"):
    """A running tool reports progress."""

    call_id: str
    text: str = ""
    elapsed_s: float | None = None
    parent: str | None = None


class ToolReturned(_CliEvent, frozen=True, kw_only=True, tag="tool.returned"):
    """A tool call ended. `unfinished`: the turn ended before the tool did, and it is unknown what the tool did."""

    call_id: str
    output: str = ""
    is_error: bool = False
    unfinished: bool = False
    parent: str | None = None


class FileChanged(_CliEvent, frozen=True, kw_only=True, tag="file.changed"):
    """The agent reports that it changed a file. `kind` is add, update or delete. `path` is relative to the folder where
    the agent works if the file is in there, else absolute; links in it are followed."""

    path: str
    kind: str = "update"


class ImageSeen(_CliEvent, frozen=True, kw_only=True, tag="image"):
    """An image that the agent made, looked at, or got from a tool.

    `media_type` and `bytes` are the type and the size of the image ("" and null: unknown). If the CLI sent the image's
    content, beam wrote the content to the file `path` below the agent's directory in the root, named by its SHA-256. If
    beam did not write it, `unkept` says why. `at` is the file or link that the CLI itself names, "" if it names none.
    `call_id` is the tool call that returned the image, null if no tool did.
    """

    media_type: str = ""
    bytes: int | None = None
    at: str = ""
    path: str = ""
    unkept: str = ""
    call_id: str | None = None
    parent: str | None = None


class PlanStep(Struct, frozen=True, kw_only=True):
    """One step of an agent's plan. `status` is pending, in_progress or completed."""

    text: str
    status: str = "pending"


class PlanUpdated(_CliEvent, frozen=True, kw_only=True, tag="plan.updated"):
    """The agent has a new plan; `steps` is the complete plan."""

    steps: tuple[PlanStep, ...] = ()


class UsageSeen(_CliEvent, frozen=True, kw_only=True, tag="usage"):
    """The usage of the turn so far. `total` is the count over the whole session, for a CLI that counts over the
    session."""

    usage: Usage
    cost_usd: float | None = None
    total: Total | None = None


class ContextUsed(_CliEvent, frozen=True, kw_only=True, tag="context"):
    """How full the agent's context is: `used` tokens of `size` tokens. A value is null if the agent's CLI does not
    report it."""

    used: int | None = None
    size: int | None = None


class StatusChanged(_CliEvent, frozen=True, kw_only=True, tag="status"):
    """The agent's activity changed. `state` is `retrying` (attempt number `attempt` of `of`, after `delay_s`, because
    of a failure with this class and HTTP status), `compacting`, `compacted`, `requesting`, `mode` (`detail` is the
    CLI's own name of the mode that it is in now), or the CLI's own word for another state."""

    state: str
    detail: str = ""
    attempt: int | None = None
    of: int | None = None
    delay_s: float | None = None
    class_: Class | None = field(name="class", default=None)
    http_status: int | None = None


class Notice(_CliEvent, frozen=True, kw_only=True, tag="notice"):
    """Something that a person should know, as the sentence `text`.

    `code` is a stable identifier for programs; `covers` is a range of byte offsets [start, end) in this segment that
    readers skip, because a crash damaged it.
    """

    text: str
    code: str = ""
    covers: tuple[int, int] | None = None


class RequestDifference(Struct, frozen=True, kw_only=True):
    """One field in which a request to the model differs from the recorded request. `path` is the field. `recorded` and
    `got` are extracts of both values, from shortly before the difference; null if that request does not have the field.
    `characters` is the number of characters that differ."""

    path: str
    recorded: str | None = None
    got: str | None = None
    characters: int = 0


class ModelCalled(Event, frozen=True, kw_only=True, tag="model.called"):
    """The agent called its model through the turn's proxy (docs/proxy.md). `n` is the number of the request in the
    turn. `step` is `live` (the request went to the model); `exact`, `minor`, `major`, `unmatched` or `filled` (in a
    replay: how well a recording matched); `over` (refused, because the budget is used up) or `refused` (refused because
    of its key). `recorded` is the number of the recorded call that was the answer, `nearest` that of the recorded call
    with which the request was compared."""

    n: int
    step: str
    model: str = ""
    recorded: int | None = None
    nearest: int | None = None
    differences: tuple[RequestDifference, ...] = ()
    usage: Usage | None = None
    detail: str = ""


# -- permission --------------------------------------------------------------------------------------------------------


class PermissionAsked(_CliEvent, frozen=True, kw_only=True, tag="permission.asked"):
    """The agent waits for a decision. `expires` is the time at which the request is denied if nobody decides; null:
    beam decides immediately or, in a session that beam did not start, the session's own user decides."""

    ask_id: str
    tool: str
    input: Raw = Raw(b"null")
    description: str = ""
    call_id: str | None = None
    suggestions: Raw = Raw(b"[]")
    expires: str | None = None


PermissionDecision = Literal["allow", "deny", "cancelled"]


class PermissionDecided(_CliEvent, frozen=True, kw_only=True, tag="permission.decided"):
    """A permission request was decided, or no longer needs a decision (`cancelled`). `by` is default, rule, or a
    person's name. `rule` is the text of the rule that decided, and `whose` its source: a file, a flag, or the agent
    that sent the message. `input` is the input that was allowed instead of the requested one; absent: the requested one
    was allowed."""

    ask_id: str
    decision: PermissionDecision
    by: str = "default"
    why: str = ""
    rule: str = ""
    whose: str = ""
    input: Raw | UnsetType = UNSET


class SettingsChanged(Event, frozen=True, kw_only=True, tag="settings.changed"):
    """A command changed settings of the agent (in agent.json).

    `changes` maps each changed setting to its new value as JSON text, or to null if the setting was removed. An
    environment variable is named `env.NAME`; its value is left out.
    """

    changes: dict[str, str | None] = {}
    by: str | None = None


class ControlDone(_CliEvent, frozen=True, kw_only=True, tag="control.done"):
    """A request was carried out or refused. It is a request to the holder, or a request of beam to the agent CLI.

    `result` is a JSON value.
    """

    control_id: str
    verb: str = ""
    ok: bool = True
    code: str = ""
    message: str = ""
    result: Raw = Raw(b"null")


class Unknown(_CliEvent, frozen=True, kw_only=True, tag="unknown"):
    """Something that beam does not understand and keeps as it is. Either it is a record of the CLI, in `raw`, or an
    event in a journal whose type this version of beam does not know; then `raw` is the journal's line. `what` is the
    type."""

    what: str = ""


# -- teams -------------------------------------------------------------------------------------------------------------


class _TeamEvent(Event, frozen=True, kw_only=True):
    """The header of an event in a team of one vendor's agents. Such an event is in no journal: `seq` is 0, and `ts` is
    the time when it happened.

    `agent` is `<member>@<team>`, or `@<team>` if no member caused the event. `team` is the team's name, `home` the
    vendor's directory that contains the team. `key` identifies the event: it is the same whichever source reported the
    event. `source` is files, transcript, hook or process.
    """

    team: str
    home: str = ""
    key: str = ""
    source: str = "files"


class TeamStarted(_TeamEvent, frozen=True, kw_only=True, tag="team.started"):
    """A team exists. `lead` is its lead, and `session_id` the lead's session."""

    lead: str = ""
    session_id: str = ""
    cwd: str = ""


class TeamEnded(_TeamEvent, frozen=True, kw_only=True, tag="team.ended"):
    """The team's files are gone, because its lead left."""

    reason: str = ""


class TeamStale(_TeamEvent, frozen=True, kw_only=True, tag="team.stale"):
    """The team's files still exist, but the process of its lead does not. `pid` is the process id of the lead, null if
    unknown."""

    reason: str = ""
    pid: int | None = None


class MemberJoined(_TeamEvent, frozen=True, kw_only=True, tag="member.joined"):
    """An agent joined the team. `backend` says how it runs: in-process, tmux, ...; `colour` is the colour that the
    vendor shows it in."""

    member: str
    kind: str = ""
    model: str | None = None
    colour: str | None = None
    backend: str = ""
    pane: str = ""
    cwd: str = ""
    prompt: str = ""


class MemberWorking(_TeamEvent, frozen=True, kw_only=True, tag="member.working"):
    """The member is working on a turn. `why` says how beam noticed this."""

    member: str
    why: str = ""


class MemberIdle(_TeamEvent, frozen=True, kw_only=True, tag="member.idle"):
    """The member is idle and waits.

    `reason` is available, interrupted or failed; `summary` is the member's last text to another member. `task_id` is
    the task that the member worked on, `task_status` what the member itself said about the task: resolved, blocked or
    failed.
    """

    member: str
    reason: str = "available"
    summary: str = ""
    failure: str = ""
    task_id: str | None = None
    task_status: str | None = None


class MemberUsed(_TeamEvent, frozen=True, kw_only=True, tag="member.used"):
    """The usage of a finished turn of the member, including the usage of its subagents.

    `cost_usd` is null if the price of a model is unknown; `unpriced` lists such models.
    """

    member: str
    usage: Usage
    cost_usd: float | None = None
    unpriced: tuple[str, ...] = ()


class MemberLeft(_TeamEvent, frozen=True, kw_only=True, tag="member.left"):
    """The member is no longer in the team."""

    member: str
    reason: str = ""


class MemberOrphaned(_TeamEvent, frozen=True, kw_only=True, tag="member.orphaned"):
    """The member's lead is gone, but the member is still running. `pid` is null if the member's process was not
    found."""

    member: str
    pid: int | None = None
    pane: str = ""


class MemberAsked(_TeamEvent, frozen=True, kw_only=True, tag="member.asked"):
    """The member `sender` requests an answer from `to`. `what`: whether a plan is approved, whether a tool is
    permitted, or whether `to` shuts down."""

    what: Literal["plan", "permission", "shutdown"]
    request_id: str
    sender: str = field(name="from")
    to: str = ""
    text: str = ""
    tool: str | None = None
    input: Raw = Raw(b"null")


class MemberAnswered(_TeamEvent, frozen=True, kw_only=True, tag="member.answered"):
    """The member `sender` answered another member's request."""

    what: Literal["plan", "permission", "shutdown"]
    request_id: str
    sender: str = field(name="from")
    approved: bool
    text: str = ""


class _TaskEvent(_TeamEvent, frozen=True, kw_only=True):
    """The header of an event about a task of a team. `by` is the member who changed the task, null if no source says
    it."""

    task_id: str
    subject: str = ""
    owner: str | None = None
    by: str | None = None


class TaskCreated(_TaskEvent, frozen=True, kw_only=True, tag="task.created"):
    """A task was added to the team's list."""

    description: str = ""
    blocked_by: tuple[str, ...] = ()


class TaskClaimed(_TaskEvent, frozen=True, kw_only=True, tag="task.claimed"):
    """The task has a new owner: a member claimed it, or it was assigned. `previous` is the owner before, null if it had
    none."""

    previous: str | None = None


class TaskStarted(_TaskEvent, frozen=True, kw_only=True, tag="task.started"):
    """The task is in progress."""


class TaskCompleted(_TaskEvent, frozen=True, kw_only=True, tag="task.completed"):
    """The task is done."""


class TaskReopened(_TaskEvent, frozen=True, kw_only=True, tag="task.reopened"):
    """The task was in progress or done and is pending again, or it lost its owner. `previous` is the owner before."""

    previous: str | None = None


class TaskDeleted(_TaskEvent, frozen=True, kw_only=True, tag="task.deleted"):
    """The task is gone from the list."""


class TaskUnblocked(_TaskEvent, frozen=True, kw_only=True, tag="task.unblocked"):
    """The task no longer waits for another task. `blocker` is the last task that it waited for, which is now done or
    gone."""

    blocker: str = ""


class TaskChanged(_TaskEvent, frozen=True, kw_only=True, tag="task.changed"):
    """Other parts of the task changed: `fields` lists the changed parts; `blocked_by` is the current list of tasks that
    it waits for."""

    fields: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()


class MailSent(_TeamEvent, frozen=True, kw_only=True, tag="mail.sent"):
    """A message is in a member's inbox.

    `mail_id` is the vendor's id of the message, "" if it has none. `kind` is `message`, or a type of the team's own
    protocol (task_assignment, idle_notification, ...), whose `text` is JSON.
    """

    mail_id: str
    sender: str = field(name="from")
    to: str
    text: str = ""
    summary: str = ""
    kind: str = "message"
    colour: str | None = None


class MailDelivered(_TeamEvent, frozen=True, kw_only=True, tag="mail.delivered"):
    """The member took the message from its inbox. `waited_s` is the number of seconds that the message was there."""

    mail_id: str
    sender: str = field(name="from")
    to: str
    waited_s: float | None = None


class MailLost(_TeamEvent, frozen=True, kw_only=True, tag="mail.lost"):
    """The message will not be delivered."""

    mail_id: str
    sender: str = field(name="from")
    to: str
    why: str = ""
    text: str = ""


AnyEvent = (
    MessageQueued
    | MessageClaimed
    | MessageRequeued
    | MessageDead
    | QueuePaused
    | CircuitOpened
    | CircuitClosed
    | QueueResumed
    | SessionStarted
    | SessionLost
    | SessionArchived
    | SessionForked
    | SessionRewound
    | SessionSelected
    | SessionImported
    | SessionPrompted
    | SessionIdle
    | TurnStarted
    | WorkTreeRecorded
    | WorkTreeUndone
    | PromptSent
    | TurnFinished
    | TurnClosed
    | AgentStarted
    | AgentKept
    | AgentExited
    | TextDelta
    | Text
    | Thinking
    | ToolCalled
    | ToolProgress
    | ToolReturned
    | FileChanged
    | ImageSeen
    | PlanUpdated
    | UsageSeen
    | ContextUsed
    | StatusChanged
    | Notice
    | ModelCalled
    | PermissionAsked
    | PermissionDecided
    | SettingsChanged
    | ControlDone
    | TeamStarted
    | TeamEnded
    | TeamStale
    | MemberJoined
    | MemberWorking
    | MemberIdle
    | MemberUsed
    | MemberLeft
    | MemberOrphaned
    | MemberAsked
    | MemberAnswered
    | TaskCreated
    | TaskClaimed
    | TaskStarted
    | TaskCompleted
    | TaskReopened
    | TaskDeleted
    | TaskUnblocked
    | TaskChanged
    | MailSent
    | MailDelivered
    | MailLost
    | Unknown
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


class _Header(Struct, frozen=True, kw_only=True):
    type: str
    v: int = VERSION
    seq: int = 0
    ts: str = ""
    agent: str = ""
    turn: int | None = None
    message_id: str | None = None


_head_decoder: msgspec.json.Decoder[_Header] = msgspec.json.Decoder(_Header)


def types() -> dict[str, type[Event]]:
    """Return the class of every event type by its tag, in the order of docs/events.md."""
    return {str(cls.__struct_config__.tag): cls for cls in AnyEvent.__args__}


_KNOWN_TYPES = frozenset(types())


encode: Callable[[Event], bytes] = _encoder.encode  # an event's JSON, without a newline


def decode(line: bytes) -> AnyEvent:
    """Return the event in one journal line.

    An event of an unknown type becomes `Unknown`, with the line as `raw`. Raises CorruptError for a line that is not an
    event of beam.
    """
    try:
        return _decoder.decode(line)
    except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
        return _decode_unknown(line, error)


def decode_lines(lines: bytes) -> list[AnyEvent] | None:
    """Return the events in complete journal lines; None unless each line is an event of a known type.

    This takes a third of the time that `decode` takes line by line.
    """
    try:
        found = _decoder.decode_lines(lines)
    except (ValueError, RecursionError):
        return None
    return found if len(found) == lines.count(b"\n") else None


def _decode_unknown(line: bytes, error: Exception) -> Unknown:
    try:
        head = _head_decoder.decode(line)
    except (ValueError, RecursionError) as no_head:
        raise CorruptError(f"not an event: {no_head}") from no_head
    if head.type in _KNOWN_TYPES:
        raise CorruptError(f"bad {head.type} event, seq {head.seq}: {error}") from error
    return Unknown(
        v=head.v,
        seq=head.seq,
        ts=head.ts,
        agent=head.agent,
        turn=head.turn,
        message_id=head.message_id,
        what=head.type,
        raw=line.decode(errors="replace"),
    )


E = TypeVar("E", bound=Event)


def turn_finished(verdict: Verdict, *, attempt: int, **known: Any) -> TurnFinished:
    """Return the event for the end of a turn: the fields of the verdict, and in `known` the fields that only beam
    knows.

    The exit code follows from status and class, unless `known` contains it.
    """
    from beam.model.outcome import exit_code

    fields: dict[str, Any] = {name: getattr(verdict, name) for name in verdict.__struct_fields__}
    fields["exit_code"] = exit_code(verdict.status, verdict.class_)
    if verdict.cost_usd is not None:
        fields["cost_usd"] = round(verdict.cost_usd, COST_DIGITS)
    return TurnFinished(attempt=attempt, **{**fields, **known})


def with_image_in(event: E, files: str) -> E:
    """Return the event. If it is an image with a file, its path is made absolute: `files` is the agent's directory,
    which contains the file."""
    if isinstance(event, ImageSeen) and event.path and files:
        return msgspec.structs.replace(event, path=f"{files}/{event.path}")
    return event


def outcome_of(event: TurnFinished | MessageDead, files: str = "") -> Outcome:
    """Return the outcome that this event records. `files` is the agent's directory in the root, below which the images
    are."""
    from beam.model.outcome import exit_code

    if isinstance(event, MessageDead):
        return Outcome(
            message_id=event.message_id or "",
            agent=event.agent,
            turn=event.turn,
            attempt=event.attempt,
            status=event.status,
            class_=event.class_,
            reason=event.detail or event.reason,
            exit_code=exit_code(event.status, event.class_),
        )
    fields: dict[str, Any] = {
        name: getattr(event, name) for name in Outcome.__struct_fields__ if name not in ("v", "message_id")
    }
    if files and not isinstance(event.images, UnsetType):
        fields["images"] = tuple(f"{files}/{name}" for name in event.images)
    return Outcome(message_id=event.message_id or "", **fields)
