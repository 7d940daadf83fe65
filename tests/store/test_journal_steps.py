"""The writer of a journal, step by step: what is on disk when it returns; and a segment, piece by piece."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beam.base import files
from beam.base.errors import BeamError, CorruptError, DiskError
from beam.model import events
from beam.model.outcome import Status
from beam.model.settings import DEFAULT_LIMITS, Limits
from beam.store import journal as module
from beam.store import segment as of_segments
from beam.store.journal import Journal, Reader, read_event, segments
from beam.store.segment import Fold, LineDecoder, Segment, whole_lines
from tests.support.context import FakeClock

FINISHED = events.TurnFinished(attempt=1, status=Status.COMPLETED)
NEW = ["sync", "segment.written", "segment.renamed", "names", "segment.published"]


def opened() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


@pytest.fixture
def descriptors() -> Iterator[None]:
    """After the test no more descriptors are open than before."""
    before = opened()
    yield
    assert opened() == before


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced and which crash points are passed, in order."""
    found: list[str] = []
    real = files.sync
    monkeypatch.setattr(files, "sync", lambda handle: found.append("sync") or real(handle))
    monkeypatch.setattr(files, "sync_directory", lambda _: found.append("names"))
    monkeypatch.setattr(module, "crash_point", found.append)
    return found


def begin(directory: Path, limits: Limits = DEFAULT_LIMITS) -> Journal:
    directory.mkdir(exist_ok=True)
    return Journal.open(directory, "a", FakeClock(), limits)


def after(steps: list[str], act: Callable[[], object]) -> list[str]:
    steps.clear()
    act()
    return list(steps)


@pytest.mark.slow
@pytest.mark.usefixtures("descriptors")
def test_each_call_syncs_what_it_must_and_no_more(tmp_path: Path, steps: list[str]) -> None:
    limits = Limits(segment_bytes=1)
    journal = begin(tmp_path / "j", limits)
    assert steps == NEW
    assert after(steps, lambda: journal.append(events.Text(text="one"))) == []
    assert after(steps, journal.sync) == ["sync"]
    assert after(steps, journal.sync) == []
    assert after(steps, lambda: journal.append(events.Text(text="two"), sync=True)) == ["sync"]
    assert after(steps, lambda: journal.append(FINISHED)) == ["sync"]
    assert after(steps, journal.rotate_if_due) == NEW
    assert after(steps, journal.rotate_if_due) == []
    for number in range(100):
        journal.append(events.Text(text=f"{number}" * 100))
    assert after(steps, journal.rotate_if_due) == ["sync", *NEW]
    journal.append(events.Text(text="last"))
    journal.close()
    journal.close()
    again: list[Journal] = []
    assert after(steps, lambda: again.append(begin(tmp_path / "j", limits))) == ["sync"]
    again[0].close()
    assert [event.text for event in Reader(tmp_path / "j").poll()[-1:] if isinstance(event, events.Text)] == ["last"]


@pytest.mark.usefixtures("descriptors")
def test_a_torn_line_is_ended_noted_and_synced(tmp_path: Path, steps: list[str]) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="one"), sync=True)
    journal.close()
    (segment,) = (tmp_path / "j").iterdir()
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(b'{"type":"te')
    steps.clear()
    journal = begin(tmp_path / "j")
    assert steps == ["repair.ended", "sync", "repair.noted"]
    notice = Reader(tmp_path / "j").poll()[-1]
    assert isinstance(notice, events.Notice)
    text = f"12 bytes of {segment.name} from {size} on were lost in a crash; readers skip them"
    assert (notice.text, notice.code, notice.covers) == (text, "torn", (size, size + 12))
    assert segment.read_bytes()[size:].startswith(b'{"type":"te~\n{')
    journal.close()


