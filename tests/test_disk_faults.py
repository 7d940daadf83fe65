"""The fault table: every function that touches the disk, each of its system calls failing in turn, with each error.

It says which path and what to do (exit 74), what was on disk is there still, and when the trouble ends it goes on.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import DiskError, ExitCode
from beam.broker.holder import registry
from beam.model import events
from beam.model.message import decode
from beam.process import tree
from beam.root import directories
from beam.store import control
from beam.store.journal import Journal, Reader, read_state
from beam.store.lock import Lock, short_lock, try_lock
from beam.store.reserve import BYTES, Reserve
from beam.trust import ledger
from tests.support.context import SECOND_NS, SMALL, Root
from tests.support.faults import Faults
from tests.support.trusted import trusted_folders

pytestmark = pytest.mark.slow

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE, errno.EROFS)
LASTING = (errno.ENOSPC, errno.EIO)  # tried as well with every later call failing, too
IN_PAIRS = errno.EIO  # tried as well with one later call failing, too


@dataclass
class Row:
    """`act` is what fails; `intact` holds after it failed, `done` after it went on. `left` holds instead of `intact`
    where more than one call failed, so that cleaning up may have failed as well. `quiet`: why it may say nothing."""

    act: Callable[[], object]
    done: Callable[[], bool]
    intact: Callable[[], bool] = lambda: True
    left: Callable[[], bool] | None = None
    quiet: str = ""


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


# -- files -------------------------------------------------------------------------------------------------------------


def publish(root: Root) -> Row:
    tmp, final = root.base / "tmp", root.base / "final"
    return Row(
        lambda: files.publish(tmp, final, b"data"),
        done=lambda: content(final) == b"data",
        intact=lambda: content(final) in (None, b"data"),
    )


def replace(root: Root) -> Row:
    path = root.base / "file"
    path.write_bytes(b"old")
    return Row(
        lambda: files.replace(path, b"new"),
        done=lambda: content(path) == b"new",
        intact=lambda: content(path) in (b"old", b"new"),
    )


def write_new(root: Root) -> Row:
    path = root.base / "file"
    return Row(
        lambda: files.write_new(path, b"data"),
        done=lambda: content(path) == b"data",
        intact=lambda: not path.exists(),
        left=lambda: content(path) in (None, b"", b"data"),
    )


def write_many(root: Root) -> Row:
    paths = [root.base / f"file{number}" for number in range(3)]
    return Row(
        lambda: files.write_many(dict.fromkeys(paths, b"data")),
        done=lambda: [content(path) for path in paths] == [b"data"] * 3,
        intact=lambda: all(content(path) in (None, b"data") for path in paths),
        left=lambda: all(content(path) in (None, b"", b"data") for path in paths),
    )


def move(root: Root) -> Row:
    (root.base / "from").mkdir()
    (root.base / "to").mkdir()
    old, new = root.base / "from" / "file", root.base / "to" / "file"
    old.write_bytes(b"data")

    def act() -> None:
        try:
            files.move(old, new)
        except FileNotFoundError:
            files.sync_directory(new.parent)

    return Row(act, done=lambda: content(new) == b"data", intact=lambda: (content(old) or content(new)) == b"data")


def remove(root: Root) -> Row:
    path = root.base / "file"
    path.write_bytes(b"data")
    return Row(lambda: files.remove(path), done=lambda: not path.exists())


def make_directory(root: Root) -> Row:
    path = root.base / "a" / "b"
    return Row(lambda: files.make_directory(path), done=path.is_dir)


def sync_directory(root: Root) -> Row:
    return Row(lambda: files.sync_directory(root.base), done=root.base.is_dir)


def allocate(root: Root) -> Row:
    path = root.base / "room"
    return Row(
        lambda: files.allocate(path, 4096),
        done=lambda: path.stat().st_size == 4096,
        intact=lambda: not path.exists(),
        left=lambda: True,  # it is room, and nothing else
    )


def read(root: Root) -> Row:
    return Row(lambda: files.read(root.base / "beam.yaml", 1000), done=lambda: True)


def names(root: Root) -> Row:
    return Row(lambda: files.names(root.base), done=lambda: True)


# -- the queue ---------------------------------------------------------------------------------------------------------


def put(root: Root) -> Row:
    queue, before = root.queue("box"), root.put("box")
    put_last, put_all = list[str](), list[str]()

    def act() -> None:
        message = root.message("box")
        put_last[:] = [message.id]
        put_all.append(message.id)
        queue.put(message, root.clock, root.context.config.limits)

    def is_clean() -> bool:
        return root.boxes("box") == {"new": [before.id]} and not files.names(queue.directory / "tmp")

    def is_there() -> bool:
        waiting = root.boxes("box")["new"]
        return waiting[0] == before.id and set(waiting) <= {before.id, *put_all}

    return Row(act, done=lambda: root.boxes("box")["new"][-1:] == put_last, intact=is_clean, left=is_there)


def queue_move(root: Root) -> Row:
    message, queue = root.put("box"), root.queue("box")

    def act() -> None:
        (entry,) = queue.entries("new") or queue.entries("cur")
        queue.move(entry, "cur")

    def is_somewhere() -> bool:
        return root.boxes("box") in ({"new": [message.id]}, {"cur": [message.id]})

    return Row(act, done=lambda: root.boxes("box") == {"cur": [message.id]}, intact=is_somewhere)


def queue_rewrite(root: Root) -> Row:
    root.put("box", "old")
    queue, message = root.queue("box"), root.message("box", "new")
    (entry,) = queue.entries("new")

    def text() -> str:
        return decode(queue.path(entry).read_bytes()).text

    return Row(
        lambda: queue.rewrite(entry, message), done=lambda: text() == "new", intact=lambda: text() in ("old", "new")
    )


def queue_remove(root: Root) -> Row:
    root.put("box")
    queue = root.queue("box")
    (entry,) = queue.entries("new")
    return Row(lambda: queue.remove(entry), done=lambda: root.boxes("box") == {})


def queue_sweep(root: Root) -> Row:
    queue = root.queue("box")
    (queue.directory / "tmp" / "left").touch()
    return Row(queue.sweep, done=lambda: True, quiet="what is left in tmp/ is nobody's; the next holder sweeps again")


# -- the journal -------------------------------------------------------------------------------------------------------


def said(root: Root) -> list[str]:
    """What the journal says, which a reader must always be able to read; its numbers have no gap."""
    found = Reader(root.context.agent_paths("box").journal).poll()
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    return [event.text for event in found if isinstance(event, events.Text)]


def journal_of(root: Root, *texts: str) -> Journal:
    journal = Journal.open(root.context.agent_paths("box").journal, "box", root.clock, SMALL)
    for text in texts:
        journal.append(events.Text(text=text), sync=True)
    return journal


def open_first(root: Root) -> Row:
    root.place("box")
    return Row(lambda: journal_of(root).close(), done=lambda: said(root) == [], intact=lambda: said(root) == [])


def open_again(root: Root) -> Row:
    root.place("box")
    journal_of(root, "one").close()
    return Row(
        lambda: journal_of(root).close(), done=lambda: said(root) == ["one"], intact=lambda: said(root) == ["one"]
    )


def open_torn(root: Root) -> Row:
    root.place("box")
    journal = journal_of(root, "one")
    journal.close()
    with (journal.directory / "000000000001.jsonl").open("ab") as file:
        file.write(b'{"type":"te')
    return Row(
        lambda: journal_of(root, "two").close(),
        done=lambda: said(root)[-1] == "two",
        intact=lambda: said(root) in (["one"], ["one", "two"]),
        left=lambda: said(root) in (["one"], ["one", "two"], ["one", "two", "two"]),
    )


def append(root: Root) -> Row:
    root.place("box")
    journal = journal_of(root, "one")

    def act() -> None:
        journal.append(events.Text(text="two"), sync=True)

    return Row(
        act,
        done=lambda: set(said(root)) == {"one", "two"} and said(root)[1:] in (["two"] * n for n in (1, 2, 3)),
        intact=lambda: said(root) in (["one"], ["one", "two"]),
        left=lambda: said(root) in (["one"], ["one", "two"], ["one", "two", "two"]),  # what only wasn't synced stands
    )


def rotate(root: Root) -> Row:
    root.place("box")
    journal = journal_of(root, "one", "two", "three", "four")

    def act() -> None:
        journal.rotate_if_due()
        journal.append(events.Text(text="more"), sync=True)

    return Row(
        act,
        done=lambda: said(root)[-1] == "more" and len(list(journal.directory.glob("*.jsonl"))) >= 1,
        intact=lambda: said(root)[:4] == ["one", "two", "three", "four"],
        quiet="the old segment goes on, and the next turn's end tries again",
    )


def read_the_state(root: Root) -> Row:
    root.place("box")
    journal_of(root, "one").close()
    return Row(lambda: read_state(root.context.agent_paths("box").journal), done=lambda: True)


def follow(root: Root) -> Row:
    root.place("box")
    journal_of(root, "one").close()
    reader, found = Reader(root.context.agent_paths("box").journal), list[str]()

    def act() -> None:
        found.extend(event.text for event in reader.poll() if isinstance(event, events.Text))

    return Row(
        lambda: act() if not found else None,
        done=lambda: found == ["one"],
        quiet="what was read before it is given first; the next look says it",
    )


# -- requests, locks, the rest -----------------------------------------------------------------------------------------


def request(root: Root) -> control.ControlRequest:
    return control.ControlRequest(
        id="box-1", verb="pause", timestamp="t", expires=rfc3339(root.clock.now_ns() + 60 * SECOND_NS)
    )


def control_publish(root: Root) -> Row:
    directory = root.place("box").control
    return Row(
        lambda: control.publish(directory, request(root)),
        done=lambda: control.read(directory, "box-1.json") == request(root),
        intact=lambda: control.read(directory, "box-1.json") in (None, request(root)),
    )


def control_read(root: Root) -> Row:
    directory = root.place("box").control
    control.publish(directory, request(root))
    return Row(lambda: control.read(directory, "box-1.json"), done=lambda: True)


def control_remove(root: Root) -> Row:
    directory = root.place("box").control
    control.publish(directory, request(root))
    return Row(lambda: control.remove(directory, "box-1.json"), done=lambda: control.waiting_names(directory) == [])


def create(root: Root) -> Row:
    place = root.context.agent_paths("box")
    ignore = root.context.home.root / ".gitignore"
    return Row(
        lambda: directories.create(root.context.home, place),
        done=lambda: (place.queue / "new").is_dir() and content(ignore) == b"*\n",
        intact=lambda: content(ignore) in (None, b"*\n"),
    )


def lock(root: Root) -> Row:
    path = root.place("box").lock
    held: list[Lock] = []

    def act() -> None:
        held.append(taken) if (taken := try_lock(path)) else None

    def is_mine() -> bool:
        for each in held:
            each.release()
        return len(held) == 1

    return Row(act, done=is_mine, intact=lambda: not held)


def lock_for_a_moment(root: Root) -> Row:
    path = root.place("box").put_lock

    def act() -> None:
        with short_lock(path):
            pass

    return Row(act, done=lambda: True)


def claim_the_root(root: Root) -> Row:
    root.place("box")
    told = registry.BrokerFile(owner=tree.this_process(), version="1", started_at="t", poll=1.0, cap=1)

    def act() -> None:
        taken = registry.claim_root(root.context.home, told)
        try:
            assert registry.read_broker_file(root.context.home) == told
        finally:
            registry.release_root(root.context.home, taken)

    return Row(
        act,
        done=lambda: registry.read_broker_file(root.context.home) in (None, told),
        quiet="a broker.json that stays when its broker goes names a process that is gone, as every reader sees",
    )


def trust_a_folder(root: Root) -> Row:
    environ = {"HOME": str(root.base)}
    ledger.trust(root.base.parent, [], environ)
    return Row(
        lambda: ledger.trust(root.base, [], environ),
        done=lambda: trusted_folders(environ) == sorted([root.base, root.base.parent]),
        intact=lambda: root.base.parent in trusted_folders(environ),
    )


def untrust_a_folder(root: Root) -> Row:
    environ = {"HOME": str(root.base)}
    ledger.trust(root.base, [], environ)
    return Row(lambda: ledger.untrust(root.base, environ), done=lambda: not trusted_folders(environ))


def make_the_reserve(root: Root) -> Row:
    path = root.place("box").reserve

    def is_there() -> bool:
        Reserve(path).make()
        return path.stat().st_size == BYTES

    return Row(
        Reserve(path).make,
        done=is_there,
        intact=lambda: not path.exists(),
        left=lambda: True,  # it is room, and nothing else
        quiet="only a full disk matters here; the writes it is for say the rest",
    )


ROWS: tuple[Callable[[Root], Row], ...] = (
    *(publish, replace, write_new, write_many, move, remove, make_directory, sync_directory, allocate, read, names),
    *(put, queue_move, queue_rewrite, queue_remove, queue_sweep),
    *(open_first, open_again, open_torn, append, rotate, read_the_state, follow),
    *(control_publish, control_read, control_remove, create, lock, lock_for_a_moment, claim_the_root),
    *(trust_a_folder, untrust_a_folder, make_the_reserve),
)


def faulty(row_of: Callable[[Root], Row], base: Path, *at: int, number: int = 0, lasts: bool = False) -> list[str]:
    """Acts while those calls fail (with `lasts` all from there on), and once more where that failed; then without
    trouble. The calls that were made in trouble."""
    base.mkdir()
    root = Root(base)
    row = row_of(root)
    faults = Faults(base)
    told = 0
    is_intact = row.intact if len(at) == 1 and not lasts else row.left or row.intact
    with faults.counting(*at, number=number, lasts=lasts):
        calls = faults.calls
        while told < 2:
            try:
                row.act()
                break
            except DiskError as error:
                told += 1
                with faults.apart():
                    where = [calls[each - 1] for each in at if each <= len(calls)], errno.errorcode[number], lasts
                    assert error.exit_code == ExitCode.DISK
                    assert str(base) in error.message, where
                    assert error.hint, where
                    assert is_intact(), where
    assert told or row.quiet or not at, (calls[at[0] - 1], errno.errorcode[number], "nothing was said")
    if told == 2:
        row.act()
    assert row.done(), (at, calls, errno.errorcode.get(number), lasts)
    return calls


@pytest.mark.parametrize("row_of", ROWS)
def test_each_fault_is_said_changes_nothing_and_passes(
    row_of: Callable[[Root], Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("left out: whose file a descriptor is, is read from /proc")
    calls = faulty(row_of, tmp_path / "none")
    assert calls
    count = 0
    for at in range(1, len(calls) + 1):
        for number in ERRORS:
            after = faulty(row_of, tmp_path / f"{at}-{number}", at, number=number)
            count += 1
            if number in LASTING:
                faulty(row_of, tmp_path / f"{at}-{number}-lasts", at, number=number, lasts=True)
                count += 1
            for later in range(at + 1, len(after) + 1) if number == IN_PAIRS else ():
                faulty(row_of, tmp_path / f"{at}-{later}-{number}", at, later, number=number)
                count += 1
    with capsys.disabled():
        print(f"\n{row_of.__name__}: {len(calls)} system calls, {count} faults: once, lasting, in pairs")
