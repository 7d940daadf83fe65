"""A journal's fold: it is always what a whole reading comes to, and reads nothing twice."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from beam.base.errors import CorruptError
from beam.model import events
from beam.model.settings import DEFAULT_LIMITS
from beam.store.journal import Journal
from beam.store.segment import Fold, Segment, read_state, segments
from tests.support.context import FakeClock


def begin(directory: Path, fold: Fold | None = None) -> Journal:
    directory.mkdir(exist_ok=True)
    return Journal.open(directory, "a", FakeClock(), DEFAULT_LIMITS, fold=fold)


def last(directory: Path) -> Path:
    return directory / segments(directory)[-1]


def assert_same(fold: Fold) -> None:
    assert msgspec.json.encode(fold.state()) == msgspec.json.encode(read_state(fold.directory))


def read_lines(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that are decoded from now on."""
    seen: list[bytes] = []
    decode_lines = events.decode_lines

    def noted(lines: bytes) -> list[events.AnyEvent] | None:
        seen.extend(lines.splitlines())
        return decode_lines(lines)

    monkeypatch.setattr(events, "decode_lines", noted)
    return seen


def test_a_fold_of_nothing_is_the_empty_state(tmp_path: Path) -> None:
    fold = Fold(tmp_path / "none")
    assert fold.state().seq == 0
    journal = begin(tmp_path / "none")
    journal.append(events.Text(text="x"))
    assert_same(fold)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_fold_is_what_a_whole_reading_comes_to(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    journal = begin(tmp_path / "j")
    fold = Fold(tmp_path / "j")
    for number in range(60):
        match dice.randrange(10):
            case 0:
                journal.close()
                journal = begin(tmp_path / "j", fold if dice.random() < 0.5 else None)
            case 1:
                journal._begin_segment()
            case 2 | 3 | 4:
                assert_same(fold)
            case _:
                journal.append(events.Text(text=f"{number} " + "x" * dice.choice((1, 3000))), turn=1)
    assert_same(fold)
    assert journal.state.seq == read_state(tmp_path / "j").seq


def test_a_line_is_read_once_also_by_who_opens_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = begin(tmp_path / "j")
    for number in range(5):
        journal.append(events.Text(text=f"{number}"))
    seen = read_lines(monkeypatch)
    fold = Fold(tmp_path / "j")
    assert fold.state().seq == 5
    journal.append(events.Text(text="one more"))
    journal.close()
    fold.state()
    opened = begin(tmp_path / "j", fold)
    assert opened.state.seq == 6
    assert len(seen) == 6 == len(set(seen))


def test_a_journal_that_took_a_fold_changes_nothing_in_it(tmp_path: Path) -> None:
    begin(tmp_path / "j").close()
    fold = Fold(tmp_path / "j")
    fold.state()
    journal = begin(tmp_path / "j", fold)
    journal.append(events.Text(text="later"))
    assert_same(fold)


def test_another_file_of_the_same_name_is_read_whole(tmp_path: Path) -> None:
    for name, count in (("j", 3), ("other", 8)):
        journal = begin(tmp_path / name)
        for number in range(count):
            journal.append(events.Text(text=f"{name} {number}"))
        journal.close()
    fold = Fold(tmp_path / "j")
    fold.state()
    last(tmp_path / "j").write_bytes(last(tmp_path / "other").read_bytes())  # the same inode, and longer
    assert_same(fold)
    last(tmp_path / "j").write_bytes(last(tmp_path / "other").read_bytes().split(b"\n")[0] + b"\n")
    assert_same(fold)


def test_what_a_crash_left_is_seen_as_by_a_whole_reading(tmp_path: Path) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="whole"))
    fold = Fold(tmp_path / "j")
    fold.state()
    with last(tmp_path / "j").open("ab") as file:
        file.write(b'{"torn')
    assert_same(fold)
    assert_same(fold)
    assert begin(tmp_path / "j", fold).state.seq == 2  # the notice
    assert_same(fold)


def test_damage_behind_what_was_read_is_an_error_as_ever(tmp_path: Path) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="whole"))
    fold = Fold(tmp_path / "j")
    fold.state()
    with last(tmp_path / "j").open("ab") as file:
        file.write(b"damage\n")
    journal.append(events.Text(text="behind"))
    for read in (fold.state, lambda: read_state(tmp_path / "j"), lambda: fold.take_segment(last(tmp_path / "j").name)):
        with pytest.raises(CorruptError):
            read()


def test_a_segment_that_could_not_be_read_on_is_unchanged(tmp_path: Path) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="a"))
    segment = Segment.read(last(tmp_path / "j"))
    before = msgspec.structs.asdict(segment)
    last(tmp_path / "j").write_bytes(b"")
    assert not segment.read_on()
    assert msgspec.structs.asdict(segment) == before
