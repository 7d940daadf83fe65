"""Derives from the known state of a team which members and tasks wait, for what, and for how long. Reads no files."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from beam.base.clock import rfc3339
from beam.teams.diff import Team
from beam.teams.model import Member
from beam.teams.tasks import COMPLETED, IN_PROGRESS


class Wait(Struct, frozen=True, kw_only=True):
    """One wait: `who` waits for `on`. Each is a member, or a task as #id; `on` can also be several tasks, or "" for
    anyone.

    `what` is the reason, `since` the start.
    """

    team: str
    who: str
    on: str
    what: str
    since: str
    seconds: float


def died_with_lead(team: Team) -> dict[str, Member]:
    """Return the members whose process ended with that of the lead: all of a stale team that had none of their own."""
    if not team.is_stale or team.roster is None:
        return {}
    return {member.name: member for member in team.roster.members if not member.has_own_process}


def stuck(team: Team, now_ns: int, *, longer_than_s: float) -> list[Wait]:
    """Return the waits that have lasted at least `longer_than_s` seconds, the longest first."""
    found = [
        Wait(
            team=team.name,
            who=who,
            on=on,
            what=what,
            since=rfc3339(since_ns),
            seconds=round((now_ns - since_ns) / 1e9, 1),
        )
        for who, on, what, since_ns in _waits(team)
        if since_ns and now_ns - since_ns >= longer_than_s * 1e9
    ]
    return sorted(found, key=lambda wait: -wait.seconds)


def _waits(team: Team) -> Iterator[tuple[str, str, str, int]]:
    for ask in team.members.asks.values():
        about = f" ({ask.tool})" if ask.tool else ""
        yield ask.sender, ask.to, f"an answer: {ask.what}{about} {ask.text}".rstrip(), ask.at_ns
    for letter in team.post.waiting:
        if letter.to not in team.members.present | died_with_lead(team) and team.roster is not None:
            what = f"nobody is called {letter.to}: its mail is never read"
        elif team.is_stale:
            what = "its mail to be read; the team has no lead"
        else:
            what = "its mail to be read"
        yield letter.mail.sender, letter.to, what, letter.at_ns
    for task in team.tasks.known.values():
        since_ns = team.tasks.since_ns(task.id)
        blockers = team.tasks.open_blockers(task)
        if task.status == COMPLETED:
            continue
        if blockers:
            yield task.owner or "", " ".join(f"#{one}" for one in blockers), f"#{task.id} {task.subject}", since_ns
        elif task.owner is None:
            yield f"#{task.id}", "", f"{task.subject}: nobody took it", since_ns
        elif task.owner not in team.members.present:
            yield f"#{task.id}", task.owner, f"{task.subject}: its owner is not in the team", since_ns
        elif task.status == IN_PROGRESS:
            state = team.members.states.get(task.owner)
            if state is not None and state.activity == "idle":
                waits_since = max(since_ns, state.since_ns)
                yield f"#{task.id}", task.owner, f"{task.subject}: in progress, and its owner is idle", waits_since
    for name, state in team.members.states.items():
        if state.activity == "working" and name in team.members.present:
            yield name, "", "a sign of life: it works and says nothing", max(state.said_ns, state.since_ns)
