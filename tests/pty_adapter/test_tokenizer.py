"""The tokenizer: whole units whatever the pieces, and no harm from anything."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.pty_adapter.tokenizer import KEPT_CHARACTERS, Sequence, Tokenizer, controls, read

RECORDINGS = sorted((Path(__file__).parents[1] / "recordings" / "pty").glob("*.raw"))
PIECES = [
    b"\x1b",
    b"[",
    b"]",
    b"P",
    b"_",
    b"\\",
    b"\x07",
    b"m",
    b"1",
    b";",
    b":",
    b"a",
    b"?",
    b"(",
    b"\xff",
    b"\x18",
    b"\n",
    b"\xc2\x9c",
    b"\xe2\x94\x80",
    b"\x1b[31m",
    b"\x1b]0;title\x07",
    b"\x1bPq\x1b\\",
    b"\xe2",
    b" ",
    b"$",
    b"~",
]
hostile = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join) | st.binary(max_size=60)


def units(tokens: Iterable[str]) -> list[object]:
    """Text joined, sequences read: what is the same for any split."""
    found: list[object] = []
    for token in tokens:
        text = token[0] >= " " and not "\x7f" <= token[0] <= "\x9f"
        if (
            text
            and found
            and isinstance(found[-1], str)
            and found[-1][0] >= " "
            and not "\x7f" <= found[-1][0] <= "\x9f"
        ):
            found[-1] += token
        else:
            found.append(read(token) if token[0] == "\x1b" else token)
    return found


def fed(pieces: Iterable[bytes]) -> list[object]:
    tokenizer = Tokenizer()
    tokens = [token for piece in pieces for token in tokenizer.feed(piece)]
    return units(tokens + tokenizer.feed(b"\x1b\\!"))


@pytest.mark.slow
@given(hostile, st.lists(st.integers(0, 60), max_size=8))
def test_any_split_gives_the_same_units(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in pairwise(places)]
    assert fed(pieces) == fed([data]) == fed(data[i : i + 1] for i in range(len(data)))


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_one_byte_at_a_time_gives_the_same_units(path: Path) -> None:
    data = path.read_bytes()
    assert fed([data]) == fed(data[i : i + 1] for i in range(len(data)))


@pytest.mark.parametrize(
    ("token", "sequence"),
    [
        ("\x1b[1;31m", Sequence("[", "1;31", "", "", "m")),
        ("\x1b[?2026h", Sequence("[", "2026", "?", "", "h")),
        ("\x1b[>4;?m", Sequence("[", "4;?", ">", "", "m")),
        ("\x1b[?2026$p", Sequence("[", "2026", "?", "$", "p")),
        ("\x1b]7501;state=done\x1b\\", Sequence("]", "7501;state=done")),
        ("\x1b]0;a\x07", Sequence("]", "0;a")),
        ("\x1bP>|x\x1b\\", Sequence("P", ">|x")),
        ("\x1b(0", Sequence("", "", "", "(", "0")),
        ("\x1b7", Sequence("", final="7")),
        ("\x1b[", Sequence("[")),
    ],
)
def test_a_sequence_is_read(token: str, sequence: Sequence) -> None:
    assert read(token) == sequence


def test_control_characters_inside_a_sequence_are_found() -> None:
    assert Tokenizer().feed(b"\x1b[3\r\n1m") == ["\x1b[3\r\n1m"]
    assert controls("\x1b[3\r\n1m") == "\r\n"
    assert read("\x1b[3\r\n1m").parameters == "31"


def test_a_string_that_never_ends_keeps_little_and_is_left_at_its_end() -> None:
    tokenizer = Tokenizer()
    for _ in range(200):
        assert tokenizer.feed(b"\x1b]52;c;" + b"A" * 4096 if not tokenizer._string else b"A" * 4096) == []
        assert sum(map(len, tokenizer._pieces)) <= KEPT_CHARACTERS
    assert tokenizer.feed(b"\x07after") == ["after"]


def test_a_sequence_that_never_ends_is_given_up() -> None:
    tokenizer = Tokenizer()
    assert tokenizer.feed(b"\x1b[") == []
    tokens = [token for _ in range(100) for token in tokenizer.feed(b"1" * 50)]
    assert "".join(tokens).endswith("1" * 50) and len(tokenizer._held) < 300


def test_characters_cut_in_two_are_whole_and_invalid_ones_replaced() -> None:
    tokenizer = Tokenizer()
    assert tokenizer.feed("─".encode()[:1]) == []
    assert tokenizer.feed("─".encode()[1:] + b"\xff") == ["─\ufffd"]
