"""How soon beam says that a turn on an agent's screen is over: from the model's answer to `turn.finished`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import datetime

from beam.testing.fake_model import FakeModel
from bench.measure import Bench, Figure, Series, run
from bench.place import BEAM, Project
from tests.real.install import bin_directories

# By what each knows it, and how long that may take.
_AGENTS = {"claude": ("history", 500), "codex": ("history", 500), "gemini": ("title", 2000)}


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
