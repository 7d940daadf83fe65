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
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LANG = "C.UTF-8"
_STARTS = ("PYTHON", "LC_")  # read by the interpreter
_ROOT = Path(__file__).parents[2]
RUNNING: dict[int, bytes] = {}  # what each forked command that somebody waits for was given; /proc does not tell
_FIRST_OWN, _LAST = 3, 256  # descriptors
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
        """It forks no more."""
        self._control.close()
        self.process.wait(10)

    def run(
        self, args: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], data: bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """As `subprocess.run` with captured output. Raises subprocess.TimeoutExpired, the process then ended."""
        order = json.dumps({"args": args, "cwd": str(cwd), "env": dict(env), "umask": _umask()}).encode()
        mine, theirs = socket.socketpair()
        with mine, mine.makefile("r") as said:
            feed, out, err = _Feed(data), _Read(), _Read()
            with theirs:
                given = [theirs.fileno(), feed.theirs, out.theirs, err.theirs]
                socket.send_fds(self._control, [b"run"], given)
            for thread in (feed, out, err):
                os.close(thread.theirs)
                thread.start()
            mine.sendall(len(order).to_bytes(8, "big") + order)
            pid = _number(said.readline())
            RUNNING[pid] = order
            try:
                deadline = time.monotonic() + timeout
                mine.settimeout(timeout)
                code = _number(said.readline())
                for stream in (out, err):
                    stream.join(max(0.0, deadline - time.monotonic()))
                    if stream.is_alive():
                        raise TimeoutError
            except BaseException as error:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                if isinstance(error, TimeoutError):
                    raise subprocess.TimeoutExpired(args, timeout) from None
                raise
            finally:
                del RUNNING[pid]
        return subprocess.CompletedProcess(args, code, out.data, err.data)


def _number(line: str) -> int:
    if not line:
        raise RuntimeError("the process that forks has ended; its stderr says why")
    return int(line)


def _umask() -> int:
    with _ASKING:  # to ask for it is to change it
        mask = os.umask(0o077)
        os.umask(mask)
    return mask


class _Feed(threading.Thread):
    """Writes what a process is to read, and closes it. None: it reads nothing."""

    def __init__(self, data: bytes | None) -> None:
        super().__init__(daemon=True)
        self._data = data
        if data is None:
            self.theirs, self._mine = os.open(os.devnull, os.O_RDONLY), -1
        else:
            self.theirs, self._mine = os.pipe()

    def run(self) -> None:
        if self._data is not None:
            with contextlib.suppress(BrokenPipeError), os.fdopen(self._mine, "wb") as file:
                file.write(self._data)


class _Read(threading.Thread):
    """Reads what a process writes, to its end."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._mine, self.theirs = os.pipe()
        self.data = b""

    def run(self) -> None:
        with os.fdopen(self._mine, "rb") as file:
            self.data = file.read()


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
    """This process is `beam` now."""
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
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        time.tzset()
        from beam.base import faults
        from beam.cli.main import main

        faults._armed = os.environ.get("BEAM_CRASH_AT", "")  # as if it was imported now
        sys.argv = ["beam", *order["args"]]
        main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(70)


if __name__ == "__main__":
    serve()
