"""A team as lines."""

from __future__ import annotations

from msgspec import structs

from beam.board.teams import lines
from beam.board.words import as_text
from tests.board.made import HOSTILE, team


def test_a_team_has_members_waits_tasks_with_what_they_wait_for_and_mail() -> None:
    assert [as_text(line) for line in lines(team(), 80)] == [
        "docs (live), tasks: 1 in progress, 1 pending",
        "alice            working      4.2k  $0.0200  Bash make parser",
        "bob              idle         4.2k  $0.0200",
        "! bob waits for alice: task #1 blocks his (2m)",
        "",
        "TASKS",
        "▶ #1   alice          Write the parser",
        "○ #2   bob            Test the parser ← waits for #1",
        "",
        "MAIL, by conversation",
        "alice · bob",
        "  15:05:10 alice → bob: (unread) parser ready",
    ]


def test_hostile_mail_and_tasks_are_drawn() -> None:
    look = team()
    look = structs.replace(
        look,
        tasks=[structs.replace(task, subject=HOSTILE, owner=HOSTILE) for task in look.tasks],
        mail=[structs.replace(mail, sender=HOSTILE, summary=HOSTILE, at=HOSTILE) for mail in look.mail],
    )
    text = "\n".join(as_text(line) for line in lines(look, 60))
    assert "\x1b" not in text and "\u202e" not in text and "\x9b" not in text
