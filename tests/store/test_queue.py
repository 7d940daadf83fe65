"""The queue on disk: order at publication, once per key, nothing half there."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from beam.base import files
from beam.base.errors import CorruptError, DiskError, LimitError, UsageError
from beam.model.message import Message, Payload, keyed_id, new_id, reply_id
from beam.model.settings import DEFAULT_LIMITS, Limits
from beam.store.lock import short_lock
from beam.store.queue import BOXES, Entry, Queue, entry_of
from tests.support.context import NOON_NS, FakeClock


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    for box in BOXES:
        (tmp_path / "queue" / box).mkdir(parents=True)
    return Queue(tmp_path / "queue", tmp_path / "put.lock")


def message(name: str, text: str = "hi") -> Message:
    return Message(id=f"a-{name}", timestamp="t", sender="human", to="a", payload=Payload(text=text))


def ids(queue: Queue, box: str = "new") -> list[str]:
    return [entry.id for entry in queue.entries(box)]


@pytest.mark.parametrize(
    "message_id", ["a-1", keyed_id("a" * 64, "k"), reply_id("a" * 64, "b-1", 1), new_id("a" * 64, 10**18, bytes(4))]
)
def test_the_name_of_a_messages_file_says_which_message_it_is(message_id: str) -> None:
    entry = Entry(10**18, message_id, "cur")
    assert entry_of(entry.name, "cur") == entry


def test_file_names_sort_as_their_positions_do() -> None:
    names = [Entry(position, "a-1", "new").name for position in (1, 9, 10, 10**18)]
    assert names == sorted(names)


@pytest.mark.parametrize(
    "name", ["x.json", "1-a.json", f"{1:020d}-a.json.tmp", f"{1:020d}-A.json", f"{1:020d}-../a.json", ""]
)
def test_other_names_are_no_messages(name: str) -> None:
    assert entry_of(name, "new") is None


def test_only_ascii_digits_make_a_position() -> None:
    assert entry_of(f"{'1' * 20}-a-1.json", "new") == Entry(int("1" * 20), "a-1", "new")
    assert entry_of(f"{chr(0x0661) * 20}-a-1.json", "new") is None


def test_messages_wait_in_the_order_of_arrival_though_the_clock_goes_backwards(queue: Queue) -> None:
    clock = FakeClock()
    for name in "zyxw":
        assert queue.put(message(name), clock, DEFAULT_LIMITS)
        clock.now -= 10**12
    assert ids(queue) == ["a-z", "a-y", "a-x", "a-w"]
    positions = [entry.position for entry in queue.entries("new")]
    assert positions == [NOON_NS, NOON_NS + 1, NOON_NS + 2, NOON_NS + 3]


@pytest.mark.parametrize("lost", [b"", b"\0\0\0", b"%020d" % 7])
def test_the_order_holds_though_the_last_position_was_lost_with_the_power(queue: Queue, lost: bytes) -> None:
    clock = FakeClock()
    queue.put(message("1"), clock, DEFAULT_LIMITS)
    queue.put_lock.write_bytes(lost)
    clock.now -= 10**12
    queue.put(message("0"), clock, DEFAULT_LIMITS)
    assert ids(queue) == ["a-1", "a-0"]


def test_several_are_put_in_their_order_at_once_or_none_is(queue: Queue) -> None:
    assert queue.put_all([message(name) for name in "cba"], FakeClock(), DEFAULT_LIMITS) == 3
    assert ids(queue) == ["a-c", "a-b", "a-a"]
    with pytest.raises(LimitError, match="3 messages wait for a, the limit is 4"):
        queue.put_all([message("e"), message("d")], FakeClock(), Limits(waiting=4))
    assert len(ids(queue)) == 3


@pytest.mark.slow
def test_a_thousand_are_put_in_their_order_and_nothing_stays_behind(queue: Queue) -> None:
    names = [f"{number:04d}" for number in reversed(range(1000))]
    assert queue.put_all([message(name) for name in names], FakeClock(), Limits(waiting=1000)) == 1000
    assert ids(queue) == [f"a-{name}" for name in names]
    assert ids(queue, "tmp") == []


def test_a_full_queue_refuses_and_a_reply_is_exempt(queue: Queue) -> None:
    limits = Limits(waiting=1)
    queue.put(message("1"), FakeClock(), limits)
    with pytest.raises(LimitError, match="raise `limits: waiting:`"):
        queue.put(message("2"), FakeClock(), limits)
    assert queue.put(message("3"), FakeClock(), limits, exempt=True)
    assert ids(queue, "tmp") == []


def test_a_keyed_message_is_put_once_wherever_the_first_is(queue: Queue) -> None:
    clock = FakeClock()
    assert queue.put(message("k"), clock, DEFAULT_LIMITS, known=lambda: False)
    for box in ("new", "cur", "dead"):
        entry = queue.find("a-k")
        assert entry is not None
        if entry.box != box:
            queue.move(entry, box)
        assert not queue.put(message("k"), clock, DEFAULT_LIMITS, known=lambda: False)
    queue.remove(Entry(NOON_NS, "a-k", "dead"))
    assert not queue.put(message("k"), clock, DEFAULT_LIMITS, known=lambda: True)
    assert queue.put(message("k"), clock, DEFAULT_LIMITS, known=lambda: False)


@pytest.mark.parametrize(("module", "call"), [("files", "write"), ("files", "fsync"), ("queue", "pwrite")])
def test_a_put_that_the_disk_refuses_publishes_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, module: str, call: str
) -> None:
    from beam.store import queue as queue_module

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = files if module == "files" else queue_module
    monkeypatch.setattr(target.os, call, full)
    with pytest.raises(DiskError, match="No space left"):
        queue.put(message("1"), FakeClock(), DEFAULT_LIMITS)
    monkeypatch.undo()
    assert [files.names(queue.directory / box) for box in BOXES] == [[], [], [], []]
    assert queue.put(message("1"), FakeClock(), DEFAULT_LIMITS)


def test_a_message_whose_name_could_not_be_synced_is_taken_back(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise DiskError(f"can't sync {path}")

    monkeypatch.setattr(files, "sync_directory", broken)
    with pytest.raises(DiskError, match="can't sync"):
        queue.put(message("1"), FakeClock(), DEFAULT_LIMITS)
    assert ids(queue) == []


def test_a_message_knows_how_many_wait_before_it_and_what_is_no_message_is_not_among_them(queue: Queue) -> None:
    queue.put_all([message(name) for name in "ab-c"], FakeClock(), DEFAULT_LIMITS)
    (queue.directory / "new" / ".a-b.json.swp").touch()
    entries = list(queue.each("new"))
    assert [queue.count_ahead(entry) for entry in entries] == [0, 1, 2, 3]
    assert queue.first("new") == entries[0] and queue.first("cur") is None
    assert {"a-a", "a-b", "a--", "a-c"} <= queue.ids("new")


def test_a_message_is_found_though_it_moves_while_it_is_looked_for(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.put(message("1"), FakeClock(), DEFAULT_LIMITS)
    entry = queue.move(queue.entries("new")[0], "cur")
    real = Queue.find_in

    def moving(self: Queue, box: str, message_id: str) -> Entry | None:
        found = real(self, box, message_id)
        if box == "new" and (self.directory / "cur" / entry.name).exists():
            self.move(entry, "new")  # it goes back just after `new` was listed
        return found

    monkeypatch.setattr(Queue, "find_in", moving)
    found = queue.find("a-1")
    assert found is not None
    assert found.box == "new"


def test_what_dead_writers_left_is_swept_and_nothing_else(queue: Queue) -> None:
    queue.put(message("1"), FakeClock(), DEFAULT_LIMITS)
    (queue.directory / "tmp" / "left").write_text("half")
    queue.sweep()
    assert files.names(queue.directory / "tmp") == []
    assert ids(queue) == ["a-1"]


def test_a_rewritten_message_keeps_its_place(queue: Queue) -> None:
    clock = FakeClock()
    for name in "12":
        queue.put(message(name), clock, DEFAULT_LIMITS)
    first = queue.entries("new")[0]
    queue.rewrite(first, message("1", "edited"))
    assert ids(queue) == ["a-1", "a-2"]
    assert queue.read(first).text == "edited"
    assert files.names(queue.directory / "tmp") == []


def test_other_files_are_no_entries(queue: Queue) -> None:
    for name in ("README", ".hidden.json", "12-a.json"):
        (queue.directory / "new" / name).touch()
    assert queue.entries("new") == []
    assert queue.find("a") is None


@pytest.mark.acceptance
def test_eight_processes_that_put_at_once_lose_nothing_and_share_no_position(queue: Queue) -> None:
    code = (
        "import sys; from pathlib import Path; from beam.store.queue import Queue\n"
        "from beam.base.clock import SystemClock\n"
        "from beam.model.settings import Limits; from beam.model.message import Message, Payload\n"
        "queue = Queue(Path(sys.argv[1]), Path(sys.argv[2])); clock = SystemClock(); limits = Limits(waiting=1000)\n"
        "for n in range(50):\n"
        "    id = f'a-{sys.argv[3]}x{n:02}'\n"
        "    queue.put(Message(id=id, timestamp='t', sender='x', to='a', payload=Payload(text='')), clock, limits)\n"
    )
    argv = [sys.executable, "-c", code, str(queue.directory), str(queue.put_lock)]
    writers = [subprocess.Popen([*argv, str(n)], env={**os.environ}) for n in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    entries = queue.entries("new")
    assert len({entry.position for entry in entries}) == 400
    assert {entry.id for entry in entries} == {f"a-{w}x{n:02}" for w in range(8) for n in range(50)}
    for writer in range(8):
        own = [entry.id for entry in entries if entry.id.startswith(f"a-{writer}x")]
        assert own == sorted(own)


def test_a_message_that_could_neither_be_synced_nor_taken_back_is_said_to_be_there(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def fail(path: Path) -> None:
        with files.disk_action("sync", path):
            refuse()

    monkeypatch.setattr("beam.base.files.sync_directory", fail)
    with pytest.raises(DiskError, match="can't sync") as gone:
        queue.put(message("1"), FakeClock(), DEFAULT_LIMITS)
    assert (ids(queue), "taken back" in gone.value.message) == ([], False)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(DiskError, match="a-2 could not be withdrawn: it may run") as left:
        queue.put(message("2"), FakeClock(), DEFAULT_LIMITS)
    assert ids(queue) == ["a-2"]
    assert "beam queue drop a-2" in left.value.hint


@pytest.mark.parametrize("written", [b"9" * 20, b"%020d" % (2**63 - 1), b"%020d" % 2**63])
def test_a_position_that_nothing_can_follow_is_taken_for_a_lost_one(queue: Queue, written: bytes) -> None:
    clock = FakeClock()
    queue.put(message("1"), clock, DEFAULT_LIMITS)
    queue.put_lock.write_bytes(written)
    queue.put(message("2"), clock, DEFAULT_LIMITS)
    assert ids(queue) == ["a-1", "a-2"]


@pytest.mark.parametrize("now", [-(10**18), -1, 2**63, 10**19, 10**20, 10**25])
def test_messages_are_in_order_whatever_year_the_clock_has(queue: Queue, now: int) -> None:
    clock = FakeClock(now)
    for name in "cba":
        queue.put(message(name), clock, DEFAULT_LIMITS)
    clock.now = NOON_NS
    queue.put(message("last"), clock, DEFAULT_LIMITS)
    assert ids(queue) == ["a-c", "a-b", "a-a", "a-last"]
    assert all(0 < entry.position < 2**63 for entry in queue.entries("new"))


def test_behind_the_last_position_nothing_is_put_and_the_next_step_is_reported(queue: Queue) -> None:
    queue.path(Entry(2**63 - 1, "a-end", "new")).write_bytes(b"{}")
    with pytest.raises(CorruptError, match=r"its last position.*drop"):
        queue.put(message("1"), FakeClock(), DEFAULT_LIMITS)
    assert ids(queue, "tmp") == []


@pytest.mark.slow
def test_a_message_that_no_reader_would_take_is_refused_with_what_to_do(queue: Queue) -> None:
    with pytest.raises(LimitError, match=r"the limit is .*name the file in the prompt"):
        queue.put(message("1", "x" * (17 << 20)), FakeClock(), DEFAULT_LIMITS)
    assert ids(queue) == ids(queue, "tmp") == []


def test_a_put_that_waited_while_its_agent_was_archived_is_refused_and_publishes_nothing(queue: Queue) -> None:
    refused: list[UsageError] = []

    def put() -> None:
        try:
            queue.put(message("a"), FakeClock(), DEFAULT_LIMITS)
        except UsageError as error:
            refused.append(error)

    sender = threading.Thread(target=put)
    with short_lock(queue.put_lock):
        sender.start()
        queue.directory.with_name("archived").touch()
    sender.join(20)
    assert [error.message for error in refused] == [f"{message('a').to} is archived"]
    assert all(not ids(queue, box) for box in ("new", "cur", "dead"))
    queue.directory.with_name("archived").unlink()
    assert queue.put(message("a"), FakeClock(), DEFAULT_LIMITS)
