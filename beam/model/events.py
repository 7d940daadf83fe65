"""The events of a journal, one class per type, and their JSON lines.

Adapters make events without a header (its fields are at their defaults); the journal stamps the header. A reader
ignores unknown fields and turns an unknown type into `Unknown`; a bad field of a known type is an error with its path.
Does not depend on files, clocks, processes or vendors.
"""

# No `from __future__ import annotations` where structs are decoded at start: each annotation would be read as text, and
# a start of beam would take 15 ms longer.
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from beam.base.errors import CorruptError
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
    Status,
    Total,
    Unfinished,
    Usage,
    Verdict,
)
from beam.model.rule_lists import RuleLists

VERSION = 1


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """The header that every event has.

    `seq` counts from 1 without gaps in one journal; `ts` is UTC, RFC 3339 with microseconds, and never goes backwards
    in one journal; `turn` is null outside a turn; `message_id` is null for an event that no message caused. `imported`
    marks an event of a time before the agent: it was read from the files of the session that the agent adopted, and
    says when it happened (RFC 3339; "": the files don't say).
    """

    v: int = VERSION
    seq: int = 0
    ts: str = ""
    agent: str = ""
    turn: int | None = None
    message_id: str | None = None
    imported: str | UnsetType = UNSET


class _Native(Event, frozen=True, kw_only=True):
    """An event that an adapter read from its CLI: `raw` is the CLI's own line, once, on the event it became."""

    raw: str | UnsetType = UNSET


class Owner(Struct, frozen=True, kw_only=True):
    """A process, identified so that no other can be mistaken for it.

    `start_ticks` is /proc/<pid>/stat field 22 (clock ticks since boot; on macOS the start time in microseconds);
    `boot_id` and `pid_namespace` are "" if the system has none.
    """

    pid: int
    start_ticks: int
    boot_id: str = ""
    pid_namespace: str = ""
    host: str = ""


# -- messages ----------------------------------------------------------------------------------------------------------


class MessageQueued(Event, frozen=True, kw_only=True, tag="message.queued"):
    """The holder saw the message for the first time.

    `text` is what was sent, without secrets; `digest` is the SHA-256 of what makes it this message (hex), `revision`
    counts edits (an edited message is queued again); `position` is the `n` that orders it in its queue.
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
    """The message moved from `new/` to `cur/`. A retry is claimed with `attempt` one higher."""

    attempt: int = 1


class MessageRequeued(Event, frozen=True, kw_only=True, tag="message.requeued"):
    """The message went back to `new/`: its holder died before its agent was started (`holder_died`), the system had no
    room to start it (`shortage`), its lease ran out (`lease_over`), or it is tried again (`retry`). `attempt` is the
    next one, `not_before` its earliest time (RFC 3339; null: immediately).
    """

    attempt: int
    reason: str
    by: str | None = None
    not_before: str | None = None


class MessageDead(Event, frozen=True, kw_only=True, tag="message.dead"):
    """The message is a dead letter in `dead/`.

    `reason` is a keyword (dropped, expired, failed, unknown, id_reused, corrupt, no_such_session, holder_died, hops,
    budget, gone); `detail` explains it in a sentence. `status` and `class` are its outcome if no turn gave one; `tell`:
    an agent that waits for a reply is told next.
    """

    attempt: int = 1
    reason: str
    detail: str = ""
    status: Status = Status.FAILED
    class_: Class | None = field(name="class", default=None)
    file: str | None = None
    tell: bool = False


class QueuePaused(Event, frozen=True, kw_only=True, tag="queue.paused"):
    """Nothing is claimed from the agent's queue until it is resumed; it still accepts messages."""

    by: str | None = None


class QueueResumed(Event, frozen=True, kw_only=True, tag="queue.resumed"):
    """The agent's queue is served again."""

    by: str | None = None


class CircuitOpened(Event, frozen=True, kw_only=True, tag="circuit.opened"):
    """Too many failures: nothing is claimed until that time (RFC 3339); then one message is tried."""

    until: str
    failures: int = 0


class CircuitClosed(Event, frozen=True, kw_only=True, tag="circuit.closed"):
    """The agent answered again."""


# -- sessions ----------------------------------------------------------------------------------------------------------


