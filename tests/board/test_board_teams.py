"""A team as lines."""

from __future__ import annotations

from msgspec import structs

from beam.board.panes import TeamLines
from beam.board.teams import entries
from beam.board.words import as_text
from tests.board.made import HOSTILE, team


def test_a_team_has_members_waits_tasks_with_what_they_wait_for_and_mail() -> None:
    assert [as_text(each.line) for each in entries(team(), 80)] == [
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
    snapshot = team()
    snapshot = structs.replace(
        snapshot,
        tasks=[structs.replace(task, subject=HOSTILE, owner=HOSTILE) for task in snapshot.tasks],
        mail=[structs.replace(mail, sender=HOSTILE, summary=HOSTILE, at=HOSTILE) for mail in snapshot.mail],
    )
    text = "\n".join(as_text(each.line) for each in entries(snapshot, 60))
    assert "\x1b" not in text and "\u202e" not in text and "\x9b" not in text


def test_the_selected_task_stays_selected_when_its_line_moves_and_nothing_is_when_it_is_gone() -> None:
    snapshot, shown = team(), TeamLines()
    shown.show(snapshot, 80)
    at = next(at for at in range(len(shown)) if "Test the parser" in as_text(shown.line(at, 80)))
    shown.select(at)
    shown.show(structs.replace(snapshot, tasks=snapshot.tasks[::-1]), 80)
    assert shown.index_of_selected(at) == at - 1 and shown.task is not None and shown.task.id == "2"
    shown.show(structs.replace(snapshot, tasks=snapshot.tasks[:1]), 80)
    assert shown.index_of_selected(at) == at and shown.task is None and shown.member == ""


def test_a_line_of_mail_is_neither_a_task_nor_a_member() -> None:
    shown = TeamLines()
    shown.show(team(), 80)
    kinds = []
    for at in range(len(shown)):
        shown.select(at)
        kinds.append((shown.member, shown.task.id if shown.task is not None else ""))
    assert [kind for kind in kinds if any(kind)] == [("alice", ""), ("bob", ""), ("", "1"), ("", "2")]
    shown.show(None, 80)
    assert len(shown) == 1 and shown.task is None


def test_a_frame_of_the_protocol_is_shown_in_words() -> None:
    snapshot = team()
    frame = '{"type":"task_assignment","taskId":"1","subject":"Write it","assignedBy":"human"}'
    mail = [structs.replace(each, kind="task_assignment", summary="", text=frame) for each in snapshot.mail]
    text = [as_text(each.line) for each in entries(structs.replace(snapshot, mail=mail), 80)]
    assert text[-1] == "  15:05:10 alice → bob: (unread) [task_assignment] #1 Write it"


def test_a_task_that_waits_says_so_itself() -> None:
    snapshot = team()
    (wait,) = snapshot.shown.waits
    shown = structs.replace(snapshot.shown, waits=(structs.replace(wait, who="", on="#1", what="#2 Test the parser"),))
    text = [as_text(each.line) for each in entries(structs.replace(snapshot, shown=shown), 80)]
    assert "! #2 Test the parser waits for #1 (2m)" in text
