"""The journal on disk: nothing that was said is lost, torn lines are repaired, readers never see a gap or a repeat."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from beam.base import files
from beam.base.errors import CorruptError, DiskError, RefusedFileError
from beam.model import events
from beam.model.events import AnyEvent
from beam.model.outcome import Status
from beam.model.settings import DEFAULT_LIMITS, Limits
from beam.model.state import State
from beam.store import journal as module
from beam.store import segment as of_segments
from beam.store.journal import Journal, Reader, read_event, read_state, segments
from tests.support.context import SMALL, FakeClock
from tests.support.folded import fold


def begin(directory: Path, limits: Limits = DEFAULT_LIMITS, clock: FakeClock | None = None) -> Journal:
    directory.mkdir(exist_ok=True)
    return Journal.open(directory, "a", clock or FakeClock(), limits)


def filled(directory: Path, *texts: str) -> Path:
    """A journal that says these texts, closed; its only segment."""
    journal = begin(directory)
    for text in texts:
        journal.append(events.Text(text=text), sync=True)
    journal.close()
    return directory / segments(directory)[-1]


def read_all(directory: Path, after: int = 0) -> list[AnyEvent]:
    return Reader(directory, after).poll()


def texts(found: list[AnyEvent]) -> list[str]:
    return [event.text for event in found if isinstance(event, events.Text)]


def seqs(found: list[AnyEvent]) -> list[int]:
    return [event.seq for event in found]


class Failing:
    """A system call that fails where the plan says so, once a call."""

    def __init__(self, real: Callable[..., int], plan: list[int | None]) -> None:
        self.real, self.plan = real, plan

    def __call__(self, handle: int, *data: bytes) -> int:
        step = self.plan.pop(0) if self.plan else None
        if step is None:
            return self.real(handle, *data)
        if step > 0 and data:
            return self.real(handle, bytes(data[0])[:step])
        raise OSError(errno.ENOSPC, "No space left on device")


def test_events_are_numbered_and_stamped_and_read_back(tmp_path: Path) -> None:
    clock = FakeClock()
    journal = begin(tmp_path / "j", clock=clock)
    first = journal.append(events.Text(text="one"), turn=3, message_id="a-1")
    clock.now -= 10**15
    second = journal.append(events.Text(text="two"), sync=True)
    assert (first.seq, second.seq, first.turn, first.message_id, first.agent) == (1, 2, 3, "a-1", "a")
    assert second.ts == first.ts
    assert read_all(tmp_path / "j") == [first, second]
    assert read_state(tmp_path / "j").seq == 2


def test_secrets_are_blanked_on_their_way_in(tmp_path: Path) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="the key is sk-ant-api03-" + "a1B2" * 24))
    assert journal.redacted == 1
    assert b"sk-ant" not in (tmp_path / "j" / segments(tmp_path / "j")[0]).read_bytes()


def test_where_there_is_no_journal_the_state_is_empty(tmp_path: Path) -> None:
    assert read_state(tmp_path / "none") == State()
    assert read_all(tmp_path / "none") == []


@pytest.mark.slow
def test_a_line_torn_at_any_byte_is_repaired_and_readers_skip_it(tmp_path: Path) -> None:
    whole_segment = filled(tmp_path / "whole", "one", "last")
    data = whole_segment.read_bytes()
    last = len(data.splitlines(keepends=True)[-1])
    for kept in range(1, last):
        directory = tmp_path / str(kept)
        directory.mkdir()
        (directory / whole_segment.name).write_bytes(data[: len(data) - last + kept])
        waiting = Reader(directory)
        before = texts(waiting.poll())
        whole = kept == last - 1  # it lacks its newline only: nothing of it is lost
        assert before == ["one"]
        journal = begin(directory)
        journal.append(events.Text(text="next"))
        journal.close()
        said = read_all(directory)
        assert texts(said) == (["one", "last", "next"] if whole else ["one", "next"])
        assert seqs(said) == [1, 2, 3]
        assert texts(waiting.poll()) == texts(said)[1:]
        assert read_state(directory).seq == 3


def test_a_crash_between_the_two_steps_of_a_repair_is_repaired(tmp_path: Path) -> None:
    segment = filled(tmp_path / "j", "one")
    with segment.open("ab") as file:
        file.write(b'{"type":"te\n{"type":"notice","co')
    journal = begin(tmp_path / "j")
    journal.close()
    again = begin(tmp_path / "j")
    again.append(events.Text(text="two"), sync=True)
    assert texts(read_all(tmp_path / "j")) == ["one", "two"]
    notices = [event for event in read_all(tmp_path / "j") if isinstance(event, events.Notice)]
    assert len(notices) == 1
    begun, end = notices[0].covers or (0, 0)
    assert segment.read_bytes()[begun:end] == b'{"type":"te\n{"type":"notice","co~'


def test_damage_in_the_middle_is_an_error_that_names_the_file_and_the_byte(tmp_path: Path) -> None:
    segment = filled(tmp_path / "j", "one", "two", "three")
    data = segment.read_bytes()
    at = data.index(b'{"type":"text","v":1,"seq":2')
    segment.write_bytes(data[:at] + b"#" + data[at + 1 :])
    for read in (lambda: begin(tmp_path / "j"), lambda: read_state(tmp_path / "j"), lambda: read_all(tmp_path / "j")):
        with pytest.raises(CorruptError, match=f"{segment.name} is damaged at byte {at}:") as caught:
            read()
        assert caught.value.subject == str(segment)


def test_a_damaged_snapshot_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    segment = filled(tmp_path / "j", "one")
    segment.write_bytes(b"#" + segment.read_bytes()[1:])
    with pytest.raises(CorruptError, match=segment.name):
        read_state(tmp_path / "j")
    segment.write_bytes(b"")
    with pytest.raises(CorruptError, match="has no snapshot"):
        begin(tmp_path / "j")


@pytest.mark.parametrize("fits", [0, 1, 40])
def test_after_a_full_disk_the_next_append_goes_on_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: int
) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="one"))
    monkeypatch.setattr("beam.base.files.os.write", Failing(os.write, [*([fits] if fits else []), 0]))
    with pytest.raises(DiskError, match="No space left") as caught:
        journal.append(events.Text(text="lost"))
    monkeypatch.undo()
    assert "nothing that was sent before is lost" in caught.value.hint
    assert journal.state.seq == 1
    journal.append(events.Text(text="two"), sync=True)
    said = read_all(tmp_path / "j")
    assert texts(said) == ["one", "two"]
    assert seqs(said) == list(range(1, len(said) + 1))


def test_a_disk_that_stays_full_during_the_repair_is_gone_on_with_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="one"))
    monkeypatch.setattr("beam.base.files.os.write", Failing(os.write, [5, 0, 1, 0, None, 7, 0, 0]))
    for _ in range(4):
        with pytest.raises(DiskError):
            journal.append(events.Text(text="lost"))
    monkeypatch.undo()
    journal.append(events.Text(text="two"), sync=True)
    journal.close()
    begin(tmp_path / "j").close()
    said = read_all(tmp_path / "j")
    assert texts(said) == ["one", "two"]
    assert seqs(said) == list(range(1, len(said) + 1))


def test_a_last_event_without_its_newline_counts_in_the_state_of_the_next_holder(tmp_path: Path) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="one"), sync=True)
    journal.append(events.SessionStarted(session_id="s"), turn=1, sync=True)
    journal.close()
    segment = tmp_path / "j" / segments(tmp_path / "j")[-1]
    segment.write_bytes(segment.read_bytes()[:-1])
    again = begin(tmp_path / "j")
    assert again.state.session is not None and again.state.session.session_id == "s"
    again.append(events.Text(text="two"), sync=True)
    again.close()
    assert seqs(read_all(tmp_path / "j")) == [1, 2, 3]


def test_an_event_that_lacks_only_its_newline_and_failed_is_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path / "j")
    length = len(
        events.encode(
            structs.replace(
                events.Text(text="lost"), seq=1, ts=journal._stamp_time(), agent="a", turn=None, message_id=None
            )
        )
    )
    monkeypatch.setattr("beam.base.files.os.write", Failing(os.write, [length, 0]))
    with pytest.raises(DiskError):
        journal.append(events.Text(text="lost"))
    monkeypatch.undo()
    journal.append(events.Text(text="one"), sync=True)
    said = read_all(tmp_path / "j")
    assert texts(said) == ["one"]
    assert seqs(said) == [1, 2]


@pytest.mark.slow
def test_a_real_file_size_limit_is_a_disk_error_and_readers_are_not_disturbed(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; from beam.model import events\n"
        "from beam.base.errors import DiskError, RefusedFileError; from beam.store.journal import Journal\n"
        "from beam.base.clock import SystemClock; from beam.model.settings import DEFAULT_LIMITS\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "journal = Journal.open(Path(sys.argv[1]), 'a', SystemClock(), DEFAULT_LIMITS)\n"
        "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard)); said = 0\n"
        "try:\n"
        "    while True: journal.append(events.Text(text='x' * 50)); said += 1\n"
        "except DiskError: pass\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))\n"
        "journal.append(events.Text(text='last'), sync=True); print(said)\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    (tmp_path / "j").mkdir()
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "j")], capture_output=True, check=True)
    said = read_all(tmp_path / "j")
    assert len(texts(said)) == int(done.stdout) + 1
    assert texts(said)[-1] == "last"
    assert seqs(said) == list(range(1, len(said) + 1))


def test_after_a_failed_sync_the_event_stands_and_is_synced_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path / "j")
    journal.append(events.Text(text="one"), sync=True)
    monkeypatch.setattr(module.os, "fsync", Failing(os.fsync, [0, 0, None, None]))
    with pytest.raises(DiskError, match="can't sync"):
        journal.append(events.Text(text="two"), sync=True)
    with pytest.raises(DiskError, match="can't sync"):
        journal.append(events.Text(text="never"), sync=True)
    journal.append(events.Text(text="three"), sync=True)
    assert module.os.fsync.plan == []  # type: ignore[attr-defined]
    said = read_all(tmp_path / "j")
    assert texts(said) == ["one", "two", "three"]
    assert seqs(said) == [1, 2, 3]
    assert journal.state.seq == 3


def test_what_waited_for_no_disk_is_synced_with_the_next_that_does_and_written_again_if_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path / "j")
    synced = journal._synced
    with files.without_sync():
        journal.append(events.Text(text="one"), sync=True)
    assert journal._synced == synced
    monkeypatch.setattr(module.os, "fsync", Failing(os.fsync, [0, None, None]))
    with pytest.raises(DiskError, match="can't sync"):
        journal.append(events.Text(text="two"), sync=True)
    again: list[int] = []
    with monkeypatch.context() as patched:
        pieces = files.read_pieces
        patched.setattr(files, "read_pieces", lambda path, start: again.append(start) or pieces(path, start))
        journal.append(events.Text(text="three"), sync=True)
    assert again == [synced]
    assert texts(read_all(tmp_path / "j")) == ["one", "two", "three"]


def test_what_is_written_again_after_a_failed_sync_goes_through_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path / "j")
    monkeypatch.setattr(module.os, "fsync", Failing(os.fsync, [0, 0, None, None]))
    with pytest.raises(DiskError, match="can't sync"):
        journal.append(events.Text(text="one"), sync=True)
    segment = tmp_path / "j" / segments(tmp_path / "j")[-1]
    segment.rename(tmp_path / "elsewhere")
    segment.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedFileError, match="is a symbolic link"):
        journal.append(events.Text(text="two"), sync=True)


def test_a_message_that_ended_a_moment_ago_is_known_in_the_next_segment_too(tmp_path: Path) -> None:
    clock = FakeClock()
    journal = begin(tmp_path / "j", Limits(segment_bytes=1, known_ids_days=0), clock)
    journal.append(events.TurnFinished(attempt=1, status=Status.COMPLETED), message_id="a-1")
    journal.append(events.TurnClosed(attempt=1), message_id="a-1")
    journal.rotate_if_due()
    assert len(segments(tmp_path / "j")) == 2
    assert list(journal.state.known) == ["a-1"], "who waits for it looks many times a second"
    clock.sleep(61)
    journal.append(events.Text(text="x" * 1000))
    journal.rotate_if_due()
    assert journal.state.known == {}


def rotated(directory: Path, count: int, text: str = "") -> Journal:
    journal = begin(directory, SMALL)
    for number in range(count):
        journal.append(events.Text(text=f"{text}{number:04}" * 60))
        journal.rotate_if_due()
    return journal


def test_segments_begin_with_the_state_and_name_the_one_before(tmp_path: Path) -> None:
    rotated(tmp_path / "j", 12).close()
    names = segments(tmp_path / "j")
    assert len(names) > 2
    for before, name in zip([None, *names], names, strict=False):
        first = msgspec.json.decode((tmp_path / "j" / name).read_bytes().splitlines()[0])
        assert (first["type"], first["previous"], first["last_seq"]) == ("snapshot", before, int(name[:-6]) - 1)


def test_a_state_is_read_from_the_newest_segment_alone(tmp_path: Path) -> None:
    journal = rotated(tmp_path / "j", 12)
    for name in segments(tmp_path / "j")[:-1]:
        (tmp_path / "j" / name).write_bytes(b"rubbish\n")
    assert read_state(tmp_path / "j") == journal.state
    journal.close()
    again = begin(tmp_path / "j", SMALL)
    assert again.append(events.Text(text="more")).seq == 13


def test_any_event_is_found_by_its_number(tmp_path: Path) -> None:
    rotated(tmp_path / "j", 12)
    assert seqs([read_event(tmp_path / "j", seq) for seq in range(1, 13)]) == list(range(1, 13))
    with pytest.raises(DiskError, match="event 13 is not in"):
        read_event(tmp_path / "j", 13)


@pytest.mark.parametrize("after", range(13))
def test_a_reader_from_any_number_goes_through_the_segments_without_gap_or_repeat(tmp_path: Path, after: int) -> None:
    rotated(tmp_path / "j", 12)
    assert seqs(read_all(tmp_path / "j", after)) == list(range(after + 1, 13))


@pytest.mark.slow
@given(st.lists(st.sampled_from(["append", "poll", "rotate", "reopen", "tear"]), max_size=30), st.integers(0, 5))
@settings(max_examples=60)
def test_a_reader_that_follows_sees_each_event_once_whatever_the_writer_does(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], after: int
) -> None:
    directory = tmp_path_factory.mktemp("follow") / "j"
    reader, seen = Reader(directory, after), []
    journal = begin(directory, SMALL)
    for step in steps:
        if step == "append":
            journal.append(events.Text(text="x" * 100))
        elif step == "poll":
            seen += seqs(reader.poll())
        elif step == "rotate":
            journal.rotate_if_due()
        else:
            journal.close()
            if step == "tear":
                with (directory / segments(directory)[-1]).open("ab") as file:
                    file.write(b'{"type":"tex')
            journal = begin(directory, SMALL)
    seen += seqs(reader.poll())
    assert seen == list(range(after + 1, journal.state.seq + 1))
    assert fold(State(agent="a"), read_all(directory)) == journal.state


def test_a_reader_of_a_journal_that_does_not_exist_yet_sees_all_of_it_later(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "j")
    assert reader.poll() == []
    rotated(tmp_path / "j", 12)
    assert seqs(reader.poll()) == list(range(1, 13))


@pytest.mark.parametrize(("before", "later"), [(3, 1), (3, 8), (3, 40), (12, 3), (12, 13)])
def test_a_reader_starts_over_with_another_journal_in_the_same_place(tmp_path: Path, before: int, later: int) -> None:
    rotated(tmp_path / "j", before)
    reader = Reader(tmp_path / "j")
    assert seqs(reader.poll()) == list(range(1, before + 1))
    (tmp_path / "j").rename(tmp_path / "away")
    assert reader.poll() == []
    rotated(tmp_path / "j", later, "new")
    assert seqs(reader.poll()) == list(range(1, later + 1))


def test_half_a_line_is_not_read_until_it_is_whole(tmp_path: Path) -> None:
    segment = filled(tmp_path / "j", "one")
    reader = Reader(tmp_path / "j")
    line = events.encode(events.Text(seq=2, text="two")) + b"\n"
    reader.poll()
    for byte in line[:-1]:
        with segment.open("ab") as file:
            file.write(bytes([byte]))
        assert reader.poll() == []
    with segment.open("ab") as file:
        file.write(b"\n")
    assert texts(reader.poll()) == ["two"]


def test_events_and_fields_of_later_versions_are_passed_on(tmp_path: Path) -> None:
    segment = filled(tmp_path / "j", "one")
    with segment.open("ab") as file:
        file.write(b'{"type":"tea.made","seq":2,"ts":"9","sugar":1}\n{"type":"text","seq":3,"text":"x","new":1}\n')
    said = read_all(tmp_path / "j")
    assert seqs(said) == [1, 2, 3]
    assert isinstance(said[1], events.Unknown)
    journal = begin(tmp_path / "j")
    assert journal.state.seq == 3
    assert b'"sugar":1' in segment.read_bytes()


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "sync"])
def test_a_segment_that_can_not_be_begun_disturbs_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    journal = begin(tmp_path / "j", SMALL)
    reader = Reader(tmp_path / "j")
    journal.append(events.Text(text="x" * 1000), sync=True)
    before = segments(tmp_path / "j")

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "rename":
        monkeypatch.setattr(Path, "rename", refuse)
    elif call == "sync":
        monkeypatch.setattr("beam.base.files.sync_directory", lambda path: refuse_disk(path))
    else:
        monkeypatch.setattr(f"beam.base.files.os.{call}", refuse)
    journal.rotate_if_due()
    monkeypatch.undo()
    assert (segments(tmp_path / "j") == before) is (call != "sync")
    journal.append(events.Text(text="next"), sync=True)
    journal.rotate_if_due()
    journal.append(events.Text(text="last"), sync=True)
    assert seqs(reader.poll()) == [1, 2, 3]
    assert read_state(tmp_path / "j") == journal.state


def refuse_disk(path: Path) -> None:
    raise DiskError(f"can't sync {path}")


def test_what_a_crash_left_of_a_segment_is_swept(tmp_path: Path) -> None:
    filled(tmp_path / "j", "one")
    (tmp_path / "j" / ".000000000002.jsonl.tmp").write_text("half")
    begin(tmp_path / "j").close()
    assert [path.name for path in (tmp_path / "j").iterdir()] == ["000000000001.jsonl"]


def test_a_journal_that_is_removed_while_it_is_read_is_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "j", "one")
    monkeypatch.setattr(of_segments, "segments", lambda directory: ["000000000009.jsonl"])
    assert read_state(tmp_path / "j") == State()


def test_an_event_that_no_reader_would_take_is_refused_and_the_journal_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begin(tmp_path / "j")
    monkeypatch.setattr(module, "LINE_BYTES", 1000)
    with pytest.raises(DiskError, match=r"too long for a line .*line_bytes"):
        journal.append(events.Text(text="x" * 1000))
    journal.append(events.Text(text="short"))
    assert texts(read_all(tmp_path / "j")) == ["short"]


def test_the_largest_number_in_a_journal_is_damage_and_no_bug(tmp_path: Path) -> None:
    segment = filled(tmp_path / "j", "one")
    segment.write_bytes(segment.read_bytes().replace(b'"seq":1,', b'"seq":%s,' % (b"9" * 4300)))
    with pytest.raises(CorruptError, match="too large to count on"):
        begin(tmp_path / "j").append(events.Text(text="two"))


@pytest.mark.parametrize("line", [b'{"type":' * 100_000, b"[" * 100_000, b'{"type":"text","seq":' + b"9" * 5000])
def test_monstrous_json_in_a_journal_is_damage(tmp_path: Path, line: bytes) -> None:
    segment = filled(tmp_path / "j", "one")
    segment.write_bytes(
        segment.read_bytes() + line + b'\n{"type":"text","v":1,"seq":2,"ts":"","agent":"a","text":""}\n'
    )
    with pytest.raises(CorruptError, match="is damaged"):
        read_state(tmp_path / "j")


def test_a_text_that_no_json_can_hold_is_escaped(tmp_path: Path) -> None:
    journal = begin(tmp_path / "j")
    written = journal.append(events.Text(text="/tmp/\udcff"))
    assert written.text == "/tmp/\\udcff"
    assert texts(read_all(tmp_path / "j")) == ["/tmp/\\udcff"]
