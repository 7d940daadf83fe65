"""What `doctor --gc` removes, and what it never does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam.api import gc
from beam.api.gc import CollectResult, collect
from beam.base import files
from beam.base.directory_tree import remove_tree
from beam.broker.asking import mailbox
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import closing
from beam.model import events
from beam.root import directories
from beam.root.paths import AgentPaths
from beam.store import control, lanes
from beam.store.journal import Reader, read_event, read_state, segments
from beam.store.queue import Queue
from tests.support.context import NOON_NS, SECOND_NS, Root

DAY_S = 86400


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path, limits="{segment_bytes: 1}")


def aged(root: Root, days: float = 40, below: Path | None = None) -> None:
    """Set the time of everything below the folder to that long before now."""
    then = NOON_NS / 1e9 - days * DAY_S
    home = root.context.home
    for top in (below,) if below is not None else (home.root, home.turns):
        for path in top.rglob("*"):
            os.utime(path, (then, then))


def answered(root: Root, agent: str = "box", *, failed: bool = False) -> str:
    message = root.put(agent)
    assert mailbox.recv(root.context, root.place(agent), None) is not None
    mailbox.reply(root.context, root.place(agent), message.id, "yes", failed=failed)
    return message.id


def lane(root: Root, *, dead_letter: bool = False) -> AgentPaths:
    """A lane whose message has its outcome."""
    place = root.context.agent_paths("box", "aaaa")
    directories.create(root.context.home, place)
    message = root.message("box")
    Queue(place.queue, place.put_lock).put(message, root.clock, root.context.config.limits)
    lease = AgentLease.acquire(root.context, place)
    assert lease is not None
    (entry,) = lease.waiting.scan()
    closing.dead_letter(lease.log, entry, message, "expired", "why")
    if not dead_letter:
        (dead,) = lease.log.queue.entries("dead")
        lease.log.queue.remove(dead)
    lease.close()
    return place


def kinds(collected: CollectResult) -> set[str]:
    return {each.what for each in collected.removed}


def test_where_there_is_no_root_nothing_is_removed_or_made(root: Root) -> None:
    assert collect(root.context) == CollectResult(removed=(), held=(), bytes=0)
    assert not root.context.home.root.exists()


@pytest.mark.slow
def test_old_segments_go_but_the_newest_and_the_agent_goes_on(root: Root) -> None:
    for _ in range(5):
        answered(root)
    journal = root.place("box").journal
    before, state = segments(journal), read_state(journal)
    assert len(before) > 2
    aged(root)
    collected = collect(root.context)
    assert kinds(collected) == {"segment"}
    assert segments(journal) == before[-1:]
    assert read_state(journal) == state
    answered(root)
    said = Reader(journal).poll()
    assert [event.seq for event in said] == list(range(int(before[-1][:-6]), said[-1].seq + 1))


@pytest.mark.slow
def test_what_is_younger_stays_unless_the_root_is_too_large_and_then_the_oldest_goes_first(root: Root) -> None:
    for _ in range(5):
        answered(root)
    journal = root.place("box").journal
    before = segments(journal)
    for number, name in enumerate(before):
        then = NOON_NS / 1e9 - (20 - number) * DAY_S
        os.utime(journal / name, (then, then))
    assert collect(root.context).removed == ()
    size = collect(root.context).bytes
    collected = collect(root.context, keep_bytes=size - 1)
    assert [each.path for each in collected.removed] == [f"agents/box/journal/{before[0]}"]
    assert collected.bytes == collect(root.context).bytes < size
    collect(root.context, keep_bytes=0)
    assert segments(journal) == before[-1:]


@pytest.mark.slow
def test_a_dead_letter_and_the_segment_with_its_outcome_stay_unless_they_are_asked_for(root: Root) -> None:
    message_id = answered(root, failed=True)
    for _ in range(4):
        answered(root)
    aged(root)
    collect(root.context)
    journal = root.place("box").journal
    outcome = read_state(journal).known[message_id].outcome_seq
    assert outcome is not None
    assert read_event(journal, outcome).message_id == message_id
    assert root.boxes("box") == {"dead": [message_id]}
    assert kinds(collect(root.context, dead=True)) == {"dead letter"}
    assert root.boxes("box") == {}
    assert kinds(collect(root.context)) == {"segment"}


@pytest.mark.slow
def test_a_waiting_message_and_one_that_is_out_stay(root: Root) -> None:
    waiting = [root.put("box").id, root.put("box").id]
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    aged(root)
    collect(root.context, dead=True, keep_bytes=0)
    assert root.boxes("box") == {"cur": waiting[:1], "new": waiting[1:]}
    assert mailbox.reply(root.context, root.place("box"), waiting[0], "yes", failed=False).reply == "yes"


@pytest.mark.slow
def test_a_lane_that_is_over_goes_whole(root: Root) -> None:
    place = lane(root)
    aged(root)
    collected = collect(root.context)
    assert [(each.what, each.path) for each in collected.removed] == [("lane", "agents/box/once/aaaa")]
    assert list(place.dir.parent.iterdir()) == []


@pytest.mark.parametrize("what", ["new", "cur", "dead", "request"])
def test_a_lane_in_which_something_lies_stays(root: Root, what: str) -> None:
    place = lane(root, dead_letter=what == "dead")
    if what == "request":
        now = root.clock.now_ns() + 60 * SECOND_NS
        control.publish(
            place.control, control.ControlRequest(id="box-1", verb="retry", timestamp="t", expires=str(now))
        )
    elif what != "dead":
        (place.queue / what / f"{1:020d}-box-x.json").touch()
    aged(root)
    assert "lane" not in kinds(collect(root.context, keep_bytes=0))
    assert place.journal.is_dir()


def test_a_message_that_comes_while_its_lane_is_removed_is_kept(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    place = lane(root)
    aged(root)
    real = gc.files.move

    def move(source: Path, target: Path) -> None:
        if source == place.dir:
            (place.queue / "new" / f"{1:020d}-box-x.json").touch()
        real(source, target)

    monkeypatch.setattr(gc.files, "move", move)
    monkeypatch.setattr("beam.broker.inbox.launch.ensure_worker", lambda context, of: started.append(of))
    started: list[AgentPaths] = []
    assert collect(root.context).removed == ()
    assert [path.name for path in (place.queue / "new").iterdir()] == [f"{1:020d}-box-x.json"]
    assert started == [place]


@pytest.mark.slow
def test_folders_that_an_agent_nested_without_end_do_not_end_it(root: Root) -> None:
    answered(root)
    at = root.place("box").images
    files.make_directory(at)
    handle = files.open_directory(at)
    for _ in range(2500):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    assert collect(root.context).removed == ()
    remove_tree(at)


@pytest.mark.slow
def test_an_agent_that_is_held_is_left_alone_and_named(root: Root) -> None:
    for _ in range(3):
        answered(root)
    aged(root)
    before = segments(root.place("box").journal)
    lease = root.hold("box")
    collected = collect(root.context, keep_bytes=0)
    lease.close()
    assert (collected.removed, collected.held) == ((), ("box",))
    assert segments(root.place("box").journal) == before


def test_logs_scratch_and_what_crashes_left_go(root: Root) -> None:
    place = root.place("box")
    left = [
        place.log,
        root.context.home.root / "broker.log",
        root.context.home.root / "broker.log.1",
        root.context.home.root / ".broker.json.1.tmp",
        place.dir / ".agent.json.1.tmp",
        place.journal / ".000000000001.jsonl.tmp",
        place.queue / "tmp" / "x.json",
        place.control / "tmp" / "x.json",
        root.context.home.turns_of(place) / "key" / "file",
        place.dir / "once" / ".removed-aaaa" / "lock",
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    aged(root)
    collect(root.context)
    assert [path for path in left if path.exists()] == []


@pytest.mark.parametrize("is_dry", [False, True])
def test_a_message_whose_worker_found_the_agent_held_gets_another(
    is_dry: bool, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[AgentPaths] = []
    monkeypatch.setattr("beam.broker.inbox.launch.start_worker", lambda context, of: started.append(of))
    for agent in ("worker", "other"):
        root.put(agent)
    aged(root, below=root.place("other").queue)
    aged(root, days=1 / DAY_S, below=root.place("worker").queue)
    collect(root.context, dry_run=is_dry)
    assert started == [root.place("worker")]


@pytest.mark.slow
def test_a_dry_run_says_the_same_and_removes_nothing(root: Root) -> None:
    lane(root)
    for _ in range(3):
        answered(root)
    aged(root)
    before = sorted(root.context.home.root.rglob("*"))
    would = collect(root.context, dry_run=True)
    assert sorted(root.context.home.root.rglob("*")) == before
    assert collect(root.context) == would
    assert kinds(would) == {"lane", "segment"}


@pytest.mark.slow
def test_an_empty_lane_is_removed_and_so_is_the_index_entry_of_a_removed_lane(root: Root) -> None:
    empty = root.context.agent_paths("box", "empty")
    directories.create(root.context.home, empty)
    lanes.add_to_index(empty)
    gone = lanes.index_folder(empty) / "gone"
    gone.touch()
    assert collect(root.context).removed == ()
    aged(root, days=1)
    assert kinds(collect(root.context)) == {"left behind"}
    assert not empty.dir.exists() and not gone.exists()
    assert lanes.indexed_lanes(root.place("box")) == []


@pytest.mark.slow
def test_what_was_published_while_gc_looked_is_no_trouble(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    names = gc.files.names

    def before(folder: Path) -> list[str]:
        return [*names(folder), "published-since.json"] if folder.name == "tmp" else names(folder)

    message = answered(root)
    aged(root)
    monkeypatch.setattr(gc.files, "names", before)
    assert [one.what for one in collect(root.context).removed if "published-since" in one.path] == []
    assert message in read_state(root.place("box").journal).known


def with_image(root: Root, name: str) -> str:
    """An image that an event of the agent names: its event, and its file."""
    path = f"images/{name * 32}.png"
    lease = AgentLease.acquire(root.context, root.place("box"))
    assert lease is not None
    lease.log.record(events.ImageSeen(path=path))
    lease.close()
    files.make_directory(root.place("box").images)
    (root.place("box").dir / path).write_bytes(b"png")
    return path


@pytest.mark.slow
def test_an_image_goes_with_the_last_segment_that_names_it_and_no_sooner(root: Root) -> None:
    answered(root)
    old = with_image(root, "a")
    answered(root)
    new = with_image(root, "b")
    box = root.place("box").dir
    aged(root)
    collect(root.context)
    left = set(segments(box / "journal"))
    named = {path for path in (old, new) if any(path in (box / "journal" / name).read_text() for name in left)}
    assert new in named and old not in named
    assert {path for path in (old, new) if (box / path).exists()} == named


@pytest.mark.slow
def test_an_image_that_no_event_names_is_left_behind_by_a_crash(root: Root) -> None:
    answered(root)
    kept = with_image(root, "a")
    orphan = root.place("box").images / f"{'c' * 32}.png"
    orphan.write_bytes(b"png")
    aged(root, days=1)
    found = collect(root.context)
    assert not orphan.exists() and (root.place("box").dir / kept).exists()
    assert [one.what for one in found.removed if "images" in one.path] == ["left behind"]


# -- whole values ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_thing_is_reported_with_its_kind_its_size_and_its_age(root: Root) -> None:
    place, home = root.place("box"), root.context.home
    (home.threads).mkdir(parents=True, exist_ok=True)
    left = {
        home.root / ".x.tmp": "left behind",
        home.root / "agents/.removed-old/file": "left behind",
        home.root / "broker.log": "log",
        home.root / "broker.log.1": "log",
        home.threads / "t.json": "thread",
        place.log: "log",
        place.dir / "casts/1.cast": "recording",
        home.turns_of(place) / "key/file": "scratch",
        home.snapshots / "objects/x": "snapshots",
        place.dir / ".a.tmp/file": "left behind",
        place.queue / "tmp/x.json": "left behind",
    }
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    aged(root, days=31)
    removed = collect(root.context, dry_run=True).removed
    assert {each.path: (each.what, each.bytes, each.age_s) for each in removed} == {
        os.path.relpath(path, home.root): (what, 5, 31 * 86400.0)
        for path, what in {
            **{path: what for path, what in left.items() if path.parent in (home.root, place.queue / "tmp")},
            home.root / "agents/.removed-old": "left behind",
            home.threads / "t.json": "thread",
            place.log: "log",
            place.dir / "casts/1.cast": "recording",
            home.turns_of(place) / "key": "scratch",
            home.snapshots: "snapshots",
            place.dir / ".a.tmp": "left behind",
        }.items()
    }
    assert collect(root.context).removed == removed
    assert [path for path in left if path.exists()] == []


@pytest.mark.parametrize(("age_s", "is_removed"), [(3600.0, False), (3601.0, True)])
def test_what_was_there_for_a_moment_is_left_behind_after_an_hour(age_s: float, is_removed: bool, root: Root) -> None:
    path = root.place("box").queue / "tmp/x.json"
    path.touch()
    aged(root, days=age_s / 86400)
    assert collect(root.context, older_than=1e9).removed == () or is_removed
    assert path.exists() is not is_removed


@pytest.mark.parametrize(("older_than", "is_removed"), [(10.0, False), (9.0, True)])
def test_what_is_over_is_removed_once_it_is_old_enough(older_than: float, is_removed: bool, root: Root) -> None:
    log = root.place("box").log
    log.touch()
    aged(root, days=10 / 86400)
    collect(root.context, older_than=older_than)
    assert log.exists() is not is_removed


def test_the_log_of_a_broker_that_runs_stays(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.place("box")
    for name in ("broker.log", "broker.log.1"):
        (root.context.home.root / name).touch()
    aged(root)
    monkeypatch.setattr(gc.registry, "running_broker", lambda home: object())
    assert [each.path for each in collect(root.context).removed] == ["broker.log.1"]


def test_the_count_of_a_thread_stays_while_a_message_of_it_is_there(root: Root) -> None:
    from beam.store.thread import file_name

    root.put("box", thread="here")
    threads = root.context.home.threads
    threads.mkdir(parents=True, exist_ok=True)
    for name in ("here", "gone"):
        (threads / file_name(name)).touch()
    aged(root)
    assert [each.path for each in collect(root.context).removed] == [f"threads/{file_name('gone')}"]


def test_a_temporary_folder_of_a_process_that_lives_stays(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.place("box")
    (root.context.home.root / ".x.tmp").mkdir()
    aged(root)
    monkeypatch.setattr(gc.owned, "is_owner_alive", lambda path: path.name == ".x.tmp")
    assert collect(root.context).removed == ()


def test_a_lane_that_is_held_is_named_with_its_agent(root: Root) -> None:
    place = lane(root)
    aged(root)
    lease = AgentLease.acquire(root.context, place)
    assert lease is not None
    collected = collect(root.context)
    lease.close()
    assert collected.held == ("box (once aaaa)",) and collected.removed == ()


def test_the_size_is_of_all_files_and_of_no_folder(root: Root, tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/one").write_bytes(b"123")
    (tmp_path / "a/b/two").write_bytes(b"45")
    (tmp_path / "a/link").symlink_to("/" + "x" * 9)
    assert gc._size(tmp_path / "a") == 3 + 2 + 10 and gc._size(tmp_path / "a/one") == 3
    assert gc._size(tmp_path / "none") == 0
    assert gc._last_written(tmp_path / "none", 7.0) == 7.0
