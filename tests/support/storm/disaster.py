"""Disasters: processes of the storm that are killed, or stopped and go on, at random moments and from a seed.

What outlived its parent becomes this process's (tests/conftest.py), so it is reaped here: there are thousands.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from beam.process import table
from tests.support.cli import RUNNING, processes_with
from tests.support.storm.place import Place

KINDS = {"broker": 3, "worker": 4, "command": 3, "guard": 3, "agent": 2}
_KILLS = 0.6  # the others are stopped
_REAP_S = 20.0  # who started a process itself has asked how it ended by then


class Disaster(threading.Thread):
    """Strikes about every `pause` seconds until it is called off; then all that it stopped goes on."""

    def __init__(self, place: Place, seed: int, *, pause: float) -> None:
        super().__init__(daemon=True)
        self.base = str(place.beam.base)
        self.chance = random.Random(f"{seed} disaster")
        self.pause = pause
        self.struck: Counter[str] = Counter()
        self._stopped: dict[int, float] = {}  # pid to when it goes on
        self._over = threading.Event()
        self._dead: dict[int, float] = {}  # pid to when it was seen dead first

    def run(self) -> None:
        while not self._over.wait(self.chance.uniform(0.0, 2 * self.pause)):
            self._go_on(time.monotonic())
            self._strike()
            self._reap(time.monotonic())

    def _reap(self, now: float) -> None:
        dead = [pid for pid in table.children() if (row := table.stat_of(pid)) and not row[3]]
        self._dead = {pid: self._dead.get(pid, now) for pid in dead}
        for pid, since in self._dead.items():
            if now - since > _REAP_S:
                with contextlib.suppress(ChildProcessError):
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)

    def call_off(self) -> None:
        """Stop striking, and let stopped processes continue."""
        self._over.set()
        self.join()
        self._go_on(float("inf"))

    def _strike(self) -> None:
        found: dict[str, list[int]] = {}
        for pid in processes_with(self.base):
            kind = kind_of(pid)
            if kind is not None and pid not in self._stopped:
                found.setdefault(kind, []).append(pid)
        if not found:
            return
        kinds = sorted(found)
        kind = self.chance.choices(kinds, [KINDS[each] for each in kinds])[0]
        pid = self.chance.choice(sorted(found[kind]))
        kills = self.chance.random() < _KILLS
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if kills else signal.SIGSTOP)
            self.struck[f"{kind} {'killed' if kills else 'stopped'}"] += 1
            if not kills:
                self._stopped[pid] = time.monotonic() + self.chance.choice((0.05, 0.3, 1.0, 2.5))

    def _go_on(self, now: float) -> None:
        for pid, when in list(self._stopped.items()):
            if when <= now:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
                del self._stopped[pid]


def kind_of(pid: int) -> str | None:
    """What the process is; None where it is gone."""
    if pid in RUNNING:
        return "command"
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if b"beam.broker.serving.worker" in argv:
        return "worker"
    if b"beam" in argv:
        return "broker" if b"broker" in argv and b"--poll" in argv and b"start" not in argv else "command"
    if any(b"guard.main" in word for word in argv):
        return "guard"
    return "agent" if argv != [b""] else None
