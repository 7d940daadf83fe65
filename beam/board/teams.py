"""A team as lines: its members, its tasks with the tasks that they wait for, and its mail by conversation. Pure.

Each line records the member or task that it shows, so that a key can act on this member or task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

from beam.board.words import Piece, StyledLine, cell, count, elapsed, money, safe_line
from beam.cli.render.calls import brief_doing
from beam.cli.render.days import time_of_day
from beam.cli.render.team import mail_text

if TYPE_CHECKING:
    from beam import MailLine, TaskLine, TeamLine, TeamShown

_TASK_SIGNS = {"in_progress": ("▶", "good"), "pending": ("○", ""), "completed": ("✓", "dim")}
_MAX_MAIL = 200


class TeamSnapshot(Struct, frozen=True, kw_only=True):
    """One team with its tasks and its mail; the mail is sorted by conversation."""

    shown: TeamShown
    tasks: Sequence[TaskLine] = ()
    mail: Sequence[MailLine] = ()


class Entry(NamedTuple):
    """A line, and the member or task that it shows. `id` is the name of the member or the number of the task."""

    line: StyledLine
    kind: Literal["", "member", "task"] = ""
    id: str = ""


def title(line: TeamLine) -> str:
    """Return the team's name, its state and the number of its tasks by status."""
    tasks = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(line.tasks.items()))
    return safe_line(f"{line.team} ({line.state})" + (f", tasks: {tasks}" if tasks else ""))


def entries(snapshot: TeamSnapshot, width: int) -> Iterator[Entry]:
    """Yield the lines of the team."""
    yield Entry((Piece(cell(title(snapshot.shown.team), width), "head"),))
    for member in snapshot.shown.members:
        does = brief_doing(member.doing) or member.last_words
        line = (
            Piece(cell(safe_line(member.member), 16) + " ", "name"),
            Piece(cell(member.state or "?", 9), "good" if member.state == "working" else "dim"),
            Piece(cell(count(member.tokens), 8, right=True) + cell(money(member.cost_usd), 9, right=True) + "  "),
            Piece(cell(safe_line(does), max(0, width - 45)), "dim"),
        )
        yield Entry(line, "member", member.member)
    for wait in snapshot.shown.waits:
        on = f" for {wait.on}" if wait.on else ""
        text = f"{wait.who} waits{on}: {wait.what}" if wait.who else f"{wait.what} waits{on}"
        text += f" ({elapsed(wait.seconds)})"
        yield Entry((Piece(cell("! " + safe_line(text), width), "ask"),))
    if snapshot.tasks:
        yield Entry(())
        yield Entry((Piece(cell("TASKS", width), "head"),))
    for task in snapshot.tasks:
        yield Entry(_task_line(task, width), "task", task.id)
    if snapshot.mail:
        yield Entry(())
        yield Entry((Piece(cell("MAIL, by conversation", width), "head"),))
    thread = ""
    for letter in snapshot.mail[-_MAX_MAIL:]:
        if letter.thread != thread:
            thread = letter.thread
            yield Entry((Piece(cell(safe_line(thread), width), "name"),))
        waits = "" if letter.state != "waiting" else "(unread) "
        who = f"  {safe_line(time_of_day(letter.at))} {safe_line(letter.sender)} → {safe_line(letter.to)}: "
        said = letter.summary if letter.kind == "message" and letter.summary else mail_text(letter)
        text = f"{who}{waits}{safe_line(said)}"
        yield Entry((Piece(cell(text, width), "ask" if waits else ""),))


def _task_line(task: TaskLine, width: int) -> StyledLine:
    sign, style = _TASK_SIGNS.get(task.status, ("?", ""))
    waits = f" ← waits for {', '.join('#' + each for each in task.blocked_by)}" if task.blocked_by else ""
    gives = f" → {', '.join('#' + each for each in task.blocks)}" if task.blocks and not waits else ""
    owner = task.owner or ("free" if task.is_ready else "")
    return (
        Piece(cell(f"{sign} #{safe_line(task.id)}", 7) + cell(safe_line(owner), 14) + " ", style),
        Piece(cell(safe_line(task.subject + waits + gives), max(0, width - 22)), "ask" if waits else style),
    )
