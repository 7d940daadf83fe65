from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.process.pipes import LineSplitter, Piece, Tail

STREAM = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\0", b"\xff\xfe", b"\r"])).map(b"".join)


def split(chunks: list[bytes], limit: int) -> tuple[list[bytes], int]:
    lines = LineSplitter(limit)
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    return found + lines.end(), lines.cut


@pytest.mark.slow
@given(STREAM, st.lists(st.integers(0, 40)), st.integers(1, 8))
def test_any_chunking_of_the_same_bytes_gives_the_same_lines(stream: bytes, cuts: list[int], limit: int) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    assert split(chunks, limit) == split([stream], limit) == split([bytes([byte]) for byte in stream], limit)


@pytest.mark.slow
@given(STREAM)
def test_no_byte_is_lost_below_the_limit(stream: bytes) -> None:
    lines, cut = split([stream], 1000)
    expected = stream.split(b"\n")
    assert (lines, cut) == (expected[:-1] if expected[-1] == b"" else expected, 0)


@pytest.mark.slow
@given(STREAM, st.lists(st.integers(0, 40)), st.integers(1, 8), st.integers(1, 4))
def test_a_long_line_in_pieces_is_the_same_line(stream: bytes, cuts: list[int], limit: int, size: int) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    lines = LineSplitter(limit, piece_bytes=size)
    whole, open_ = [], b""
    for part in [part for chunk in chunks for part in lines.feed(chunk)] + lines.end():
        open_ += part
        if not isinstance(part, Piece):
            whole.append(open_)
            open_ = b""
    assert (whole, lines.cut, open_) == (*split([stream], limit), b"")


def test_a_line_without_end_is_given_in_pieces_of_about_that_size() -> None:
    lines = LineSplitter(1000, piece_bytes=4)
    assert [lines.feed(chunk) for chunk in (b"ab", b"cd", b"e", b"f\ngh", b"ijk")] == [
        [],
        [b"abcd"],
        [],
        [b"ef"],
        [b"ghijk"],
    ]
    assert lines.end() == [b""]  # its line is over


def test_a_line_beyond_the_limit_is_given_cut_and_once() -> None:
    assert split([b"123", b"456", b"789\nab\n"], 4) == ([b"1234", b"ab"], 1)


def test_a_line_of_exactly_the_limit_is_whole() -> None:
    assert split([b"1234\n12", b"34"], 4) == ([b"1234", b"1234"], 0)


def test_a_line_beyond_the_limit_at_the_end_is_not_given_twice() -> None:
    assert split([b"12345"], 4) == ([b"1234"], 1)


@pytest.mark.slow
def test_a_long_line_costs_time_in_proportion_to_its_length() -> None:
    def seconds(chunks: int) -> float:
        began = time.process_time()
        split([b"x" * 65536] * chunks + [b"\n"], 1 << 30)
        return time.process_time() - began

    seconds(32)
    small = min(seconds(32) for _ in range(5))
    assert seconds(1024) < max(small, 0.001) * 32 * 8


@pytest.mark.slow
@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(0, 5))
def test_the_tail_is_the_end_of_the_stream_however_it_came(chunks: list[bytes], count: int) -> None:
    tail = Tail(count)
    for chunk in chunks:
        tail.feed(chunk)
    whole = b"".join(chunks).splitlines(keepends=True)
    assert tail.text() == b"".join(whole[-count:] if count else []).decode(errors="replace")


def test_the_tail_of_one_huge_line_is_bounded() -> None:
    tail = Tail(10, limit=100)
    for _ in range(1000):
        tail.feed(b"x" * 77)
    assert tail.text() == "x" * 100
