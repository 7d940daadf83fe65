"""`beam` without its start-up: a process that has imported all of it forks one for each command.

Most of a short command's CPU time is imports. What forks is this package's code, not a copy of it: the child has the
arguments, streams, directory and environment that it is given, and runs `beam.cli.main.main`. What a process only
reads once when it starts (`is_cold`) needs a real one, as does whatever a test starts to look at while it runs. Limits
of resources and signals that a test ignores are those of the process that forks.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

LANG = "C.UTF-8"
_STARTS = ("PYTHON", "LC_")  # read by the interpreter
_ROOT = Path(__file__).parents[2]
RUNNING: dict[int, bytes] = {}  # what each forked command that somebody waits for was given; /proc does not tell
_FIRST_OWN, _LAST = 3, 256  # descriptors
_FITS = 4096  # bytes that every empty pipe takes at once
_ASKING = threading.Lock()


def is_cold(env: Mapping[str, str]) -> bool:
    """Whether a command with this environment needs an interpreter of its own."""
    return env.get("LANG") != LANG or any(name.startswith(_STARTS) for name in env)


# -- whoever asks ------------------------------------------------------------------------------------------------------


class Warm:
    """The process that forks, one for each process of tests; it ends with it."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {"PATH": os.environ["PATH"], "LANG": LANG, "HOME": "/nonexistent"}
        with theirs:
            self.process = subprocess.Popen([sys.executable, "-m", __name__], cwd=_ROOT, env=env, stdin=theirs)

    def close(self) -> None:
        """End the process that forks."""
        self._control.close()
        self.process.wait(10)

    def run(
        self, args: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], data: bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """As `subprocess.run` with captured output. Raises subprocess.TimeoutExpired, the process then ended."""
        stdin = subprocess.DEVNULL if data is None else subprocess.PIPE
        first, rest = (data or b"")[:_FITS], (data or b"")[_FITS:]
        with self.start(args, cwd=cwd, env=env, stdin=stdin, first=first, own_session=False) as process:
            out, err = process.communicate(rest, timeout)
            return subprocess.CompletedProcess(args, process.wait(), out, err)

    def start(
        self,
        args: tuple[str, ...],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        first: bytes = b"",
        own_session: bool = True,
    ) -> Forked:
        """As `subprocess.Popen` with pipes for its output, in a session of its own. `stdin` is DEVNULL or PIPE, with
        `first` in it before the command begins: a forked one is quicker than a shell that starts `printf x | beam`."""
        order = {"args": args, "cwd": str(cwd), "env": dict(env), "umask": _umask(), "own_session": own_session}
        mine, theirs = socket.socketpair()
        feeds, fed = os.pipe() if stdin == subprocess.PIPE else (os.open(os.devnull, os.O_RDONLY), None)
        if fed is not None:
            os.write(fed, first)
        out, outer = os.pipe()
        err, errer = os.pipe()
        process = Forked(
            mine, None if fed is None else os.fdopen(fed, "wb"), os.fdopen(out, "rb"), os.fdopen(err, "rb")
        )
        try:
            try:
                socket.send_fds(self._control, [b"run"], [theirs.fileno(), feeds, outer, errer])
            finally:
                theirs.close()  # else nobody would notice that the other process has ended
                for number in (feeds, outer, errer):
                    os.close(number)
            process.begin(json.dumps(order).encode())
        except BaseException:
            mine.close()
            process.close()
            raise
        return process


