"""Secrets that only a player would show: they are taken out of a recording, and everything else stays where it was."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam.pty_adapter import cast
from beam.pty_adapter.blank import SecretDetector, blank_secrets
from beam.pty_adapter.cast import HELD_NOTICE, Recorder
from beam.pty_adapter.screen import Screen
from tests.support.secrets import LETTERS, PLANTED, SECRETS

COLUMNS, ROWS = 60, 12
KEY = f"sk-ant-api03-{LETTERS[:24]}"
ONE_LINE = [kind for kind, (text, _) in PLANTED.items() if "\n" not in text and len(text) < 3 * COLUMNS]


def at(row: int, column: int) -> str:
    return f"\x1b[{row};{column}H"


def screens(texts: list[str], columns: int = COLUMNS) -> Iterator[list[str]]:
    """What stands on the screen after each piece."""
    screen = Screen(columns, ROWS)
    for text in texts:
        screen.feed(text.encode())
        yield [line.text for line in screen.shown()]


def recorded(texts: list[str], columns: int = COLUMNS) -> tuple[list[str], bytes]:
    """The pieces as a recording has them, and its file."""
    file = io.BytesIO()
    recorder = Recorder(file, columns=columns, rows=ROWS, title="t", timestamp=1, now=lambda: 1.0)
    for text in texts:
        recorder.record_output(text.encode())
    recorder.end()
    found = cast.read(file.getvalue())
    return [moment.text for moment in found.moments if moment.kind == "o"], file.getvalue()


def is_clean(texts: list[str], secret: str, columns: int = COLUMNS) -> bool:
    """Whether no part of the secret that is worth anything is seen at any moment, in whatever rows it is broken."""
    seen = ("".join(row.strip("\u2502 ") for row in rows) for rows in screens(texts, columns))
    return not any(secret[n : n + 8] in text for text in seen for n in range(len(secret) - 8))


def spelled(text: str, row: int, column: int, order: list[int]) -> list[str]:
    """Each character at its place, in that order."""
    return [f"{at(row, column + n)}{text[n]}" for n in order]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["forward", "backward", "shuffled", "tail first"])
def test_a_key_written_in_pieces_by_cursor_moves_is_in_no_recording(how: str) -> None:
    order = [*range(len(KEY))]
    if how == "backward":
        order.reverse()
    elif how == "shuffled":
        random.Random(7).shuffle(order)
    elif how == "tail first":
        order = order[13:] + order[:13]
    texts = [at(2, 1) + "before", *spelled(KEY, 4, 3, order), at(6, 1) + "behind"]
    shown, file = recorded(texts)
    assert is_clean(shown, KEY)
    *_, last = screens(shown)
    assert (last[1], last[3], last[5]) == ("before", "  " + "*" * len(KEY), "behind")
    assert KEY.encode() not in file and HELD_NOTICE.encode() not in file


@pytest.mark.slow
@pytest.mark.parametrize("kind", ONE_LINE)
def test_every_kind_of_key_is_blanked_on_the_screen(kind: str) -> None:
    text, secret = PLANTED[kind]
    texts = ["".join(spelled(text, 3, 1, [*range(len(text))])[n : n + 3]) for n in range(0, len(text), 3)]
    columns = len(text) + 10
    shown, _ = recorded(texts, columns)
    assert is_clean(shown, secret, columns)
    *_, last = screens(shown, columns)
    assert len(last[2]) == len(text)


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param([at(3, COLUMNS - 9), *KEY], id="the terminal broke it"),
        pytest.param(
            [at(3, 20) + "x" * 9 + KEY[:30], at(4, 3) + KEY[30:]], id="the program broke it at the right edge"
        ),
        pytest.param(
            [at(2 + n, 1) + f"\u2502 {KEY[n * 16 : n * 16 + 16]:<16} \u2502" for n in range(3)], id="a frame broke it"
        ),
        pytest.param([at(3, 1) + KEY[10:], at(3, 1) + "\x1b[10@", at(3, 1) + KEY[:10]], id="inserted before its rest"),
        pytest.param([at(3, 1) + "xy" + KEY, at(3, 1), "\x1b[2P"], id="moved by deleting"),
        pytest.param([at(ROWS, 1) + KEY[:9], "\r\n" * 3, at(ROWS - 3, 10) + KEY[9:]], id="scrolled in between"),
        pytest.param(["\x1b[?1049h", at(2, 1) + KEY[:9], at(2, 10) + KEY[9:], "\x1b[?1049l"], id="the other screen"),
        pytest.param([at(2, 1) + KEY[:9] + "?" + at(2, 10) + KEY[9:]], id="a character written over"),
        pytest.param([at(3, 1) + "sk-ant-api03-" + at(3, 14) + "a\x1b[25b"], id="characters repeated"),
        pytest.param(
            [at(2, 1) + "\u65e5\u672c " + at(2, 6) + KEY[9:], at(2, 6) + "\x1b[9@" + KEY[:9]], id="wide ones before"
        ),
    ],
)
def test_a_key_is_blanked_however_it_came_onto_the_screen(texts: list[str]) -> None:
    secret = KEY if "\x1b[25b" not in texts[0] else "a" * 26
    assert not is_clean(texts, secret), "it is never there"
    shown, file = recorded(texts)
    assert is_clean(shown, secret), [*screens(shown)]
    assert KEY.encode() not in file
    before, after = [*screens(texts)][-1], [*screens(shown)][-1]
    same = [new in (old, "*", " ") for a, b in zip(before, after, strict=True) for old, new in zip(a, b, strict=False)]
    assert all(same) or any("[redacted:anthropic-key]" in text for text in shown), (before, after)


@pytest.mark.slow
@pytest.mark.parametrize(
    "texts",
    [
        pytest.param([f"{KEY}\x1b[31", "\x1b[5b"], id="repeated"),
        pytest.param([f"{KEY}\x1b]0;title\x1b[5b"], id="repeated after a title"),
        pytest.param([f"{KEY}\x1b", "\x1b[5b"], id="repeated after ESC"),
        pytest.param(["https://me:\x1b[31", f"é{LETTERS[:24]}@host/"], id="a letter that ends it"),
    ],
)
def test_marks_behind_an_unfinished_sequence_are_drawn(texts: list[str]) -> None:
    texts = [*texts, "|behind"]
    found = blank_secrets(texts, COLUMNS, ROWS)
    assert found is not None
    *_, old = screens(texts)
    *_, new = screens(found)
    assert "*" * 24 in new[0] and len(new[0]) == len(old[0])
    assert new[0].endswith("|behind") and old[0].endswith("|behind")


def test_what_shows_no_secret_is_recorded_as_it_was_and_at_once() -> None:
    texts = [at(2, 1) + "\x1b[31msk-ant-", at(3, 1) + "risk-free\x1b[0m", "\x1b]0;title\x07", "\x1b[2J"]
    file = io.BytesIO()
    recorder = Recorder(file, columns=COLUMNS, rows=ROWS, title="t", timestamp=1, now=lambda: 1.0)
    for text in texts:
        recorder.record_output(text.encode())
    assert b"risk-fre" in file.getvalue(), "it is written while the turn runs"
    recorder.end()
    assert "".join(moment.text for moment in cast.read(file.getvalue()).moments) == "".join(texts)


@pytest.mark.slow
def test_once_a_key_was_seen_nothing_of_it_is_in_the_file_while_the_turn_runs() -> None:
    file = io.BytesIO()
    recorder = Recorder(file, columns=COLUMNS, rows=ROWS, title="t", timestamp=1, now=lambda: 1.0)
    for text in spelled(KEY, 2, 1, [*range(13, len(KEY)), *range(13)]):
        recorder.record_output(text.encode())
    recorder.record_output(at(5, 1).encode() + b"on it goes. ")
    recorder.record_typed(b"\r")
    held = cast.read(file.getvalue())
    assert [moment.text for moment in held.moments] == [HELD_NOTICE]
    recorder.end()
    whole = cast.read(file.getvalue())
    assert [moment.kind for moment in whole.moments].count("i") == 1 and len(whole.moments) == len(KEY) + 2
    *_, last = screens([moment.text for moment in whole.moments if moment.kind == "o"])
    assert (last[1], last[4]) == ("*" * len(KEY), "on it goes.")


@pytest.mark.slow
def test_a_recording_goes_on_being_cut_where_it_is_long_enough() -> None:
    file = io.BytesIO()
    recorder = Recorder(file, columns=COLUMNS, rows=ROWS, title="t", timestamp=1, now=lambda: 1.0, most=8_000)
    for text in spelled(KEY, 2, 1, [*range(len(KEY))]) + [at(5, 1) + "x" * 50] * 500:
        recorder.record_output(text.encode())
    recorder.end()
    found = cast.read(file.getvalue())
    assert found.moments[-1].text == cast.CUT_NOTICE and len(file.getvalue()) < 9_000
    assert is_clean([moment.text for moment in found.moments if moment.kind == "o"], KEY)


@pytest.mark.slow
def test_of_what_is_held_back_no_more_is_kept_than_can_be_looked_through_in_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cast, "MAX_HELD_BYTES", 3_000)
    shown, file = recorded([*spelled(KEY, 2, 1, [*range(len(KEY))]), *[at(5, 1) + "x" * 50] * 100])
    assert is_clean(shown, KEY) and len(file) < 3_500
    assert cast.read(file).moments[-1].text == cast.CUT_NOTICE


_pieces = st.lists(
    st.one_of(
        st.sampled_from([KEY, KEY[:13], KEY[13:], KEY[:20], *(text for text, _, _ in [*SECRETS.values()][:8])]),
        st.sampled_from(
            ["\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[3;1H", "\x1b[3;14H", "\x1b[4@", "\x1b[4P", "\x1b[M", "\x1b[L"]
        ),
        st.sampled_from(
            [
                "\r\n",
                "\n",
                "\r",
                "\x1b[?1049h",
                "\x1b[?1049l",
                "\x1b[5b",
                "\x1b[4h",
                "\x1b(0",
                "\x1b(B",
                "\x1b7",
                "\x1b8",
            ]
        ),
        st.sampled_from(["\u2502", " ", "\u65e5", "e\u0301", "\x1b[31", "m", "\x1b]0;x\x07"]),
        st.text(max_size=4),
    ),
    max_size=14,
)


@pytest.mark.slow
@given(_pieces)
@example([KEY, "\x1b[31", "\x1b[5b", "│"])
@settings(max_examples=150)
def test_whatever_is_written_no_player_shows_a_secret_and_no_other_character_moves(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    found = blank_secrets(texts, 30, ROWS)
    assert found is not None and len(found) == len(texts)
    player = SecretDetector(30, ROWS)
    assert not any([player.shows_secret(text) for text in found])  # noqa: C419 - each is shown
    for before, after in zip(screens(texts, 30), screens(found, 30), strict=True):
        for old, new in zip(before, after, strict=True):
            assert [a for a, b in zip(old, new, strict=False) if a != b and b not in "* "] == []
