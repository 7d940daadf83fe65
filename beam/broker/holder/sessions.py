"""Locks of the sessions of agent CLIs, so that two roots can't run turns in the same session."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from beam.base import files
from beam.base.digest import sha256
from beam.base.errors import LimitError
from beam.broker.inbox.context import RootContext
from beam.root.paths import state_dir
from beam.store.lock import try_lock


@contextlib.contextmanager
def session_lock(context: RootContext, adapter: str, session_id: str | None, *, scope: str = "") -> Iterator[None]:
    """Keep the session locked as long as the context lasts, so that no other process resumes it. If `session_id` is
    None, lock nothing. Raises LimitError if another process has the lock.

    `scope` separates sessions with the same id, for programs whose ids are not unique (such as ids that count from 1).
    """
    if session_id is None:
        yield
        return
    name = session_id
    if scope or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", session_id):
        name = sha256(f"{scope}\0{session_id}".encode("utf-8", "surrogatepass")).hexdigest()
    directory = state_dir(context.environ) / "sessions"
    files.make_directory(directory)
    lock = try_lock(directory / f"{adapter}-{name}")
    if lock is None:
        raise LimitError(
            f"{adapter} session {session_id} is in a turn of another root",
            "wait for it, or start your own: beam send --new",
            subject=session_id,
        )
    with lock:
        yield


class KeptSessionLock:
    """The lock of the session that a kept process uses. The lock is held from turn to turn."""

    def __init__(self) -> None:
        self._session: tuple[str, str] | None = None  # adapter, session id
        self._lock = contextlib.ExitStack()

    def has(self, adapter: str, session_id: str) -> bool:
        """Return whether this object has the lock of that session."""
        return self._session == (adapter, session_id)

    def keep(self, adapter: str, session_id: str, lock: contextlib.ExitStack) -> None:
        """Keep the lock of this session, and release the lock of the previous session."""
        self._lock.close()
        self._session, self._lock = (adapter, session_id), lock

    def close(self) -> None:
        """Release the lock."""
        self._session = None
        self._lock.close()
