"""The file broker.json, which says which broker serves a root. There is at most one broker per root: its process holds
a lock as long as it lives."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

import msgspec
from msgspec import Struct

from beam.base import files, typed_values
from beam.base.errors import BeamError, CorruptError, UsageError
from beam.broker.inbox.context import RootContext
from beam.model.events import Owner
from beam.process import tree
from beam.root.paths import AgentPaths, RootPaths
from beam.store.lock import Lock, is_free, try_lock

_MOMENT_S = 0.5
_POLL_S = 0.01
_MAX_BYTES = 1 << 20  # the file has about 300


class BrokerFile(Struct, frozen=True, kw_only=True):
    """The content of broker.json. `owner` is the broker's process, `version` the version of its code, and `cap` its
    largest number of concurrent turns. `poll` is its poll interval in seconds. `idle` is the number of seconds without
    work after which it ends (None: never)."""

    v: int = 1
    owner: Owner
    version: str
    started_at: str
    poll: float
    cap: int
    idle: float | None = None


def broker_file_path(home: RootPaths) -> Path:
    """Return the path of broker.json."""
    return home.root / "broker.json"


def log_path(home: RootPaths) -> Path:
    """Return the path of a detached broker's log."""
    return home.root / "broker.log"


class Claim:
    """This process's claim to be the root's broker. The root's directory stays open, so that its inode is not
    reused."""

    def __init__(self, root: Path, lock: Lock) -> None:
        self._root = root
        self._lock = lock
        with files.disk_action("open", root):
            self._directory = files.open_directory(root, follow=False)

    def why_lost(self) -> str:
        """Return why the root no longer belongs to this process; "" if it still does, or if that can't be checked."""
        try:
            named, held = self._root.stat(follow_symlinks=False), os.fstat(self._directory)
            if (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino):
                return f"{self._root} is another directory now"
            return "" if self._lock.is_in_place() else f"{self._lock.path} was removed or replaced"
        except (FileNotFoundError, NotADirectoryError):
            return f"{self._root} is gone"
        except OSError:
            return ""

    def release(self) -> None:
        """Release the lock, so that another process can be the broker."""
        os.close(self._directory)
        self._lock.release()


def claim_root(home: RootPaths, entry: BrokerFile) -> Claim:
    """Make this process the root's broker. Raises UsageError if the root has a broker already."""
    lock = try_lock(home.root / "broker.lock")
    if lock is None:
        raise already_served(home)
    try:
        claimed = Claim(home.root, lock)
    except BaseException:
        lock.release()
        raise
    try:
        files.replace(broker_file_path(home), msgspec.json.encode(entry) + b"\n")
    except BaseException:
        claimed.release()
        raise
    return claimed


def already_served(home: RootPaths) -> UsageError:
    """Return the error for a root that another broker serves."""
    other = read_broker_file(home)
    pid = f" (pid {other.owner.pid})" if other is not None else ""  # without: it claimed the root just now
    return UsageError(
        f"a broker already serves {home.root}{pid}", "beam broker status; beam broker stop", subject=str(home.root)
    )


def release_root(home: RootPaths, claimed: Claim) -> None:
    """Remove broker.json, unless another process has replaced it, and release the root."""
    if not claimed.why_lost():
        with contextlib.suppress(OSError):
            broker_file_path(home).unlink(missing_ok=True)
    claimed.release()


def read_broker_file(home: RootPaths) -> BrokerFile | None:
    """Return the content of broker.json, even if its broker is no longer alive; None if there is no such file. Raises
    CorruptError."""
    try:
        return typed_values.decode(files.read(broker_file_path(home), _MAX_BYTES), BrokerFile)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise CorruptError(
            f"{broker_file_path(home)} is damaged: {error}", "remove it", subject=str(broker_file_path(home))
        ) from error


def running_broker(home: RootPaths) -> BrokerFile | None:
    """Return the content of broker.json if its broker is alive, else None. A broker on another host counts as alive."""
    entry = read_broker_file(home)
    return None if entry is None or tree.is_alive(entry.owner) is False else entry


def yield_to_broker(context: RootContext, paths: AgentPaths) -> Generator[float, None, None]:
    """Wait until some process holds the agent, if a broker of this host serves the root. Yields the seconds to sleep.

    Waits half a second at most. Does not wait if there is no broker, or for a mailbox. A broker takes a new agent as
    soon as it is notified of the agent's files. The sender is often a little faster and, without this wait, would hold
    the agent for a whole turn.
    """
    if not broker_serves_root(context.home) or context.is_mailbox(paths.agent):
        return
    until = context.clock.monotonic() + _MOMENT_S
    while broker_serves_root(context.home) and is_free(paths.lock) and context.clock.monotonic() < until:
        yield _POLL_S


def broker_serves_root(home: RootPaths) -> bool:
    """Return whether a broker of this host serves the root."""
    try:
        entry = read_broker_file(home)
    except BeamError:  # starting or stopping a broker reports this error
        return False
    return entry is not None and bool(tree.is_alive(entry.owner))
