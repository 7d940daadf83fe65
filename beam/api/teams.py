"""Returns the state of the user's Claude teams to the command line and programs, and installs hooks for the teams."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from beam.agents.claude import history
from beam.base.clock import parse_rfc3339
from beam.model.events import Text, ToolCalled
from beam.root.paths import state_dir
from beam.secrets.redact import redact_event
from beam.teams import board, hooks_install
from beam.teams.board import LastActivity, MailLine, TaskLine, TeamLine, TeamShown
from beam.teams.diff import Team
from beam.teams.hooks_install import InstallResult
from beam.teams.look import TeamsSnapshot, find_team
from beam.teams.model import when_ns
from beam.teams.spool import sweep
from beam.teams.stuck import Wait, stuck
from beam.teams.usage import Usage
from beam.teams.watch import Teams, homes, spool_dir

S = TypeVar("S", bound=Struct)


class TeamsHere:
    """The present teams in these Claude homes (Claude Code's configuration directories), without the secrets in their
    texts. Reading changes no file."""

    def __init__(self, environ: Mapping[str, str], *, claude_homes: Sequence[str] = ()) -> None:
        self._look = TeamsSnapshot(homes(environ, claude_homes))

    def teams(self) -> list[TeamLine]:
        """Return every team, first those with a living lead. Inboxes and task lists that belong to no team come
        last."""
        rank = {"live": 0, "starting": 1, "stale": 2, "orphan": 3, "tasks": 4}
        lines = _redacted(board.team_line(team) for team in self._look.teams())
        return sorted(lines, key=lambda line: (rank[line.state], line.created or "", line.team))

    def show(self, name: str) -> TeamShown:
        """Return one team's details: its members, their activity, and their usage. Raises NotFoundError, UsageError."""
        team = self._team(name)
        usage, doing = Usage(), dict[str, LastActivity]()
        for member, is_member, line in self._look.lines(team):
            usage.add(member, line)
            if is_member:
                doing[member] = _updated_activity(doing.get(member, LastActivity()), line)
        _fill_in_states(team, doing)
        used = usage.used()
        shown = TeamShown(
            team=board.team_line(team),
            members=tuple(board.member_lines(team, used, doing)),
            waits=tuple(stuck(team, self._look.now_ns, longer_than_s=0)),
            usage=tuple(used),
        )
        return redact_event(shown)[0]

    def tasks(self, name: str) -> list[TaskLine]:
        """Return a team's tasks. Raises NotFoundError, UsageError."""
        return _redacted(board.task_lines(self._team(name)))

    def mail(self, name: str, *, by_thread: bool = False) -> list[MailLine]:
        """Return a team's mail: the messages in its inboxes, and those that its transcripts still contain. With
        `by_thread`, the mail is ordered by thread. Raises NotFoundError, UsageError."""
        team = self._team(name)
        self._look.apply_transcripts(team)
        lines = _redacted(board.mail_lines(team))
        return board.group_by_thread(lines) if by_thread else lines

    def stuck(self, longer_than_s: float, *, names: Sequence[str] = ()) -> list[Wait]:
        """Return which members of the named teams have waited longer than `longer_than_s` seconds, and for what, the
        longest wait first. Without `names`, search all living teams."""
        teams = [self._team(name) for name in names] or [team for team in self._look.teams() if team.roster is not None]
        for team in teams:
            _fill_in_states(team, _activities(self._look.last_lines(team)))
        waits = [wait for team in teams for wait in stuck(team, self._look.now_ns, longer_than_s=longer_than_s)]
        return sorted(_redacted(waits), key=lambda wait: -wait.seconds)

    def _team(self, name: str) -> Team:
        return find_team(self._look.teams(), name)


def standing(live: Teams, *, now_ns: int, longer_than_s: float) -> list[TeamShown]:
    """Return the state of each living team with at least two members, the newest team first: the members' activity, and
    the members that have waited longer than `longer_than_s` seconds.

    Reads only the ends of transcripts, and adds up no usage. Needed at the start of a watch, because the event stream
    has only changes of these states.
    """
    found = []
    for team in live.diff.teams.values():
        if not team.is_live or len(team.members.present) < 2:
            continue
        doing = _activities(live.last_lines(team))
        _fill_in_states(team, doing)
        found.append(
            TeamShown(
                team=board.team_line(team),
                members=tuple(board.member_lines(team, (), doing)),
                waits=tuple(stuck(team, now_ns, longer_than_s=longer_than_s)),
                usage=(),
            )
        )
    return sorted(_redacted(found), key=lambda shown: shown.team.created or "", reverse=True)


def _redacted(found: Iterable[S]) -> list[S]:
    return [redact_event(one)[0] for one in found]


def _activities(lines: Iterable[tuple[str, history.TranscriptLine]]) -> dict[str, LastActivity]:
    found = dict[str, LastActivity]()
    for member, line in lines:
        found[member] = _updated_activity(found.get(member, LastActivity()), line)
    return found


def _fill_in_states(team: Team, doing: Mapping[str, LastActivity]) -> None:
    """Set the states of members from the ends of their transcripts, for members whose state no file has. `stuck` needs
    these states."""
    for name, one in doing.items():
        team.members.assume_activity(name, one.state, when_ns(one.since), when_ns(one.at))


def _updated_activity(before: LastActivity, line: history.TranscriptLine) -> LastActivity:
    doing, words = before.doing, before.last_words
    state, since, at = before.state, before.since, before.at
    if line.kind in ("user", "assistant") and line.at:
        at = line.at
        state = "idle" if line.ends_turn else "working"
        since = since if state == before.state else line.at
    for body in line.bodies:
        if isinstance(body, ToolCalled):
            doing = f"{body.name} {bytes(body.input).decode()}"
        elif isinstance(body, Text):
            words = body.text
    return LastActivity(doing, words, state, since, at)


def teams(
    environ: Mapping[str, str],
    *,
    claude_homes: Sequence[str] = (),
    since: str = "",
    with_gone: bool = False,
    also: Sequence[Path] = (),
    poll_only: bool = False,
) -> Teams:
    """Return a watcher of the user's teams. It reports events from now on, or from the time `since` (RFC 3339).

    The caller closes the watcher. With `with_gone`, events of former teams come first, from the teams' transcripts.
    Changes of journals below the directories in `also` wake the watcher, too.
    """
    since_ns = parse_rfc3339(since) if since else None
    here = homes(environ, claude_homes)
    spool = spool_dir(environ)
    sweep(spool, time.time_ns())
    return Teams(here, spool=spool, also=also, since_ns=since_ns, with_gone=with_gone, poll_only=poll_only)


def install_hooks(scope: str, *, environ: Mapping[str, str], project: Path, remove: bool = False) -> InstallResult:
    """Add `beam team hook` to Claude Code's settings of that scope (user, project, local); with `remove`, remove it
    there.

    Raises ConfigError for settings that beam does not understand, UsageError if the caller is an agent.
    """
    from beam.api.inside import check_person

    check_person(environ, "changes Claude Code's settings")
    path = hooks_install.settings_path(scope, home=Path(homes(environ)[0]), project=project)
    kept = state_dir(environ) / "settings"
    sweep(spool_dir(environ), time.time_ns())
    if remove:
        return hooks_install.uninstall(path, kept=kept)
    return hooks_install.install(path, kept=kept, state=environ.get("BEAM_STATE", ""))