class SessionStarted(_Native, frozen=True, kw_only=True, tag="session.started"):
    """The agent CLI opened a new session; `session_id` is its own resume id.

    `forked_from` is set if it is a copy of that session. `system` is the digest of the system prompt that this turn's
    message begins with, for a CLI that has no other place for it.
    """

    session_id: str
    model: str | None = None
    cwd: str | None = None
    access: str | None = None
    tools: tuple[str, ...] = ()
    version: str | None = None
    forked_from: str | UnsetType = UNSET
    system: str | UnsetType = UNSET


class SessionResumed(_Native, frozen=True, kw_only=True, tag="session.resumed"):
    """The agent CLI continued a session. `session_id` may differ from the requested one: some CLIs renumber. `system`
    is as in `session.started`."""

    session_id: str
    model: str | None = None
    cwd: str | None = None
    access: str | None = None
    tools: tuple[str, ...] = ()
    version: str | None = None
    system: str | UnsetType = UNSET


class SessionLost(_Native, frozen=True, kw_only=True, tag="session.lost"):
    """The agent CLI proved that it has no such session."""

    session_id: str
    reason: str = ""


class SessionArchived(Event, frozen=True, kw_only=True, tag="session.archived"):
    """The agent's current session was archived; the next turn starts a new one. Nothing is deleted at the vendor's."""

    session_id: str
    reason: str = ""
    by: str | None = None


class SessionForked(Event, frozen=True, kw_only=True, tag="session.forked"):
    """The agent was created as a fork of the agent `of`: its first turn continues in a copy of that agent's session
    `session_id`, as it is at that moment, and leaves the session itself unchanged. `upto`: the
    copy ends with that message of the session, by the CLI's own id; absent: it is whole.
    """

    session_id: str
    of: str
    adapter: str
    by: str | None = None
    upto: str | UnsetType = UNSET


class SessionRewound(Event, frozen=True, kw_only=True, tag="session.rewound"):
    """A person took back the last turns of the agent's session: the next turn continues after the turn `to`. `upto` is
    the CLI's own id of the last message that stays.
    """

    session_id: str
    upto: str
    to: int | None = None
    by: str | None = None


class SessionSelected(Event, frozen=True, kw_only=True, tag="session.selected"):
    """A person chose the session that the agent's next turn continues in: an earlier one, or one that the agent's CLI
    had before beam knew it.
    """

    session_id: str
    adapter: str
    by: str | None = None


class SessionImported(Event, frozen=True, kw_only=True, tag="session.imported"):
    """The events before this one, as far as they are marked `imported`, are what the session contained when the agent
    adopted it: `events` of them, without the `left_out` first ones (null: the files were not found).
    """

    session_id: str
    adapter: str
    events: int = 0
    left_out: int | None = 0


class SessionPrompted(Event, frozen=True, kw_only=True, tag="session.prompted"):
    """Somebody gave a prompt to a session that beam did not start. Its agent works on it now, or did (`imported`)."""

    text: str


class SessionIdle(Event, frozen=True, kw_only=True, tag="session.idle"):
    """The agent of a session that beam did not start waits for its next prompt.

    `usage` is what it used since its last prompt, `cost_usd` what its CLI says that this cost; `reason` is why its turn
    failed or was cut short, "" if it did neither.
    """

    usage: Usage = Usage()
    cost_usd: float | None = None
    model: str | None = None
    duration_s: float | None = None
    reason: str = ""


