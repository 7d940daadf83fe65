"""The actions that a person can start from the board. They act only through beam's public API, and each returns its
result as a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beam import Beam, BeamError, NotFoundError, Options, UnsupportedError, clock
from beam.board.decision import Answer
from beam.cli.render.team import task_line

if TYPE_CHECKING:
    from beam import AskLine, TeamActions, TeamLine
    from beam.board.rows import Row


class Actions:
    """The board's actions. `beam` acts on the current project folder; a `Beam` for another project folder is made at
    its first use."""

    def __init__(self, beam: Beam, *, claude_homes: Sequence[str] = ()) -> None:
        self._beam = beam
        self._claude_homes = tuple(claude_homes)
        self._other_beams: dict[Path, Beam] = {}

    def beam_for_project(self, project: Path) -> Beam:
        """Return the `Beam` of that project folder."""
        if project == self._beam.home.project:
            return self._beam
        if project not in self._other_beams:
            self._other_beams[project] = Beam(cwd=project, environ=_without_root(self._beam.environ))
        return self._other_beams[project]

    def send(self, row: Row, text: str) -> str:
        """Send a message to the agent, or mail to the team member. The answer appears in the stream."""
        if row.kind == "member":
            member, _, team = row.key.rpartition("@")
            return _send_mail(self._team_actions(team, self._claude_homes), member, text)
        beam = self._beam_of_row(row, "be sent messages")
        agent = _agent_name(row)
        access = beam.default_access(agent, None)
        options = Options() if access is None else Options(access=access)
        return f"sent {beam.put(beam.message(agent, text, wait=False, options=options))}"

    def steer(self, row: Row, text: str) -> str:
        """Pass a text to the turn that runs."""
        return self._beam_of_row(row, "be told anything").steer(_agent_name(row), text)

    def interrupt(self, row: Row, message_id: str) -> str:
        """End the turn of exactly this message."""
        return self._beam_of_row(row, "be interrupted").interrupt(message_id)

    def pause(self, row: Row) -> str:
        """Pause the agent's queue, or resume it if it is paused."""
        beam, agent = self._beam_of_row(row, "be paused"), _agent_name(row)
        return beam.resume(agent) if row.state == "paused" else beam.pause(agent)

    def diff(self, row: Row) -> str:
        """Return what changed since the agent's last turn began, as a patch."""
        found = self._beam_of_row(row, "be compared").diff(_agent_name(row))
        since = f"since turn {found.turn} of {found.agent} began ({found.ts}), in {found.folder}"
        if not found.changes.files:
            return f"nothing changed {since}"
        return f"{since}\n\n{found.changes.patch.decode('utf-8', 'replace')}"

    def decide(self, project: Path, ask: AskLine, answer: Answer) -> str:
        """Answer this ask: deny it, approve it once, or approve it always."""
        beam = self.beam_for_project(project)
        if answer == "deny":
            return beam.deny(ask.id)
        return beam.approve(ask.id, always=answer == "always")

    def mail(self, team: TeamLine, member: str, text: str) -> str:
        """Put mail into the inbox of a team's member."""
        return _send_mail(self._team_actions(team.team, [team.home]), member, text)

    def add_task(self, team: TeamLine, subject: str) -> str:
        """Add a task."""
        return task_line(self._team_actions(team.team, [team.home]).add_task(subject))

    def claim_task(self, team: TeamLine, number: str, owner: str) -> str:
        """Make `owner` the owner of a free task."""
        return task_line(self._team_actions(team.team, [team.home]).claim_task(number, owner))

    def start_task(self, team: TeamLine, number: str) -> str:
        """Set a task to in progress."""
        return task_line(self._team_actions(team.team, [team.home]).start_task(number))

    def finish_task(self, team: TeamLine, number: str) -> str:
        """Set a task to completed."""
        return task_line(self._team_actions(team.team, [team.home]).finish_task(number))

    def block_task(self, team: TeamLine, number: str, by: str) -> str:
        """Make a task wait for the task `by`."""
        return task_line(self._team_actions(team.team, [team.home]).block_task(number, by))

    def _team_actions(self, name: str, homes: Sequence[str]) -> TeamActions:
        from beam import TeamActions

        actions = TeamActions(self._beam.environ, name, claude_homes=homes)
        if actions.team != name:
            raise NotFoundError(f"team {name} is gone", "beam team list", subject=name)
        return actions

    def _beam_of_row(self, row: Row, what: str) -> Beam:
        if row.project is None:
            raise UnsupportedError(f"{row.name} was not started by beam, and can't {what} from here")
        return self.beam_for_project(row.project)


def _send_mail(team: TeamActions, member: str, text: str) -> str:
    sent = team.send(member, text)
    return f"in the inbox of {sent.to}; that it comes from {sent.sender}, nothing there proves"


def attempt(action: Callable[[], str]) -> tuple[bool, str]:
    """Run the action. Return whether it succeeded, and the action's result or the error as a text."""
    try:
        return True, action()
    except BeamError as error:
        return False, error.message + (f"; {error.hint}" if error.hint else "")
    except OSError as error:
        return False, str(error)


def seconds_of(ts: str) -> float | None:
    """Return an RFC 3339 time in seconds since 1970; None for anything else."""
    try:
        return clock.parse_rfc3339(ts) / 1e9
    except ValueError:
        return None


def _agent_name(row: Row) -> str:
    assert row.project is not None
    return row.key.removeprefix(f"{row.project}/")


def _without_root(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name != "BEAM_ROOT"}
