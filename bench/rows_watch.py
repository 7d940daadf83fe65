"""What `beam watch` takes to tell of agent teams: alone, and beside a home of 200 teams."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beam.process import tree
from bench.measure import Bench, Figure, Series
from bench.place import BEAM, Project, until

_TEAM = "session-5eed0000"
_SESSION = "5eed0000-0000-4000-8000-000000000000"
_STATES = ("in_progress", "completed", "pending", "in_progress", "completed")
_TOLD = ("task.started", "task.completed", "task.reopened", "task.started", "task.completed")


class Home:
    """A scratch directory of Claude Code with one living team: this process is its lead."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        for name in ("teams", "tasks", "sessions", "projects/-p"):
            (folder / name).mkdir(parents=True)
        ticks = str(tree.start_ticks(os.getpid()))
        session = {"pid": os.getpid(), "procStart": ticks, "sessionId": _SESSION, "cwd": "/p"}
        (folder / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(session))
        self.team(_TEAM, _SESSION, int(time.time() * 1000))
        self.inbox = folder / "teams" / _TEAM / "inboxes" / "bob.json"
        self.inbox.write_text("[]")

    def team(self, name: str, session_id: str, created_ms: int) -> None:
        inboxes = self.path / "teams" / name / "inboxes"
        inboxes.mkdir(parents=True)
        (self.path / "tasks" / name).mkdir()
        members = [
            {"name": who, "agentId": f"{who}@{name}", "joinedAt": created_ms, "cwd": "/p"}
            for who in ("team-lead", "bob")
        ]
        config = {
            "name": name,
            "createdAt": created_ms,
            "leadAgentId": f"team-lead@{name}",
            "leadSessionId": session_id,
        }
        (self.path / "teams" / name / "config.json").write_text(json.dumps({**config, "members": members}))

    def task(self, number: int, status: str, team: str = _TEAM) -> None:
        task = {"id": str(number), "subject": f"task {number}", "status": status, "blocks": [], "blockedBy": []}
        (self.path / "tasks" / team / f"{number}.json").write_text(json.dumps(task))

    def mail(self, mail_id: str) -> None:
        new = self.inbox.with_name("bob.json.tmp.1")
        mail = {"from": "team-lead", "text": f"hello {mail_id}", "msg_id": mail_id, "read": False}
        new.write_text(json.dumps([mail]) + "\n")  # without an end of line, who reads lines from `tail` gets none
        new.rename(self.inbox)

    def grow(self, teams: int, tasks: int, transcript_bytes: int) -> None:
        """Other teams whose leads are gone, their tasks, and transcripts: names of one file, as each is read alone."""
        line = json.dumps({"type": "user", "timestamp": "2026-01-01T00:00:00.000Z", "message": {"content": "x" * 900}})
        whole = self.path / "projects" / "-p" / "whole"
        whole.write_text((line + "\n") * (transcript_bytes // teams // (len(line) + 1)))
        for number in range(teams):
            name, session_id = f"session-{number:08x}", f"{number:08x}-0000-4000-8000-000000000000"
            self.team(name, session_id, 1_700_000_000_000)
            for task in range(tasks // teams):
                self.task(task + 1, "pending", name)
            os.link(whole, self.path / "projects" / "-p" / f"{session_id}.jsonl")
        whole.unlink()


class Lines:
    """The lines that a process prints, each with the time when it came."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.found: list[tuple[float, bytes]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.found.append((time.perf_counter(), line))

    def when(self, words: bytes, after: int = 0, seconds: float = 10) -> float:
        """When a line with these words came."""
        until(lambda: any(words in line for _, line in self.found[after:]), words.decode(), seconds)
        return next(at for at, line in self.found[after:] if words in line)


@contextmanager
def _running(project: Project, *argv: str) -> Iterator[Lines]:
    process = subprocess.Popen(
        argv,
        env=project.env,
        cwd=project.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Lines(process)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _watching(project: Project, home: Home) -> Iterator[Lines]:
    with _running(project, *BEAM, "watch", "--json", "--claude-home", str(home.path)) as lines:
        number = 0

        def told() -> bool:
            nonlocal number
            home.mail(f"ready-{number}")
            number += 1
            time.sleep(0.3)
            return bool(lines.found)

        until(told, "the first line of beam watch")
        yield lines


def _latencies(home: Home, lines: Lines, count: int) -> tuple[float, ...]:
    found = []
    for number in range(count):
        time.sleep(0.05)
        mail_id = f"m-{number}-"
        seen = len(lines.found)
        began = time.perf_counter()
        home.mail(mail_id)
        found.append((lines.when(mail_id.encode(), seen) - began) * 1000)
    return tuple(found)


def _p99(samples: tuple[float, ...]) -> float:
    return statistics.quantiles(samples, n=100, method="inclusive")[98]


def _figures(where: str, home: Home, lines: Lines, project: Project, count: int) -> list[Figure]:
    ours = _latencies(home, lines, count)
    with _running(project, "tail", "-n", "0", "-F", str(home.inbox)) as tail:
        time.sleep(0.5)
        theirs = _latencies(home, tail, count)
    return [
        Figure(f"teams{where}: written -> line", Series("beam watch --json", ours), "ms", at_most=50),
        Figure(f"teams{where}: written -> line, p99", Series("beam watch --json", (_p99(ours),)), "ms", at_most=200),
        Figure(f"teams{where}: written -> line", Series("tail -F of the inbox", theirs), "ms"),
    ]


def teams(bench: Bench) -> list[Figure]:
    """From a message in a team's inbox to its line, beside `tail -F` of the inbox."""
    project = Project(bench, "teams")
    home = Home(project.base / "claude")
    with _watching(project, home) as lines:
        return _figures("", home, lines, project, bench.times(200))


def teams_big(bench: Bench) -> list[Figure]:
    """The same beside 200 teams, 10,000 tasks and 2 GB of transcripts (a tenth of these with --quick), and what the
    watcher costs there; then 5,000 changes of tasks in five seconds."""
    small = Home(bench.folder("teams-small") / "claude")
    project = Project(bench, "teams-big")
    home = Home(project.base / "claude")
    home.grow(200, 10_000, 200_000_000 if bench.quick else 2_000_000_000)
    for number in range(1, 1001):
        home.task(number, "pending")
    starts = [_start(project, home) for _ in range(bench.times(10))]
    walls, cpus = tuple(wall for wall, _ in starts), tuple(cpu for _, cpu in starts)
    count = bench.times(200)
    with _watching(project, small) as alone:
        before = _latencies(small, alone, count)
    with _watching(project, home) as lines:
        figures = _figures(", big home", home, lines, project, count)
        beside = figures[0].series.median / statistics.median(before)
        pid = lines.process.pid
        time.sleep(3)
        began, cpu = time.perf_counter(), _cpu_s(pid)
        time.sleep(5 if bench.quick else 30)
        idle = (_cpu_s(pid) - cpu) / (time.perf_counter() - began) * 100
        took, missing, late = _changes(home, lines)
        memory = _rss_mb(pid)
    assert not missing, f"{missing} of 5,000 changes were not told in order"
    return [
        *figures,
        Figure("teams, big home over small", Series("medians", (beside,)), "x", at_most=1.5),
        Figure("teams, big home: start", Series("beam watch until it watches", walls), "ms", at_most=1500),
        Figure("teams, big home: start, CPU", Series("user and system time of the same", cpus), "ms"),
        Figure("teams, big home: memory", Series("RSS at the end", (memory,)), "MB", at_most=120),
        Figure("teams, big home: idle", Series("CPU of one core", (idle,)), "%", at_most=1),
        Figure(
            "5,000 changes, all in order",
            Series("last change -> last line", (late,)),
            "ms",
            note=f"made in {took:.1f} s",
        ),
    ]


_FOREIGN = 500
_FOREIGN_BYTES = 5_000_000


def foreign(bench: Bench) -> list[Figure]:
    """From a line in a session file of a CLI that beam did not start to its line, beside 500 such sessions of 5 MB (a
    tenth of these with --quick); names of one file, as each is read alone."""
    project = Project(bench, "foreign")
    folder = project.base / "claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    whole, size = folder / "whole", _FOREIGN_BYTES // (10 if bench.quick else 1)
    whole.write_bytes(_said("x" * 900) * (size // len(_said("x" * 900))))
    for number in range(_FOREIGN):
        os.link(whole, folder / f"{number:08x}-0000-4000-8000-000000000000.jsonl")
    whole.unlink()
    project.env["CLAUDE_CONFIG_DIR"] = str(project.base / "claude")
    starts = []
    for _ in range(bench.times(10)):
        began = time.perf_counter()
        process = subprocess.Popen(
            [*BEAM, "watch", "--all"],
            env=project.env,
            cwd=project.cwd,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr
        assert b"watching" in process.stderr.readline()
        starts.append((time.perf_counter() - began) * 1000)
        process.terminate()
        process.wait()
    path, count = folder / "ffffffff-0000-4000-8000-000000000000.jsonl", bench.times(200)
    path.touch()
    with _running(project, *BEAM, "watch", "--all", "--json") as lines:
        until(lambda: _appended(path, "ready") and bool(lines.found), "the first line of beam watch --all", 20)
        ours = _said_latencies(path, lines, count)
        pid = lines.process.pid
        time.sleep(3)
        began, cpu = time.perf_counter(), _cpu_s(pid)
        time.sleep(5 if bench.quick else 30)
        idle = (_cpu_s(pid) - cpu) / (time.perf_counter() - began) * 100
        memory = _rss_mb(pid)
    with _running(project, "tail", "-n", "0", "-F", str(path)) as tail:
        time.sleep(0.5)
        theirs = _said_latencies(path, tail, count)
    return [
        Figure("foreign sessions: written -> line", Series("beam watch --all --json", ours), "ms", at_most=50),
        Figure("foreign sessions: written -> line", Series("tail -F of the file", theirs), "ms"),
        Figure(
            "foreign sessions: start", Series("beam watch --all until it watches", tuple(starts)), "ms", at_most=1500
        ),
        Figure("foreign sessions: memory", Series("RSS at the end", (memory,)), "MB", at_most=120),
        Figure("foreign sessions: idle", Series("CPU of one core", (idle,)), "%", at_most=1),
    ]


def _said(text: str) -> bytes:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time())) + ".999Z"  # without an argument it lags
    line = {"type": "user", "timestamp": stamp, "cwd": "/p", "message": {"content": text}}
    return json.dumps(line).encode() + b"\n"


def _appended(path: Path, text: str) -> bool:
    with path.open("ab") as file:
        file.write(_said(text))
    time.sleep(0.3)
    return True


def _said_latencies(path: Path, lines: Lines, count: int) -> tuple[float, ...]:
    found = []
    for number in range(count):
        time.sleep(0.05)
        words = f"said-{number}-"
        seen = len(lines.found)
        began = time.perf_counter()
        with path.open("ab") as file:
            file.write(_said(words))
        found.append((lines.when(words.encode(), seen) - began) * 1000)
    return tuple(found)


def _start(project: Project, home: Home) -> tuple[float, float]:
    """How long until it watches, and how much CPU that took (ms)."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [*BEAM, "watch", "--claude-home", str(home.path)],
        env=project.env,
        cwd=project.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr
    assert b"watching" in process.stderr.readline()
    took, cpu = (time.perf_counter() - began) * 1000, _cpu_s(process.pid) * 1000
    process.terminate()
    process.wait()
    return took, cpu


def _changes(home: Home, lines: Lines) -> tuple[float, int, float]:
    """How long 5,000 changes took to make, how many were not told in their place, and how late the last was (ms)."""
    seen = len(lines.found)
    began = time.perf_counter()
    for step, status in enumerate(_STATES):
        for number in range(1, 1001):
            time.sleep(max(0.0, began + (step * 1000 + number) / 1000 - time.perf_counter()))
            home.task(number, status)
    ended = time.perf_counter()

    def told() -> list[tuple[str, str]]:
        found = [json.loads(line) for _, line in lines.found[seen:]]
        return [(one["type"], one["task_id"]) for one in found if one["type"] in _TOLD]

    deadline = time.monotonic() + 10
    while len(lines.found) - seen < 5_000 and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    wanted = [(kind, str(number)) for kind in _TOLD for number in range(1, 1001)]
    found = told()
    missing = sum(1 for ours, theirs in zip(wanted, found, strict=False) if ours != theirs)
    return ended - began, missing + abs(len(wanted) - len(found)), (lines.found[-1][0] - ended) * 1000


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1000