# -- turns -------------------------------------------------------------------------------------------------------------


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn.started"):
    """A turn began; nothing was started yet.

    `turn_key` is random and marks every process of the turn. `why`: why it has this mode, if nobody named one.
    `lease_until` is set if no process runs the turn (a mailbox): until then it belongs to its taker. `at_most` limits
    the access of its agent's messages (null: as the receiver's settings say), and so do `rules`.
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
    """What the git work tree `folder` contained before the turn's agent could change it: the git tree `tree` in
    `snapshots/` of the root, for `beam diff`. If it could not be recorded, `tree` is null and `reason` says why.
    """

    folder: str
    tree: str | None = None
    reason: str = ""


class PromptSent(Event, frozen=True, kw_only=True, tag="prompt.sent"):
    """From here on the agent may act on the message.

    It is never run again automatically after this, unless the agent's guard left proof that the agent was never
    executed.
    """

    bytes: int = 0


class TurnFinished(Event, frozen=True, kw_only=True, tag="turn.finished"):
    """The outcome (docs/exit-codes.md), on disk before anyone is told. `why`: as in `turn.started`, unless its protocol
    failed and it ran headless. `login_url`: where a person can log in, if nobody is and its CLI named a link.
    `images`: the files of the turn's images, as in `image`. `at_most`, `rules`: as in `turn.started`.
    """

    attempt: int = 1
    status: Status
    class_: Class | None = field(name="class", default=None)
    reason: str | None = None
    login_url: str | UnsetType = UNSET
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


class TurnClosed(Event, frozen=True, kw_only=True, tag="turn.closed"):
    """Nothing more will happen to the message.

    `reply` says what became of the answer: `waited` for, `queued` to `to` as `reply_id`, `dead` (it could not be
    delivered), or `none` (nobody asked for it, or it ends an exchange; `detail`).
    """

    attempt: int = 1
    reply: Literal["waited", "queued", "dead", "none"] = "none"
    to: str | None = None
    reply_id: str | None = None
    detail: str = ""


# -- processes ---------------------------------------------------------------------------------------------------------


class AgentStarted(Event, frozen=True, kw_only=True, tag="agent.started"):
    """The agent's process exists; in exec mode it is executed after `prompt.sent`.

    `pid` is the agent's, `guard_pid` its guard's; `argv` has no secrets and no prompt. `since` is the turn that started
    it, if it was kept since then; null if it began with this turn.
    """

    pid: int
    start_ticks: int
    guard_pid: int
    guard_start_ticks: int
    argv: tuple[str, ...] = ()
    cwd: str = ""
    since: int | None = None


class AgentKept(Event, frozen=True, kw_only=True, tag="agent.kept"):
    """The turn is over and the agent's process stays alive for the next one.

    It stays until `until` (RFC 3339) if no turn comes, longer where somebody looks at its terminal; null: as long as
    its holder. Its `agent.exited` comes later, and belongs to no turn if it ends between two.
    """

    pid: int
    until: str | None = None


class AgentExited(Event, frozen=True, kw_only=True, tag="agent.exited"):
    """The agent's process and everything it started are gone.

    Exactly one of `code` and `signal` is set, or none if the guard was killed. `stopped_by`: beam's reason to end it,
    null if it ended on its own. `swept` counts processes that the agent left behind and the guard ended. `pid` is the
    agent's; null if the CLI runs one process per turn.
    """

    code: int | None = None
    signal: str | None = None
    stopped_by: str | None = None
    stderr_tail: str = ""
    swept: int = 0
    pid: int | None = None


# -- what the agent says and does --------------------------------------------------------------------------------------


class TextDelta(Event, frozen=True, kw_only=True, tag="text.delta"):
    """A piece of the answer as it is written; at most 20 a second.

    `text` follows with the complete one. `parent` is the tool call of the subagent that writes, null for the agent
    itself.
    """

    text: str
    parent: str | None = None


class Text(_Native, frozen=True, kw_only=True, tag="text"):
    """A finished piece of the agent's text."""

    text: str
    parent: str | None = None


class Thinking(_Native, frozen=True, kw_only=True, tag="thinking"):
    """A finished piece of the agent's thinking, if its CLI shows it."""

    text: str
    parent: str | None = None


class ToolCalled(_Native, frozen=True, kw_only=True, tag="tool.called"):
    """The agent calls a tool. `input` is the JSON value that the CLI gave."""

    call_id: str
    name: str
    input: Raw = Raw(b"null")
    parent: str | None = None


class ToolProgress(_Native, frozen=True, kw_only=True, tag="tool.progress"):
    """A running tool reports progress."""

    call_id: str
    text: str = ""
    elapsed_s: float | None = None
    parent: str | None = None


class ToolReturned(_Native, frozen=True, kw_only=True, tag="tool.returned"):
    """A tool ended. `unfinished`: the turn ended first, and what the tool did is unknown."""

    call_id: str
    output: str = ""
    is_error: bool = False
    unfinished: bool = False
    parent: str | None = None


class FileChanged(_Native, frozen=True, kw_only=True, tag="file.changed"):
    """The agent reports that it changed a file. `kind`: add, update, delete."""

    path: str
    kind: str = "update"


class ImageSeen(_Native, frozen=True, kw_only=True, tag="image"):
    """An image that the agent made, looks at or was given by a tool.

    `media_type` and `bytes` are its type and size ("" and null: unknown). If the CLI sent its content, beam wrote that
    to the file `path` below the agent's directory in the root, named by its SHA-256; `unkept` says why if it did not.
    `at` is the file or link that the CLI itself names, "" if it names none. `call_id` is the call that returned it, if
    one did.
    """

    media_type: str = ""
    bytes: int | None = None
    at: str = ""
    path: str = ""
    unkept: str = ""
    call_id: str | None = None
    parent: str | None = None


