"""What the store writes, reads and refuses: outboxes, asks, requests to a holder, lanes, threads."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beam.base import files
from beam.base.directory_tree import remove_tree
from beam.base.errors import BeamError, RefusedFileError, UsageError
from beam.model import events
from beam.root import discovery
from beam.store import control, lanes, outbox, queue
from beam.store.outbox import (
    Answer,
    OpenTurn,
    OutboxFolder,
    Refusal,
    Request,
    abandoned_outboxes,
    publish,
    read_answer,
    take_back,
)
from beam.store.reserve import BYTES, Reserve
from beam.store.thread import ThreadUsage, file_name
from tests.support.context import NOON_NS, Root


def opened() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


@pytest.fixture
def box(tmp_path: Path) -> Iterator[OutboxFolder]:
    """An outbox; after the test no more descriptors are open than before."""
    before = opened()
    folder = OutboxFolder.make(tmp_path / "turn" / "outbox")
    yield folder
    folder.close()
    folder.close()
    assert opened() == before


def names(folder: OutboxFolder) -> list[str]:
    return sorted(path.name for path in folder.path.iterdir())


def refused(call: Any) -> tuple[str, str, str, str | None]:
    """The mistake, what is said of it, the hint, and the subject."""
    with pytest.raises(BeamError) as caught:
        call()
    return type(caught.value).__name__, caught.value.message, caught.value.hint, caught.value.subject


def test_a_request_is_written_whole_read_and_removed(box: OutboxFolder) -> None:
    request = Request(verb="reply", to="a", text="hi", wait=True, target="m", attach=("x",), key="k", deadline=1.5)
    publish(box.path, "r-1", request)
    assert (names(box), (box.path / "r-1.json").read_bytes()) == (["r-1.json"], msgspec.json.encode(request) + b"\n")
    assert stat.S_IMODE(box.path.stat().st_mode) == 0o700
    assert (box.names(), box.read("r-1", 10_000)) == (["r-1"], request)
    assert (box.remove("r-1"), box.remove("r-1"), names(box)) == (True, True, [])
    publish(box.path, "r-2", request)
    assert (take_back(box.path, "r-2"), take_back(box.path, "r-2"), names(box)) == (True, False, [])


@pytest.mark.slow
def test_requests_are_named_sorted_without_the_turns_own_and_no_more_than_a_thousand(box: OutboxFolder) -> None:
    for name in ("b.json", "a.json", "turn.json", "c.answer", "d", "e.json.tmp"):
        (box.path / name).touch()
    assert (box.names(), box.names({"a"})) == (["a", "b"], ["b"])
    for number in range(1000):
        (box.path / f"n{number}.json").touch()
    assert len(box.names()) == 1000
    remove_tree(box.path)
    assert box.names() == []


def test_a_request_that_is_none_may_still_be_written_for_a_second(box: OutboxFolder) -> None:
    path = box.path / "r.json"
    for data in (b"", b"{", b'{"verb": "steal"}', b"\xff", b"[" * 5000):
        path.write_bytes(data)
        assert box.read("r", 10_000) is None
        os.utime(path, (1, 1))
        kind, message, hint, subject = refused(lambda: box.read("r", 10_000))
        assert (kind, message.partition(": ")[0], hint, subject) == (
            "RefusedFileError",
            "r.json is no request",
            "",
            "r",
        )
        os.utime(path, (1 << 34, 1 << 34))
        with pytest.raises(RefusedFileError):
            box.read("r", 10_000)


@pytest.mark.parametrize("name", ["../x", "", "A b", "x" * 300])
def test_a_name_that_is_no_requests_is_refused(box: OutboxFolder, name: str) -> None:
    hint = "use a-z, 0-9, _ and -"
    said = ("RefusedFileError", f"{name[:80]!r} is no name of a request", hint, name[:80])
    assert refused(lambda: box.read(name, 10_000)) == said


def test_what_is_no_plain_file_is_no_request(box: OutboxFolder) -> None:
    publish(box.path, "r", Request(text="x" * 100))
    assert refused(lambda: box.read("r", 50))[0] == "RefusedFileError"
    (box.path / "link.json").symlink_to("r.json")
    (box.path / "folder.json").mkdir()
    os.link(box.path / "r.json", box.path / "second.json")
    for name in ("link", "folder", "second", "r"):
        assert refused(lambda name=name: box.read(name, 10_000))[0] == "RefusedFileError"
    assert (box.remove("folder"), box.remove("link")) == (False, True)


def test_an_answer_is_published_whole_over_the_one_before(box: OutboxFolder) -> None:
    refusal = outbox.refusal_of(UsageError("no such agent", "beam agent list", subject="x"))
    assert refusal == Refusal(message="no such agent", hint="beam agent list", subject="x", kind="usage", exit_code=2)
    for answer in (Answer(accepted="m", said="ok"), Answer(refused=refusal)):
        (box.path / ".r.answer.holder").write_text("left by a dead holder")
        box.answer("r", answer)
        assert (names(box), read_answer(box.path, "r")) == (["r.answer"], answer)
        assert (box.path / "r.answer").read_bytes() == msgspec.json.encode(answer) + b"\n"
    box.answer("s", Answer(said="name \udcff"))
    assert read_answer(box.path, "s") == Answer(said="name \\udcff")
    (box.path / "t.answer").mkdir()
    box.answer("t", Answer(said="lost"))
    assert list((box.path / "t.answer").iterdir()) == []


def test_a_turn_is_open_as_long_as_its_file_is_there(box: OutboxFolder) -> None:
    assert not outbox.is_open(box.path)
    box.open_turn(OpenTurn(agent="a", message_id="m"))
    assert (outbox.is_open(box.path), box.names()) == (True, [])
    assert (box.path / "turn.json").read_bytes() == b'{"v":1,"agent":"a","message_id":"m"}\n'
    box.close_turn()
    box.close_turn()
    assert not outbox.is_open(box.path)


def test_a_folder_is_gone_when_it_is_removed_or_closed(box: OutboxFolder) -> None:
    assert not box.is_gone
    away = box.path.rename(box.path.with_name("away"))
    assert not box.is_gone
    away.rmdir()
    assert box.is_gone
    box.close()
    assert box.is_gone


def test_outboxes_that_a_dead_holder_left_are_opened_but_no_links(tmp_path: Path) -> None:
    for key in ("one", "two", "three"):
        (tmp_path / key).mkdir()
    (tmp_path / "one/outbox").mkdir()
    (tmp_path / "two/outbox").symlink_to(tmp_path / "one/outbox")
    found = [(key, folder.path) for key, folder in abandoned_outboxes(tmp_path) if not folder.close()]  # type: ignore[func-returns-value]
    assert found == [("one", tmp_path / "one/outbox")]
    assert refused(lambda: OutboxFolder(tmp_path / "none"))[:2] == (
        "DiskError",
        f"can't open {tmp_path / 'none'}: No such file or directory",
    )


# -- asks, requests, lanes: each durable step and what is on disk after it ---------------------------------------------

ASKED = events.PermissionAsked(seq=7, agent="a", ask_id="a-1", tool="Bash")


def steps(monkeypatch: pytest.MonkeyPatch, module: Any) -> list[str]:
    """The crash points that are passed from now on."""
    passed: list[str] = []
    monkeypatch.setattr(module, "crash_point", passed.append)
    return passed


def test_an_asks_file_is_written_and_removed_between_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(control, "crash_point", lambda name: seen.append((name, files.names(tmp_path))))
    control.update_ask_files(tmp_path, ASKED)
    control.update_ask_files(tmp_path, events.PermissionDecided(ask_id="a-1", decision="cancelled"))
    assert seen == [
        ("ask.recorded", []),
        ("ask.shown", ["a-1.json"]),
        ("decision.recorded", ["a-1.json"]),
        ("decision.shown", []),
    ]


def test_asks_that_have_a_file_keep_it(tmp_path: Path) -> None:
    (tmp_path / "a-1.json").write_text("as it was")
    second = msgspec.structs.replace(ASKED, ask_id="a-2")
    control.rebuild_ask_files(tmp_path, {"a-1": ASKED, "a-2": second})
    assert (tmp_path / "a-1.json").read_text() == "as it was"
    assert (tmp_path / "a-2.json").read_bytes() == msgspec.json.encode(second) + b"\n"


def test_a_control_request_is_published_whole_and_one_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = steps(monkeypatch, control)
    for name in ("new", "tmp"):
        (tmp_path / name).mkdir()
    request = control.ControlRequest(
        id="c-1", verb="interrupt", timestamp="t", expires="2026-01-01T00:00:00Z", target="m"
    )
    data = msgspec.json.encode(request) + b"\n"
    monkeypatch.setattr(control, "_MAX_BYTES", len(data))
    control.publish(tmp_path, request)
    assert (passed, (tmp_path / "new/c-1.json").read_bytes()) == (["control.published"], data)
    assert (control.waiting_names(tmp_path), control.read(tmp_path, "c-1.json")) == (["c-1.json"], request)
    longer = msgspec.structs.replace(request, id="c-12")
    said = f"the request to interrupt is {len(data) + 1} bytes, the limit is {len(data)}"
    hint = "write the text to a file and name the file in the request"
    assert refused(lambda: control.publish(tmp_path, longer))[:3] == ("LimitError", said, hint)
    for name, at in (("old", 5), ("new", 6)):
        (tmp_path / "tmp" / name).touch()
        os.utime(tmp_path / "tmp" / name, ns=(at, at))
    control.sweep(tmp_path, 6)
    assert files.names(tmp_path / "tmp") == ["new"]


def test_a_lane_is_entered_durably_and_as_never_tried(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.root import directories

    lane = root.context.agent_paths("worker", "mine")
    directories.create(root.context.home, lane)
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    before = opened()
    lanes.add_to_index(lane)
    path = lanes.index_folder(lane) / "mine"
    assert (path.stat().st_mtime_ns, stat.S_IMODE(path.parent.stat().st_mode)) == (0, 0o700)
    assert synced == [path.parent.parent, path.parent]
    lanes.add_to_index(lane)
    assert synced == [path.parent.parent, path.parent]
    assert opened() == before
    assert lanes.claim_retry(lane, NOON_NS, after_s=5)
    assert path.stat().st_mtime_ns == NOON_NS
    path.unlink()
    (path.parent / "target").touch()
    path.symlink_to("target")
    lanes.claim_retry(lane, NOON_NS + 1, after_s=0)
    assert (path.parent / "target").stat().st_mtime_ns != NOON_NS + 1
    path.unlink()
    assert lanes.claim_retry(lane, NOON_NS, after_s=5)
    remove_tree(lane.dir)
    assert not lanes.claim_retry(lane, NOON_NS, after_s=5)


def test_an_index_of_lanes_that_can_not_be_made_is_an_error(root: Root) -> None:
    lane = root.context.agent_paths("worker", "l1")
    where = lanes.index_folder(lane)
    discovery.create(root.context.home, lane)
    where.touch()
    assert refused(lambda: lanes.add_to_index(lane))[:2] == ("DiskError", f"can't write {where}/l1: Not a directory")


# -- a thread's count, a reserve, a queue's limits ---------------------------------------------------------------------


def test_a_thread_counts_each_turn_and_each_cost_once(tmp_path: Path) -> None:
    thread = ThreadUsage(tmp_path / "threads", "t-1")
    assert (thread.path, thread.spent().turns, thread.spent().cost_usd) == (tmp_path / "threads/t-1", 1, 0.0)
    assert [thread.begin("m-1", 1), thread.begin("m-1", 2), thread.begin("m-1", 1)] == [2, 3, 2]
    thread.record_cost("m-1", 1, 0.25)
    thread.record_cost("m-1", 1, 0.25)
    thread.record_cost("m-1", 2, 0.5)
    assert (thread.spent().turns, thread.spent().cost_usd) == (3, 0.75)
    assert thread.path.read_bytes().splitlines()[:2] == [b"turn m-1 1", b"turn m-1 2"]
    assert thread.path.read_bytes().splitlines()[-1] == b"cost m-1 2 0.500000000"
    with thread.path.open("ab") as file:
        file.write(b"\0\0turn m-2 1\nturn m-3 1x\ncost m-2 1 1.5\nnonsense\n")
    assert (thread.spent().turns, thread.spent().cost_usd) == (4, 2.25)


def test_a_thread_whose_id_is_no_file_name_has_one_of_its_own() -> None:
    assert (file_name("a-1"), file_name("../x"), file_name("\udcff")) == (
        "a-1",
        "x-d6b96a97d147daaae49eb87a5ca7bfbc",
        "x-8a8de823d5ed3e12746a62ef169bcf37",
    )


def test_a_reserve_of_the_right_size_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, made = Reserve(tmp_path / "reserve"), list[Path]()
    with (tmp_path / "reserve").open("wb") as file:
        file.truncate(BYTES)
    monkeypatch.setattr(files, "allocate", lambda path, _: made.append(path))
    kept.make()
    assert made == []
    with (tmp_path / "reserve").open("wb") as file:
        file.truncate(BYTES - 1)
    kept.make()
    assert len(made) == 1


def test_a_message_that_is_too_large_or_one_too_many_is_refused(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.model.message import encode

    message = root.message("worker", "x" * 100)
    size = len(encode(message))
    monkeypatch.setattr(queue, "MESSAGE_BYTES", size)
    assert queue._encode(message) == encode(message)
    monkeypatch.setattr(queue, "MESSAGE_BYTES", size - 1)
    said = f"the message to worker is {size} bytes as a file, the limit is {size - 1}"
    hint = "write the text to a file and name the file in the prompt"
    assert refused(lambda: queue._encode(message)) == ("LimitError", said, hint, "worker")


def test_a_message_is_put_durably_step_by_step(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    box = root.place("worker").queue
    seen: list[tuple[str, list[int]]] = []

    def passed(name: str) -> None:
        seen.append((name, [len(files.names(box / folder)) for folder in ("tmp", "new")]))

    monkeypatch.setattr(queue, "crash_point", passed)
    root.put("worker")
    assert seen == [("put.written", [1, 0]), ("put.renamed", [0, 1]), ("put.published", [0, 1])]


@pytest.mark.slow
def test_a_queue_that_is_full_or_archived_or_has_no_position_left_takes_no_message(root: Root) -> None:
    limits = root.context.config.limits
    few = msgspec.structs.replace(limits, waiting=2)
    box = root.queue("worker")
    assert box.put_all([root.message("worker") for _ in range(2)], root.clock, few) == 2
    hint = "wait for some to finish, drop some (`beam queue list`), or raise `limits: waiting:` in beam.yaml"
    said = ("LimitError", "2 messages wait for worker, the limit is 2", hint, "worker")
    assert refused(lambda: box.put(root.message("worker"), root.clock, few)) == said
    assert box.put(root.message("worker"), root.clock, few, exempt=True)
    assert [entry.position - NOON_NS for entry in box.entries("new")] == [0, 1, 2]
    assert box.count_ahead(box.entries("new")[2]) == 2
    assert refused(lambda: (_ for _ in ()).throw(queue.archived_error("worker"))) == (
        "UsageError",
        "worker is archived",
        "bring it back: beam agent archive --restore worker",
        "worker",
    )
    last = root.message("worker")
    name = queue.Entry(queue.LAST_POSITION - 1, last.id, "new").name
    (box.directory / "new" / name).write_bytes(b"{}")
    assert refused(lambda: box.put_all([root.message("worker") for _ in range(2)], root.clock, limits)) == (
        "CorruptError",
        "the queue of worker has used up its last position: nothing can come after it",
        "`beam queue list worker` shows what waits; drop the last",
        "worker",
    )


def test_a_message_is_found_in_whichever_box_it_is(root: Root) -> None:
    message, box = root.put("worker"), root.queue("worker")
    (entry,) = box.entries("new")
    for place in ("cur", "dead", "new"):
        entry = box.move(entry, place)
        assert box.find(message.id) == box.find(message.id, entry.position) == box.find(message.id, 5) == entry
        assert box.find_by_name(message.id, entry.position) == entry
        assert (box.find_by_name(message.id, 5), box.find("other"), box.find_in(place, "other")) == (None, None, None)
        assert box.ids(place) == {message.id}
    box.remove(entry)
    assert box.find(message.id, entry.position) is None
