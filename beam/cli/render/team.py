"""Teams for people: lists, boards and conversations as text."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from beam import AnyEvent, durations, events, since
from beam.cli.render.calls import brief_doing
from beam.cli.render.days import Days, time_of_day
from beam.cli.render.tables import ago, print_columns
from beam.cli.render.text import collapse_to_line, one_line, safe, write

if TYPE_CHECKING:
    from beam import MailLine, MemberLine, Task, TaskLine, TeamLine, TeamShown, Wait


def print_teams(lines: Sequence[TeamLine]) -> None:
    """Print the list of teams."""
    rows = []
    for line in lines:
        tasks = " ".join(f"{count} {status}" for status, count in sorted(line.tasks.items()))
        orphans = f"nobody reads {', '.join(line.orphan_inboxes)}" if line.orphan_inboxes else ""
        age = ago(line.created) if line.created else ""
        members = f"{'?' if line.working is None else line.working}/{line.members}" if line.members else ""
        mail = str(line.waiting_mail) if line.waiting_mail else ""
        rows.append((line.team, line.state, age, members, mail, tasks, orphans or line.cwd))
    print_columns(("TEAM", "STATE", "AGE", "WORKING", "MAIL", "TASKS", "WHERE"), rows)


def print_team(team: TeamShown) -> None:
    """Print one team: its state, its members, the last text of each member, and who waits for what."""
    line = team.team
    lead = f", led by {line.lead}" + (f" (pid {line.lead_pid})" if line.lead_pid else "") if line.lead else ""
    since = f", for {ago(line.created)}" if line.created else ""
    write(sys.stdout, safe(f"{line.team}: {line.state}{lead}{since}, in {line.cwd or line.home}\n\n", sys.stdout))
    rows = [_member_row(member) for member in team.members]
    print_columns(("MEMBER", "STATE", "FOR", "MODEL", "TOKENS", "COST", "MAIL", "DOING"), rows)
    for member in team.members:
        if member.last_words:
            write(sys.stdout, f"\n{safe(member.member, sys.stdout)}: {one_line(member.last_words, 500)}")
    if any(member.last_words for member in team.members):
        write(sys.stdout, "\n")
    unpriced = sorted({name for member in team.members for name in member.unpriced})
    if unpriced:
        write(sys.stdout, f"\nno price known (as of {team.prices_as_of}): {collapse_to_line(', '.join(unpriced))}\n")
    if team.waits:
        write(sys.stdout, "\n")
        print_waits(team.waits)


def task_line(task: Task) -> str:
    """Return one line that shows the state of a task after a change."""
    owner = f", {task.owner}'s" if task.owner else ""
    waits = f", waits for {', '.join(task.blocked_by)}" if task.blocked_by else ""
    return f"#{task.id} {task.subject}: {task.status}{owner}{waits}"


def _member_row(member: MemberLine) -> tuple[str, ...]:
    cost = "" if not member.tokens else "?" if member.cost_usd is None else f"${member.cost_usd:.4f}"
    return (
        member.member,
        member.state,
        ago(member.since) if member.since else "",
        member.model or "",
        f"{member.tokens:,}" if member.tokens else "",
        cost,
        str(member.unread) if member.unread else "",
        brief_doing(member.doing) if member.state != "idle" else "",
    )


def state_lines(shown: TeamShown) -> Iterator[tuple[str, str, str]]:
    """Yield lines about a team's state as (name, mark, text): the number of its members and tasks, what each member
    does, and who is stuck."""
    line = shown.team
    counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(line.tasks.items()))
    at_work = "an unknown number" if line.working is None else str(line.working)
    yield "", "●", f"{line.members or 0} members, {at_work} at work; tasks: {counts or 'none'}; in {line.cwd}"
    for member in shown.members:
        since = f" for {ago(member.since)}" if member.since else ""
        if member.state == "idle":
            yield member.member, "■", f"idle{since}: {member.last_words}".rstrip(": ")
        else:
            label = f"works{since}" if member.state else "nothing was seen of it yet"
            yield member.member, "▶", f"{label}: {brief_doing(member.doing)}".rstrip(": ")
    for wait in shown.waits:
        who = "" if wait.who.startswith("#") else wait.who
        subject = f"{wait.who} " if wait.who.startswith("#") else ""
        on = f"for {wait.on} " if wait.on else ""
        yield who, "?", f"{subject}waits {on}{ago(wait.since)} already: {wait.what}"


def print_tasks(lines: Sequence[TaskLine]) -> None:
    """Print a team's tasks, one line each."""
    rows = []
    for line in lines:
        waits_for = " ".join(f"#{one}" for one in line.blocked_by)
        label = "ready" if line.is_ready else "blocked" if waits_for and line.status == "pending" else line.status
        since = ago(line.since) if line.since else ""
        rows.append((f"#{line.id}", label, line.owner or "", since, waits_for, line.subject))
    print_columns(("TASK", "STATUS", "OWNER", "FOR", "AFTER", "SUBJECT"), rows)


