"""A paste with escape characters in it presses no key."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("textual")

from textual import events

from beam.board.command import Pastes, decoder_class, keep_pastes_as_text, parser_class

START, END = "\x1b[200~", "\x1b[201~"


def told(*pieces: str) -> list[tuple[str, str]]:
    """What the parser tells the board of these pieces of input."""
    parser = parser_class()()
    found = [event for piece in pieces for event in parser.feed(piece)]
    return [
        ("paste", event.text) if isinstance(event, events.Paste) else ("key", event.key)
        for event in found
        if isinstance(event, events.Paste | events.Key)
    ]


@pytest.mark.parametrize(
    "text", ["a\x1b[2Jq\r\ny", "a\x1b\ry", "\x1b[31mred\x1b[m\r", f"a{END}y\rq", "\x1b[I\x1b[", "\x1bOA"]
)
def test_what_is_pasted_presses_no_key(text: str) -> None:
    shown = text.replace("\x1b", "\u241b")
    assert told(f"{START}{text}{END}", "x") == [("paste", shown), ("key", "x")]


def test_a_paste_may_be_cut_anywhere_and_keys_stay_keys() -> None:
    whole = f"k{START}a\x1b[20\x1b[201b\r{END}"
    for one, two in itertools.combinations(range(1, len(whole)), 2):
        pastes = Pastes()
        parts = [pastes.escape_pasted(part) for part in (whole[:one], whole[one:two], whole[two:])]
        assert "".join(parts) == f"k{START}a\u241b[20\u241b[201b\r{END}"
    assert told("\x1b[A", "q", "\r") == [("key", "up"), ("key", "q"), ("key", "enter")]


def test_bytes_that_are_no_text_are_a_sign_and_not_the_end_of_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    from textual.drivers import linux_driver

    for name in ("XTermParser", "getincrementaldecoder"):
        monkeypatch.setattr(linux_driver, name, getattr(linux_driver, name))
    keep_pastes_as_text()
    decode = linux_driver.getincrementaldecoder("utf-8")().decode
    assert decode(b"a\xff\xfeb\xc3") + decode(b"\xa9") == "a\ufffd\ufffdb\u00e9"
    assert linux_driver.getincrementaldecoder is decoder_class
