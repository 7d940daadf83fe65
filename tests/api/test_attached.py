"""The connection to an agent's terminal, with a holder that the test plays."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import msgspec
import pytest

from beam.api import attach
from beam.api.attach import Attached
from beam.base.errors import BeamError
from beam.turns.terminal.viewers import Bye, Keys


@pytest.fixture
def ends() -> Iterator[tuple[Attached, socket.socket]]:
    """Who looks on, and the holder."""
    mine, holder = socket.socketpair()
    made = Attached("bash", mine)
    yield made, holder
    made.close()
    holder.close()


Ends = tuple[Attached, socket.socket]


def test_keys_go_out_in_lines_of_pieces(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "_PIECE_BYTES", 2)
    attached, holder = ends
    assert attached.press(b"abc") and not attached.has_keys
    lines = holder.recv(1000).splitlines()
    assert [msgspec.json.decode(line, type=Keys).data for line in lines] == [b"ab", b"c"]


def test_keys_that_nobody_takes_wait_and_are_refused_once_they_are_too_many(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    attached, holder = ends
    monkeypatch.setattr(attach, "_MOST_KEYS", 1 << 20)
    while attached.press(b"x" * 8192):
        pass
    assert attached.has_keys
    holder.recv(1 << 20)
    attached.send()
    assert attached.press(b"y" * 10)


def test_keys_for_a_holder_that_went_are_dropped_and_what_it_said_last_is_read(ends: Ends) -> None:
    attached, holder = ends
    holder.sendall(msgspec.json.encode(Bye(why="the turn is over")) + b"\n")
    holder.close()
    attached.press(b"late")
    assert not attached.has_keys
    attached.look()
    assert attached.why == "the turn is over"


def test_a_holder_that_goes_without_a_word_is_said_to_be_gone(ends: Ends) -> None:
    attached, holder = ends
    holder.close()
    attached.look()
    assert attached.why == "its holder went away"


def test_what_is_no_picture_is_an_error(ends: Ends) -> None:
    attached, holder = ends
    holder.sendall(b"junk\n")
    with pytest.raises(BeamError, match="does not know"):
        attached.look()
