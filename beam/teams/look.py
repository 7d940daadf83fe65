"""Reads the teams of some homes (configuration directories of Claude Code) once.

Later changes are not followed; the module `watch` does that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from beam.agents.claude import history
from beam.base.errors import NotFoundError, UsageError
from beam.teams import disk, model
from beam.teams.diff import Diff, Team
from beam.teams.tails import Tails, lines
from beam.teams.watch import check_leads

_RANK = {"session": 0, "config": 1, "task": 2, "inbox": 3}


def find_team(teams: Sequence[Team], name: str) -> Team:
    """Return the team with this name, or the only one whose name contains it. Raises NotFoundError, and UsageError if
    several teams match."""
    found = [team for team in teams if team.name == name] or [team for team in teams if name and name in team.name]
    if not found:
        raise NotFoundError(f"there is no team {name!r}", "beam team list", subject=name)
    if len(found) > 1:
        names = ", ".join(f"{team.name} ({team.home})" for team in found[:4])
        raise UsageError(f"{name!r} matches {len(found)} teams: {names}", "give its whole name", subject=name)
    return found[0]


class TeamsSnapshot:
    """The state of the teams in Claude Code's directories at the time `now_ns`, when this object was created."""

    def __init__(self, homes: Sequence[str]) -> None:
        self.now_ns = time.time_ns()
        self._diff = Diff()
        found = [file for home in homes for file, _ in disk.small_files(home)]
        for file in sorted(found, key=lambda file: _RANK[file.kind]):
            snapshot, _ = disk.read(file, self.now_ns)
            if snapshot.data is not None:
                self._apply_file(file, snapshot.data, snapshot.at_ns)
        check_leads(self._diff, self.now_ns)

    def teams(self) -> list[Team]:
        """Return all teams. An inbox directory or a task list without a configuration counts as a team, too."""
        return list(self._diff.teams.values())

    def lines(self, team: Team) -> Iterator[tuple[str, bool, history.TranscriptLine]]:
        """Yield (member, is_member, line) for each line of the team's transcripts, in the order of their times.
        `is_member` is False for a line of a subagent that the member started."""
        tails = Tails(team.home, self._diff, began_ns=self.now_ns)
        for tail, line in lines(tails.find(since_ns=0, is_new=False, only=team)):
            yield tail.member, tail.is_member, line

    def last_lines(self, team: Team) -> list[tuple[str, history.TranscriptLine]]:
        """Return (member, line) for the last lines of each member's transcript, in the order of their times; [] if the
        team is not live."""
        if not team.is_live:
            return []
        tails = Tails(team.home, self._diff, began_ns=self.now_ns)
        tails.find(since_ns=None, is_new=False, only=team)
        return [(tail.member, line) for tail, line in lines(tails.end_tails(team))]

    def apply_transcripts(self, team: Team) -> None:
        """Apply all lines of the team's transcripts to its state, so that mail that left the inboxes is known, too."""
        for member, is_member, line in self.lines(team):
            self._diff.line(team, member, line, is_member=is_member)

    def _apply_file(self, file: disk.TeamFile, data: bytes, at_ns: int) -> None:
        home, group, name = file.home, file.group, file.name
        if file.kind == "config" and (roster := model.roster(data)) is not None:
            self._diff.config(home, group, roster, at_ns)
        elif file.kind == "inbox" and (mails := model.inbox(data)) is not None:
            self._diff.inbox(home, group, name, mails, at_ns)
        elif file.kind == "task" and (task := model.task(data)) is not None:
            self._diff.task(home, group, task, at_ns)
        elif file.kind == "session" and (session := model.session(data)) is not None:
            self._diff.session(home, session)
