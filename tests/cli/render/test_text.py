"""Control characters are shown to a person, never obeyed by a terminal; a pipe gets the exact text."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.cli.render.text import (
    ascii_only,
    display_width,
    escape_controls,
    one_line,
    safe,
    safe_json,
    truncate,
    write,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[2J", "␛[2J"),
        ("\x1b]0;t\x07", "␛]0;t␇"),
        ("a\rb", "a␍b"),
        ("a\r\nb", "a\nb"),
        ("\x7f", "␡"),
        ("\x9b31m", "<U+009B>31m"),
        ("\u202eabc", "<U+202E>abc"),
        ("\u061c\u206f", "<U+061C><U+206F>"),
    ],
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


@pytest.mark.slow
@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not any(
        (ord(char) < 0x20 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0 for char in escape_controls(text)
    )


@pytest.mark.slow
@given(st.text(), st.integers(1, 40))
def test_one_line_is_one_line_and_no_longer_than_wanted(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert "\n" not in line


def test_a_pipe_gets_the_exact_text() -> None:
    assert safe("\x1b[2J", io.StringIO()) == "\x1b[2J"


def test_what_an_encoding_can_not_say_is_replaced() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    write(stream, "é\udcff!")
    stream.flush()
    assert stream.buffer.getvalue() == b"\\xe9\\udcff!"  # type: ignore[attr-defined]


def test_a_wide_character_is_never_cut_in_two() -> None:
    assert [truncate("日本語", width) for width in (6, 5, 4, 3)] == ["日本語", "日本…", "日…", "日…"]
    assert display_width("a日") == 3


@pytest.mark.slow
@given(st.text())
def test_ascii_only_says_everything_in_ascii(text: str) -> None:
    assert ascii_only(text).isascii()


def test_a_stream_of_ascii_gets_the_nearest_signs_and_json_that_means_the_same() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    write(stream, "claude, … → done – café\n")
    write(stream, safe_json('{"text":"… é 😀"}', stream))
    stream.flush()
    shown = stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert shown == 'claude, ... -> done - caf\\xe9\n{"text":"\\u2026 \\u00e9 \\ud83d\\ude00"}'
    assert json.loads(shown.splitlines()[1]) == {"text": "… é 😀"}
