"""Agents on their screens: how fast their output is read, and how soon beam says that a turn is over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from datetime import datetime
from functools import partial
from pathlib import Path

from beam.pty_adapter.screen import Screen
from beam.testing.fake_model import FakeModel
from bench.measure import Bench, Figure, Series, in_turns, run
from bench.place import BEAM, Project
from tests.real.install import bin_directories

_RECORDINGS = Path(__file__).parents[1] / "tests" / "recordings" / "pty"
_READ = 4096  # bytes, as they come from a terminal
# By what each knows it, and how long that may take.
_AGENTS = {
    "claude": ("history", 500),
    "codex": ("history", 500),
    "gemini": ("title", 2000),
    "opencode": ("screen", 2000),
}


def screen(bench: Bench) -> list[Figure]:
    """The recorded output of agents' screens through tokenizer and screen: bytes in a second of CPU. Each recording's
    best time counts: noise of the machine only makes it slower."""
    recordings = [path.read_bytes() for path in sorted(_RECORDINGS.glob("*.raw"))]
    datas = [data * max(1, 500_000 // len(data)) for data in recordings]
    size = sum(map(len, datas)) / 1e6

    def once(data: bytes) -> float:
        shown = Screen(100, 40)
        began = time.process_time()
        for at in range(0, len(data), _READ):
            shown.feed(data[at : at + _READ])
        return time.process_time() - began

    times = in_turns(bench.times(15), *(partial(once, data) for data in datas))
    series = Series(f"Screen.feed, CPU time, the best of {len(times[0])}", (size / sum(map(min, times)),))
    return [Figure("screens read", series, "MB/s", at_least=5, note=f"{len(datas)} recordings, {size:.1f} MB")]


def end_noticed(bench: Bench) -> list[Figure]:
    """The model's answer leaves at once and whole; the agent is kept by a broker, so that quitting it is not counted.
    What is measured includes what the agent takes to show the answer. No figures where a CLI is not installed."""
    return [figure for name in _AGENTS for figure in _of(bench, name)]


def _of(bench: Bench, name: str) -> list[Figure]:
    path = os.pathsep.join([*map(str, bin_directories()), os.environ["PATH"]])
    if shutil.which(name, path=path) is None:
        return []
    evidence, limit = _AGENTS[name]
    project = Project(bench, f"end-{name}")
    if name == "claude":
        (project.home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True, "theme": "dark"}))
    samples = []
    with FakeModel() as model:
        env = {**project.env, "PATH": path, **model.env(name, project.home)}
        subprocess.run([*BEAM, "broker", "start"], cwd=project.cwd, env=env, check=True, capture_output=True)
        try:
            for number in range(bench.times(5) + 1):
                text = f"turn {number}"
                run((*BEAM, "send", name, "--via", "terminal", text), env=env, cwd=project.cwd)
                answered = next(
                    request.time for request in model.requests if request.asked and text in str(request.body)
                )
                finished = _finished(project, name)
                if number:
                    samples.append((_seconds(finished) - _seconds(answered)) * 1000)
        finally:
            subprocess.run([*BEAM, "broker", "stop"], cwd=project.cwd, env=env, check=False, capture_output=True)
    series = Series(f"beam send {name} --via terminal", tuple(samples))
    return [Figure(f"end noticed, {name} ({evidence})", series, "ms", at_most=limit)]


def _finished(project: Project, name: str) -> str:
    """When the last turn's outcome was written."""
    journal = sorted((project.root / "agents" / name / "journal").glob("*.jsonl"))
    lines = [line for segment in journal for line in segment.read_bytes().splitlines() if b'"turn.finished"' in line]
    ended: str = json.loads(lines[-1])["ts"]
    return ended


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