@pytest.mark.usefixtures("descriptors")
def test_a_name_that_could_not_be_synced_is_synced_with_the_next_event_that_must_be(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise DiskError("can't sync")

    (tmp_path / "j").mkdir()
    journal = Journal(tmp_path / "j", "a", FakeClock(), DEFAULT_LIMITS)
    with monkeypatch.context() as change:
        change.setattr(files, "sync_directory", refuse)
        with pytest.raises(DiskError, match="can't sync"):
            journal._begin_segment()
    assert after(steps, lambda: journal.append(events.Text(text="one"))) == []
    assert after(steps, lambda: journal.append(events.Text(text="two"), sync=True)) == ["names", "sync"]
    assert after(steps, lambda: journal.append(events.Text(text="three"), sync=True)) == ["sync"]
    journal.close()


@pytest.mark.usefixtures("descriptors")
def test_a_segment_that_can_not_be_begun_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = begin(tmp_path / "j", Limits(segment_bytes=1))
    for number in range(100):
        journal.append(events.Text(text=f"{number}" * 100))

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as change:
        change.setattr(module.Path, "rename", refuse)
        journal.rotate_if_due()
    journal.append(events.Text(text="last"))
    assert segments(tmp_path / "j") == ["000000000001.jsonl"]
    journal.rotate_if_due()
    assert segments(tmp_path / "j") == ["000000000001.jsonl", "000000000102.jsonl"]
    journal.close()


@pytest.mark.usefixtures("descriptors")
def test_a_journal_that_is_removed_while_it_is_opened_is_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path / "j").close()
    (tmp_path / "j" / ".left.tmp").touch()

    def gone(_: object, name: str) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Fold, "take_segment", gone)
    with pytest.raises(DiskError) as caught:
        begin(tmp_path / "j")
    assert caught.value.message == f"can't read {tmp_path / 'j' / '000000000001.jsonl'}: No such file or directory"
    assert [path.name for path in (tmp_path / "j").iterdir()] == ["000000000001.jsonl"]


@pytest.mark.usefixtures("descriptors")
def test_an_event_that_is_too_long_for_a_line_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path / "j")
    size = journal._size
    monkeypatch.setattr(module, "LINE_BYTES", 10)
    with pytest.raises(DiskError) as caught:
        journal.append(events.Text(text="x"))
    assert caught.value.message.endswith("bytes is too long for a line of the journal")
    assert (caught.value.hint, caught.value.subject) == (
        "set `limits: line_bytes:` in beam.yaml lower",
        str(tmp_path / "j"),
    )
    assert journal._size == size == next((tmp_path / "j").iterdir()).stat().st_size
    journal.close()


# -- a segment, piece by piece -----------------------------------------------------------------------------------------


def filled(directory: Path, *bodies: events.Event) -> Path:
    journal = begin(directory)
    for body in bodies:
        journal.append(body)
    journal.close()
    return directory / segments(directory)[-1]


SAID = (events.Text(text="one"), events.Text(text="two " * 9), FINISHED, events.Text(text="three"))


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_a_segment_is_the_same_however_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    path = filled(tmp_path / "j", *SAID)
    whole = Segment.read(path)
    assert [event.seq for event in whole.events] == [1, 2, 3, 4]
    assert (whole.end, whole.torn, whole.uncovered) == (path.stat().st_size, None, None)
    assert (whole.begin, whole.after) == (path.read_bytes().index(b"\n") + 1, "")
    assert whole.tail == path.read_bytes()[-1024:]
    monkeypatch.setattr(files, "PIECE_BYTES", size)
    again = Segment.read(path)
    assert (again.events, again.begin, again.end, again.torn, again.tail) == (
        whole.events,
        whole.begin,
        whole.end,
        None,
        whole.tail,
    )
    assert Reader(tmp_path / "j").poll() == whole.events
    assert list(whole_lines(files.read_pieces(path))) == path.read_bytes().split(b"\n")[:-1]