class Forked:
    """A command that a `Warm` has forked, with what tests use of `subprocess.Popen`."""

    def __init__(self, said: socket.socket, stdin: IO[bytes] | None, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self.pid = 0
        self._said = said
        self._rest = b""
        self._order = b""
        self._read: tuple[_Read, _Read] | None = None

    def begin(self, order: bytes) -> None:
        """Says what to run. Raises RuntimeError and OSError where the process that forks has ended."""
        self._order = order
        self._said.sendall(len(order).to_bytes(8, "big") + order)
        self.pid = self._number()
        RUNNING[self.pid] = order

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        if self.poll() is None:
            self.kill()
            self.wait(10)
        self.close()

    def close(self) -> None:
        """Closes its streams: nobody reads what is left in them."""
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                with contextlib.suppress(BrokenPipeError):
                    file.close()

    def poll(self) -> int | None:
        """Its exit code, or the signal's number negated; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self.returncode = self._number(timeout)
            del RUNNING[self.pid]
            self._said.close()
        return self.returncode

    def communicate(self, data: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Writes to its stdin, and reads all output until its end. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._read is None:
            self._read = _Read(self.stdout), _Read(self.stderr)
            if self.stdin is not None:
                _Feed(self.stdin, data or b"").start()
            for thread in self._read:
                thread.start()
        for thread in self._read:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self._order.decode(), timeout or 0.0)
        self.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return self._read[0].data, self._read[1].data

    def _number(self, timeout: float | None = None) -> int:
        """The next number that the process that forks says."""
        while b"\n" not in self._rest:
            if not select.select([self._said], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._order.decode(), timeout or 0.0)
            piece = self._said.recv(64)
            if not piece:
                raise RuntimeError("the process that forks has ended; its stderr says why")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return int(line)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _umask() -> int:
    with _ASKING:  # to ask for it is to change it
        mask = os.umask(0o077)
        os.umask(mask)
    return mask


class _Feed(threading.Thread):
    """Writes what a process is to read, and closes it."""

    def __init__(self, file: IO[bytes], data: bytes) -> None:
        super().__init__(daemon=True)
        self._file = file
        self._data = data

    def run(self) -> None:
        with contextlib.suppress(BrokenPipeError), self._file:
            self._file.write(self._data)


class _Read(threading.Thread):
    """Reads what a process writes, to its end."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._file = file
        self.data = b""

    def run(self) -> None:
        with self._file:
            self.data = self._file.read()


# -- the process that forks --------------------------------------------------------------------------------------------


def serve() -> None:
    """Forks for each order on stdin, a socket, until its other end is closed."""
    if sys.platform == "linux":
        sys.modules["ssl"] = None  # type: ignore[assignment]  # as in beam.cli.main
    for module in pkgutil.walk_packages(importlib.import_module("beam").__path__, "beam."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=os.dup(0))
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(control, selectors.EVENT_READ)
        ready.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is control:
                    message, given, _, _ = socket.recv_fds(control, 16, 4)
                    if not message:
                        return
                    asker = socket.socket(fileno=given[0])
                    pid = _fork(asker, given[1:])
                    if pid:
                        running[pid] = asker
                        _say(asker, pid)
                else:
                    os.read(woken, 4096)
            for pid in list(running):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    asker = running.pop(pid)
                    _say(asker, os.waitstatus_to_exitcode(status))
                    asker.close()


def _say(asker: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # it waits no more
        asker.sendall(b"%d\n" % number)


def _fork(asker: socket.socket, streams: list[int]) -> int:
    """The pid of what was forked; 0 where whoever asked is gone."""
    with asker.makefile("rb") as file:
        order = file.read(int.from_bytes(file.read(8), "big"))
    pid = os.fork() if order else 0
    if order and pid == 0:
        _become(json.loads(order), streams)
    for number in streams:
        os.close(number)
    return pid


def _become(order: dict[str, Any], streams: list[int]) -> None:
    """Become `beam` in this process."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(_FIRST_OWN, _LAST)
        faulthandler.enable(2)  # a crash of the interpreter says where
        was = sys.stdin, sys.stdout, sys.stderr
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            old = was[number]
            stream = open(  # noqa: SIM115, PTH123 - it lives as long as the process
                number,
                "w" if number else "r",
                encoding=old.encoding,
                errors=old.errors,
                buffering=1 if name == "stderr" else -1,
            )
            setattr(sys, name, stream)
        os.umask(order["umask"])
        if order["own_session"]:
            os.setsid()
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        time.tzset()
        from beam.base import faults
        from beam.cli.main import main

        faults._armed_point = os.environ.get("BEAM_CRASH_AT", "")  # as if it was imported now
        sys.argv = ["beam", *order["args"]]
        main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(70)


if __name__ == "__main__":
    serve()