class PlanStep(Struct, frozen=True, kw_only=True):
    """One step of an agent's plan. `status`: pending, in_progress, completed."""

    text: str
    status: str = "pending"


class PlanUpdated(_Native, frozen=True, kw_only=True, tag="plan.updated"):
    """The agent's complete plan."""

    steps: tuple[PlanStep, ...] = ()


class UsageSeen(_Native, frozen=True, kw_only=True, tag="usage"):
    """Tokens of the turn so far. `total`: what the CLI has counted over the whole session, if it counts that way."""

    usage: Usage
    cost_usd: float | None = None
    total: Total | None = None


class ContextUsed(_Native, frozen=True, kw_only=True, tag="context"):
    """How full the agent's context is: `used` tokens of `size`; null if its CLI does not report it."""

    used: int | None = None
    size: int | None = None


class StatusChanged(_Native, frozen=True, kw_only=True, tag="status"):
    """What the agent is busy with: `retrying` (with `attempt` of `of`, `delay_s`, and the failure's class and HTTP
    status), `compacting`, `compacted`, `requesting`, `mode` (`detail` is the one that it is in now, by the CLI's own
    name), or the CLI's own word.
    """

    state: str
    detail: str = ""
    attempt: int | None = None
    of: int | None = None
    delay_s: float | None = None
    class_: Class | None = field(name="class", default=None)
    http_status: int | None = None


class Notice(_Native, frozen=True, kw_only=True, tag="notice"):
    """Something a person should know.

    `code` is a stable identifier for programs; `covers` are byte offsets [start, end) in this segment that readers skip
    (a torn line).
    """

    text: str
    code: str = ""
    covers: tuple[int, int] | None = None


class RequestDifference(Struct, frozen=True, kw_only=True):
    """One field in which a request to the model differs from the recorded one. `recorded` and `got` begin shortly
    before the difference; null where the field is not there. `characters`: how many differ."""

    path: str
    recorded: str | None = None
    got: str | None = None
    characters: int = 0


class ModelCalled(Event, frozen=True, kw_only=True, tag="model.called"):
    """The agent asked its model through the turn's proxy (docs/proxy.md). `n` counts the turn's requests. `step`:
    `live`; or exact, minor, major, unmatched, filled for a replay; `over`: refused for the budget; `refused`: for its
    key. `recorded` is the number of the recorded call, `nearest` of that which it was compared with."""

    n: int
    step: str
    model: str = ""
    recorded: int | None = None
    nearest: int | None = None
    differences: tuple[RequestDifference, ...] = ()
    usage: Usage | None = None
    detail: str = ""


# -- permission --------------------------------------------------------------------------------------------------------


class PermissionAsked(_Native, frozen=True, kw_only=True, tag="permission.asked"):
    """The agent waits for a decision. `expires`: when it is denied if nobody decides; None: beam decides immediately,
    or, of a session that beam did not start, its own person decides.
    """

    ask_id: str
    tool: str
    input: Raw = Raw(b"null")
    description: str = ""
    call_id: str | None = None
    suggestions: Raw = Raw(b"[]")
    expires: str | None = None


class PermissionDecided(_Native, frozen=True, kw_only=True, tag="permission.decided"):
    """An ask was answered. `by`: default, rule, or a person's name. `rule` is the rule that decided as it is written,
    and `whose` who wrote it: a file, a flag, or the agent that sent the message. `input` is what was allowed in the
    place of what was asked for.
    """

    ask_id: str
    decision: Literal["allow", "deny"]
    by: str = "default"
    why: str = ""
    rule: str = ""
    whose: str = ""
    input: Raw | UnsetType = UNSET


class PermissionCancelled(_Native, frozen=True, kw_only=True, tag="permission.cancelled"):
    """The decision is no longer needed."""

    ask_id: str
    why: str = ""


class SettingsChanged(Event, frozen=True, kw_only=True, tag="settings.changed"):
    """A command changed settings of the agent (in agent.json).

    `changes` has the new value of each as JSON text, null for one that was taken back; a variable is `env.NAME`, and
    its value is left out.
    """

    changes: dict[str, str | None] = {}
    by: str | None = None


