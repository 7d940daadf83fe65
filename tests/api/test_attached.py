"""The connection to an agent's terminal, with a holder that the test plays."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from beam.api import attach
from beam.api.attach import Attached, picture_of
from beam.base.errors import BeamError, DiskError, LimitError, NotFoundError, UnsupportedError
from beam.pty_adapter.picture import Picture, Run
from beam.root import discovery
from beam.turns.terminal.nearby import short_path
from beam.turns.terminal.viewers import Bye, Frame, Keys
from tests.support.context import Root
from tests.support.journals import finished, record, started
from tests.support.refused import refused


@pytest.fixture
def ends() -> Iterator[tuple[Attached, socket.socket]]:
    """The viewer's and the holder's end of the connection."""
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


@pytest.mark.slow
def test_keys_that_nobody_takes_wait_and_are_refused_once_they_are_too_many(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    attached, holder = ends
    monkeypatch.setattr(attach, "_MAX_KEYS", 1 << 20)
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


def test_keys_are_sent_after_the_first_picture_and_after_the_file_that_the_holder_asks_for(tmp_path: Path) -> None:
    mine, holder = socket.socketpair()
    with contextlib.closing(Attached("bash", mine, tmp_path)) as attached, holder:
        assert attached.press(b"a") and not attached.has_keys
        assert select.select([holder], [], [], 0)[0] == []
        shown = Frame(picture=Picture(columns=80, rows=()), height=0, changed={}, nonce="f" * 32)
        holder.sendall(msgspec.json.encode(shown) + b"\n")
        attached.look()
        assert attached.has_keys and list(tmp_path.iterdir()) == []
        attached.send()
        assert [path.name for path in tmp_path.iterdir()] == ["f" * 32 + ".typing"]
        assert msgspec.json.decode(holder.recv(1000), type=Keys).data == b"a"
        (tmp_path / ("f" * 32 + ".typing")).unlink()
        attached.press(b"b")
        assert list(tmp_path.iterdir()) == []  # once for the connection
        assert msgspec.json.decode(holder.recv(1000), type=Keys).data == b"b"


@pytest.mark.parametrize("nonce", [None, "../up"])
def test_a_holder_that_asks_for_no_file_gets_keys_and_none_is_made(tmp_path: Path, nonce: str | None) -> None:
    mine, holder = socket.socketpair()
    with contextlib.closing(Attached("bash", mine, tmp_path)) as attached, holder:
        shown = Frame(picture=Picture(columns=80, rows=()), height=0, changed={}, nonce=nonce)
        holder.sendall(msgspec.json.encode(shown) + b"\n")
        attached.look()
        attached.press(b"a")
        assert msgspec.json.decode(holder.recv(1000), type=Keys).data == b"a"
        assert list(tmp_path.iterdir()) == [] and not list(tmp_path.parent.glob("up*"))


def test_who_can_not_write_into_the_agents_directory_is_told_so(tmp_path: Path) -> None:
    mine, holder = socket.socketpair()
    with contextlib.closing(Attached("bash", mine, tmp_path / "gone")) as attached, holder:
        shown = Frame(picture=Picture(columns=80, rows=()), height=0, changed={}, nonce="f" * 32)
        holder.sendall(msgspec.json.encode(shown) + b"\n")
        attached.look()
        with pytest.raises(DiskError, match=r"can't write|typing"):
            attached.press(b"a")


# -- pictures ----------------------------------------------------------------------------------------------------------


def run(text: str) -> tuple[Run, ...]:
    return (Run(text=text),)


def frame(height: int, changed: dict[int, str], **picture: Any) -> bytes:
    rows = {row: run(text) for row, text in changed.items()}
    shown = Picture(**{"columns": 80, "rows": (), **picture})
    return msgspec.json.encode(Frame(picture=shown, height=height, changed=rows)) + b"\n"


def test_a_picture_is_made_of_all_frames_so_far(ends: Ends) -> None:
    attached, holder = ends
    attached.look()
    assert attached.picture is None and attached.why is None
    first = frame(3, {0: "a", 2: "c", 3: "beyond", -1: "before"}, title="t")
    holder.sendall(first[:10])
    attached.look()
    holder.sendall(first[10:])
    attached.look()
    assert attached.picture == Picture(columns=80, rows=(run("a"), (), run("c")), title="t")
    holder.sendall(frame(2, {1: "b"}) + frame(2, {0: "A"}, row=1))
    attached.look()
    assert attached.picture == Picture(columns=80, rows=(run("A"), run("b")), row=1)
    holder.sendall(frame(4, {}))
    attached.look()
    assert attached.picture is not None and attached.picture.rows == (run("A"), run("b"), (), ())


@pytest.mark.parametrize(("height", "is_shown"), [(0, True), (10_000, True), (10_001, False), (-1, False)])
def test_a_screen_has_a_height_that_can_be(height: int, is_shown: bool, ends: Ends) -> None:
    attached, holder = ends
    holder.sendall(frame(height, {}))
    attached.look()
    assert (attached.picture is not None) is is_shown
    assert not is_shown or (attached.picture is not None and len(attached.picture.rows) == height)


def test_the_first_reason_of_an_end_stays(ends: Ends) -> None:
    attached, holder = ends
    holder.sendall(b"".join(msgspec.json.encode(Bye(why=why)) + b"\n" for why in ("over", "again")))
    holder.close()
    attached.look()
    attached.look()
    assert attached.why == "over"


def test_a_holder_that_sends_no_pictures_is_an_error(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    attached, holder = ends
    monkeypatch.setattr(attach, "_FRAME_BYTES", 4)
    holder.sendall(b"1234")
    attached.look()
    holder.sendall(b"5")
    said = "the process that runs bash sends no pictures of its terminal"
    with refused(BeamError, said, "beam broker status"):
        attached.look()


def test_another_versions_words_are_said_to_be_so(ends: Ends) -> None:
    attached, holder = ends
    holder.sendall(b'{"type":"else"}\n')
    said = "the process that runs bash sends data that this version of beam does not know"
    with refused(BeamError, said, "its broker may be of another version: beam broker status"):
        attached.look()


def test_a_descriptor_can_be_waited_for(ends: Ends) -> None:
    attached, holder = ends
    assert select.select([attached], [], [], 0)[0] == []
    holder.sendall(b"x")
    assert select.select([attached], [], [], 1)[0] == [attached]


@pytest.mark.parametrize(("waiting", "is_taken"), [(0, True), (5, True), (6, False)])
def test_too_many_keys_are_refused(waiting: int, is_taken: bool, ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    attached, _ = ends
    monkeypatch.setattr(attach, "_MAX_KEYS", 10)
    monkeypatch.setattr(Attached, "send", lambda self: None)
    attached._keys = b"k" * waiting
    assert attached.press(b"12345") is is_taken
    assert attached.has_keys is (is_taken or waiting > 0)


# -- the one picture that is asked for ---------------------------------------------------------------------------------


def test_a_screen_is_waited_for_and_the_connection_closed(ends: Ends) -> None:
    attached, holder = ends
    holder.sendall(frame(1, {0: "a"}))
    assert picture_of(attached) == Picture(columns=80, rows=(run("a"),))
    assert attached.fileno() == -1


def test_a_terminal_that_shows_nothing_in_time_or_is_gone_can_not_be_shown(ends: Ends) -> None:
    attached, _ = ends
    said = "can't show the terminal of bash: its holder did not answer within 0.01 s"
    with refused(NotFoundError, said, "beam status", subject="bash"):
        picture_of(attached, seconds=0.01)
    mine, other = socket.socketpair()
    other.sendall(msgspec.json.encode(Bye(why="the turn is over")) + b"\n")
    with refused(NotFoundError, "can't show the terminal of zsh: the turn is over", "beam status", subject="zsh"):
        picture_of(Attached("zsh", mine))
    other.close()


# -- connecting --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def listening(folder: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server, short_path(folder) as short:
        server.bind(str(short / "terminal.sock"))
        server.listen()
        yield server


@pytest.mark.parametrize("lane", [None, "aaaa"])
def test_who_attaches_is_connected_to_the_agents_terminal_or_its_lanes(lane: str | None, root: Root) -> None:
    paths = root.context.agent_paths("worker", lane)
    discovery.create(root.context.home, root.place("worker"))
    discovery.create(root.context.home, paths)
    with listening(paths.dir) as server:
        attached = attach.attach(root.context, root.place("worker"))
        holder, _ = server.accept()
        holder.sendall(frame(1, {0: "hello"}))
        assert picture_of(attached).text == "hello" and attached.agent == "worker"
        holder.close()


def test_an_agent_without_a_terminal_is_said_to_have_none(root: Root) -> None:
    said = "worker has no terminal now"
    hint = "beam send worker --via terminal …; a broker keeps it after the turn"
    with refused(NotFoundError, said, hint, subject="worker"):
        attach.attach(root.context, root.place("worker"))
    record(root, "worker", started(via="exec"), finished())
    with refused(NotFoundError, said, hint, subject="worker"):
        attach.attach(root.context, root.place("worker"))


def test_a_turn_in_another_mode_has_no_screen(root: Root) -> None:
    record(root, "worker", started(via="exec"))
    said = "the turn of worker runs with --via exec, which has no screen"
    hint = "beam watch worker shows its events; to have a screen: beam send worker --via terminal …"
    with refused(UnsupportedError, said, hint, subject="worker"):
        attach.attach(root.context, root.place("worker"))


@pytest.mark.slow
def test_a_turn_that_has_just_begun_has_its_terminal_soon(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    record(root, "worker", started(via="terminal"))
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(attach, "time", clock)
    with pytest.raises(NotFoundError, match="worker has no terminal now"):
        attach.attach(root.context, root.place("worker"))
    assert slept[0] == 0.05 and sum(slept) == pytest.approx(3.05, abs=0.06)


def test_another_users_terminal_is_not_shown(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise PermissionError

    folder = root.place("worker").dir
    monkeypatch.setattr("beam.turns.terminal.nearby.short_path", connect)
    said = f"the terminal in {folder} is another user's"
    with refused(LimitError, said, "ask them", subject=str(folder)):
        attach.attach(root.context, root.place("worker"))
