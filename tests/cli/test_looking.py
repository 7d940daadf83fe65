"""Which keys are for the agent, which for beam, and what part of a screen is shown."""

from __future__ import annotations

import pytest

from beam.cli.looking import KeyParser
from beam.cli.render.screen import Mirror, svg
from beam.pty_adapter.picture import Painter, Picture
from beam.pty_adapter.screen import Screen


def typed(*pieces: bytes) -> tuple[bytes, bool, list[tuple[int, int]]]:
    keys = KeyParser()
    out = b"".join(keys.feed(piece) for piece in pieces)
    return out, keys.detached, keys.moves


@pytest.mark.parametrize(
    ("pieces", "out", "detached"),
    [
        ((b"abc\r\x03\x1b[A",), b"abc\r\x03\x1b[A", False),
        ((b"ab\x1c\x1ccd",), b"ab", True),
        ((b"ab\x1c", b"\x1c"), b"ab", True),
        ((b"\x1c", b"x"), b"\x1cx", False),
        ((b"\x1c", b"\x1b", b"x"), b"\x1c\x1bx", False),
        ((b"\x1c",), b"", False),
    ],
)
def test_two_of_the_prefix_detach_and_one_goes_on_with_the_next_key(
    pieces: tuple[bytes, ...], out: bytes, detached: bool
) -> None:
    assert typed(*pieces) == (out, detached, [])


def test_the_prefix_and_an_arrow_move_the_view_in_whatever_pieces_they_come() -> None:
    assert typed(b"a\x1c\x1b[Cb\x1c\x1b", b"[", b"Dc\x1c\x1bOA") == (b"abc", False, [(0, 1), (0, -1), (-1, 0)])


def picture(data: bytes, columns: int = 140, rows: int = 60) -> Picture:
    screen = Screen(columns, rows)
    screen.feed(data)
    return Painter(screen).picture()


def seen(mirror: Mirror, shown: Picture, columns: int, lines: int, screen: Screen | None = None) -> list[str]:
    screen = screen or Screen(columns, lines)
    screen.feed(mirror.draw(shown, columns, lines).encode())
    return list(screen.view().rows)


def test_the_part_with_the_cursor_is_shown_and_the_last_line_says_whose_it_is() -> None:
    shown = picture(b"".join(b"row %d\r\n" % number for number in range(40)))
    rows = seen(Mirror("claude", true_colour=True), shown, 80, 24)
    assert (rows[0], rows[21], rows[22]) == ("row 18", "row 39", "")
    assert rows[23].startswith(" beam: claude (140x60)") and "detaches" in rows[23]


def test_the_view_moves_by_halves_and_follows_again() -> None:
    shown = picture(b"0123456789" * 14 + b"\r\nx")
    mirror, screen = Mirror("x", true_colour=True), Screen(80, 24)
    assert seen(mirror, shown, 80, 24, screen)[0].startswith("0123")
    mirror.move(0, 1)
    assert seen(mirror, shown, 80, 24, screen)[0] == ("0123456789" * 14)[40:120]
    mirror.move(0, 5)
    assert seen(mirror, shown, 80, 24, screen)[0] == ("0123456789" * 14)[60:]
    mirror.follow()
    assert seen(mirror, shown, 80, 24, screen)[0] == ("0123456789" * 14)[:80]


@pytest.mark.slow
def test_only_what_changed_is_drawn_and_a_new_size_draws_all() -> None:
    screen = Screen(140, 60)
    screen.feed(b"one\r\ntwo\r\nthree")
    painter, mirror = Painter(screen), Mirror("x", true_colour=True)
    assert "one" in mirror.draw(painter.picture(), 80, 24)
    screen.feed(b"\x1b[2;1HTWO")
    again = mirror.draw(painter.picture(), 80, 24)
    assert "TWO" in again and "one" not in again
    assert "one" in mirror.draw(painter.picture(), 100, 30)


def test_the_modes_that_change_ones_keys_are_the_agents() -> None:
    mirror = Mirror("x", true_colour=True)
    assert "\x1b[?2004h" in mirror.draw(picture(b"\x1b[?2004h"), 80, 24)
    assert "\x1b[?2004l" in mirror.draw(picture(b"x"), 80, 24)


def test_before_the_first_picture_only_the_last_line_is_drawn() -> None:
    screen = Screen(80, 24)
    screen.feed(Mirror("x", true_colour=True).draw(None, 80, 24).encode())
    assert "beam: x" in screen.view().text


def test_a_picture_is_one_document_in_the_screens_colours() -> None:
    drawn = svg(picture("\x1b[31mred\x1b[m <b> 日本".encode(), 40, 5), title="a & b")
    assert drawn.startswith("<svg") and drawn.rstrip().endswith("</svg>")
    assert ">red</text>" in drawn and "&lt;b&gt;" in drawn and "a&#160;&amp;&#160;b" in drawn
    assert "http:" not in drawn[100:]


@pytest.mark.parametrize("true_colour", [True, False])
def test_colours_of_24_bits_are_drawn_where_the_terminal_has_them(true_colour: bool) -> None:
    shown = picture(b"\x1b[38;2;1;2;3mhello", 20, 5)
    drawn = Mirror("bot", true_colour=true_colour).draw(shown, 40, 10)
    assert "hello" in drawn and ("38;2;1;2;3" in drawn) is true_colour
