"""Agents of another root of the folder: what is shown of them, and how they come into this one."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from beam.api import adopt, manage
from beam.api.adopt import Candidate, Finding, Waiting, candidates
from beam.base.errors import DiskError, UnfinishedError
from beam.broker.inbox import standing
from beam.model import events
from beam.model.message import Options, Payload
from beam.model.settings import AgentSettings
from beam.root import discovery
from beam.root.paths import RootPaths
from beam.store.lock import try_lock
from beam.store.queue import Queue
from beam.trust import ledger
from tests.support.context import Root
from tests.support.journals import record, turn
from tests.support.moved import moved_root
from tests.support.refused import refused


def aside(root: Root) -> Path:
    """The root with all in it is now the one that the folder had under another name."""
    return moved_root(root.context.home.root, root.base, root.environ)


def shown(root: Root) -> Candidate:
    (candidate,) = candidates(root.context.home, root.base, root.environ)
    return candidate


def adopted(root: Root, candidate: Candidate) -> list[str]:
    return adopt.adopt(root.context.home, candidate, root.base, root.environ)


def digest_of(old: Path) -> str:
    (path,) = (old / "agents/worker/queue/new").iterdir()
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
def test_a_person_sees_all_that_adopting_would_run(root: Root) -> None:
    path = manage.add_agent(root.context, "mine", AgentSettings(command=("cat",)))
    settings = path.read_text()
    record(root, "mine", *turn(1, "s1"))
    root.place("empty")
    root.put(
        "worker",
        "do it",
        sender="ann",
        type="reply",
        reply="queue",
        reply_to="x-1",
        actor="bob",
        options=Options(access="edit", model="m"),
        payload=Payload(text="do it", attach=("/a",)),
    )
    lane = root.context.agent_paths("empty", "aaaa")
    discovery.create(root.context.home, lane)
    Queue(lane.queue, lane.put_lock).put(root.message("empty", "once"), root.clock, root.context.config.limits)
    (root.place("empty").queue / "new" / "00000000000000000009-empty-1.json").write_bytes(b"{")
    old = aside(root)
    found = shown(root)
    assert (found.root, found.why) == (old, "it is of this very folder, under the name /before")
    empty, mine, worker = found.agents
    assert mine == Finding(agent="mine", settings=settings, session="s1 (claude)", waiting=(), taken=False)
    assert (empty.agent, empty.settings, empty.session, empty.taken) == ("empty", None, None, False)
    broken, once = empty.waiting
    assert (broken.sender, broken.access, broken.attach, broken.more, broken.digest) == ("?", None, (), {}, "")
    assert broken.text.startswith("no message: ")
    assert (once.sender, once.text, once.more) == ("human", "once", {})
    assert worker.waiting == (
        Waiting(
            sender="ann",
            text="do it",
            access="edit",
            attach=("/a",),
            more={"model": "m", "type": "reply", "reply": "queue", "reply_to": "x-1", "actor": "bob"},
            digest=digest_of(old),
        ),
    )


def test_a_session_that_can_not_be_read_and_one_that_begins_in_a_copy_are_reported(root: Root) -> None:
    record(root, "box", events.SessionForked(session_id="s0", of="x", adapter="codex"))
    record(root, "worker", *turn(1, "s1"))
    (segment,) = root.place("worker").journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n")
    aside(root)
    box, worker = shown(root).agents
    assert box.session == "s0 (codex)"
    assert worker.session and worker.session.startswith("unknown: ") and "damaged" in worker.session


@pytest.mark.slow
def test_adopted_agents_are_here_with_all_that_they_had_and_the_other_root_is_gone(root: Root) -> None:
    message = root.put("worker")
    record(root, "box", *turn(1, "s1"))
    before = root.events("box")
    old = aside(root)
    left_over = root.context.home.agent("worker").dir.with_name(".worker.adopted")
    left_over.mkdir(parents=True)
    assert adopted(root, shown(root)) == ["adopted box", "adopted worker", f"removed {old}"]
    assert root.context.home.agents() == ["box", "worker"] and not old.exists()
    assert root.boxes("worker") == {"new": [message.id]} and root.events("box") == before
    assert [path.name for path in (root.context.home.root / "agents").iterdir() if path.name[0] == "."] == []
    assert candidates(root.context.home, root.base, root.environ) == []


@pytest.mark.slow
def test_an_agent_whose_name_is_taken_stays_where_it_is(root: Root) -> None:
    for name in ("box", "worker"):
        root.put(name)
    old = aside(root)
    here = root.put("box", "another")
    found = shown(root)
    assert [each.taken for each in found.agents] == [True, False]
    assert adopted(root, found) == ["adopted worker", "left box: this folder has an agent of that name"]
    assert root.boxes("box") == {"new": [here.id]} and (old / "agents/box").is_dir()


def test_what_was_changed_since_it_was_shown_is_not_adopted(root: Root) -> None:
    root.put("worker", "harmless")
    old = aside(root)
    found = shown(root)
    (path,) = (old / "agents/worker/queue/new").iterdir()
    path.write_bytes(path.read_bytes().replace(b"harmless", b"harmful!"))
    said = f"worker in {old} was changed since it was shown"
    with refused(UnfinishedError, said, "look at it again: beam doctor --adopt", subject="worker"):
        adopted(root, found)
    assert root.context.home.agents() == [] and (old / "agents/worker").is_dir()
    assert not root.context.home.agent("worker").dir.with_name(".worker.adopted").exists()


@pytest.mark.parametrize("is_held_here", [False, True])
def test_an_agent_that_is_held_is_not_adopted(is_held_here: bool, root: Root) -> None:
    root.put("worker")
    old = aside(root)
    home = root.context.home if is_held_here else RootPaths(old, root.base)
    path = home.agent("worker").lock
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = try_lock(path)
    assert lock is not None
    said = f"worker is held in {home.root}"
    hint = "stop its broker, or wait for its turn to end"
    with lock, refused(UnfinishedError, said, hint, subject=str(home.root)):
        adopted(root, shown(root))
    assert (old / "agents/worker").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("is_vouched", [False, True])
def test_settings_that_a_person_wrote_stay_trusted_and_others_do_not_become_so(is_vouched: bool, root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    (root.base / "beam.yaml").write_text("agents: {}\n")
    root.reload()
    path = manage.add_agent(root.context, "mine", AgentSettings(command=("cat",)))
    old = aside(root)
    moved = old / path.relative_to(root.context.home.root)
    data = moved.read_bytes().replace(b"cat", b"dog")
    moved.write_bytes(data)
    if is_vouched:
        ledger.remember_file(moved, hashlib.sha256(data).hexdigest(), root.environ)
    adopted(root, shown(root))
    refusal = standing.check_folder(root.context, root.reload().config.resolve("mine")).refusal
    assert (refusal is None) == is_vouched


def test_a_root_of_a_folder_that_is_gone_or_was_replaced_becomes_this_folders(root: Root, tmp_path: Path) -> None:
    root.put("worker")
    discovery.remember_root(root.context.home, root.environ)
    moved = tmp_path / "moved"
    root.base.rename(moved)
    home = root.context.home
    (found,) = candidates(home, moved, root.environ)
    assert (found.root, found.why) == (home.root, f"it is of {root.base}, which is gone; it would be of {moved}")
    assert [each.taken for each in found.agents] == [False]
    root.base.mkdir()
    (found,) = candidates(home, root.base, root.environ)
    assert found.why == f"it was made for another folder that was at {root.base}"
    assert adopt.adopt(home, found, moved, root.environ) == [f"{home.root} is of {moved} now"]
    known = discovery.read_project(home.root)
    assert known is not None and str(known.path) == str(moved)


# -- copying -----------------------------------------------------------------------------------------------------------


def copied(source: Path, target: Path) -> Path:
    adopt._copy(source, target, adopt._CopyLimits())
    return target


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "agent"
    (folder / "journal").mkdir(parents=True)
    (folder / "journal/1.jsonl").write_text("line\n")
    return folder


def test_what_is_of_the_moment_is_not_copied(source: Path, tmp_path: Path) -> None:
    for name in ("terminal.sock", "scratch", "put.lock", "lock", "reserve", "control", "asks"):
        (source / name).write_text("x")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(source / "s"))
        (source / "kept").write_text("y")
        copy = copied(source, tmp_path / "copy")
    assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*")) == ["journal", "journal/1.jsonl", "kept"]
    assert (copy / "journal/1.jsonl").read_text() == "line\n" and copy.stat().st_mode & 0o777 == 0o700


def test_what_beam_does_not_make_is_not_copied(source: Path, tmp_path: Path) -> None:
    (source / "link").symlink_to("/etc/passwd")
    said = f"{source / 'link'} is nothing that beam made"
    with refused(DiskError, said, "remove it, or the whole root", subject=str(source / "link")):
        copied(source, tmp_path / "copy")


def test_more_files_than_an_agent_has_are_not_copied(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopt, "_MAX_ENTRIES", 2)
    copied(source, tmp_path / "copy")
    (source / "one").touch()
    said = f"{source / 'one'} is one file too many: 2 of one agent are adopted at the most"
    with refused(DiskError, said, "remove it, or the whole root", subject=str(source / "one")):
        copied(source, tmp_path / "again")


@pytest.mark.parametrize(("most", "is_copied"), [(5, True), (4, False)])
def test_the_bytes_of_an_agent_have_a_limit(
    most: int, is_copied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent/file").write_bytes(b"12345")
    monkeypatch.setattr(adopt, "_MAX_BYTES", most)
    if is_copied:
        copied(tmp_path / "agent", tmp_path / "copy")
        return
    with pytest.raises(DiskError, match="file has 5 bytes: 4 of one agent are adopted at the most"):
        copied(tmp_path / "agent", tmp_path / "copy")


@pytest.mark.parametrize(
    ("content", "size"), [(b"", 0), (b"abc", 3), (b"\0\0\0\0", 4), (b"ab\0\0\0\0cd", 8), (b"ab\0\0", 4), (b"abc", 9)]
)
def test_a_file_is_copied_byte_by_byte(
    content: bytes, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopt, "_PIECE", 2)
    (tmp_path / "a").write_bytes(content)
    adopt._copy_file(tmp_path / "a", tmp_path / "b", size)
    assert (tmp_path / "b").read_bytes() == content


def test_a_file_that_grows_while_it_is_copied_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcd")
    with refused(
        DiskError,
        f"{tmp_path / 'a'} became longer while it was copied",
        "remove it, or the whole root",
        subject=str(tmp_path / "a"),
    ):
        adopt._copy_file(tmp_path / "a", tmp_path / "b", 3)


def test_a_copy_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    with pytest.raises((DiskError, OSError)):
        adopt._copy_file(tmp_path / "a", tmp_path / "b", 1)
    assert (tmp_path / "b").read_bytes() == b"b"


@pytest.mark.parametrize(("depth", "is_copied"), [(32, True), (33, False)])
def test_folders_have_a_greatest_depth(depth: int, is_copied: bool, tmp_path: Path) -> None:
    deep = tmp_path / "agent" / "/".join("d" * depth)
    deep.mkdir(parents=True)
    if is_copied:
        copied(tmp_path / "agent", tmp_path / "copy")
        return
    said = f"{deep} is nothing that beam made: it lies 33 folders deep"
    with refused(DiskError, said, "remove it, or the whole root", subject=str(deep)):
        copied(tmp_path / "agent", tmp_path / "copy")


def test_only_a_root_of_the_caller_is_looked_at(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.put("worker")
    aside(root)
    found = shown(root)
    asked: list[object] = []

    def check(home: RootPaths, *, uid: int) -> None:
        asked.append((home, uid))
        raise DiskError("another user's")

    monkeypatch.setattr("beam.root.directories.check_owner", check)
    for act in (shown, lambda root: adopted(root, found)):
        with refused(DiskError, "another user's"):
            act(root)
    assert asked == [(RootPaths(found.root, root.base), os.geteuid()), (root.context.home, os.geteuid())]
