"""A segment as a power cut may leave it: what was never synced may be lost, what was synced is not given up unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.api.verify import find_damage
from beam.base import files
from beam.base.errors import CorruptError
from beam.model import events
from beam.model.events import AnyEvent
from beam.model.outcome import Status
from beam.model.settings import DEFAULT_LIMITS
from beam.store import segment as of_segments
from beam.store.journal import Journal, Reader, read_state, segments
from tests.support.context import FakeClock

FINISHED = events.TurnFinished(attempt=1, status=Status.COMPLETED)
CLOSED = events.TurnClosed(attempt=1)


def begin(directory: Path) -> Journal:
    directory.mkdir(exist_ok=True)
    return Journal.open(directory, "a", FakeClock(), DEFAULT_LIMITS)


def with_a_hole(directory: Path, *bodies: events.Event, at: str = "lost", tail: bytes = b"") -> Path:
    """A journal in which zeros stand for the middle of the event that says `at`, from one page on; its segment."""
    journal = begin(directory)
    for body in bodies:
        journal.append(body)
    journal.close()
    segment = directory / segments(directory)[-1]
    data = segment.read_bytes()
    begun = data.index(at.encode())
    segment.write_bytes(data[:begun] + bytes(len(at)) + data[begun + len(at) :] + tail)
    return segment


def texts(found: list[AnyEvent]) -> list[str]:
    return [event.text for event in found if isinstance(event, events.Text)]


TAILS = [
    (),
    (events.Text(text="behind it"),),
    (events.Text(text="behind it"), events.Text(text="more")),
    (events.Text(text="behind it"), FINISHED),
]


@pytest.mark.parametrize("behind", TAILS)
@pytest.mark.parametrize("tail", [b"", b"\0\0\0\0", b'{"type":"te'])
def test_zeros_where_nothing_was_synced_are_named_by_a_notice_and_the_numbers_go_on(
    tmp_path: Path, behind: tuple[events.Event, ...], tail: bytes
) -> None:
    if FINISHED in behind and tail:
        behind = behind[:-1]  # what follows an outcome proves that it was synced
    directory = tmp_path / "j"
    segment = with_a_hole(directory, events.Text(text="one"), events.Text(text="lost"), *behind, tail=tail)
    size = segment.stat().st_size
    waiting = Reader(directory)
    assert texts(waiting.poll()) == ["one"]
    assert read_state(directory).seq == 1
    journal = begin(directory)
    journal.append(events.Text(text="two"), sync=True)
    journal.close()
    said = Reader(directory).poll()
    assert texts(said) == ["one", "two"]
    assert [event.seq for event in said] == [1, 2, 3]
    (notice,) = [event for event in said if isinstance(event, events.Notice)]
    begun, end = notice.covers or (0, 0)
    assert b"\0" in segment.read_bytes()[begun:end]
    assert end >= size - 1
    assert texts(waiting.poll()) == ["two"]
    assert find_damage(directory) == []


@pytest.mark.parametrize(
    ("behind", "tail"),
    [((FINISHED, CLOSED), b""), ((FINISHED, events.Text(text="x")), b""), ((CLOSED,), b'{"type'), ((FINISHED,), b"\0")],
)
def test_zeros_before_what_was_synced_are_damage_and_nothing_is_given_up(
    tmp_path: Path, behind: tuple[events.Event, ...], tail: bytes
) -> None:
    segment = with_a_hole(tmp_path / "j", events.Text(text="lost"), *behind, tail=tail)
    before = segment.read_bytes()
    with pytest.raises(CorruptError, match="is damaged at byte"):
        begin(tmp_path / "j")
    assert segment.read_bytes() == before


def test_damage_that_is_no_zeros_is_never_taken_for_a_power_cut(tmp_path: Path) -> None:
    segment = with_a_hole(tmp_path / "j", events.Text(text="lost"), events.Text(text="behind it"))
    segment.write_bytes(segment.read_bytes().replace(bytes(4), b'"no"'))
    with pytest.raises(CorruptError, match="is damaged at byte"):
        read_state(tmp_path / "j")


def test_damage_at_the_end_of_an_older_segment_is_said_to_who_reads_on(tmp_path: Path) -> None:
    directory = tmp_path / "j"
    segment = with_a_hole(directory, events.Text(text="one"), events.Text(text="lost"))
    journal = begin(directory)
    journal.append(events.Text(text="two"))
    journal._begin_segment()
    journal.append(events.Text(text="three"))
    journal.close()
    assert texts(Reader(directory).poll()) == ["one", "two", "three"]
    segment.write_bytes(segment.read_bytes() + bytes(9) + b"\n")
    with pytest.raises(CorruptError, match=f"{segment.name} is damaged"):
        Reader(directory).poll()


def test_whoever_opens_a_journal_syncs_what_the_last_holder_did_not_live_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path / "j")
    monkeypatch.setattr(Journal, "_sync", lambda self: None)
    journal.append(CLOSED)
    journal.close()
    synced: list[int] = []
    monkeypatch.setattr(Journal, "_sync", lambda self: synced.append(self.state.seq))
    begin(tmp_path / "j").close()
    assert synced == [1]


@pytest.mark.parametrize("body", [FINISHED, CLOSED, events.PromptSent(bytes=1), events.MessageClaimed()])
def test_what_later_lines_prove_to_be_synced_is_synced_whoever_appends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: events.Event
) -> None:
    journal = begin(tmp_path / "j")
    synced: list[int] = []
    monkeypatch.setattr(Journal, "_sync", lambda self: synced.append(self.state.seq))
    journal.append(events.Text(text="not this"))
    journal.append(body)
    assert synced == [2]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_a_journal_of_any_size_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    directory = tmp_path / "j"
    journal = begin(directory)
    for number in range(20):
        journal.append(events.Text(text=f"{number}" * number))
    journal.close()
    whole, state = Reader(directory).poll(), read_state(directory)
    monkeypatch.setattr(files, "PIECE_BYTES", size)
    assert (Reader(directory).poll(), read_state(directory)) == (whole, state)
    reader, found = Reader(directory), []
    segment = directory / segments(directory)[-1]
    data = segment.read_bytes()
    for end in range(0, len(data) + 1, 97):
        segment.write_bytes(data[:end])
        found += reader.poll()
    segment.write_bytes(data)
    assert found + reader.poll() == whole


@pytest.mark.slow
def test_zeros_that_no_power_cut_leaves_are_damage_and_their_end_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "j"
    begin(directory).close()
    segment = directory / segments(directory)[-1]
    with segment.open("ab") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(of_segments, "_ZEROS_BYTES", 64 << 20)
    for read in (read_state, lambda at: Reader(at).poll(), begin):
        with pytest.raises(CorruptError, match="a line that has no end"):
            read(directory)
    assert find_damage(directory)


@pytest.mark.slow
def test_a_segment_of_zeros_alone_has_no_snapshot(tmp_path: Path) -> None:
    directory = tmp_path / "j"
    directory.mkdir()
    with (directory / "000000000001.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    for read in (read_state, lambda at: Reader(at).poll(), begin):
        with pytest.raises(CorruptError, match="has no snapshot"):
            read(directory)


def test_names_that_only_look_like_numbers_are_no_segments(tmp_path: Path) -> None:
    for name in ("\u00b2.jsonl", "\u0661.jsonl", "x.jsonl", "000000000001.jsonl"):
        (tmp_path / name).touch()
    assert segments(tmp_path) == ["000000000001.jsonl"]
