"""What each control sequence does to a screen, and what the machine notes of each recording: whole.

`BEAM_WRITE_EXPECTED=1 pytest tests/pty_adapter/test_expected_screens.py` writes the expectations anew
(tests/pty_adapter/expected); read the difference before you keep it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam.pty_adapter.picture import Painter, cut, paint, repaint
from beam.pty_adapter.replay import profile_of, read, replay
from beam.pty_adapter.screen import Screen
from tests.pty_adapter.replayed import PLACE
from tests.support import expected

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "expected"
COLUMNS, ROWS = 9, 5
# Rows that scrolled away, five that are full, a coloured word, and the cursor in the middle.
BEFORE = b"0gone\r\n1gone\r\n" + b"\r\n".join(b"%dabcdefgh" % row for row in range(5)) + b"\x1b[3;4H"
COUNTS = ("", "0", "1", "2", "3", "4", "99", "2;3", "0;0", "9;9", "2;4", ";2", "3;2")
MODES = ("1", "3", "6", "7", "25", "47", "1004", "1047", "1048", "1049", "2004", "2026", "25;7", "9")
SEQUENCES: dict[str, list[str]] = {
    **{f"CSI {final}": [f"\x1b[{count}{final}" for count in COUNTS] for final in "ABCDEFGHIJKLMPSTXZ@`abdefgrsu"},
    "tab stops": ["\t", "\x1bH\r\t", "\x1b[g\r\t", "\x1b[3g\r\t", "\x1bH\r\x1b[0g\t", "\x1bH\x1b[2g\r\t", "\x1b[9G\t"],
    "modes set": [f"\x1b[?{mode}h\x1b[Hx\x1b[3;7Hyyyy" for mode in MODES],
    "modes set and reset": [f"\x1b[?{mode}h\x1b[Hx\x1b[?{mode}l\x1b[3;7Hyyyy" for mode in MODES],
    "reset modes": [f"\x1b[?{mode}l\x1b[3;7Hyyyy" for mode in MODES],
    "asked for modes": [f"\x1b[?{mode}h\x1b[?{mode}$p\x1b[?{mode}l\x1b[?{mode}$p" for mode in MODES],
    "insertion": ["\x1b[4hXY", "\x1b[4hX\x1b[4lY", "\x1b[5hXY", "\x1b[4h日", "\x1b[4h\x1b[!pXY"],
    **{
        f"margins {margins.replace(';', ' ')}".strip(): [
            f"\x1b[{margins}r\x1b[{at}H{then}"
            for at in ("1;1", "2;2", "4;2", "5;2")
            for then in (
                "\n",
                "\x1bM",
                "\x1bE",
                "\x1b[2S",
                "\x1b[T",
                "\x1b[L",
                "\x1b[2M",
                "\x1b[9A",
                "\x1b[9B",
                "\x1b[9E",
            )
        ]
        for margins in ("2;4", "1;3", "3;5", "2;2", "")
    },
    "origin": ["\x1b[2;4r\x1b[?6h\x1b[Hx", "\x1b[2;4r\x1b[?6h\x1b[9;2Hx", "\x1b[2;4r\x1b[?6h\x1b[2dx\x1b[?6l\x1b[Hy"],
    "escapes": [f"\x1b{final}" for final in ("7", "8", "D", "M", "H", "#8", "E", "c", "=", ">", "(0", ")0", "N", "Z")],
    "saved": ["\x1b7\x1b[H\x1b[31m\x1b8x", "\x1b[s\x1b[5;5H\x1b[ux", "\x1b7\x1b[1;1H\x1b7\x1b8\x1b8x", "\x1b8x"],
    "controls": ["\b", "\b\b\b\b\b", "\r", "\n", "\v", "\f", "\x07", "\x00x", "\x7fx", "\x0e", "\x0f", "\x18x"],
    "charsets": ["\x1b(0qxlk\x1b(Bq", "\x1b)0\x0eqx\x0fq", "\x1b)0\x0eq\x1b7\x0f\x1b8x", "\x1b(Aq", "\x1b(0日"],
    "wrapping": ["\x1b[9Gxy", "\x1b[9Gx\ry", "\x1b[9Gx\by", "\x1b[5;9Gxy", "\x1b[5;9Hxyz", "\x1b[?7l\x1b[8Gwxyz"],
    "wide": [
        "日本",
        "\x1b[8G日",
        "\x1b[9G日",
        "日\b\bx",
        "日\bx",
        "日\x1b[4Gx",
        "日\x1b[5Gx",
        "日\x1b[4G\x1b[P",
        "é",
        "e\u0301",
    ],
    "combined": ["\u0301", "\x1b[H\u0301x", "x\u200dy", "👩\u200d👩", "☺\ufe0f.", "x\u0301\u0302", "\x1b[5;9Hx\u0301"],
    "repeated": ["x\x1b[3b", "x\x1b[b", "日\x1b[2b", "x\x1b[99b", "\x1b[3b", "xy\x1b[0b"],
    "alternate": [
        "\x1b[?1049h\x1b[31mother\x1b[?1049l.",
        "\x1b[?1049h\x1b[2J\x1b[H\n\n\n\n\n\n",
        "\x1b[?47hx\x1b[?47ly",
        "\x1b[?1047hx\x1b[?1047ly",
        "\x1b[?1048h\x1b[H\x1b[?1048lx",
        "\x1b[?1049h\x1b[?1049hx\x1b[?1049l",
    ],
    "resets": ["\x1b[31m\x1b[?25l\x1b[2;3r\x1b[!px", "\x1b[31m\x1b[?2004h\x1bcx", "\x1b]0;t\x07\x1bcx"],
    "asked": [
        *("\x1b[c", "\x1b[>c", "\x1b[>q", "\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?996n", "\x1b[996n", "\x1b[18t"),
        *("\x1b[14t", "\x1b[9Gx\x1b[6n", "\x1bP+q544e\x1b\\", "\x1bP$qm\x1b\\", "\x1bPx\x1b\\", "\x1b_x\x1b\\"),
        *(f"\x1b]{number};?\x07" for number in ("4", "10", "11", "12", "13", "52;c", "4;1", "4;17", "4;x", "x")),
    ],
    "signals": [
        *("\x1b]0;title\x07", "\x1b]1;icon\x07", "\x1b]2;title\x1b\\", "\x1b]133;A\x07", "\x1b]9;4;1;50\x07"),
        *(
            "\x1b]777;notify;a;b\x07",
            "\x1b];x\x07",
            "\x1b]9999999999;x\x07",
            "\x1b]0;a\x18b",
            f"\x1b]0;{'x' * 999}\x07",
        ),
    ],
    "styles": [
        f"\x1b[{style}mX\x1b[39mY\x1b[49mZ"
        for style in (
            *("", "0", "1", "2", "3", "4", "5", "7", "8", "9", "21", "22", "23", "24", "25", "27", "28", "29", "30"),
            *("37", "38", "38;5", "38;5;1", "38;5;9", "38;5;16", "38;5;123", "38;5;231", "38;5;232", "38;5;255"),
            *("38;5;256", "38;2", "38;2;1;2;3", "38;2;300;2;3", "38:5:1", "38:2::1:2:3", "38:2:1:2:3", "39", "40"),
            *(
                "47",
                "48;5;1",
                "48;2;1;2;3",
                "48:5:200",
                "90",
                "97",
                "100",
                "107",
                "1;31;42",
                "31;0",
                "4:3",
                "4:0",
                "58;5;1",
            ),
            *("1;22", "3;23", "4;24", "5;25", "7;27", "9;29", "31;39", "41;49", "1;;31", "999", "1;38;5;2;4"),
        )
    ],
    "odd": [
        "\x1b[\x1b[31mx",
        "\x1b[1\n1Hx",
        "\x1b[>4;2mx",
        "\x1b[?4mx",
        "\x1b[31 qx",
        "\x1b[12",
        "\x1b",
        "\x9b31mx",
        "\x1b[::mx",
    ],
}


def after(text: str) -> dict[str, Any]:
    """What differs from before."""
    screens = Screen(COLUMNS, ROWS, scrollback=4), Screen(COLUMNS, ROWS, scrollback=4)
    for screen in screens:
        screen.feed(BEFORE)
    screens[1].feed(text.encode())
    before, now = map(seen, screens)
    return {name: value for name, value in now.items() if value != before[name]}


def seen(screen: Screen) -> dict[str, Any]:
    picture = Painter(screen).picture()
    told = expected.told(screen.view())
    told.pop("climbs", None)
    return {
        **dict.fromkeys(("title", "alternate", "cursor_shown", "takes_pastes", "rows_begun", "pastes_ended")),
        **told,
        "row": screen.cursor().row,
        "column": screen.cursor().column,
        "scrolled": screen.view().scrolled,
        "climbs": [list(map(str, screen.view().climbs))],
        "runs": [expected.told(runs) for runs in picture.rows] if any(len(runs) > 1 for runs in picture.rows) else None,
        "painted": [paint(runs) for runs in picture.rows] if any(len(runs) > 1 for runs in picture.rows) else None,
        "modes": sorted(screen.modes),
        "replies": screen.take_replies().decode(),
        "signals": [expected.told(signal) for signal in screen.take_signals()],
        "history": [line.text for line in screen.lines()][: -screen.rows],
        "bracketed": screen.bracketed_paste,
        "drawing": screen.is_drawing,
        "keypad": picture.keypad,
    }


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_changes_what_is_checked_in(name: str) -> None:
    told = {repr(text)[1:-1]: after(text) for text in SEQUENCES[name]}
    expected.check(HERE / "sequences" / f"{name.replace(' ', '-')}.json", expected.document(told))


def test_a_picture_is_cut_and_painted_as_checked_in() -> None:
    screen = Screen(12, 3)
    screen.feed("\x1b]0;a title\x07\x1b[1;31mred\x1b[0m日本\x1b[44m  \x1b[0m\r\n\x1b[38;2;1;2;3mtrue\x1b[?25l".encode())
    picture = Painter(screen).picture()
    told: dict[str, Any] = {"picture": expected.told(picture), "text": picture.text, "repaint": repaint(picture)}
    for first in range(6):
        for width in (0, 1, 2, 3, 20):
            told[f"cut {first} {width}"] = [expected.told(run) for run in cut(picture.rows[0], first, width)]
    told["true colour"] = [paint(runs) for runs in picture.rows]
    told["256 colours"] = [paint(runs, true_colour=False) for runs in picture.rows]
    expected.check(HERE / "picture.json", expected.document(told))


RECORDINGS = {
    "claude": ("claude", ()),
    "claude-entered": ("claude", (4.0,)),
    "claude-perm": ("claude", (8.5,)),
    "codex-vt100-noalt": ("codex", (4.2,)),
    "aider": ("aider", ()),
    "gemini": ("gemini", ()),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_noted_as_checked_in(name: str) -> None:
    adapter, enters = RECORDINGS[name]
    stem = name.removesuffix("-entered")
    recording = read(
        (PLACE / f"{stem}.raw").read_bytes(), (PLACE / f"{stem}.timeline.jsonl").read_bytes(), enters=enters
    )
    found = [expected.told(each) for each in replay(recording, profile_of(adapter), explain=True)]
    expected.check(HERE / "recordings" / f"{name}.jsonl", expected.lines(found))
