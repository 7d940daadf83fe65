"""The screen: what tmux shows, from any bytes, in any pieces."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.pty_adapter.screen import _CACHED_ACTIONS, Screen, View

RECORDINGS = sorted((Path(__file__).parents[1] / "recordings" / "pty").glob("*.raw"))
PARTS = [
    b"\x1b[",
    b"\x1b]",
    b"\x1bP",
    b"\x1b",
    b"\\",
    b"\x07",
    b"?",
    b">",
    b";",
    b":",
    b"2004",
    b"1049",
    b"9",
    b"h",
    b"l",
]
PARTS += [b"m", b"H", b"J", b"K", b"L", b"M", b"r", b"b", b"S", b"T", b"P", b"@", b"X", b"u", b"s", b"c", b"n", b"4:3m"]
PARTS += [
    b"38:2::1:2:3m",
    b"48;5;999m",
    b"99999999999",
    b"\n",
    b"\r",
    b"\t",
    b"\b",
    b"\x0e",
    "日本e\u0301🙂".encode(),
    b"text",
]


def shown(data: bytes, columns: int = 20, rows: int = 6) -> Screen:
    screen = Screen(columns, rows)
    screen.feed(data)
    return screen


def rows(data: bytes, columns: int = 20, lines: int = 6) -> list[str]:
    return shown(data, columns, lines).view().text.split("\n")


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_in_any_pieces_shows_the_same_screen(path: Path) -> None:
    data, chance = path.read_bytes(), random.Random(5)
    whole = shown(data, 100, 40)
    for size in (1, 3, 64):
        screen, at = Screen(100, 40), 0
        while at < len(data):
            step = chance.randint(1, 2 * size)
            screen.feed(data[at : at + step])
            at += step
        assert screen.view() == whole.view()
        assert screen.take_signals() == [*whole._signals]
        assert screen.take_replies() == bytes(whole._replies)


@pytest.mark.slow
@given(st.lists(st.sampled_from(PARTS) | st.binary(max_size=4), max_size=60).map(b"".join))
def test_no_bytes_raise_or_leave_the_screen(data: bytes) -> None:
    screen = shown(data)
    view = screen.view()
    assert len(view.rows) == 6 and 0 <= view.row < 6 and 0 <= view.column <= 20
    assert all(len(row) <= 20 * 16 for row in view.rows)


@pytest.mark.slow
def test_what_is_kept_stays_bounded() -> None:
    screen = Screen(20, 4, scrollback=50)
    for number in range(3000):
        screen.feed(
            b"\x1b7\x1b[38;2;%d;%d;7m%s\x1b]9;x\x07\x1b[6n\x1b[?%dh\r\n"
            % (number % 256, number % 99, "字".encode(), number)
        )
    assert len(screen.lines()) <= 54
    assert len(screen.take_signals()) <= 1000 and len(screen.take_replies()) <= 16 * 1024
    assert len(screen._actions) <= 2100 and len(screen.modes) <= 257
    assert len(screen._main._styles) <= 513


def test_lines_that_left_are_kept_and_counted() -> None:
    screen = shown(b"\r\n".join(b"%d" % n for n in range(10)))
    assert [line.text for line in screen.lines()] == [str(n) for n in range(10)]
    assert screen.view().scrolled == 4
    assert [line.text for line in screen.lines(8)] == ["8", "9"]


def test_a_line_that_the_terminal_broke_is_marked() -> None:
    assert [line.wrapped for line in shown(b"x" * 25).lines()][:2] == [True, False]


def test_the_alternate_screen_comes_and_goes() -> None:
    screen = shown(b"main\x1b[?1049h\x1b[2J\x1b[Halt")
    assert screen.view().text.strip() == "alt" and screen.view().alternate
    screen.feed(b"\x1b[?1049l!")
    assert screen.view().text == "main!"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"ab\x1b[3b", ["abbbb"]),
        (b"a\r\nb\r\nc\x1b[1;2r\x1b[2;1H\nX", ["b", "X", "c"]),
        (b"one\r\ntwo\x1b[1;1H\x1b[M", ["two"]),
        (b"one\x1b[1;1H\x1b[Ltop", ["top", "one"]),
        (b"abcdef\x1b[1;2H\x1b[2P", ["adef"]),
        (b"abc\x1b[1;2H\x1b[2@", ["a  bc"]),
        (b"abc\x1b[1;1H\x1b[2X", ["  c"]),
        (b"a\x1b[sb\x1b[uc", ["ac"]),
        (b"a\x1b[>4;?mb\x1b[?4mc\x1b[<ud\x1b[=1;1ue", ["abcde"]),
        (b"a\x1bP+q544e\x1b\\b\x1b_Gx\x1b\\c", ["abc"]),
        (b"\x1b[4:3m\x1b[38:2::1:2:3mx", ["x"]),
        (b"\x1b(0q\x1b(Bq", ["─q"]),
        (b"\x0el\x0f\x1b)0\x0el\x0fl", ["l┌l"]),
        (b"\x1b(0\x60ahq~\x1b(Zq\x1b(Bq", ["◆▒␤─·─q"]),
        ("日本\x1b[1;2Hx".encode(), [" x本"]),
        ("日本\x1b[1;2H\x1b[P".encode(), [" 本"]),
        ("日本\x1b[1;2H\x1b[@".encode(), ["   本"]),
        ("日本\x1b[1;2H\x1b[K".encode(), [""]),
        ("\x1b[?7l日本日本日本日本日本日本日".encode(), ["日本日本日本日本日日"]),
        (b"ab\x1b[3Jc", ["abc"]),
        (b"a\x1bEb", ["a", "b"]),
    ],
)
def test_a_sequence_does_what_terminals_do(data: bytes, expected: list[str]) -> None:
    assert rows(data) == expected


# CAN ends a sequence that was begun; tmux has the title once it drew all that came before. The answer to a query would
# not do: the bytes may hold queries of their own, whose answers come earlier.
SET_TITLE = b"\x18\x1b]2;all was drawn\x1b\\"


def tmux_rows(data: bytes, place: Path, columns: int = 100, lines: int = 40) -> list[str]:
    """The pane of a tmux of that size after these bytes; a server of its own in this new directory."""
    place.mkdir()
    (place / "conf").write_text("set -g status off\n")
    tmux = ["tmux", "-S", str(place / "s"), "-f", str(place / "conf")]
    (place / "bytes").write_bytes(data + SET_TITLE)
    env = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": str(place)}
    script = f"stty raw -echo; cat {place}/bytes; exec sleep 30"
    new = ["new-session", "-d", "-x", str(columns), "-y", str(lines), script]
    subprocess.run([*tmux, *new], env=env, check=True)
    ask_for_title = [*tmux, "display-message", "-p", "#{pane_title}"]
    deadline = time.monotonic() + 20
    while subprocess.run(ask_for_title, env=env, capture_output=True, check=True).stdout != b"all was drawn\n":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    seen = subprocess.run([*tmux, "capture-pane", "-p"], env=env, capture_output=True, check=True).stdout.decode()
    subprocess.run([*tmux, "kill-server"], env=env, check=True)
    found = [row.rstrip() for row in seen.split("\n")][:lines]
    return found + [""] * (lines - len(found))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x1b7\x1b[3;4rX\x1b8Y", ["Y", "", "", "", ""]),
        (b"\x1b[?25l\x1b7\x1b[?25h\x1b8", ["", "", "", "", ""]),
        (b"\x1b[2;4r\x1b[?6h\x1b[9;1HO\x1b[?6lT", ["T", "", "", "O", ""]),
        (b"\x1bH\x1b[3g\r\tX", ["         X", "", "", "", ""]),
        (b"abc\r\x1b[4hX\x1b[4lY", ["XYbc", "", "", "", ""]),
        (b"ab\r\ncd\x1b[!pX", ["ab", "cdX", "", "", ""]),
        (b"ab\x1b[2;3r\x1b#8\n\n\n\n\nX", ["EEEEEEEEEE"] * 4 + ["X"]),
        (b"abcdefghi\x1b[ZX\x1b[9ZY", ["YbcdefghX", "", "", "", ""]),
        (b"ab\x1b[?47h\x1b[3;3Hxy\x1b[?47lZ", ["ab", "", "    Z", "", ""]),
        (b"ab\x1b[?1047h\x1b[3;3Hxy\x1b[?1047lZ", ["ab", "", "    Z", "", ""]),
    ],
    ids=["restore", "hidden", "origin", "no tab stops", "insert", "soft reset", "alignment", "back tab", "47", "1047"],
)
def test_the_cursor_and_its_modes_are_those_of_tmux(data: bytes, expected: list[str], tmp_path: Path) -> None:
    screen = Screen(10, 5)
    screen.feed(data)
    assert list(screen.view().rows) == expected
    assert screen.cursor().shown
    if shutil.which("tmux"):
        assert tmux_rows(data, tmp_path / "tmux", 10, 5) == expected


def test_queries_that_agents_wait_for_are_answered() -> None:
    replies = shown(b"ab\x1b[c\x1b[6n\x1b]11;?\x1b\\\x1b[>q\x1b[?2026$p\x1b[5n\x1b[18t\x1b[?996n").take_replies()
    assert b"\x1b[?62;22c" in replies and b"\x1b[1;3R" in replies and b"\x1b]11;rgb:0000/0000/0000\x1b\\" in replies
    assert b"\x1bP>|beam\x1b\\" in replies and b"\x1b[?2026;2$y" in replies and b"\x1b[8;6;20t" in replies
    assert shown(b"\x1b[?u").take_replies() == b""


@pytest.mark.parametrize("mode", [7, 25])
def test_a_mode_that_is_on_from_the_beginning_is_reported_as_it_is(mode: int) -> None:
    asked = b"\x1b[?%d$p" % mode
    assert shown(asked).take_replies() == b"\x1b[?%d;1$y" % mode
    assert shown(b"\x1b[?%dl" % mode + asked).take_replies() == b"\x1b[?%d;2$y" % mode


def test_a_soft_reset_ends_the_modes_that_it_resets() -> None:
    screen = shown(b"\x1b[?1;6;2004h\x1b(0\x1b7\x1b[31m\x1b[!pq\x1b[?6$p")
    assert (screen.modes, screen.take_replies()) == ({2004}, b"\x1b[?6;2$y")
    assert rows(b"\x1b(0\x1b[2;3r\x1b[3;3H\x1b7\x1b[!pq\n\n\x1b8x") == ["x", "", "  q"]


def test_the_palette_is_told_a_colour_at_a_time() -> None:
    screen = shown(b"\x1b]4;1;?\x07\x1b]4;9;?\x1b\\\x1b]4;x;?\x07")
    assert screen.take_replies() == b"\x1b]4;1;rgb:cccc/0000/0000\x1b\\\x1b]4;9;rgb:ffff/5555/5555\x1b\\"


def test_titles_signals_and_modes_are_known() -> None:
    screen = shown(b"\x1b]0;work\x07\x1b]7501;state=working\x1b\\\x1b[?2004h\x1b[?2026h")
    assert screen.title == "work" and screen.bracketed_paste and screen.is_drawing
    assert [(signal.number, signal.text) for signal in screen.take_signals()] == [(0, "work"), (7501, "state=working")]
    screen.feed(b"\x1b[?2004l\x1b[?2026l")
    assert not screen.bracketed_paste and not screen.is_drawing and screen.view().pastes_ended == 1


@pytest.mark.acceptance
@pytest.mark.skipif(shutil.which("tmux") is None, reason="left out: tmux is not installed")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_screen_equals_tmux_row_for_row(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    for number, part in enumerate((data, data[: len(data) // 2], data[: len(data) // 3])):
        view: View = shown(part, 100, 40).view()
        assert list(view.rows) == tmux_rows(part, tmp_path / str(number))


def test_origin_mode_takes_the_cursor_home() -> None:
    screen = Screen(columns=10, rows=5)
    screen.feed(b"\x1b[2;4r\x1b[3;3Hx\x1b[?6h")
    assert (screen.cursor().row, screen.cursor().column) == (1, 0)
    screen.feed(b"\x1b[3;3H\x1b[?6l")
    assert (screen.cursor().row, screen.cursor().column) == (0, 0)


@pytest.mark.slow
def test_the_meanings_that_are_kept_are_bounded() -> None:
    screen = Screen(columns=10, rows=5)
    for number in range(3 * _CACHED_ACTIONS):
        screen.feed(b"\x1b[%d;%dH" % (number % 100 + 1, number // 100 + 1))
    assert len(screen._actions) <= _CACHED_ACTIONS + 1


@pytest.mark.parametrize(("save", "restore"), [(b"\x1b[?1048h", b"\x1b[?1048l"), (b"\x1b7", b"\x1b8")])
def test_a_saved_cursor_comes_back_to_its_place(save: bytes, restore: bytes) -> None:
    screen = Screen(20, 5)
    screen.feed(b"\x1b[3;4H" + save + b"\x1b[H" + restore + b"x")
    assert [line.text.rstrip() for line in screen.lines()][2] == "   x"
