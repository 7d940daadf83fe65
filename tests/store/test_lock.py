"""Locks: one holder, for as long as its process lives."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from beam.base.errors import DiskError
from beam.store import lock as module
from beam.store.lock import is_free, is_held, short_lock, try_lock


def test_a_lock_is_had_once_and_again_after_its_release(tmp_path: Path) -> None:
    first = try_lock(tmp_path / "lock")
    assert first is not None
    assert try_lock(tmp_path / "lock") is None
    first.release()
    first.release()
    with try_lock(tmp_path / "lock") as again:  # type: ignore[union-attr]
        assert again is not None
    assert (tmp_path / "lock").exists()


@pytest.mark.slow
def test_a_lock_goes_with_its_process_and_not_to_its_children(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; from pathlib import Path; from beam.store.lock import try_lock\n"
        "lock = try_lock(Path(sys.argv[1])); assert lock\n"
        "child = subprocess.Popen(['sleep', '60'], close_fds=False, stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            assert try_lock(tmp_path / "lock") is None
            holder.kill()
            holder.wait()
            lock = try_lock(tmp_path / "lock")
            assert lock is not None
            lock.release()
        finally:
            os.kill(child, 9)


@pytest.mark.slow
def test_a_lock_that_is_released_is_free_though_a_process_that_was_forked_meanwhile_has_not_begun(
    tmp_path: Path,
) -> None:
    lock = try_lock(tmp_path / "lock")
    assert lock is not None
    ending, end = os.pipe()
    child = os.fork()  # what it is between its fork and its exec
    if child == 0:
        os.close(end)
        os.read(ending, 1)
        os._exit(0)
    try:
        lock.release()
        assert try_lock(tmp_path / "lock") is not None
    finally:
        os.close(end)
        os.close(ending)
        os.waitpid(child, 0)


def test_a_lock_on_a_file_that_was_replaced_is_taken_again_on_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, opened = tmp_path / "lock", os.open, []

    def replacing(*args: object, **kwargs: object) -> int:
        handle = real(*args, **kwargs)  # type: ignore[arg-type]
        opened.append(handle)
        if len(opened) == 1:
            path.unlink()
            path.touch()
        elif len(opened) == 2:
            path.unlink()
        return handle

    monkeypatch.setattr(module.os, "open", replacing)
    lock = try_lock(path)
    monkeypatch.undo()
    assert lock is not None
    assert len(opened) == 3
    assert os.fstat(opened[2]).st_ino == path.stat().st_ino
    assert try_lock(path) is None
    lock.release()


def test_a_short_lock_is_waited_for_and_given_up_in_the_end(tmp_path: Path) -> None:
    with short_lock(tmp_path / "lock") as handle:
        os.write(handle, b"x")
        with pytest.raises(DiskError, match="held by another process"), short_lock(tmp_path / "lock", timeout=0.0):
            pass
    with short_lock(tmp_path / "lock", timeout=0.0):
        assert (tmp_path / "lock").read_bytes() == b"x"


@pytest.mark.acceptance
def test_a_short_lock_comes_to_whoever_waits_though_others_take_it_back_to_back(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from beam.store.lock import short_lock\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    with short_lock(Path(sys.argv[1])):\n"
        "        time.sleep(0.02)\n"
    )
    others = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "lock")], stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == b"ready\n"
        for _ in range(10):
            with short_lock(tmp_path / "lock"):
                pass
    finally:
        for other in others:
            other.kill()
            other.communicate()


def test_who_gave_a_short_lock_up_does_not_get_it_later(tmp_path: Path) -> None:
    with (
        short_lock(tmp_path / "lock"),
        pytest.raises(DiskError, match="held by another process"),
        short_lock(tmp_path / "lock", timeout=0.01),
    ):
        pass
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(5)
    with short_lock(tmp_path / "lock", timeout=0.0):
        assert try_lock(tmp_path / "lock") is None


def test_a_lock_is_not_made_through_a_link_nor_in_no_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for path, why in ((tmp_path / "link", "is a symbolic link"), (tmp_path / "none" / "lock", "can't open")):
        with pytest.raises(DiskError, match=why):
            try_lock(path)
    assert not (tmp_path / "elsewhere").exists()


def test_who_looks_whether_a_lock_is_held_makes_no_file_and_disturbs_no_other_looker(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path) and not path.exists()
    with try_lock(path):  # type: ignore[union-attr]
        assert is_held(path) and is_held(path)
    assert not is_held(path)
    os.mkfifo(tmp_path / "fifo")
    assert not is_held(tmp_path / "fifo"), "it would have hung"
    (tmp_path / "link").symlink_to(path)
    assert not is_held(tmp_path / "link"), "nobody takes a lock through a link"


# -- every way to fail, and no descriptor left ------------------------------------------------------------------------


@pytest.fixture
def descriptors() -> Iterator[None]:
    """After the test as many descriptors are open as before it."""
    before = opened()
    yield
    assert opened() == before


def opened() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


@pytest.mark.usefixtures("descriptors")
def test_a_lock_is_free_or_held_whoever_looks(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert (is_held(path), is_held(tmp_path / "none" / "lock"), is_held(tmp_path / "file" / "lock")) == (False,) * 3
    assert (is_free(path), is_held(path)) == (True, False)
    lock = try_lock(path)
    assert lock is not None
    assert (lock.path, lock.is_in_place(), is_free(path), is_held(path), try_lock(path)) == (
        path,
        True,
        False,
        True,
        None,
    )
    path.rename(tmp_path / "away")
    assert lock.is_in_place() is False
    path.symlink_to("away")
    assert lock.is_in_place() is False
    path.unlink()
    (tmp_path / "away").rename(path)
    assert lock.is_in_place()
    lock.release()
    assert (is_free(path), is_held(path)) == (True, False)


@pytest.mark.usefixtures("descriptors")
def test_a_lock_that_the_system_refuses_is_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.touch()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as change:
        change.setattr(module.fcntl, "flock", refuse)
        for look in (try_lock, is_held, is_free):
            with pytest.raises(DiskError) as caught:
                look(path)
            assert caught.value.message == f"can't lock {path}: No locks available"
    with monkeypatch.context() as change:
        change.setattr(module, "_is_in_place", refuse)
        with pytest.raises(DiskError, match="can't lock"):
            try_lock(path)
    with monkeypatch.context() as change:
        change.setattr(module.files, "open_to_read", refuse)
        with pytest.raises(DiskError, match=f"can't open {path}"):
            is_held(path)


@pytest.mark.usefixtures("descriptors")
def test_who_waits_for_a_short_lock_gets_it_when_it_is_free_or_the_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "lock", module._take_lock
    lock = try_lock(path)
    assert lock is not None
    waited = threading.Event()

    def take(path: Path, how: int) -> module.Lock | None:
        if how == module.fcntl.LOCK_EX:
            assert threading.current_thread().daemon
            waited.set()
            lock.release()
        return real(path, how)

    monkeypatch.setattr(module, "_take_lock", take)
    with short_lock(path, timeout=30.0) as handle:
        assert waited.is_set() and os.fstat(handle).st_ino == path.stat().st_ino
        assert try_lock(path) is None
    held = try_lock(path)

    def refuse(path: Path, how: int) -> module.Lock | None:
        if how == module.fcntl.LOCK_EX:
            raise DiskError("can't lock it")
        return real(path, how)

    monkeypatch.setattr(module, "_take_lock", refuse)
    with pytest.raises(DiskError, match="can't lock it"), short_lock(path, timeout=30.0):
        pass
    assert held is not None
    held.release()


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("where", ["start", "wait"])
def test_who_is_interrupted_while_waiting_gives_back_a_lock_that_came_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = tmp_path / "lock"
    lock = try_lock(path)
    assert lock is not None

    class Waiting(threading.Thread):
        def start(self) -> None:
            super().start()
            if where == "start":
                lock.release()
                self.join(30)
                raise KeyboardInterrupt

    class Came(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            lock.release()
            super().wait(30)
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "threading", SimpleNamespace(Event=Came, Thread=Waiting, Lock=threading.Lock))
    with pytest.raises(KeyboardInterrupt), short_lock(path):
        pass
    monkeypatch.undo()
    assert is_free(path)


def test_a_short_lock_that_is_not_had_says_how_long_it_was_waited_for(tmp_path: Path) -> None:
    with short_lock(tmp_path / "lock"), pytest.raises(DiskError) as caught, short_lock(tmp_path / "lock", timeout=0.0):
        pass
    assert caught.value.message == f"can't lock {tmp_path / 'lock'}: held by another process for 0 s"