class ControlDone(_Native, frozen=True, kw_only=True, tag="control.done"):
    """A request to the holder, or the agent CLI's answer to one of beam's, was carried out or refused.

    `result` is a JSON value.
    """

    control_id: str
    verb: str = ""
    ok: bool = True
    code: str = ""
    message: str = ""
    result: Raw = Raw(b"null")


class Unknown(_Native, frozen=True, kw_only=True, tag="unknown"):
    """Something that beam does not understand, kept: a native record (`raw`) or, read from a journal, an event of a
    type that this version of beam does not know (`raw` is then the journal's line).
    """

    what: str = ""


# -- teams -------------------------------------------------------------------------------------------------------------


class _OfTeam(Event, frozen=True, kw_only=True):
    """What happened in a team of one vendor's agents. These are in no journal: `seq` is 0 and `ts` is when it happened.

    `agent` is `<member>@<team>` (`@<team>` if no member did it). `team` is its name, `home` the vendor's directory that
    contains it. `key` identifies the event: the same event has the same key, whichever source reported it. `source`:
    files, transcript, hook or process.
    """

    team: str
    home: str = ""
    key: str = ""
    source: str = "files"


class TeamStarted(_OfTeam, frozen=True, kw_only=True, tag="team.started"):
    """A team exists. `session_id` is its lead's."""

    lead: str = ""
    session_id: str = ""
    cwd: str = ""


class TeamEnded(_OfTeam, frozen=True, kw_only=True, tag="team.ended"):
    """A team's files are gone: its lead left."""

    reason: str = ""


class TeamStale(_OfTeam, frozen=True, kw_only=True, tag="team.stale"):
    """A team's files exist and its lead's process does not. `pid` is the lead's, null if unknown."""

    reason: str = ""
    pid: int | None = None


class MemberJoined(_OfTeam, frozen=True, kw_only=True, tag="member.joined"):
    """An agent is in the team. `backend`: in-process, tmux, ...; `colour` is the vendor's own for it."""

    member: str
    kind: str = ""
    model: str | None = None
    colour: str | None = None
    backend: str = ""
    pane: str = ""
    cwd: str = ""
    prompt: str = ""


class MemberWorking(_OfTeam, frozen=True, kw_only=True, tag="member.working"):
    """The member takes a turn. `why`: how that was noticed."""

    member: str
    why: str = ""


class MemberIdle(_OfTeam, frozen=True, kw_only=True, tag="member.idle"):
    """The member waits.

    `reason`: available, interrupted, failed; `summary` is its last text to another member. `task_id` is the task that
    it worked on, `task_status` its own statement about it: resolved, blocked, failed.
    """

    member: str
    reason: str = "available"
    summary: str = ""
    failure: str = ""
    task_id: str | None = None
    task_status: str | None = None


class MemberUsed(_OfTeam, frozen=True, kw_only=True, tag="member.used"):
    """The usage of the member's turn, which is over, including its subagents'.

    `cost_usd` is null if a model's price is unknown: `unpriced` names it.
    """

    member: str
    usage: Usage
    cost_usd: float | None = None
    unpriced: tuple[str, ...] = ()


class MemberLeft(_OfTeam, frozen=True, kw_only=True, tag="member.left"):
    """The member is no longer in the team."""

    member: str
    reason: str = ""


class MemberOrphaned(_OfTeam, frozen=True, kw_only=True, tag="member.orphaned"):
    """The member's lead is gone and the member continues. `pid` is null if its process was not found."""

    member: str
    pid: int | None = None
    pane: str = ""


class MemberAsked(_OfTeam, frozen=True, kw_only=True, tag="member.asked"):
    """The member `sender` wants an answer from `to`: its plan approved, a tool permitted, or that `to` shuts down."""

    what: Literal["plan", "permission", "shutdown"]
    request_id: str
    sender: str = field(name="from")
    to: str = ""
    text: str = ""
    tool: str | None = None
    input: Raw = Raw(b"null")


class MemberAnswered(_OfTeam, frozen=True, kw_only=True, tag="member.answered"):
    """The answer of `sender` to a request."""

    what: Literal["plan", "permission", "shutdown"]
    request_id: str
    sender: str = field(name="from")
    approved: bool
    text: str = ""


class _OfTask(_OfTeam, frozen=True, kw_only=True):
    """A task changed. `by` is who did it, null if no source says."""

    task_id: str
    subject: str = ""
    owner: str | None = None
    by: str | None = None


