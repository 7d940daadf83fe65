"""Where a turn stands, moment by moment, in stories of screens: each change of its state with its time, its evidence
and its reason.

`BEAM_WRITE_EXPECTED=1 pytest tests/pty_adapter/test_expected_stories.py` writes the expectations anew
(tests/pty_adapter/expected/stories); read the difference before you keep it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents.bash import profile as BASH
from beam.agents.claude.screen import profile as CLAUDE
from beam.model.screen_profile import GENERIC_PROFILE, Profile
from beam.pty_adapter.screen import Signal, View
from beam.pty_adapter.turn_end import IllegalMoveError, TurnEnd
from tests.pty_adapter.test_turn_end import claude
from tests.support import expected

HERE = Path(__file__).parent / "expected" / "stories"
TICK_S = 0.05
ANSWER = ("❯ hello", "", "● hi there", "")
WORKS = {"footer": "  esc to interrupt"}
DIALOG = View(
    rows=(
        *("─" * 100, " Bash command", "", "   touch zz", "", " Do you want to proceed?", " ❯ 1. Yes", "   2. No", ""),
        " Esc to cancel",
    ),
    columns=100,
)


def rows(*lines: str, row: int | None = None, column: int = 0, **fields: Any) -> View:
    at = len(lines) - 1 if row is None else row
    return View(rows=(*lines, *[""] * (10 - len(lines))), columns=40, row=at, column=column, **fields)


IDLE, TYPED, SENT, BUSY, DONE = (
    claude(),
    claude(composer="❯ hello"),
    claude("❯ hello", "", title="⠂ Claude Code"),
    claude("❯ hello", "", "✻ Booping…", **WORKS, title="⠂ Claude Code"),
    claude(*ANSWER),
)
FAILED = claude("❯ hello", "", "● API Error: 500 it broke", "")
PLAIN = structs.replace(CLAUDE, titles_busy="", titles_idle="", titles_asking="")
SIGNALS = structs.replace(CLAUDE, signals=(7501, 133))
Q, A = rows("$ ", column=2), rows("$ echo", "echo", "$ ", column=2)
# A step: seconds and a view; or a word: send, enter, answer, exit, working, waiting, done, failed, osc NUMBER TEXT.
STORIES: dict[str, tuple[Profile, dict[str, Any], list[Any]]] = {
    "a turn": (CLAUDE, {}, [(1, IDLE), "send", (0.5, TYPED), "enter", (0.5, SENT), (2, BUSY), (5, DONE)]),
    "without titles": (PLAIN, {}, [(1, IDLE), "send", (0.5, TYPED), "enter", (0.5, SENT), (2, BUSY), (5, DONE)]),
    "never busy": (PLAIN, {}, [(1, IDLE), "send", (0.5, TYPED), "enter", (8, DONE)]),
    "busy again": (PLAIN, {}, [(1, IDLE), "send", "enter", (1, BUSY), (0.7, DONE), (1, BUSY), (4, DONE)]),
    "failed": (CLAUDE, {}, [(1, IDLE), "send", "enter", (1, BUSY), (5, FAILED)]),
    "not taken": (PLAIN, {}, [(1, IDLE), "send", "enter", (200, TYPED)]),
    "gone, and not taken": (PLAIN, {}, [(1, IDLE), "send", "enter", (20, rows("x")), (100, TYPED)]),
    "stands still": (structs.replace(PLAIN, stall_seconds=20.0), {}, [(1, IDLE), "send", "enter", (30, BUSY)]),
    "a dialog": (CLAUDE, {}, [(1, IDLE), "send", "enter", (1, BUSY), (3, DIALOG), "answer", (2, BUSY), (4, DONE)]),
    "a dialog that goes": (CLAUDE, {}, [(1, IDLE), "send", "enter", (1, BUSY), (3, DIALOG), (2, BUSY), (4, DONE)]),
    "a dialog at the start": (CLAUDE, {}, [(2, DIALOG), "answer", (2, DIALOG), (2, IDLE)]),
    "never ready": (structs.replace(CLAUDE, start_seconds=5.0), {}, [(7, rows("Loading"))]),
    "a question at the start": (CLAUDE, {}, [(30, rows("Which colour?", "❯ 1. red", "  2. green"))]),
    "a question": (CLAUDE, {}, [(1, IDLE), "send", "enter", (1, BUSY), (30, rows("Which?", "❯ 1. red", "  2. green"))]),
    "strange": (CLAUDE, {}, [(1, rows("Hello")), (30, rows("Something else"))]),
    "exits": (CLAUDE, {}, [(1, IDLE), "send", "enter", (1, BUSY), "exit", (1, DONE)]),
    "by its transcript": (CLAUDE, {"has_history": True}, [(1, IDLE), "send", "enter", "working", (1, BUSY), "done"]),
    "by its transcript, in the background": (
        CLAUDE,
        {"has_history": True},
        [(1, IDLE), "send", "enter", "working", (1, BUSY), "waiting", (60, DONE), "done"],
    ),
    "failed by its transcript": (CLAUDE, {"has_history": True}, [(1, IDLE), "send", "enter", (1, BUSY), "failed"]),
    "without a word of its transcript": (
        CLAUDE,
        {"has_history": True},
        [(1, IDLE), "send", "enter", (1, BUSY), (9, DONE)],
    ),
    "a transcript before Enter": (CLAUDE, {"has_history": True}, [(1, IDLE), "working", "done", "send", "done"]),
    "a command": (CLAUDE, {"has_history": True}, [(1, IDLE), "command", (0.5, TYPED), "enter", (5, IDLE)]),
    "signals": (
        SIGNALS,
        {},
        [
            *((1, IDLE), "osc 7501 state=working", "send", "enter", "osc 7501 state=working:app=x", (1, BUSY)),
            *("osc 7501 state=done", (3, BUSY)),
        ],
    ),
    "a signal that asks": (
        SIGNALS,
        {},
        [(1, IDLE), "send", "enter", (1, BUSY), "osc 7501 state=blocked", (1, BUSY), "osc 7501 state=idle", (3, DONE)],
    ),
    "marks of a shell": (SIGNALS, {}, [(1, IDLE), "send", "enter", "osc 133 C", (1, BUSY), "osc 133 A", (2, DONE)]),
    "signals of no meaning": (
        CLAUDE,
        {},
        [(1, IDLE), "send", "enter", "osc 9 x", "osc 133 B", "osc 7501 x", (1, BUSY)],
    ),
    "a shell": (BASH, {}, [(1, Q), "send", "enter", (1, rows("$ echo", "echo")), (3, A)]),
    "a shell at once": (BASH, {}, [(1, Q), "send", "enter", (3, A)]),
    "a shell that never comes back": (
        structs.replace(BASH, stall_seconds=20.0),
        {},
        [(1, Q), "send", "enter", (30, rows("$ echo", "echo"))],
    ),
    "an unknown program": (GENERIC_PROFILE, {}, [(3, Q), "send", "enter", (1, rows("$ echo", "echo")), (4, A)]),
    "an unknown program at once": (GENERIC_PROFILE, {}, [(3, Q), "send", "enter", (5, A)]),
    "an unknown program that shows nothing": (structs.replace(GENERIC_PROFILE, stall_seconds=5.0), {}, [(8, rows(""))]),
    "an unknown program that asks": (GENERIC_PROFILE, {}, [(30, rows("Which?", "❯ 1. red", "  2. green"))]),
    "resumed": (
        structs.replace(CLAUDE, resumed_rows=("^❯ old",)),
        {"resumes": True},
        [(3, IDLE), (2, claude("❯ old"))],
    ),
    "half a frame": (PLAIN, {}, [(1, IDLE), "send", "enter", (1, BUSY), "half", (5, DONE), "whole", (4, DONE)]),
    "typed too early": (CLAUDE, {}, [(0.1, IDLE), "send"]),
}


class Story:
    """A turn, and what is told of it."""

    def __init__(self, profile: Profile, fields: dict[str, Any]) -> None:
        self.end = TurnEnd(profile, now=0.0, **fields)
        self.now, self.whole = 0.0, True
        self.told: list[Any] = []
        self._last: Any = None

    def note(self) -> None:
        end = self.end
        seen = (str(end.state), end.via, end.reason)
        strange = end.is_strange(self.now)
        if (seen, strange) != self._last:
            marks = {name for name in ("ended", "is_structured", "is_starting") if getattr(end, name)}
            strange_mark = {"strange"} if strange else set()
            self.told.append([round(self.now, 2), *seen, *sorted(marks | strange_mark)])
        self._last = (seen, strange)

    def step(self, step: Any) -> None:
        if not isinstance(step, str):
            seconds, view = step
            for _ in range(round(seconds / TICK_S)):
                self.end.look(view, self.now, whole=self.whole)
                self.note()
                self.now += TICK_S
            return
        try:
            self._do(step)
        except IllegalMoveError as error:
            self.told.append([round(self.now, 2), f"refused: {error}"])
        self.note()

    def _do(self, step: str) -> None:
        end, now = self.end, self.now
        word, _, rest = step.partition(" ")
        match word:
            case "send" | "command":
                end.begin_message("hello", command=word == "command")
            case "enter":
                end.on_entered(now)
            case "answer":
                end.on_answered(now, end.reading.block)
            case "exit":
                end.on_exited(now)
            case "osc":
                number, _, text = rest.partition(" ")
                end.record_signals([Signal(int(number), text)], now)
            case "half" | "whole":
                self.whole = word == "whole"
            case "failed":
                end.report_state("done", now, error="it broke")
            case _:
                end.report_state(word, now)


@pytest.mark.parametrize("name", STORIES)
def test_a_story_goes_as_checked_in(name: str) -> None:
    profile, fields, steps = STORIES[name]
    story = Story(profile, fields)
    for step in steps:
        story.step(step)
    file = name.replace(" ", "-").replace(",", "")
    expected.check(HERE / f"{file}.jsonl", expected.lines(story.told))
