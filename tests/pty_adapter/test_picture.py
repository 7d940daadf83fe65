"""A picture says what the screen shows, in its colours, and nothing in it is obeyed by a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from beam.pty_adapter.picture import Painter, Picture, Run, cut, paint, repaint
from beam.pty_adapter.screen import Screen

RECORDINGS = sorted((Path(__file__).parents[1] / "recordings" / "pty").glob("*.raw"))


def picture(data: bytes, columns: int = 20, rows: int = 4) -> Picture:
    screen = Screen(columns, rows)
    screen.feed(data)
    return Painter(screen).picture()


def test_characters_that_look_alike_are_one_run() -> None:
    shown = picture(b"plain \x1b[1;31mred\x1b[0;38;5;208;42mo\x1b[7mr\x1b[m end\r\n\x1b[95;103mx")
    assert shown.rows[0] == (
        Run("plain "),
        Run("red", "red", "", ("bold",)),
        Run("o", "#ff8700", "green"),
        Run("r", "#ff8700", "green", ("reverse",)),
        Run(" end"),
    )
    assert shown.rows[1] == (Run("x", "bright magenta", "bright yellow"),)
    assert shown.text == "plain redor end\nx"


def test_colours_of_letters_alone_are_colours() -> None:
    assert picture(b"\x1b[38;5;231;48;5;255mx").rows[0] == (Run("x", "#ffffff", "#eeeeee"),)


def test_it_has_the_cursor_and_what_changes_the_keys() -> None:
    shown = picture(b"\x1b[2;3H\x1b[?25l\x1b[?2004h\x1b[?1h\x1b]0;title\x07")
    assert (shown.row, shown.column, shown.cursor, shown.title) == (1, 2, False, "title")
    assert shown.pastes and shown.keypad


def test_rows_that_did_not_change_are_the_same_objects() -> None:
    screen = Screen(20, 4)
    screen.feed(b"one\r\ntwo\r\nthree")
    painter = Painter(screen)
    before = painter.picture()
    screen.feed(b"\x1b[2;1H\x1b[31mt")
    after = painter.picture()
    assert [now is then for now, then in zip(after.rows, before.rows, strict=True)] == [True, False, True, True]


def test_a_colour_that_does_not_exist_changes_nothing() -> None:
    assert picture(b"\x1b[31ma\x1b[38;5;300mb\x1b[48;2;1;2;300mc").rows[0] == (Run("abc", "red"),)


def test_blanks_at_the_end_of_a_row_are_kept_only_where_they_are_seen() -> None:
    assert picture(b"ab   ").rows[0] == (Run("ab"),)
    assert picture(b"\x1b[41mab   ").rows[0] == (Run("ab   ", "", "red"),)


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_picture_painted_on_another_screen_is_the_same_picture(path: Path) -> None:
    first = picture(path.read_bytes(), 100, 40)
    again = picture(repaint(first).encode(), 100, 40)
    rows = tuple(tuple(structs.replace(run, text=run.text.replace("\u00a0", " ")) for run in row) for row in first.rows)
    assert (again.rows, again.row, again.column, again.cursor) == (rows, first.row, first.column, first.cursor)


def test_without_true_colour_the_nearest_of_256_is_taken() -> None:
    run = Run("x", "#ff8700", "#00005f", ("bold",))
    assert paint((run,), true_colour=False) == "\x1b[1;38;5;208;48;5;17mx\x1b[m"
    assert paint((run,)) == "\x1b[1;38;2;255;135;0;48;2;0;0;95mx\x1b[m"


def test_nothing_is_painted_that_a_terminal_obeys() -> None:
    assert paint((Run("a\x1b]52;c;x\x07b\x9b2Jc\u202ed\u2028e\u00a0f\u3000g\udc80"),)) == "a�]52;c;x�b�2Jcd�e f  g�"
    assert paint((Run("日本 🙂 e\u0301 \ue0b0"),)) == "日本 🙂 e\u0301 \ue0b0"


@pytest.mark.parametrize(
    ("first", "width", "text"), [(0, 4, "ab日"), (0, 3, "ab "), (3, 4, " 本c"), (2, 2, "日"), (7, 9, ""), (1, 0, "")]
)
def test_a_part_of_a_row_has_no_halves_of_wide_characters(first: int, width: int, text: str) -> None:
    row = (Run("ab", "red"), Run("日本c"))
    assert "".join(run.text for run in cut(row, first, width)) == text


@pytest.mark.slow
@given(st.binary(max_size=400))
def test_whatever_is_shown_only_colours_and_text_are_painted(data: bytes) -> None:
    for runs in picture(data).rows:
        text = re.sub(r"\x1b\[[\d;]*m", "", paint(runs))
        assert all(char.isprintable() or ord(char) > 0xFF for char in text)
