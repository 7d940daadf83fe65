"""What the recorded screens of real agents say, moment by moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.agents.claude.screen import profile as CLAUDE
from beam.agents.codex.screen import profile as CODEX
from beam.agents.opencode.screen import profile as OPENCODE
from beam.agents.python import profile as PYTHON
from beam.model.screen_profile import GENERIC_PROFILE, Profile
from beam.pty_adapter import explain
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.profile import Reading
from beam.pty_adapter.screen import View

PLACE = Path(__file__).parents[1] / "recordings" / "pty"
SCREENS = PLACE.parent / "screens"


def at(name: str, moment: str, profile: Profile) -> Reading:
    rows = [row.rstrip() for row in (PLACE / f"{name}.{moment}.txt").read_text().split("\n")][:40]
    return profiles.read(profile, View(rows=tuple(rows), columns=100))


@pytest.mark.parametrize(
    ("name", "moment", "profile"),
    [
        ("claude", "done", CLAUDE),
        ("claude", "pasted", CLAUDE),  # it has not drawn the text yet
        ("codex", "pasted", CODEX),
        ("claude-perm", "start", CLAUDE),
        ("codex", "done", CODEX),
        ("codex", "start", CODEX),
        ("codex-vt100-noalt", "start", CODEX),
        ("codex-vt100-noalt", "done", CODEX),
    ],
)
def test_an_idle_screen_is_idle(name: str, moment: str, profile: Profile) -> None:
    assert at(name, moment, profile).idle


@pytest.mark.parametrize(("name", "profile"), [("claude", CLAUDE), ("codex-vt100-noalt", CODEX), ("codex", CODEX)])
def test_a_busy_screen_is_busy(name: str, profile: Profile) -> None:
    assert at(name, "busy", profile).busy and not at(name, "busy", profile).idle


@pytest.mark.parametrize(("moment", "busy"), [("busy", True), ("idle", False)])
def test_a_claude_that_waits_for_an_agent_in_the_background_is_busy_until_that_is_done(moment: str, busy: bool) -> None:
    rows = (SCREENS / f"claude-waiting.{moment}.txt").read_text().split("\n")
    view = View(rows=tuple(rows), columns=140)
    reading = profiles.read(CLAUDE, view)
    assert (reading.busy, reading.idle) == (busy, not busy)
    because = {each.field: each.text for each in explain.deciding_rows(CLAUDE, view, reading)}
    assert because.get("waits_rows") == ("✻ Waiting for 1 background agent to finish" if busy else None)


def claude_with(*above: str) -> Reading:
    rule = "─" * 60
    rows = ("❯ go", "", "● I begin.", "", *above, "", rule, "❯", rule, "  ? for shortcuts")
    return profiles.read(CLAUDE, View(rows=rows, columns=60))


TASKS = (
    "  ⎿  ✔ Read the files",
    "     ◼ Write the tests",
    "     ◻ Run them",
    "     ☐ Describe it",
    "      … +3 pending",
)


@pytest.mark.parametrize(
    "works",
    [
        "✻ Writing the tests… (esc to interrupt · ctrl+t to hide tasks · 3m 1s · ↓ 1.2k tokens)",
        "· Compacting conversation… (47s · ↓ 798 tokens)",
        "✽ Reading three of the files…",
    ],
)
def test_a_claude_that_shows_a_list_of_its_tasks_below_what_it_does_is_busy(works: str) -> None:
    assert claude_with(works).busy
    assert claude_with(works, *TASKS).busy
    assert not claude_with("✻ Brewed for 2m 47s", "", "  Tasks (1 done, 4 open)", *TASKS).busy


def test_words_of_claude_that_look_as_if_it_worked_are_not_taken_for_that_below_a_list() -> None:
    assert claude_with("  ✻ Writing the tests… (3s)", *(f"  ✔ task {number}" for number in range(9))).idle


def test_a_codex_that_still_starts_is_not_ready() -> None:
    assert not at("codex", "start", CODEX).ready and at("codex-vt100-noalt", "start", CODEX).ready


def test_a_claude_that_has_drawn_nothing_yet_is_not_idle() -> None:
    assert not at("claude", "start", CLAUDE).idle


def test_what_was_pasted_is_what_is_typed() -> None:
    reading = at("claude-perm", "pasted", CLAUDE)
    assert reading.typed == "TOOLTURNplease" and not reading.idle
    assert at("codex-vt100-noalt", "pasted", CODEX).typed == "SLOWTURNhi"


@pytest.mark.parametrize("moment", ["busy", "done"])
def test_a_permission_dialog_is_one_and_nothing_else(moment: str) -> None:
    reading = at("claude-perm", moment, CLAUDE)
    assert reading.dialog is not None and reading.dialog.kind == "permission"
    assert not reading.idle and not reading.busy and reading.prompt is None


def test_a_dialog_that_nobody_described_is_seen_as_a_question() -> None:
    assert at("gemini", "start", GENERIC_PROFILE).question


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (("hello", "Go on? [y/n] ", "  (it takes long)", ""), "Go on? [y/n] "),
        (("Press Enter to go on", "Really? (y/N)", "", ""), "Really? (y/N)"),
        (("Choose:", "❯", "1. this", "2. that"), "2. that"),
    ],
)
def test_why_a_screen_is_a_question_is_the_lowest_row_that_looks_like_one_else_the_last(
    rows: tuple[str, ...], named: str
) -> None:
    view = View(rows=rows, columns=60)
    reading = profiles.read(GENERIC_PROFILE, view)
    assert reading.question
    assert [each.text for each in explain.deciding_rows(GENERIC_PROFILE, view, reading)] == [named]


def python(*rows: str, row: int, column: int) -> Reading:
    return profiles.read(PYTHON, View(rows=(*rows, "", ""), columns=40, row=row, column=column))


def test_a_prompt_counts_only_where_the_cursor_stands() -> None:
    assert python(">>> ", row=0, column=4).idle
    assert python(">>> 1+1", row=0, column=7).typed == "1+1"
    assert python(">>> print('>>> ')", ">>> ", "out", row=3, column=0).prompt is None
    assert python(">>> for x in y:", "... ", row=1, column=4).more


def test_what_was_typed_over_several_rows_is_found() -> None:
    assert python(">>> " + "x" * 36, "yy", row=1, column=2).typed == "x" * 36 + "yy"


def test_a_prompt_is_learned_only_from_what_stands_before_the_cursor_at_the_end() -> None:
    view = View(rows=("hello", "(Pdb) ", ""), columns=40, row=1, column=6)
    known = profiles.learn_prompt(GENERIC_PROFILE, view)
    assert known is not None and profiles.read(known, view).idle
    assert profiles.learn_prompt(GENERIC_PROFILE, View(rows=("", "x"), columns=40, row=0, column=0)) is None
    assert (
        profiles.learn_prompt(GENERIC_PROFILE, View(rows=("> ",), columns=40, row=0, column=2, alternate=True)) is None
    )


def test_the_session_is_the_last_one_that_the_agent_wrote_when_it_quit() -> None:
    rows = ("  Continue  opencode -s ses_1", "", "  Continue  opencode -s ses_2", "^C")
    assert profiles.session_in(OPENCODE, rows) == "ses_2"
    assert profiles.session_in(OPENCODE, ("opencode -s", "")) is None
    assert profiles.session_in(PYTHON, rows) is None