@pytest.mark.usefixtures("descriptors")
def test_a_segment_is_read_on_from_its_end_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "j", *SAID)
    read = Segment.read(path)
    read.events = []
    assert (read.read_on(), read.events) == (True, [])
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="four"))
    journal.close()
    monkeypatch.setattr(files, "PIECE_BYTES", 2048)
    assert read.read_on()
    assert [event.text for event in read.events if isinstance(event, events.Text)] == ["four"]
    assert (read.end, read.tail) == (path.stat().st_size, path.read_bytes()[-1024:])
    with path.open("ab") as file:
        file.write(b'{"ty')
    assert (read.read_on(), read.torn) == (True, (read.end, path.stat().st_size))
    assert not read.read_on(), "what is torn may be repaired since"
    other = Segment.read(path)
    other.torn = None
    path.write_bytes(path.read_bytes().replace(b'"four"', b'"five"'))
    assert not other.read_on()
    path.write_bytes(b"")
    assert not other.read_on()


def test_an_event_is_read_by_its_number_or_its_segment_is_gone(tmp_path: Path) -> None:
    filled(tmp_path / "j", *SAID)
    assert read_event(tmp_path / "j", 3).seq == 3
    for seq in (0, 5):
        with pytest.raises(DiskError) as caught:
            read_event(tmp_path / "j", seq)
        error = caught.value
        assert (error.message, error.hint, error.subject, error.kind) == (
            f"event {seq} is not in {tmp_path / 'j'}",
            "its segment was removed",
            str(tmp_path / "j"),
            "gone",
        )


def test_zeros_and_lines_without_an_end_are_kept_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_segments, "LINE_BYTES", 10)
    monkeypatch.setattr(of_segments, "_ZEROS_BYTES", 20)
    assert list(whole_lines([b"a\nbc", b"d\n", b"x" * 10])) == [b"a", b"bcd"]
    assert list(whole_lines([b"a\n", b"x" * 6, b"x" * 5, b"\nb\n"])) == [b"a", None]
    assert list(whole_lines([b"\0" * 20, b"\na\n"])) == [None, b"a"]
    assert list(whole_lines([b"\0" * 21, b"\na\n"])) == [None]
    rest = of_segments._PartialLine()
    rest.add(b"x" * 10)
    assert (rest.size, rest.is_too_long, rest.end(b"y"), rest.size, rest.is_kept) == (
        10,
        False,
        b"x" * 10 + b"y",
        0,
        True,
    )
    rest.add(b"x\0")
    rest.add(b"y" * 9)
    assert (rest.size, rest.is_kept, rest.is_too_long) == (11, False, False)
    assert (rest.end(b""), rest.end(b"z")) == (None, b"z")


def refused(call: Callable[[], object]) -> tuple[str, str, str, str | None]:
    with pytest.raises(BeamError) as caught:
        call()
    return type(caught.value).__name__, caught.value.message, caught.value.hint, caught.value.subject


def test_what_is_damaged_in_a_segment_is_named(tmp_path: Path) -> None:
    (tmp_path / "worker").mkdir()
    path = filled(tmp_path / "worker" / "j", *SAID)
    data = path.read_bytes()
    begin_ = data.index(b"\n") + 1
    damages = (
        b"",
        b"no snapshot, and no end",
        data.replace(b'"v":1', b'"v":9', 1),
        data[:begin_] + data[begin_:].replace(b'"v":1', b'"v":9', 1),
        data[:begin_] + b"#" + data[begin_ + 1 :],
        b"{}\n",
        data[:5] + b"\0" + data[6 : begin_ - 1],
    )
    said = []
    for damaged in damages:
        path.write_bytes(damaged)
        kind, message, hint, subject = refused(lambda: Segment.read(path))
        said.append(
            (kind, message.replace(str(path), "F").partition(": ")[0], hint.partition(";")[0], subject == str(path))
        )
    assert said == [
        ("CorruptError", "F has no snapshot", "move it aside", True),
        ("CorruptError", "F has no snapshot", "move it aside", True),
        ("CorruptError", "F has version 9, but this beam reads version 1", "use the beam that wrote it", True),
        ("CorruptError", "F has version 9, but this beam reads version 1", "use the beam that wrote it", True),
        ("CorruptError", f"F is damaged at byte {begin_}", "`beam log worker --verify` lists all damage", True),
        ("CorruptError", "F has a damaged snapshot", "restore the file from a backup", True),
        ("CorruptError", "F has no snapshot", "move it aside", True),
    ]
    path.write_bytes(data)
    assert isinstance(CorruptError("x"), DiskError)
    os.utime(path)


