"""Which of the files that fit is the turn's transcript, and what of it is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beam.agents.base import Host, Turn, Verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status
from beam.turns.terminal.reading import TranscriptReader


class Lines:
    """A transcript of lines of text: it begins with the turn's own."""

    def __init__(self, turn: Turn) -> None:
        self.state = ""
        self.error: str | None = None
        self.turn = turn
        self.seen: list[str] = []

    def line(self, line: bytes) -> Sequence[Event]:
        text = line.decode()
        if text == self.turn.text:
            self.state = "working"
        if not self.state:
            return ()
        self.seen.append(text)
        return (events.Text(text=text),)

    def verdict(self) -> Verdict:
        return Verdict(status=Status.COMPLETED, reply=self.seen[-1])


class Files:
    tells_end = False

    def __init__(self, where: str) -> None:
        self._where = where

    def where(self, turn: Turn, host: Host) -> str:
        return self._where

    def transcript(self, turn: Turn) -> Lines:
        return Lines(turn)


def reader(where: str) -> tuple[TranscriptReader, list[str]]:
    told: list[str] = []

    def record(body: Event, *, sync: bool = False) -> Event:
        assert isinstance(body, events.Text)
        told.append(body.text)
        return body

    return TranscriptReader(Files(where), Turn(text="hello", message_id="x-1", agent="x"), Host(), record), told


def test_of_many_files_the_one_that_speaks_of_the_turn_is_read(tmp_path: Path) -> None:
    (tmp_path / "old-1.txt").write_text("hello\nlong ago\n")
    found, told = reader(f"{tmp_path}/*-*.txt")
    found.read()
    assert told == []
    (tmp_path / "new-1.txt").write_text("another\nhello?\n")
    (tmp_path / "new-2.txt").write_text("hello\nfirst\nhal")
    for _ in range(5):
        found.read()
    assert (told, found.state) == (["hello", "first"], "working")
    with (tmp_path / "new-2.txt").open("a") as file:
        file.write("f\n")
    (tmp_path / "new-3.txt").write_text("hello\nof somebody else\n")
    for _ in range(5):
        found.read()
    assert told == ["hello", "first", "half"]
    assert found.verdict().reply == "half"


def test_what_stood_in_a_resumed_sessions_file_is_no_part_of_the_turn(tmp_path: Path) -> None:
    path = tmp_path / "s-1.txt"
    path.write_text("hello\nlong ago\n")
    for where in (str(path), f"{tmp_path}/s-*.txt"):
        found, told = reader(where)
        found.read()
        assert (told, found.state) == ([], "")
    with path.open("a") as file:
        file.write("hello\nnow\n")
    for _ in range(5):
        found.read()
    assert told == ["hello", "now"]


def test_a_file_that_is_not_there_yet_says_nothing(tmp_path: Path) -> None:
    for where in (f"{tmp_path}/none.txt", f"{tmp_path}/none-*.txt"):
        found, told = reader(where)
        found.read()
        assert (told, found.state) == ([], "")
