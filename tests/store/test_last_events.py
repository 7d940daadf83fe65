"""The end of a journal, read without the rest of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.base import files
from beam.base.errors import CorruptError
from beam.model import events
from beam.model.settings import Limits
from beam.store.journal import Journal, Reader, segments
from beam.store.reader import last_events
from tests.support.context import FakeClock


def made(directory: Path, count: int = 60) -> Path:
    """A journal of several segments."""
    directory.mkdir()
    journal = Journal.open(directory, "a", FakeClock(), Limits(segment_bytes=1000))
    for number in range(count):
        journal.append(events.Text(text=f"{number} " + "x" * (number % 7) * 20))
        journal.rotate_if_due()
    journal.close()
    assert len(segments(directory)) > 3
    return directory


def test_any_end_of_a_journal_is_the_end_of_what_a_reader_reads(tmp_path: Path) -> None:
    directory = made(tmp_path / "journal")
    whole = Reader(directory).poll()
    total = sum(path.stat().st_size for path in directory.iterdir())
    for size in (*range(0, total, 37), total - 1, total, total + 1):
        found, is_all = last_events(directory, size)
        assert found == whole[len(whole) - len(found) :]
        assert len(found) == len(whole) or not is_all
        assert is_all == (size >= total)
    assert last_events(tmp_path / "none", 100) == ([], True)


def test_no_more_is_read_than_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = made(tmp_path / "journal", 2000)
    read = 0
    pieces = files.read_pieces

    def counted(*args: int) -> object:
        nonlocal read
        for data in pieces(*args):  # type: ignore[arg-type]
            read += len(data)
            yield data

    monkeypatch.setattr(files, "read_pieces", counted)
    found, _ = last_events(directory, 3000)
    assert len(found) > 5 and read <= 3000


def test_damage_that_a_notice_explains_is_passed_over_wherever_the_end_begins(tmp_path: Path) -> None:
    directory = made(tmp_path / "journal")
    last = directory / segments(directory)[-1]
    last.write_bytes(last.read_bytes() + b'{"type":"te')
    journal = Journal.open(directory, "a", FakeClock(), Limits())
    journal.append(events.Text(text="behind"))
    journal.close()
    whole = Reader(directory).poll()
    for size in range(0, last.stat().st_size + 100, 13):
        found, _ = last_events(directory, size)
        assert found == whole[len(whole) - len(found) :]


def test_damage_in_the_end_is_not_passed_over(tmp_path: Path) -> None:
    directory = made(tmp_path / "journal")
    last = directory / segments(directory)[-1]
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2] + b"\n" + data[len(data) // 2 :])
    with pytest.raises(CorruptError):
        last_events(directory, len(data) - 10)
