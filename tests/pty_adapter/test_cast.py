"""Recordings as asciicast v2: what was written, when, without secrets, and not without end."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.pty_adapter import cast
from beam.pty_adapter.cast import CUT_NOTICE, Moment, NoCastError, Recorder
from tests.support.secrets import SECRETS

SECRET = next(secret for text, _, secret in SECRETS.values() if text == secret)


class Film:
    """A recorder whose clock the test sets."""

    def __init__(self, **options: int) -> None:
        self.file = io.BytesIO()
        self.time = 100.0
        self.recorder = Recorder(
            self.file, columns=80, rows=24, title="x, turn 1", timestamp=7, now=lambda: self.time, **options
        )

    def read(self) -> cast.Cast:
        self.recorder.end()
        return cast.read(self.file.getvalue())


def test_it_is_an_asciicast_of_version_2() -> None:
    film = Film()
    film.recorder.record_output(b"\x1b[31mhi\r\n")
    film.time += 1.5
    film.recorder.record_typed(b"x\r")
    film.recorder.mark("sent")
    film.recorder.end()
    header, *lines = [json.loads(line) for line in film.file.getvalue().splitlines()]
    assert (header["version"], header["width"], header["height"], header["timestamp"]) == (2, 80, 24, 7)
    assert lines == [[0.0, "o", "\x1b[31mhi\r\n"], [1.5, "i", "x\r"], [1.5, "m", "sent"]]


def test_what_was_written_is_read_again() -> None:
    film = Film()
    film.recorder.record_output("日本".encode()[:4])
    film.time += 0.25
    film.recorder.record_output("日本".encode()[4:])
    assert film.read() == cast.Cast(
        columns=80, rows=24, title="x, turn 1", moments=(Moment(0.0, "o", "日"), Moment(0.25, "o", "本"))
    )


@pytest.mark.slow
@given(st.lists(st.integers(1, 30), max_size=12))
def test_a_secret_is_blanked_in_whatever_pieces_it_comes(sizes: list[int]) -> None:
    film, data = Film(), f"key: {SECRET} and more".encode()
    for size in [*sizes, len(data)]:
        film.recorder.record_output(data[:size])
        data = data[size:]
    film.recorder.record_typed(SECRET.encode())
    film.recorder.mark(SECRET)
    film.read()
    assert SECRET.encode() not in film.file.getvalue()
    text = "".join(moment.text for moment in cast.read(film.file.getvalue()).moments if moment.kind == "o")
    assert SECRET not in text and text.startswith("key: [redacted:") and text.endswith(" and more")


@pytest.mark.slow
def test_it_ends_where_it_is_long_enough_and_says_so() -> None:
    film = Film(most=10_000)
    for _ in range(1000):
        film.recorder.record_output(b"x" * 100)
    assert len(film.file.getvalue()) < 10_200
    assert film.read().moments[-1] == Moment(0.0, "m", CUT_NOTICE)


def test_a_torn_last_line_is_left_out() -> None:
    data = b'{"version":2,"width":80,"height":24}\n[0.5,"o","a"]\n[1.0,"r","90x30"]\n[0.7,"o","b'
    assert cast.read(data).moments == (Moment(0.5, "o", "a"),)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b'{"version":1,"width":80,"height":24}',
        b'{"version":2,"width":0,"height":24}',
        b'{"version":2,"width":80,"height":99999999}',
        b'{"version":2,"width":80,"height":24}\nno\n[1,"o","x"]\n',
    ],
)
def test_what_is_no_recording_is_refused(data: bytes) -> None:
    with pytest.raises(NoCastError):
        cast.read(data)


@pytest.mark.parametrize(
    "line",
    ['[1e9, "o", "x"]', '[Infinity, "o", "x"]', '[NaN, "o", "x"]', "[" + "9" * 400 + ', "o", "x"]', "[" * 2000],
)
def test_a_moment_that_no_recording_has_is_refused(line: str) -> None:
    with pytest.raises(NoCastError):
        cast.read(b'{"version": 2, "width": 80, "height": 24}\n' + line.encode() + b"\n")