def print_mail(lines: Sequence[MailLine], *, by_thread: bool) -> None:
    """Print a team's mail, one line per message, with a date where the day changes; with `by_thread`, under one heading
    per conversation."""
    thread, days = "", Days(since(0))
    for line in lines:
        if by_thread and line.thread != thread:
            gap = "\n" if thread else ""
            thread = line.thread
            write(sys.stdout, safe(f"{gap}{thread}\n", sys.stdout))
        indent = "  " if by_thread else ""
        if heading := days.heading(line.at):
            write(sys.stdout, safe(f"{indent}{heading}\n", sys.stdout))
        head = f"{time_of_day(line.at)} {line.sender} → {line.to} ({line.state}) "
        text = f"{indent}{head}{one_line(mail_text(line), 400)}\n"
        write(sys.stdout, safe(text, sys.stdout))


def mail_text(line: MailLine) -> str:
    """Return the text of a mail. For a message of the team's own protocol, return its kind and its most telling
    part."""
    if line.kind == "message":
        return line.text
    return f"[{line.kind}] {line.summary or _protocol_text(line.text)}".rstrip()


_TELLING_FIELDS = (
    "subject",
    "summary",
    "reason",
    "planContent",
    "description",
    "feedback",
    "message",
    "idleReason",
    "error",
)
_HIDDEN_FIELDS = frozenset(
    {"type", "from", "timestamp", "requestId", "request_id", "paneId", "backendType", "permissionMode"}
)
_MAIL_WITH_OWN_EVENT = frozenset(  # other events report what mail of these kinds says
    {
        "idle_notification",
        "permission_request",
        "permission_response",
        "plan_approval_request",
        "plan_approval_response",
        "sandbox_permission_request",
        "sandbox_permission_response",
        "shutdown_approved",
        "shutdown_rejected",
        "shutdown_request",
        "task_assignment",
        "task_completed",
        "teammate_terminated",
    }
)


_OBVIOUS_REASONS = frozenset({"", "transcript", "its pane", "a turn", "busy"})  # not worth printing


def _protocol_text(text: str) -> str:
    """Return a message of the team's own protocol as text for people. If no field of the message is telling, return all
    its fields as JSON."""
    value = _decode_object(text)
    if value is None:
        return text
    phrase = next((value[key] for key in _TELLING_FIELDS if isinstance(value.get(key), str) and value[key]), "")
    answer = next((value[key] for key in ("approved", "allow") if isinstance(value.get(key), bool)), None)
    if value.get("subtype") in ("success", "error"):
        answer = value["subtype"] == "success"
    words = [f"#{value['taskId']}"] if isinstance(value.get("taskId"), str) else []
    words += [] if answer is None else ["yes" if answer else "no"]
    words += [phrase] if phrase else []
    rest = {key: field for key, field in value.items() if key not in _HIDDEN_FIELDS}
    return " ".join(words) or (msgspec.json.encode(rest).decode() if rest else "")


def _body_text(text: str) -> str:
    """Return a mail as text for people: plain text unchanged, a message of the team's own protocol with its kind."""
    kind = (_decode_object(text) or {}).get("type")
    return f"[{kind}] {_protocol_text(text)}".rstrip() if isinstance(kind, str) else text


