"""The list widget without a terminal: where its cursor goes, what it draws, and what it tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("textual")

from textual.geometry import Size

from beam.board.lines import CURSOR, STYLES, FixedLines, Lines
from beam.board.words import Piece, StyledLine


class Headed(FixedLines):
    """Lines below a header of one line."""

    def header_lines(self, width: int) -> tuple[StyledLine, ...]:
        return ((Piece("head", "head"),),)


class Made(Lines):
    """The widget with a size of its own; `told` is what it said."""

    def __init__(self, count: int, height: int, *, id: str = "table", headed: bool = False, **more: Any) -> None:
        kind = Headed if headed else FixedLines
        self.told: list[tuple[str, int]] = []
        lines = [(Piece(f"line {at}", "tool"),) for at in range(count)]
        super().__init__(kind(lines), id=id, on_move=lambda at: self.told.append(("Moved", at)), **more)
        self._height = height
        self.drawn = 0
        self.is_focused = True

    @property
    def size(self) -> Size:
        return Size(10, self._height)

    @property
    def has_focus(self) -> bool:  # type: ignore[override]
        return self.is_focused

    def refresh(self, *_: Any, **__: Any) -> Any:
        self.drawn += 1
        return self

    def post_message(self, message: Any) -> bool:
        assert message.control is self
        self.told.append((type(message).__name__, message.at))
        return True


def place(lines: Lines) -> tuple[int, int]:
    return lines.cursor, lines.top


@pytest.mark.parametrize(
    ("at", "found"), [(0, (0, 0)), (2, (2, 0)), (3, (3, 1)), (9, (9, 7)), (99, (9, 7)), (-5, (0, 0))]
)
def test_the_cursor_stays_on_the_lines_and_in_sight(at: int, found: tuple[int, int]) -> None:
    lines = Made(10, 3)
    lines.move_cursor(at)
    assert place(lines) == found


def test_the_lines_scroll_only_as_far_as_the_cursor_wants() -> None:
    lines = Made(10, 3)
    for at, found in ((5, (5, 3)), (4, (4, 3)), (3, (3, 3)), (2, (2, 2)), (9, (9, 7))):
        lines.move_cursor(at)
        assert place(lines) == found


def test_without_a_cursor_the_top_line_moves() -> None:
    lines = Made(10, 3, has_cursor=False)
    for at, found in ((2, (2, 2)), (99, (7, 7)), (-1, (0, 0))):
        lines.move_cursor(at)
        assert place(lines) == found
    assert lines.is_at_end is False
    lines.move_cursor(7)
    assert lines.is_at_end is True


def test_no_lines_have_no_place() -> None:
    lines = Made(0, 3)
    lines.move_cursor(5)
    assert (place(lines), lines.is_at_end, lines.visible_count) == ((0, 0), True, 3)
    lines.action_choose()
    assert lines.told == []
    assert Made(3, 0).visible_count == 1


def test_a_header_takes_its_lines() -> None:
    lines = Made(10, 4, headed=True)
    assert lines.visible_count == 3
    assert [strip.text for strip in map(lines.render_line, range(4))] == [
        "head      ",
        "line 0    ",
        "line 1    ",
        "line 2    ",
    ]


def styles(lines: Lines, y: int) -> list[Any]:
    return [segment.style for segment in lines.render_line(y)]


def test_the_line_under_the_cursor_is_marked_as_long_as_the_widget_has_the_keys() -> None:
    lines = Made(2, 3)
    lines.move_cursor(1)
    assert (set(styles(lines, 0)) - {None}, lines.render_line(2).text) == ({STYLES["tool"]}, " " * 10)
    assert set(styles(lines, 1)) == {CURSOR}
    lines.is_focused = False
    assert set(styles(lines, 1)) == {STYLES["name"]}
    lines.has_cursor = False
    assert STYLES["tool"] in styles(lines, 1)


def test_new_lines_are_shown_from_the_first_or_followed() -> None:
    lines = Made(10, 3)
    lines.move_cursor(5)
    lines.show(FixedLines([(Piece("x"),)] * 5))
    assert (place(lines), lines.drawn) == ((0, 0), 1)
    lines.move_cursor(2)
    lines.show()
    assert place(lines) == (2, 0)
    lines.follows = True
    lines.show()
    assert place(lines) == (4, 2)


@pytest.mark.parametrize(
    ("action", "by", "at"),
    [
        ("move", 1, 5), ("move", -1, 3), ("page", 1, 7), ("page", -1, 1), ("edge", 1, 9), ("edge", -1, 0),
    ],
)  # fmt: skip
def test_a_key_moves_the_cursor_and_tells(action: str, by: int, at: int) -> None:
    lines = Made(10, 3)
    lines.move_cursor(4)
    getattr(lines, f"action_{action}")(by)
    assert (lines.cursor, lines.told, lines.drawn) == (at, [("Moved", at)], 1)
    lines.action_choose()
    assert lines.told[1:] == [("Chosen", at)]


@pytest.mark.parametrize(("id", "follows"), [("pane", True), ("table", False)])
def test_only_the_pane_follows_its_end_and_stops_when_it_is_left(id: str, follows: bool) -> None:
    lines = Made(10, 3, id=id)
    lines.action_edge(1)
    assert lines.follows is follows
    lines.action_move(-1)
    assert lines.follows is False


def click(y: int, chain: int = 1) -> Any:
    return cast(Any, SimpleNamespace(y=y, chain=chain))


def test_a_click_moves_the_cursor_and_a_second_one_chooses() -> None:
    lines = Made(10, 4, headed=True)
    lines.move_cursor(5)
    lines.on_click(click(1))
    assert (lines.cursor, lines.told) == (3, [("Moved", 3)])
    lines.on_click(click(1, chain=2))
    assert lines.told[1:] == [("Moved", 3), ("Chosen", 3)]
    lines.told.clear()
    lines.top = 0
    lines.on_click(click(0))
    few = Made(2, 9)
    few.on_click(click(2))
    assert (lines.told, few.told) == ([], [])
    without = Made(10, 3, has_cursor=False)
    without.on_click(click(1))
    assert (without.cursor, without.told) == (0, [])


def test_the_wheel_moves_by_three_lines_and_goes_no_further() -> None:
    lines = Made(10, 3)
    stopped: list[bool] = []
    event = cast(Any, SimpleNamespace(stop=lambda: stopped.append(True)))
    lines.on_mouse_scroll_down(event)
    lines.on_mouse_scroll_down(event)
    lines.on_mouse_scroll_up(event)
    assert (lines.cursor, [at for _, at in lines.told], stopped) == (3, [3, 6, 3], [True] * 3)


def test_a_new_size_keeps_the_cursor_in_sight_and_the_focus_is_drawn() -> None:
    lines = Made(10, 5)
    lines.move_cursor(4)
    lines._height = 2
    lines.on_resize()
    assert place(lines) == (4, 3)
    lines.on_focus()
    lines.on_blur()
    assert lines.drawn == 2
