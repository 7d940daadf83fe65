"""Delivers notifications: a detached process that empties the spool of one root, and exits.

The process is started by `python -m beam.notify.deliver ROOT`. A lock allows one process per root. Each notification is
tried up to `Retries.tries` times. If the process is killed, the next process counts the tries from the beginning.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from beam.agents import registry
from beam.base import files, own_program
from beam.base.errors import BeamError
from beam.config.resolve import BEAM_YAML, load, load_user_file
from beam.model.notification import Notification, NotifyTarget
from beam.notify import spool
from beam.notify.spool import Item, TryResult
from beam.process.program import environment
from beam.root import discovery
from beam.root.paths import RootPaths, user_home
from beam.secrets.redact import redact
from beam.secrets.shown import blanked
from beam.store.lock import try_lock
from beam.trust import ledger
from beam.trust.declarations import findings_of_notify

_MAX_AT_ONCE = 4
_POLL_S = 0.2
_ATTEMPT_S = 60.0  # longer than any command or webhook may take; a try that takes longer is abandoned


class Deliver(Protocol):
    """Tries once to deliver a notification. `is_folders` says whether the target is from the folder's own beam.yaml."""

    def __call__(self, target: NotifyTarget, item: Item, *, is_folders: bool) -> TryResult: ...


class Retries(Struct, frozen=True, kw_only=True):
    """How often a notification is tried, and the pauses between two tries in seconds. The first pause is `first_s`.
    Each further pause is twice as long, but at most `longest_s`. From each pause a random part of up to a half is
    subtracted."""

    tries: int = 8
    first_s: float = 1.0
    longest_s: float = 60.0

    def pause_s(self, tries: int, part: float) -> float:
        """Return the pause in seconds after `tries` failed tries. `part` is a random number from 0 to 1."""
        return float(min(self.longest_s, self.first_s * 2 ** (tries - 1)) * (0.5 + part / 2))


class Targets:
    """The targets of a root, read from its present configuration. A target in the folder's own beam.yaml counts only if
    the folder is trusted. If the configuration can't be read, the targets of the user's own file count alone.

    `found` maps the key of each target that counts to (target, whether it is from the folder's own beam.yaml).
    `untrusted` contains the keys of the targets that do not count. `unreadable` says why the configuration can't be
    read; it is "" if all of it was read.
    """

    def __init__(self, home: RootPaths, environ: Mapping[str, str]) -> None:
        self.found: dict[str, tuple[NotifyTarget, bool]] = {}
        self.untrusted: set[str] = set()
        self.unreadable = ""
        try:
            config = load(home, environ=environ, adapters=registry.NAMES)
        except BeamError as error:
            self.unreadable = f"the configuration can't be read: {error.message}"[:200]
            own = load_user_file(environ, adapters=registry.NAMES)
            self.found = {target.key: (target, False) for target in (own.notify if own is not None else ())}
            return
        standing = ledger.standing_of(home.project, findings_of_notify(config), environ)
        for origin, file in config.files:
            for target in file.notify:
                if origin == BEAM_YAML and not standing.trusted:
                    self.untrusted.add(target.key)
                else:
                    self.found.setdefault(target.key, (target, origin == BEAM_YAML))


def deliver_with(home: RootPaths, environ: Mapping[str, str], log: int) -> Deliver:
    """Return a function that tries once to deliver a notification, by the target's command or webhook."""

    def deliver(target: NotifyTarget, item: Item, *, is_folders: bool) -> TryResult:
        if target.command:
            cwd = home.project if is_folders else user_home(environ)
            return run_command(target, item.notification, environ, cwd, log)
        from beam.notify import webhook

        return webhook.post(target, item.notification, environ, timestamp=int(time.time()))

    return deliver


