"""The real `beam`, a process of its own in a scratch home and a scratch project.

A test gets a forked command (`warm`); one that a shell runs is an interpreter of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beam.api import Beam
from beam.base.errors import BeamError
from beam.process import table
from beam.root import discovery
from beam.root.paths import RootPaths
from tests.support.warm import RUNNING, Forked, Warm, is_cold

BEAM = (sys.executable, "-m", "beam")
BEAM_WORDS = shlex.join(BEAM)  # for a shell
Started = subprocess.Popen[bytes] | Forked

_WARM: list[Warm] = []


def _warm() -> Warm:
    if not _WARM or _WARM[-1].process.poll() is not None:
        _WARM.append(Warm())
    return _WARM[-1]


@dataclass(frozen=True)
class Ended:
    """How a command ended. `code` is as a shell sees it (128 + signal)."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as exactly one JSON object."""
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """stdout as JSON Lines."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Cli:
    """A project directory with its own HOME; nothing of the caller's environment but PATH gets in."""

    base: Path
    env: dict[str, str] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.project.mkdir(parents=True, exist_ok=True)
        (self.base / "home").mkdir(exist_ok=True)
        self.env = {
            "HOME": str(self.base / "home"),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TMPDIR": str(self.base),
            **self.env,
        }

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def root(self) -> Path:
        """Where the root of the project lies."""
        return discovery.find_root(None, cwd=self.project, environ=self.env).root

    @property
    def home(self) -> RootPaths:
        """The same with its project folder."""
        return discovery.find_root(None, cwd=self.project, environ=self.env)

    def with_env(self, env: Mapping[str, str]) -> Cli:
        """The same place, with more environment."""
        return Cli(self.base, {**self.env, **env}, self.started)

    def __call__(
        self, *args: str, stdin: str | bytes | None = None, timeout: float = 60, env: Mapping[str, str] = {}
    ) -> Ended:
        """Runs `beam ARGS` to its end, where that is the same in a process that `warm` forks."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        given = {**self.env, **env}
        if is_cold(given):
            return self.cold(*args, stdin=data, timeout=timeout, env=env)
        done = _warm().run(args, cwd=self.project, env=given, data=data, timeout=timeout)
        return _ended(done)

    def cold(self, *args: str, stdin: bytes | None = None, timeout: float = 60, env: Mapping[str, str] = {}) -> Ended:
        """The same in an interpreter of its own."""
        done = subprocess.run(
            [*BEAM, *args],
            cwd=self.project,
            env={**self.env, **env},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return _ended(done)

    def start(self, *args: str, env: Mapping[str, str] = {}, stdin: Any = subprocess.DEVNULL) -> Started:
        """Starts `beam ARGS`, in a session of its own."""
        given = {**self.env, **env}
        if stdin not in (subprocess.DEVNULL, subprocess.PIPE) or is_cold(given):
            return self.start_cold(*args, env=env, stdin=stdin)
        process = _warm().start(args, cwd=self.project, env=given, stdin=stdin)
        self.started.append(process)
        return process

    def start_cold(
        self, *args: str, env: Mapping[str, str] = {}, stdin: Any = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """The same in an interpreter of its own."""
        process = subprocess.Popen(
            [*BEAM, *args],
            cwd=self.project,
            env={**self.env, **env},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """Ends what a test that failed left running, so that its failure is not the next test's. Closes all streams."""
        for process in self.started:
            if process.returncode is None:
                kill_hard(process)
            close(process)

    def shell(self, script: str, timeout: float = 60, env: Mapping[str, str] = {}) -> Ended:
        """Runs a bash script in which `beam` is this beam."""
        prelude = f'beam() {{ {BEAM_WORDS} "$@"; }}\n'
        done = subprocess.run(
            ["bash", "-c", prelude + script],
            cwd=self.project,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def config(self, text: str, *, trusted: bool = True) -> None:
        """Writes beam.yaml; with `trusted` the folder may run code, also after a test changes more in it."""
        (self.project / "beam.yaml").write_text(text)
        if trusted:
            with contextlib.suppress(BeamError):  # what is wrong in it, a test wants to see later
                Beam(cwd=self.project, environ=self.env).trust()
            self.env["BEAM_TRUST"] = "1"

    def journal(self, agent: str) -> list[dict[str, Any]]:
        """Every event of the agent's journal, read without beam; the hashes of the lines are left out."""
        found = []
        for segment in sorted((self.root / "agents" / agent / "journal").glob("*.jsonl")):
            for line in segment.read_bytes().split(b"\n"):
                if line and not line.startswith(b'{"type":"snapshot"'):
                    try:
                        found.append({key: value for key, value in json.loads(line).items() if key != "hash"})
                    except ValueError:
                        found.append({"type": "<torn>", "seq": None, "line": line.decode(errors="replace")})
        return found

    def types(self, agent: str) -> list[str]:
        """The types of its events, in order."""
        return [event["type"] for event in self.journal(agent)]

    def box(self, agent: str, name: str) -> list[str]:
        """The files in one box of the agent's queue."""
        directory = self.root / "agents" / agent / "queue" / name
        return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []

    def everything_written(self) -> bytes:
        """Every byte under the root and in the scratch home's state, but for queues (they carry text verbatim)."""
        found = b""
        for top in (self.root, self.base / "home"):
            for path in sorted(top.rglob("*")):
                if path.is_file() and "queue" not in path.parts:
                    found += path.read_bytes()
        return found


def _ended(done: subprocess.CompletedProcess[bytes]) -> Ended:
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Ended(code, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def eventually(claim: Callable[[], bool], timeout: float = 20, what: str | Callable[[], str] = "") -> None:
    """Waits until the claim holds; fails with `what` if it does not within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = 0.005
    while not claim():
        assert time.monotonic() < deadline, (what() if callable(what) else what) or "it did not happen in time"
        time.sleep(pause)
        pause = min(pause * 1.3, 0.05)


def is_held(beam: Cli, agent: str) -> bool:
    """Whether somebody holds the agent."""
    with (beam.root / "locks" / agent).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def watching(process: Started) -> None:
    """Waits until the process is told of changes of files: until it has an inotify watch."""

    def watches() -> bool:
        assert process.poll() is None, "it ended before it watched"
        return any("inotify wd:" in _text(path) for path in Path(f"/proc/{process.pid}/fdinfo").glob("*"))

    eventually(watches, what="it watches nothing")


def asleep(process: Started) -> None:
    """Waits until the process waits for something: for a while it has not had and not wanted the processor."""

    def used() -> tuple[str, ...]:
        assert process.poll() is None, "it ended before"
        state, *rest = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (state, *rest[10:12])

    def stands() -> bool:
        before = used()
        time.sleep(0.2)
        return before[0] == "S" and used() == before

    eventually(stands, 60, "it does not wait for anything")


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # closed in between
        return ""


def processes_with(text: str) -> list[int]:
    """The pids of processes whose environment or command line holds the text."""
    found = []
    forked = RUNNING.copy()
    for pid in table.pids():
        if pid != os.getpid():
            seen = (
                table.read_file(f"/proc/{pid}/environ") + table.read_file(f"/proc/{pid}/cmdline") + forked.get(pid, b"")
            )
            if text.encode() in seen and (stat := table.stat_of(pid)) and stat[3]:
                found.append(pid)
    return found


def argv_of(pid: int) -> list[str]:
    """The arguments of a process; of a forked command what it was given. None of one that is gone."""
    if pid in RUNNING:
        return ["beam", *json.loads(RUNNING[pid])["args"]]
    return table.read_file(f"/proc/{pid}/cmdline").decode(errors="replace").split("\0")


def kill_hard(process: Started) -> None:
    """SIGKILL, and its end."""
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    close(process)


def close(process: Started) -> None:
    """Closes its streams: nobody reads what is left in them."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
