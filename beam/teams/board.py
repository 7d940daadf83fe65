"""Makes the lines that `beam team list`, `show`, `tasks` and `mail` print from the known state of teams. Reads no
files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct, field

from beam.base.clock import rfc3339
from beam.model.prices import PRICES_AS_OF
from beam.teams.diff import Team
from beam.teams.mail import Letter
from beam.teams.stuck import Wait, died_with_lead
from beam.teams.tasks import COMPLETED, IN_PROGRESS
from beam.teams.usage import MemberUsage

TeamState = Literal["live", "starting", "stale", "orphan", "tasks"]


class TeamLine(Struct, frozen=True, kw_only=True):
    """One line of `beam team list`.

    `state`: live (the lead's process runs, or beam made the team, which then needs no such process); starting (the
    lead's process was not seen yet); stale (the lead's process is gone, the team's files are still there); orphan
    (inboxes without a configuration); tasks (a task list without a configuration). `members` is None if there is no
    configuration. `working` is None until a member's activity was seen. `tasks` counts the tasks by status.
    `orphan_inboxes` names the inboxes with waiting mail that belong to no member.
    """

    team: str
    home: str
    state: TeamState
    lead: str = ""
    lead_pid: int | None = None
    session_id: str = ""
    cwd: str = ""
    created: str | None = None
    members: int | None = None
    working: int | None = None
    tasks: dict[str, int] = {}
    waiting_mail: int = 0
    orphan_inboxes: tuple[str, ...] = ()


class MemberLine(Struct, frozen=True, kw_only=True):
    """One member of a team.

    `state`: working, idle, gone (the lead's process ended, and with it the member), or "" as long as no activity of the
    member was seen. `doing` is the member's last tool call
    or, without one, its current task. `last_words` is the member's last text. `tokens` and `cost_usd` are None if no
    transcript has them. `cost_usd` is also None if a model has no price; `unpriced` then names that model.
    """

    member: str
    state: str
    since: str | None
    kind: str
    model: str | None
    colour: str | None
    backend: str
    pane: str
    doing: str
    last_words: str
    tasks: tuple[str, ...]
    unread: int
    tokens: int | None
    cost_usd: float | None
    unpriced: tuple[str, ...] = ()


class TaskLine(Struct, frozen=True, kw_only=True):
    """One task.

    `is_ready`: pending, without an owner, and not blocked. `blocked_by` names the unfinished tasks that must be
    completed first.
    """

    team: str
    id: str
    status: str
    subject: str
    owner: str | None
    is_ready: bool
    blocked_by: tuple[str, ...]
    blocks: tuple[str, ...]
    since: str | None
    description: str = ""


class MailLine(Struct, frozen=True, kw_only=True):
    """One message.

    `state`: waiting (in the inbox, unread); delivered (read, or no longer in the inbox); lost (the inbox was removed
    before the message was read); sent (known from the sender's record, but never seen in the inbox). `thread` names the
    sender and the recipient.
    """

    team: str
    mail_id: str
    at: str
    sender: str = field(name="from")
    to: str
    kind: str
    summary: str
    text: str
    state: str
    thread: str


class TeamShown(Struct, frozen=True, kw_only=True):
    """The output of `beam team show` for one team."""

    team: TeamLine
    members: tuple[MemberLine, ...]
    waits: tuple[Wait, ...]
    usage: tuple[MemberUsage, ...]
    prices_as_of: str = PRICES_AS_OF


class LastActivity(Struct, frozen=True):
    """The last activity in a member's transcript.

    `doing` is the last tool call, `last_words` the last text. `state` is working or idle, and `since` (RFC 3339) is
    when that state began. `at` is the time of the transcript's last line.
    """

    doing: str = ""
    last_words: str = ""
    state: str = ""
    since: str = ""
    at: str = ""


def team_line(team: Team) -> TeamLine:
    """Return the line of `beam team list` for one team."""
    counts: dict[str, int] = {}
    for task in team.tasks.known.values():
        counts[task.status] = counts.get(task.status, 0) + 1
    roster = team.roster
    present = team.members.present
    states = team.members.states
    words = [states[name].activity for name in present if name in states]
    return TeamLine(
        team=team.name,
        home=team.home,
        state=_state(team),
        lead=roster.lead.name if roster and roster.lead else "",
        lead_pid=team.lead_pid,
        session_id=team.session_id,
        cwd=roster.lead.cwd if roster and roster.lead else "",
        created=rfc3339(roster.created_ns) if roster and roster.created_ns else None,
        members=len(present | died_with_lead(team)) if roster is not None else None,
        working=words.count("working") if any(words) else None,
        tasks=counts,
        waiting_mail=len(team.post.waiting),
        orphan_inboxes=tuple(sorted({letter.to for letter in team.post.waiting if letter.to not in present})),
    )


def _state(team: Team) -> TeamState:
    if team.roster is None:
        return "orphan" if team.post.inboxes() else "tasks"
    if team.is_stale:
        return "stale"
    return "live" if team.lead_pid is not None or team.roster.made_by else "starting"


def member_lines(team: Team, used: Iterable[MemberUsage], doing: dict[str, LastActivity]) -> list[MemberLine]:
    """Return one line for each member of a team, the lead first. `doing` maps the members' names to their last
    activities."""
    by_member: dict[str, list[MemberUsage]] = {}
    for one in used:
        by_member.setdefault(one.member, []).append(one)
    found = []
    gone = died_with_lead(team)
    for name, member in (team.members.present | gone).items():
        state = team.members.states.get(name)
        mine = by_member.get(name, [])
        costs = [one.cost_usd for one in mine]
        tasks = [t for t in team.tasks.known.values() if t.owner == name and t.status != COMPLETED]
        now = doing.get(name, LastActivity())
        current = next((t for t in tasks if t.status == IN_PROGRESS), None)
        found.append(
            MemberLine(
                member=name,
                state="gone" if name in gone else state.activity if state and state.activity else now.state,
                since=rfc3339(state.since_ns) if state and state.since_ns else now.since or None,
                kind=member.kind,
                model=member.model or (mine[-1].model if mine else None),
                colour=member.colour,
                backend=member.backend,
                pane=member.pane,
                doing=now.doing or (f"#{current.id} {current.active_form or current.subject}" if current else ""),
                last_words=now.last_words or (state.summary if state else ""),
                tasks=tuple(task.id for task in tasks),
                unread=sum(1 for letter in team.post.waiting if letter.to == name),
                tokens=sum(one.tokens.total for one in mine) if mine else None,
                cost_usd=None if None in costs or not mine else sum(cost for cost in costs if cost is not None),
                unpriced=tuple(one.model for one in mine if one.cost_usd is None),
            )
        )
    return found


_LONGEST_NUMBER = 20  # digits
_RANK = {IN_PROGRESS: 0, "pending": 1, COMPLETED: 3}


def task_lines(team: Team) -> list[TaskLine]:
    """Return one line for each task of the team: tasks in progress first, then ready, waiting and completed tasks."""
    lines = [
        TaskLine(
            team=team.name,
            id=task.id,
            status=task.status,
            subject=task.subject,
            owner=task.owner,
            is_ready=team.tasks.is_ready(task),
            blocked_by=tuple(team.tasks.open_blockers(task)),
            blocks=task.blocks,
            since=rfc3339(since_ns) if (since_ns := team.tasks.since_ns(task.id)) else None,
            description=task.description,
        )
        for task in team.tasks.known.values()
    ]
    return sorted(
        lines, key=lambda line: (_RANK.get(line.status, 2), not line.is_ready, _task_number(line.id), line.id)
    )


def _task_number(task_id: str) -> int:
    return int(task_id) if task_id.isascii() and task_id.isdigit() and len(task_id) < _LONGEST_NUMBER else 0


def mail_lines(team: Team) -> list[MailLine]:
    """Return one line for each known message of the team, the oldest first."""
    return [
        MailLine(
            team=team.name,
            mail_id=letter.mail.id,
            at=rfc3339(letter.at_ns),
            sender=letter.mail.sender,
            to=letter.to,
            kind=letter.mail.kind,
            summary=letter.mail.summary,
            text=letter.mail.text,
            state=_mail_state(letter),
            thread=thread_of(letter.mail.sender, letter.to),
        )
        for letter in team.post.letters
    ]


def _mail_state(letter: Letter) -> str:
    if letter.is_lost:
        return "lost"
    if letter.ended_ns:
        return "delivered"
    return "waiting" if letter.in_inbox else "sent"


def thread_of(one: str, other: str) -> str:
    """Return the name of the conversation between two members: both names in alphabetical order."""
    return " · ".join(sorted((one, other)))


def group_by_thread(lines: Sequence[MailLine]) -> list[MailLine]:
    """Return the messages grouped by conversation. The conversation with the most recent message is last."""
    last = {line.thread: line.at for line in lines}
    return sorted(lines, key=lambda line: (last[line.thread], line.thread, line.at))
