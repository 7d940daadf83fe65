"""An agent that leaves a nasty process tree behind, and what tests need to look at it.

python trees.py KIND FOLDER stay|exit: makes the tree, waits until it runs, says "ready", and stays or exits with 7.
Every process of a tree has FOLDER in its command line, whatever else it hides.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

PR_SET_DUMPABLE = 4
MANY = 50


def until(condition: Callable[[], object], *, seconds: float = 30.0) -> float:
    """Waits for a condition; the seconds that it took. Fails after `seconds`."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.002)
    return time.monotonic() - began


def in_folder(folder: Path) -> list[int]:
    """The processes whose command line names the folder: the tree, its agent and its guard; never this process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(folder).encode() in words and b"holder" not in words:
                found.append(int(entry.name))
    return found


def is_gone(folder: Path) -> bool:
    """Whether none of them is left; looks often, and at the file of a chain of forks, which is easily missed."""
    chain = folder / "chain"
    before = chain.stat().st_mtime_ns if chain.exists() else 0
    return not any(in_folder(folder) for _ in range(10)) and (not before or chain.stat().st_mtime_ns == before)


# -- the program -------------------------------------------------------------------------------------------------------


def _rest(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    while True:
        signal.pause()


def _again(folder: str, what: str, *, env: dict[str, str] | None) -> None:
    argv = [sys.executable, "-I", "-S", __file__, what, folder]
    os.execve(sys.executable, argv, dict(os.environ) if env is None else env)


def _fork(body: Callable[[], None]) -> None:
    if os.fork() == 0:
        try:
            body()
        finally:
            os._exit(0)


def _daemon(body: Callable[[], None]) -> None:
    def middle() -> None:
        os.setsid()
        _fork(body)

    _fork(middle)


def _stop_then_rest(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        signal.pause()


def _ignore_then_rest(folder: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _rest(folder)


def _hide_then_rest(folder: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    _rest(folder)


def _new_session(body: Callable[[], None]) -> None:
    os.setsid()
    body()


def _chain(folder: str) -> None:
    chain = Path(folder, "chain")
    while True:
        chain.touch()
        if os.fork() > 0:
            os._exit(0)
        os.setsid()


def _stubborn_chain(folder: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    chain = Path(folder, "chain")
    while True:
        chain.touch()
        if os.fork() > 0:
            os._exit(0)


def _many(folder: str) -> None:
    for _ in range(MANY):
        _daemon(lambda: _rest(folder))


CLEARED: dict[str, str] = {}
BODIES: dict[str, Callable[[str], None]] = {
    "rest": _rest,
    "stop-then-rest": _stop_then_rest,
    "ignore-then-rest": _ignore_then_rest,
}
TREES: dict[str, Callable[[str], None]] = {
    "plain": lambda folder: _fork(lambda: _rest(folder)),
    "setsid": lambda folder: _fork(lambda: _new_session(lambda: _rest(folder))),
    "daemon": lambda folder: _daemon(lambda: _rest(folder)),
    "cleared": lambda folder: _fork(lambda: _again(folder, "rest", env=CLEARED)),
    "cleared-daemon": lambda folder: _daemon(lambda: _again(folder, "rest", env=CLEARED)),
    "stubborn": lambda folder: _fork(lambda: _ignore_then_rest(folder)),
    "stubborn-cleared-daemon": lambda folder: _daemon(lambda: _again(folder, "ignore-then-rest", env=CLEARED)),
    "stopped": lambda folder: _fork(lambda: _stop_then_rest(folder)),
    "stopped-cleared-daemon": lambda folder: _daemon(lambda: _again(folder, "stop-then-rest", env=CLEARED)),
    "undumpable-daemon": lambda folder: _daemon(lambda: _hide_then_rest(folder)),
    "chain": lambda folder: _fork(lambda: _chain(folder)),
    "stubborn-chain": lambda folder: _fork(lambda: _stubborn_chain(folder)),
    "many": _many,
}


def main(kind: str, folder: str, then: str) -> None:
    TREES[kind](folder)
    expected = MANY if kind == "many" else 1
    until(lambda: len(list(Path(folder).iterdir())) >= expected, seconds=20)
    print("ready", flush=True)
    while then == "stay":
        signal.pause()
    os._exit(7)


if __name__ == "__main__":
    if sys.argv[1] in BODIES:
        BODIES[sys.argv[1]](sys.argv[2])
    else:
        main(*sys.argv[1:])