class TaskCreated(_OfTask, frozen=True, kw_only=True, tag="task.created"):
    """A task is on the team's list."""

    description: str = ""
    blocked_by: tuple[str, ...] = ()


class TaskClaimed(_OfTask, frozen=True, kw_only=True, tag="task.claimed"):
    """The task has another owner: it was claimed or assigned. `previous` is null if it had none."""

    previous: str | None = None


class TaskStarted(_OfTask, frozen=True, kw_only=True, tag="task.started"):
    """The task is in progress."""


class TaskCompleted(_OfTask, frozen=True, kw_only=True, tag="task.completed"):
    """The task is done."""


class TaskReopened(_OfTask, frozen=True, kw_only=True, tag="task.reopened"):
    """The task was in progress or done and is pending again, or lost its owner. `previous` is the owner it had."""

    previous: str | None = None


class TaskDeleted(_OfTask, frozen=True, kw_only=True, tag="task.deleted"):
    """The task is gone from the list."""


class TaskUnblocked(_OfTask, frozen=True, kw_only=True, tag="task.unblocked"):
    """The last task that this one waited for is done or gone; `blocker` is that one."""

    blocker: str = ""


class TaskChanged(_OfTask, frozen=True, kw_only=True, tag="task.changed"):
    """Another part of the task changed: `fields` names what; `blocked_by` is the current list."""

    fields: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()


class MailSent(_OfTeam, frozen=True, kw_only=True, tag="mail.sent"):
    """A message is in a member's inbox.

    `mail_id` is the vendor's, "" if it has none. `kind`: message, or a type of the team's own protocol
    (task_assignment, idle_notification, ...), whose `text` is JSON.
    """

    mail_id: str
    sender: str = field(name="from")
    to: str
    text: str = ""
    summary: str = ""
    kind: str = "message"
    colour: str | None = None


class MailDelivered(_OfTeam, frozen=True, kw_only=True, tag="mail.delivered"):
    """The member took the message from its inbox. `waited_s` is how long it was there."""

    mail_id: str
    sender: str = field(name="from")
    to: str
    waited_s: float | None = None


class MailLost(_OfTeam, frozen=True, kw_only=True, tag="mail.lost"):
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
    | SessionResumed
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
    | PermissionCancelled
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


class _Head(Struct, frozen=True, kw_only=True):
    type: str
    v: int = VERSION
    seq: int = 0
    ts: str = ""
    agent: str = ""
    turn: int | None = None
    message_id: str | None = None


_head_decoder: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)


def types() -> dict[str, type[Event]]:
    """Return every event type's tag and class, in the order of docs/events.md."""
    return {str(cls.__struct_config__.tag): cls for cls in AnyEvent.__args__}


_KNOWN = frozenset(types())


encode: Callable[[Event], bytes] = _encoder.encode  # an event's JSON, without a newline


def decode(line: bytes) -> AnyEvent:
    """Return the event of one journal line.

    An unknown type becomes `Unknown` with the line as `raw`. Raises CorruptError for a line that is no event of beam's.
    """
    try:
        return _decoder.decode(line)
    except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
        return _decode_unknown(line, error)


def decode_lines(lines: bytes) -> list[AnyEvent] | None:
    """Return the events of whole journal lines; None unless each line is an event of a known type.

    It takes a third of the time of `decode` for each line.
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
    if head.type in _KNOWN:
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
    """Return the event of an outcome: the verdict, and in `known` what only beam knows (any other field of the event).

    The exit code follows from status and class, unless `known` contains it.
    """
    from beam.model.outcome import exit_code

    fields: dict[str, Any] = {name: getattr(verdict, name) for name in verdict.__struct_fields__}
    fields["exit_code"] = exit_code(verdict.status, verdict.class_)
    if verdict.cost_usd is not None:
        fields["cost_usd"] = round(verdict.cost_usd, COST_DIGITS)
    return TurnFinished(attempt=attempt, **{**fields, **known})


def with_image_in(event: E, files: str) -> E:
    """Return the event. The path of an image becomes absolute: it is below `files`, the agent's directory."""
    if isinstance(event, ImageSeen) and event.path and files:
        return msgspec.structs.replace(event, path=f"{files}/{event.path}")
    return event


def outcome_of(event: TurnFinished | MessageDead, files: str = "") -> Outcome:
    """Return the outcome that this event put on disk; `files` is the agent's directory in the root, where the images
    lie."""
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