def test_lines_that_wait_for_their_notice_are_reported_when_it_comes(tmp_path: Path) -> None:
    path = filled(tmp_path / "j", *SAID[:2])
    one, two = path.read_bytes().split(b"\n")[1:3]
    lines = LineDecoder(path)
    assert [event.seq for event in lines.feed(one + b"\n", 100)] == [1]
    assert (lines.position, lines.pending) == (100 + len(one) + 1, None)
    assert list(lines.feed(b"bad~\n")) == []
    begin_ = 100 + len(one) + 1
    assert lines.pending == (begin_, begin_ + 4)
    notice = events.encode(events.Notice(text="x", code="torn", covers=(begin_, begin_ + 4)))
    assert [type(event).__name__ for event in lines.feed(notice + b"\n" + two + b"\n")] == ["Notice", "Text"]
    assert (lines.pending, lines.torn_range(lines.position), lines.torn_range(lines.position + 3)) == (
        None,
        None,
        (lines.position, lines.position + 3),
    )
    lines.check_whole()
    list(lines.feed(b"bad\n"))
    with pytest.raises(CorruptError, match=f"{path} is damaged at byte"):
        lines.check_whole()
    with pytest.raises(CorruptError):
        list(lines.feed(two + b"\n"))


def test_a_reader_tells_what_it_read_before_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "j", *SAID)
    real = files.read_pieces

    def failing(path: Path, start: int = 0) -> Iterator[bytes]:
        for piece in real(path, start):
            yield piece
            raise OSError(5, "Input/output error")

    reader = Reader(tmp_path / "j")
    monkeypatch.setattr(files, "read_pieces", failing)
    assert [event.seq for event in reader.poll()] == [1, 2, 3, 4]
    later = Reader(tmp_path / "j", 4)
    name, message, _, _ = refused(later.poll)
    assert (name, message) == ("DiskError", f"can't read {tmp_path / 'j/000000000001.jsonl'}: Input/output error")


def test_a_reader_begins_in_the_segment_that_holds_the_next_event(tmp_path: Path) -> None:
    journal = begin(tmp_path / "j")
    for number in range(3):
        journal.append(events.Text(text=str(number)))
        journal._begin_segment()
    journal.close()
    names = segments(tmp_path / "j")
    assert names == [f"00000000000{number}.jsonl" for number in (1, 2, 3, 4)]
    for seq in range(4):
        reader = Reader(tmp_path / "j", seq)
        assert reader._next_segment() == names[seq]
        assert [event.seq for event in reader.poll()] == list(range(seq + 1, 4))
        assert (reader._name, reader.poll()) == (names[-1], [])
    (tmp_path / "j" / names[0]).unlink()
    assert [event.seq for event in Reader(tmp_path / "j").poll()] == [2, 3]


def test_who_waits_for_a_message_still_finds_it_for_a_minute_whatever_the_limit(tmp_path: Path) -> None:
    clock = FakeClock()
    (tmp_path / "j").mkdir()
    journal = Journal.open(tmp_path / "j", "a", clock, Limits(known_ids_days=0))
    journal.append(events.TurnClosed(), message_id="m-1")
    clock.sleep(60)
    journal._begin_segment()
    assert list(journal.state.known) == ["m-1"]
    clock.now += 1000
    journal._begin_segment()
    assert list(journal.state.known) == []
    journal._limits = Limits(known_ids_days=2)
    journal.append(events.TurnClosed(), message_id="m-2")
    clock.sleep(2 * 24 * 3600)
    journal._begin_segment()
    assert list(journal.state.known) == ["m-2"]
    clock.now += 1000
    journal._begin_segment()
    assert list(journal.state.known) == []
    journal.close()
