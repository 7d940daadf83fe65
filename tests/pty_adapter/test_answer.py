"""Answers as a screen shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.agents.claude.screen import profile as CLAUDE
from beam.agents.codex.screen import profile as CODEX
from beam.agents.qwen.screen import profile as QWEN
from beam.model.screen_profile import Profile
from beam.pty_adapter import answer
from beam.pty_adapter.grid import Line
from beam.pty_adapter.screen import Screen

PLACE = Path(__file__).parents[1] / "recordings" / "pty"
SCREENS = Path(__file__).parents[1] / "recordings" / "screens"
STUB = "STUB ANSWER line one.\n\nSecond paragraph of the stub answer. END-OF-ANSWER"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "profile", "text"),
    [
        ("claude", CLAUDE, "SLOWTURN first line\nsecond line of prompt"),
        ("codex", CODEX, "SLOWTURN first line\nsecond line of prompt"),
        ("codex-vt100-noalt", CODEX, "SLOWTURN hi"),
    ],
)
def test_a_recorded_answer_is_read_without_composer_spinner_and_box(name: str, profile: Profile, text: str) -> None:
    screen = Screen(100, 40)
    screen.feed((PLACE / f"{name}.raw").read_bytes())
    assert answer.agent_answer(profile, screen.lines(), text, columns=100) == STUB


def conversation(*rows: str, width: int = 60) -> str:
    rule = "─" * width
    lines = [Line(row) for row in (*rows, rule, "❯", rule, "  ? for shortcuts")]
    return answer.agent_answer(CLAUDE, lines, "what is it", columns=width)


def test_a_screen_without_the_prompts_echo_has_no_answer() -> None:
    assert conversation("● something else") == ""


def test_the_last_echo_counts() -> None:
    assert conversation("❯ what is it", "● first", "❯ what is it", "● second") == "second"


def test_an_agents_own_prompt_signs_in_the_answer_stay() -> None:
    shown = conversation("❯ what is it", "● ❯ quoted", "  > more", "  ╭───╮", "  │ x │", "  ╰───╯")
    assert shown == "❯ quoted\n> more\n╭───╮\n│ x │\n╰───╯"


def test_rows_that_fill_the_width_are_joined_and_others_stay() -> None:
    long = "● " + "word " * 10 + "words"
    assert (
        conversation("❯ what is it", long, "  continues", "  short", "  rows") == f"{long[2:]} continues\nshort\nrows"
    )


def test_lists_and_code_are_not_joined() -> None:
    rows = ("❯ what is it", "● " + "x" * 54, "  - an item", "      indented code")
    assert conversation(*rows) == "x" * 54 + "\n- an item\n    indented code"


def test_only_the_terminals_own_breaks_of_a_programs_output_are_undone() -> None:
    lines = [Line("a" * 10, wrapped=True), Line("b"), Line(""), Line("c"), Line("")]
    assert answer.unwrapped_text(lines, columns=10) == "a" * 10 + "b\n\nc"


def test_the_bar_beside_a_conversation_that_is_longer_than_the_screen_is_no_part_of_the_answer() -> None:
    rows = (SCREENS / "qwen-scrolled.idle.txt").read_text().splitlines()
    shown = answer.agent_answer(QWEN, [Line(row) for row in rows], "LONG more still", columns=140)
    assert shown == "\n".join(f"line {number} of a long answer" for number in range(60))


def test_a_sign_like_the_bar_that_is_not_in_the_last_column_stays() -> None:
    rule = "─" * 60
    box = ["  > draw", "  ✦ ╭──╮", "    │  │", f"    {'x' * 55}│", rule, ">   Type", rule]
    shown = answer.agent_answer(QWEN, [Line(row) for row in box], "draw", columns=60)
    assert shown == f"╭──╮\n│  │\n{'x' * 55}"


def test_a_program_that_does_not_show_the_prompt_again_has_no_echo() -> None:
    assert answer._after_echo(Profile(), ["> hello", "world"], "hello") is None
    assert answer._after_echo(CLAUDE, ["❯ hello", "world"], "hello") == 1