def _decode_object(text: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return None
    return value if isinstance(value, dict) else None


def print_waits(lines: Sequence[Wait]) -> None:
    """Print who waits for what, one line for each wait."""
    rows = [
        (ago(line.since), line.team, line.who or "anyone", f"waits for {line.on}" if line.on else "waits", line.what)
        for line in lines
    ]
    print_columns(("FOR", "TEAM", "WHO", "ON", "WHAT"), rows)


_TOOLS_WITH_OWN_EVENT = frozenset({"SendMessage", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"})
COLOURS = {
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "purple": 35,
    "magenta": 35,
    "cyan": 36,
    "orange": 33,
    "pink": 95,
}


def usage_text(event: events.MemberUsed) -> str:
    """Return what a turn used and cost: `3.4k tokens, $0.0123`. If the cost is unknown, the models without a price are
    named instead."""
    tokens = (event.usage.input_tokens or 0) + (event.usage.output_tokens or 0)
    size, unit = next(((size, unit) for size, unit in ((1_000_000, "M"), (1_000, "k")) if tokens >= size), (0, ""))
    cost = f"${event.cost_usd:.4f}" if event.cost_usd is not None else f"no price for {', '.join(event.unpriced)}"
    return f"{tokens / size:.1f}{unit} tokens, {cost}" if size else f"{tokens} tokens, {cost}"


def has_own_event(event: events.ToolCalled) -> bool:
    """Return whether a member's call is also shown by a mail or task event."""
    return "@" in event.agent and event.name in _TOOLS_WITH_OWN_EVENT


def team_event_text(event: AnyEvent) -> tuple[str, str] | None:
    """Return the mark and the text for what happened in a team; None for other events."""
    match event:
        case events.TeamStarted():
            return "●", f"team {event.team} started" + (f" in {event.cwd}" if event.cwd else "")
        case events.TeamEnded():
            return "○", f"team ended: {event.reason}"
        case events.TeamStale():
            return "!", f"team is stale: {event.reason}"
        case events.MemberJoined():
            about = ", ".join(part for part in (event.kind, event.model, event.backend) if part)
            return "+", f"joined ({about}) {event.prompt}"
        case events.MemberWorking():
            return "▶", "works" + (f" ({event.why})" if event.why not in _OBVIOUS_REASONS else "")
        case events.MemberIdle():
            reason = "" if event.reason == "available" else f" ({event.reason}) {event.failure}"
            task = f" (task {event.task_id} {event.task_status})" if event.task_id and event.task_status else ""
            return "■", f"idle{reason}{task} {event.summary}".rstrip()
        case events.MemberUsed():
            return "·", f"used {usage_text(event)}"
        case events.MemberLeft():
            return "-", f"left: {event.reason}" if event.reason else "left"
        case events.MemberOrphaned():
            return "!", "orphaned: its lead is gone and it runs on" + (f" (pid {event.pid})" if event.pid else "")
        case events.MemberAsked():
            tool = f" to use {event.tool}" if event.tool else ""
            return "?", f"asks {event.to} ({event.what}){tool}: {event.text}"
        case events.MemberAnswered():
            label = "yes" if event.approved else "no"
            return "·", f"says {label} ({event.what}) {event.text}".rstrip()
        case events.MailSent(kind="message"):
            is_beginning = event.text.startswith(event.summary.removesuffix("…"))
            summary = "" if is_beginning else f"{event.summary}: "
            return "→", f"{event.to}: {summary}{event.text}"
        case events.MailSent() if event.kind not in _MAIL_WITH_OWN_EVENT:
            return "→", f"{event.to}: {_body_text(event.text)}"
        case events.MailLost():
            return "†", f"mail to {event.to} lost: {event.why}: {_body_text(event.text)}".rstrip(": ")
        case events.MailDelivered() if (event.waited_s or 0) >= 60:
            return "✉", f"took the mail of {event.sender} after {durations.show(event.waited_s or 0)}"
    return _task_event_text(event)


def _task_event_text(event: AnyEvent) -> tuple[str, str] | None:
    match event:
        case events.TaskCreated():
            after = f" (after {' '.join(f'#{one}' for one in event.blocked_by)})" if event.blocked_by else ""
            return "☐", f"#{event.task_id} {event.subject}{after}"
        case events.TaskClaimed():
            return "☐", f"#{event.task_id} is {event.owner}'s: {event.subject}"
        case events.TaskStarted():
            return "◧", f"#{event.task_id} started: {event.subject}"
        case events.TaskCompleted():
            return "☑", f"#{event.task_id} done: {event.subject}"
        case events.TaskReopened():
            return "☐", f"#{event.task_id} open again: {event.subject}"
        case events.TaskDeleted():
            return "☒", f"#{event.task_id} deleted: {event.subject}"
        case events.TaskUnblocked():
            return "☐", f"#{event.task_id} waits no more, #{event.blocker} is done: {event.subject}"
        case events.TaskChanged():
            after = " ".join(f"#{one}" for one in event.blocked_by)
            if event.fields == ("blockedBy",):
                return "☐", f"#{event.task_id} comes after {after or 'nothing'}: {event.subject}"
            return "☐", f"#{event.task_id} {', '.join(event.fields)} changed: {event.subject}"
    return None


ASCII_MARKS = str.maketrans(
    dict(
        zip(
            "→←↩▶■●○│┊⚙✓✗✎☐☑☒◧…·↪†↻↶✉⇅",
            "><<>#*o|:%vx~[VX/..>!@um=",
            strict=True,
        )
    )
)
