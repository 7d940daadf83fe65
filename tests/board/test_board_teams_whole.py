"""Each line of the pane of a team, with the styles of its parts."""

from __future__ import annotations

from msgspec import structs

from beam.board.spans import bar, sparkline_of
from beam.board.teams import entries
from tests.board.made import team

USED = ("    4.2k  $0.0200", "")
LINES = [
    ("", "", [("docs (live), tasks: 1 in progress, 1 pending", "head")]),
    (
        "member",
        "alice",
        [("alice", "name"), ("working", "good"), ("    4.2k  $0.0200", ""), ("Bash make parser", "dim")],
    ),
    ("member", "bob", [("bob", "name"), ("idle", "dim"), ("    4.2k  $0.0200", ""), ("", "dim")]),
    ("", "", [("! bob waits for alice: task #1 blocks his (2m)", "ask")]),
    ("", "", []),
    ("", "", [("TASKS", "head")]),
    ("task", "1", [("▶ #1   alice", "good"), ("Write the parser", "good")]),
    ("task", "2", [("○ #2   bob", ""), ("Test the parser ← waits for #1", "ask")]),
    ("task", "3", [("✓ #3   alice", "dim"), ("Plan", "dim")]),
    ("", "", []),
    ("", "", [("MAIL, by conversation", "head")]),
    ("", "", [("alice · bob", "name")]),
    ("", "", [("  15:05:10 alice → bob: (unread) parser ready", "ask")]),
]


def test_a_team_is_drawn_with_its_members_tasks_waits_and_mail() -> None:
    shown = team()
    done = structs.replace(shown.tasks[0], id="3", status="completed", subject="Plan")
    found = [
        (each.kind, each.id, [(piece.text.rstrip(), piece.style) for piece in each.line])
        for each in entries(structs.replace(shown, tasks=(*shown.tasks, done)), 80)
    ]
    assert found == LINES


def test_a_line_of_figures_has_a_bar_of_eight_heights_for_each() -> None:
    assert sparkline_of([0, 1, 2, 3, 4, 5, 6, 7, 8]) == " ▁▂▃▄▅▆▇█"
    assert bar((), 0, 10, 3)[0].text == "···"