class Delivery:
    """Delivers all notifications that wait in one spool."""

    def __init__(
        self,
        directory: Path,
        targets: Callable[[], Targets],
        deliver: Deliver,
        *,
        retries: Retries,
        now: Callable[[], float] = time.monotonic,
        part: Callable[[], float] = random.random,
    ) -> None:
        self._directory = directory
        self._targets = targets
        self._deliver = deliver
        self._retries = retries
        self._now = now
        self._part = part
        self._tries: dict[str, int] = {}
        self._due: dict[str, float] = {}
        self._running: dict[str, float] = {}  # by file name: when the try is given up
        self._ended: queue.SimpleQueue[tuple[str, Item, TryResult]] = queue.SimpleQueue()

    def run(self) -> None:
        """Deliver notifications until none waits and no try is running."""
        while self.step() or self._running:
            try:
                self._finish_try(*self._ended.get(timeout=_POLL_S))
            except queue.Empty:
                self._give_up_slow()

    def step(self) -> bool:
        """Start the tries that are due. Return whether a notification waits."""
        waiting = spool.waiting_names(self._directory)
        due = [name for name in waiting if name not in self._running and self._due.get(name, 0) <= self._now()]
        targets = self._targets() if due else None
        for name in due[: max(0, _MAX_AT_ONCE - len(self._running))]:
            assert targets is not None
            self._start(name, targets)
        return bool(waiting)

    def _start(self, name: str, targets: Targets) -> None:
        item = spool.read(self._directory, name)
        found = targets.found.get(item.target) if item is not None else None
        if item is not None and found is None and targets.unreadable:
            self._running[name] = self._now() + _ATTEMPT_S
            self._ended.put((name, item, TryResult(error=targets.unreadable)))
            return
        if item is None or found is None:
            why = "the folder is not trusted" if item and item.target in targets.untrusted else "it has no target"
            spool.give_up(self._directory, name, item and msgspec.structs.replace(item, error=why))
            return
        self._running[name] = self._now() + _ATTEMPT_S
        threading.Thread(target=self._try, args=(name, item, *found), daemon=True).start()

    def _try(self, name: str, item: Item, target: NotifyTarget, is_folders: bool) -> None:
        try:
            tried = self._deliver(target, item, is_folders=is_folders)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this try alone
            tried = TryResult(error=f"{type(error).__name__}: {error}"[:200])
        self._ended.put((name, item, tried))

    def _finish_try(self, name: str, item: Item, tried: TryResult) -> None:
        if self._running.pop(name, None) is None:
            return
        if not tried.error:
            spool.mark_delivered(self._directory, name)
            return
        tries = self._tries[name] = self._tries.get(name, 0) + 1
        if tried.again and tries < self._retries.tries:
            self._due[name] = self._now() + max(tried.wait_s, self._retries.pause_s(tries, self._part()))
            return
        _print_error(f"{item.notification.id} was given up after {tries} tries: {tried.error}")
        spool.give_up(self._directory, name, msgspec.structs.replace(item, tries=tries, error=tried.error))

    def _give_up_slow(self) -> None:
        for name, until in list(self._running.items()):
            item = spool.read(self._directory, name)
            if until < self._now() and item is not None:
                self._finish_try(name, item, TryResult(error=f"no answer within {_ATTEMPT_S:.0f} s"))


def _print_error(text: str) -> None:
    sys.stderr.write(blanked(f"beam notify: {text}\n"))
    sys.stderr.flush()


def main(argv: list[str]) -> int:
    """Deliver all waiting notifications of the root whose path is the first argument. Return the exit code."""
    environ = dict(os.environ)
    home = discovery.root_at(Path(argv[0]), environ)
    own_program.hold(home.project)
    discovery.check_folder(home, environ)
    while spool.waiting_names(home.notify):
        lock = try_lock(home.notify / spool.LOCK)
        if lock is None:
            return 0  # the process that has the lock checks the spool again after releasing it
        with lock:
            deliver = deliver_with(home, environ, sys.stderr.fileno())
            Delivery(home.notify, lambda: Targets(home, environ), deliver, retries=Retries()).run()
    return 0


# -- commands ----------------------------------------------------------------------------------------------------------
# Delivers a notification by running the command of a target, with the notification on stdin.


_TIMEOUT_S = 30
_MAX_OUTPUT = 64 << 10  # bytes of what one try prints that are kept


def run_command(
    target: NotifyTarget, notification: Notification, environ: Mapping[str, str], cwd: Path, log: int
) -> TryResult:
    """Run the target's command once in the folder `cwd`, and return the result of this try. What the command printed
    goes to the descriptor `log` at its end, without secrets. After 30 seconds the command and its process group are
    killed."""
    with tempfile.TemporaryFile() as output:  # no pipe: a process that the command leaves behind must not hold this up
        tried = _run(target, notification, environ, cwd, output.fileno())
        printed = os.pread(output.fileno(), _MAX_OUTPUT, 0).decode("utf-8", "replace")
    with contextlib.suppress(OSError):  # a log that can't be written stops no notification
        os.write(log, redact(printed)[0].encode("utf-8", "replace"))
    return tried


def _run(
    target: NotifyTarget, notification: Notification, environ: Mapping[str, str], cwd: Path, output: int
) -> TryResult:
    env = environment({**environ, "PATH": own_program.search_path(environ)}, {})
    try:
        process = subprocess.Popen(
            list(target.command),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return TryResult(error=f"can't run {target.command[0][:80]}: {getattr(error, 'strerror', None) or error}")
    try:
        process.communicate(msgspec.json.encode(notification) + b"\n", timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TryResult(error=f"{target.command[0][:80]} did not end within {_TIMEOUT_S} s")
    return TryResult() if process.returncode == 0 else TryResult(error=f"exit code {process.returncode}")


if __name__ == "__main__":
    try:
        own_program.is_own_process()
        files.check_descriptors(files.TURN_DESCRIPTORS)
        sys.exit(main(sys.argv[1:]))
    except BeamError as failed:
        _print_error(str(failed))
        sys.exit(int(failed.exit_code))
