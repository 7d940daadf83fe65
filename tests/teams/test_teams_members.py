"""What a member's own words about itself become."""

from __future__ import annotations

from typing import Any

from beam.teams.disk import FOLDERS, SMALL
from beam.teams.event_factory import Deduplicator
from beam.teams.mail import Letter
from beam.teams.members import Members
from beam.teams.model import Mail


def test_a_member_that_waits_is_reported_with_all_that_it_says_of_its_last_task() -> None:
    told: list[dict[str, Any]] = []
    members = Members(lambda *_, **fields: told.append(fields), Deduplicator())  # type: ignore[arg-type,return-value]
    frame = {
        "idleReason": "failed",
        "summary": "half done",
        "failureReason": "no key",
        "completedTaskId": "3",
        "completedStatus": "blocked",
    }
    mail = Mail(id="m1", sender="bob", kind="idle_notification", frame=frame)
    members.on_frame(Letter(mail=mail, to="lead", at_ns=5_000_000), "mail")
    assert told == [
        {
            "member": "bob",
            "reason": "failed",
            "summary": "half done",
            "failure": "no key",
            "task_id": "3",
            "task_status": "blocked",
        }
    ]
    assert members.states["bob"].summary == "half done"


def test_a_team_is_read_from_the_folders_where_claude_code_writes_it() -> None:
    assert (SMALL, FOLDERS) == (("teams", "tasks", "sessions"), ("teams", "tasks", "sessions", "projects"))
