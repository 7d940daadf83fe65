"""Changes a Claude team for a person: sends mail, changes tasks, asks members to end. beam does nothing of this
automatically."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping, Sequence

from msgspec import Struct

from beam.api.inside import check_person
from beam.base.errors import UsageError
from beam.base.typed_values import one_line
from beam.teams import act
from beam.teams.act import TeamFiles
from beam.teams.look import TeamsSnapshot, find_team
from beam.teams.model import LEAD, Task
from beam.teams.tasks import COMPLETED, IN_PROGRESS
from beam.teams.watch import homes

PERSON = "human"
_PERMISSION = re.compile(r"perm-[A-Za-z0-9_-]{1,100}")


class Delivery(Struct, frozen=True, kw_only=True):
    """A message that was put into a member's inbox. `sender` is the sender's name that the message states; nobody
    checks it. `unread_because` says why nobody reads it; "" as far as beam knows."""

    team: str
    to: str
    mail_id: str
    sender: str
    unread_because: str = ""


class TeamActions:
    """Changes one team, which is looked up by name in these Claude homes (Claude Code's configuration directories).
    Raises NotFoundError if there is no such team, UsageError if several teams match or the caller is an agent."""

    def __init__(self, environ: Mapping[str, str], name: str, *, claude_homes: Sequence[str] = ()) -> None:
        check_person(environ, "acts on a team")
        teams = [team for team in TeamsSnapshot(homes(environ, claude_homes)).teams() if team.roster is not None]
        team = find_team(teams, name)
        self.team = team.name
        self._is_stale = team.is_stale
        self.files = TeamFiles(team.home, self.team)

    def send(self, to: str, text: str, *, sender: str = PERSON, summary: str = "") -> Delivery:
        """Put a message into a member's inbox. Raises UsageError if the text is a frame (a control message) of the
        team's protocol."""
        act.check_text(text)
        act.check_sender(sender, self.files.roster())
        member = self.files.member(to)
        mail_id = self.files.post(member.name, text, sender=sender, summary=summary or one_line(text, act.SUMMARY))
        why = ""
        if self._is_stale and not member.has_own_process:
            why = f"the process of the lead of {self.team} is gone, and with it {member.name}"
        return Delivery(team=self.team, to=member.name, mail_id=mail_id, sender=sender, unread_because=why)

    def add_task(self, subject: str, *, description: str = "", after: Sequence[str] = ()) -> Task:
        """Add a task that waits for the tasks in `after`. Return the task."""
        if not subject.strip():
            raise UsageError("a task needs a subject")
        task_id = self.files.add_task(subject, description=description, after=after)
        return self.files.tasks()[task_id]

    def claim_task(self, task_id: str, owner: str = PERSON) -> Task:
        """Make `owner` the owner of a free task, and return the task. If the owner is a member, it gets mail about the
        task, as from Claude Code."""
        is_member = owner != PERSON
        if is_member:
            self.files.member(owner)
        task = self.files.claim_task(task_id, owner)
        if is_member:
            self.files.frame(
                owner,
                "task_assignment",
                sender=PERSON,
                taskId=task.id,
                subject=task.subject,
                description=task.description,
                assignedBy=PERSON,
            )
        return task

    def start_task(self, task_id: str) -> Task:
        """Set a task to in progress."""
        return self.files.move_task(task_id, IN_PROGRESS)

    def finish_task(self, task_id: str) -> Task:
        """Set a task to completed."""
        return self.files.move_task(task_id, COMPLETED)

    def block_task(self, task_id: str, by: str) -> Task:
        """Make a task wait for the task `by`."""
        self.files.block_task(task_id, by)
        return self.files.tasks()[task_id]

    def shut_down(self, member: str = "", *, reason: str = "") -> list[Delivery]:
        """Ask a member to end; without `member`, ask all members but the lead. Each member decides for itself whether
        it ends, and tells the lead."""
        roster = self.files.roster()
        lead = roster.lead
        names = [self.files.member(member).name] if member else [one.name for one in roster.members]
        found = []
        for name in names:
            if lead is not None and name == lead.name:
                if member:
                    raise UsageError(f"{name} leads the team; end its own program", subject=name)
                continue
            request = f"shutdown-{time.time_ns() // 1_000_000}@{name}"
            fields = {"requestId": request, "from": LEAD, **({"reason": reason} if reason else {})}
            mail_id = self.files.frame(name, "shutdown_request", sender=LEAD, **fields)
            found.append(Delivery(team=self.team, to=name, mail_id=mail_id, sender=LEAD))
        return found

    def approve(self, member: str, request: str, *, deny: str | None = None) -> Delivery:
        """Answer a member's permission request in the lead's name: allow it, or deny it with the reason `deny`. Raises
        UsageError if `request` is not the id of a permission request."""
        if not _PERMISSION.fullmatch(request):
            raise UsageError(f"{request!r} is not the id of a permission", "beam watch shows it: perm-…")
        name = self.files.member(member).name
        if deny is None:
            fields = {"request_id": request, "subtype": "success", "response": {"permission_updates": []}}
        else:
            fields = {"request_id": request, "subtype": "error", "error": deny}
        mail_id = self.files.frame(name, "permission_response", sender=LEAD, **fields)
        return Delivery(team=self.team, to=name, mail_id=mail_id, sender=LEAD)


def create_team(environ: Mapping[str, str], name: str, *, claude_homes: Sequence[str] = (), cwd: str = "") -> None:
    """Create a team that is not led by a Claude Code process. Raises UsageError if a team of that name exists, or if
    the caller is an agent."""
    check_person(environ, "makes a team")
    act.create(homes(environ, claude_homes)[0], name, session_id=str(uuid.uuid4()), cwd=cwd)
