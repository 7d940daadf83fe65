"""Reading a session's file as it grows: each boundary, with a reader that the test makes."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from beam.agents.session_files import Session, SessionFiles
from beam.foreign import tail as module
from beam.foreign.places import SessionPlace, place
from beam.foreign.tail import Tail
from beam.model.events import Event, Notice, Text


class Reader:
    """Makes a text of each line; a line `id X` names the session."""

    def __init__(self, path: str) -> None:
        self.session = Session(id=path)
        self.got: list[bytes] = []

    def read(self, data: bytes) -> list[Event]:
        self.got.append(data)
        if data.startswith(b"id "):
            self.session = Session(id=data[3:].decode())
            return []
        return [Text(text=data.decode())]


class Beside(Reader):
    """Reads another file beside it, too."""

    def beside(self, data: bytes) -> None:
        self.session = Session(id=self.session.id, cwd=data.decode())


Shape = Literal["lines", "document", "database"]


def where(folder: Path, *, shape: Shape = "lines", beside: str = "", kind: type[Reader] = Reader) -> SessionPlace:
    files = SessionFiles(folder="HOME", name=r".*", shape=shape, beside=beside, query=("q",))
    sessions: Any = SimpleNamespace(files=files, reader=kind)
    return place("x", sessions, str(folder))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "s.jsonl"
    made.write_bytes(b"")
    return made


def told(tail: Tail) -> list[tuple[str, str]]:
    return [(session.id, getattr(event, "text", "")) for session, event in tail.read()]


def test_lines_are_reported_once_each_when_they_are_whole(path: Path) -> None:
    tail = Tail(where(path.parent), str(path))
    assert told(tail) == []
    path.write_bytes(b"a\nb\nha")
    assert told(tail) == [("s.jsonl", "a"), ("s.jsonl", "b")] and tail.offset == 6
    with path.open("ab") as file:
        file.write(b"lf\nid new\nc\n")
    assert told(tail) == [("s.jsonl", "half"), ("new", "c")] and told(tail) == []
    assert tail.session == Session(id="new")


def test_lines_come_through_pieces_of_any_size(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"one\ntwo three\nfour\n")
    for size in (1, 2, 3, 5, 100):
        monkeypatch.setattr(module, "PIECE", size)
        assert [text for _, text in told(Tail(where(path.parent), str(path)))] == ["one", "two three", "four"]


@pytest.mark.parametrize("piece", [4, 1000])
def test_a_line_over_the_limit_is_left_out_and_reported(
    piece: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST", 10)
    monkeypatch.setattr(module, "PIECE", piece)
    path.write_bytes(b"a\n" + b"x" * 10 + b"\n" + b"y" * 11 + b"\nb\n")
    tail = Tail(where(path.parent), str(path))
    assert [text for _, text in told(tail)] == ["a", "x" * 10, "a line of 0 MiB or more was left out", "b"]
    said = tail._too_long(9 << 20)
    assert isinstance(said, Notice) and said.code == "too_large"
    assert said.text == "a line of 9 MiB or more was left out"
    assert tail.left_out.counts == {"longer than 0 MiB": 2}


def test_a_line_without_an_end_is_told_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 10)
    path.write_bytes(b"y" * 11)
    tail = Tail(where(path.parent), str(path))
    assert len(told(tail)) == 1
    for more, texts in ((b"y" * 50, []), (b"end\nnext\n", ["next"])):
        with path.open("ab") as file:
            file.write(more)
        assert [text for _, text in told(tail)] == texts


def test_a_file_that_is_followed_from_its_middle_begins_with_a_whole_line_and_its_head(path: Path) -> None:
    path.write_bytes(b"id head\nold\nmiddle\nnew\n")
    tail = Tail(where(path.parent), str(path), 14, is_cut=True)
    assert told(tail) == [("head", "new")]
    tail = Tail(where(path.parent), str(path), 19)
    assert told(tail) == [("head", "new")] and tail.session.id == "head"


def test_of_a_file_far_behind_only_the_end_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACK", 8)
    path.write_bytes(b"one\ntwo\nthree\nfour\n")
    assert [text for _, text in told(Tail(where(path.parent), str(path)))] == ["four"]
    path.write_bytes(b"ab\ncd\nx\n")
    assert [text for _, text in told(Tail(where(path.parent), str(path)))] == ["ab", "cd", "x"]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_written_anew_is_read_from_its_beginning(is_replaced: bool, path: Path) -> None:
    path.write_bytes(b"one\ntwo\nhal")
    tail = Tail(where(path.parent), str(path))
    told(tail)
    if is_replaced:
        new = path.with_name("new")
        new.write_bytes(b"three\nfour and more\n")
        new.rename(path)
        assert [text for _, text in told(tail)] == ["three", "four and more"]
    else:
        path.write_bytes(b"x\n")
        assert [text for _, text in told(tail)] == ["x"]


def test_what_is_not_ones_own_file_says_nothing(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"one\n")
    link = tmp_path / "link"
    link.symlink_to(path)
    for other in (link, tmp_path, tmp_path / "none"):
        tail = Tail(where(tmp_path), str(other))
        assert (told(tail) == [] and tail.session_of_file().id == other.relative_to(tmp_path).name) or other == tmp_path
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    shapes: tuple[Shape, ...] = ("lines", "document")
    for shape in shapes:
        assert told(Tail(where(tmp_path, shape=shape), str(path))) == []
        assert Tail(where(tmp_path, shape=shape), str(path)).session_of_file().id == path.name


def test_who_a_session_is_stands_in_the_head_of_its_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"id one\nid two")
    tail = Tail(where(path.parent), str(path))
    assert tail.session_of_file().id == "one" and tail.offset == 0
    monkeypatch.setattr(module, "HEAD", 5)
    assert tail.session_of_file().id == "s.jsonl"
    assert Tail(where(path.parent, shape="document"), str(path)).session_of_file().id == "one\nid two"


def test_a_document_is_read_whole_each_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"all of it")
    tail = Tail(where(path.parent, shape="document"), str(path))
    tail.mark_as_read()
    assert tail.reader.got == [b"all of it"]  # type: ignore[attr-defined]
    assert told(tail) == [("s.jsonl", "all of it")]
    monkeypatch.setattr(module, "LARGEST", 8)
    said = f"1 record was left out: a document of more than 0 MiB ({path})"
    assert [text for _, text in told(Tail(where(path.parent, shape="document"), str(path)))] == [said]
    lines = Tail(where(path.parent), str(path))
    lines.mark_as_read()
    assert lines.offset == 0


def test_rows_are_asked_for_from_the_last_one_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def rows(name: str, queries: tuple[str, ...], *, since_ms: int) -> list[tuple[int, bytes]]:
        asked.append((name, queries, since_ms))
        return [(7, b"b"), (5, b"a")]

    monkeypatch.setattr("beam.foreign.database.rows", rows)
    tail = Tail(where(path.parent, shape="database"), str(path), since_ms=3)
    assert [text for _, text in told(tail)] == ["b", "a"]
    told(tail)
    assert asked == [(str(path), ("q",), 3), (str(path), ("q",), 7)]


def test_a_file_beside_a_session_is_read_until_it_names_a_folder(path: Path) -> None:
    tail = Tail(where(path.parent, beside="../beside", kind=Beside), str(path))
    assert tail.session.cwd == ""
    beside = path.parent.parent / "beside"
    beside.write_bytes(b"")
    assert tail.session.cwd == ""
    beside.write_bytes(b"/p")
    assert tail.session.cwd == "/p" and tail.session_of_file().cwd == "/p"
    beside.write_bytes(b"/q")
    assert Tail(where(path.parent, beside="../beside"), str(path)).session.cwd == ""
    beside.unlink()


def test_when_a_file_was_written_is_the_time_of_what_has_none(path: Path) -> None:
    os.utime(path, ns=(1_000_000_000, 1_000_000_000))
    assert Tail(where(path.parent), str(path)).written == "1970-01-01T00:00:01.000000Z"
    assert Tail(where(path.parent), str(path.parent / "none")).written == "1970-01-01T00:00:00.000000Z"


def test_no_descriptor_stays_open(path: Path) -> None:
    path.write_bytes(b"one\n")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        told(Tail(where(path.parent), str(path)))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
