"""What `beam run` costs: its turns over the bare agents, a large file checked, a replay; and beside promptfoo."""

from __future__ import annotations

import shutil
import sys

from bench.measure import Bench, Figure, Series, in_turns, run
from bench.place import BEAM, Project

_AGENTS, _TURNS = 10, 100
_SCRIPT = "replies: [fine]\n"


def _scenario(turns: int) -> str:
    agents = "".join(f"  a{number}: {{adapter: scripted, script: one.yaml}}\n" for number in range(_AGENTS))
    steps = "".join(f"  - {{send: a{number % _AGENTS}, prompt: do {number}}}\n" for number in range(turns))
    return f"beam: 1\nagents:\n{agents}steps:\n{steps}"


def scenario_turns(bench: Bench) -> list[Figure]:
    """100 scripted turns over 10 agents, over a shell loop of the bare agents: CPU a turn. Then its replay."""
    project = Project(bench, "run")
    (project.cwd / "one.yaml").write_text(_SCRIPT)
    (project.cwd / "s.yaml").write_text(_scenario(_TURNS))
    agent = f'"{sys.executable}" -P -m beam.testing.scripted one.yaml'
    loop = f"i=0; while [ $i -lt {_TURNS} ]; do echo do $i | {agent} >/dev/null || exit 1; i=$((i+1)); done"

    def mine() -> float:
        shutil.rmtree(project.cwd / "turns", ignore_errors=True)
        words = (*BEAM, "run", "s.yaml", "--record", "turns")
        return run(words, env=project.env, cwd=project.cwd).cpu_ms / _TURNS

    def bare() -> float:
        return run(("sh", "-c", loop), env=project.env, cwd=project.cwd).cpu_ms / _TURNS

    def again() -> float:
        wall_ms = run((*BEAM, "run", "s.yaml", "--replay", "turns"), env=project.env, cwd=project.cwd).wall_ms
        return _TURNS / (wall_ms / 1000)

    run_ms, bare_ms, replayed = in_turns(bench.times(3), mine, bare, again)
    over = tuple(mine - theirs for mine, theirs in zip(run_ms, bare_ms, strict=True))
    return [
        Figure("a turn of beam run, CPU over the bare agent's", Series("100 turns, 10 agents", over), "ms", at_most=25),
        Figure("turns replayed a second", Series("beam run --replay", replayed), "turns/s", at_least=60),
    ]


def scenario_plan(bench: Bench) -> list[Figure]:
    """A file of 1,000 steps, checked and planned, over `beam --version`."""
    project = Project(bench, "plan")
    (project.cwd / "one.yaml").write_text(_SCRIPT)
    (project.cwd / "s.yaml").write_text(_scenario(1000))

    def planned() -> float:
        return run((*BEAM, "run", "s.yaml", "--dry-run"), env=project.env, cwd=project.cwd).wall_ms

    def nothing() -> float:
        return run((*BEAM, "--version"), env=project.env, cwd=project.cwd).wall_ms

    plans, starts = in_turns(bench.times(9), planned, nothing)
    over = tuple(plan - start for plan, start in zip(plans, starts, strict=True))
    return [Figure("1,000 steps checked and planned", Series("beam run --dry-run", over), "ms", at_most=200)]


_PROMPTFOO = """\
prompts: [Say hello]
providers: ["exec:./answer.sh"]
tests:
  - assert: [{type: contains, value: hello}]
"""
_CHECK = """\
beam: 1
agents: {one: {adapter: scripted, script: one.yaml}}
steps: [{send: one, prompt: Say hello, expect: {contains: hello}}]
"""
_QUIET = dict.fromkeys(
    (
        "PROMPTFOO_DISABLE_TELEMETRY",
        "PROMPTFOO_DISABLE_UPDATE",
        "PROMPTFOO_DISABLE_REMOTE_GENERATION",
        "NODE_NO_WARNINGS",
    ),
    "1",
)


def beside_promptfoo(bench: Bench) -> list[Figure]:
    """The start, and one check of an answer that is there already, over promptfoo's; nothing without --promptfoo."""
    if bench.promptfoo is None:
        return []
    project = Project(bench, "promptfoo")
    env = {**project.env, **_QUIET}
    for name, text in (
        ("one.yaml", "replies: [hello there]\n"),
        ("s.yaml", _CHECK),
        ("promptfooconfig.yaml", _PROMPTFOO),
        ("answer.sh", "#!/bin/sh\necho hello there\n"),
    ):
        (project.cwd / name).write_text(text)
        (project.cwd / name).chmod(0o755)

    def cpu(*argv: str) -> float:
        return run(argv, env=env, cwd=project.cwd).cpu_ms

    run((*BEAM, "run", "s.yaml", "--record", "turns"), env=env, cwd=project.cwd)
    evaluated = (*bench.promptfoo, "eval", "--no-write", "--no-progress-bar", "--no-table")
    starts, their_starts, checks, their_checks = in_turns(
        bench.times(9),
        lambda: cpu(*BEAM, "--version"),
        lambda: cpu(*bench.promptfoo or (), "--version"),
        lambda: cpu(*BEAM, "run", "s.yaml", "--replay", "turns"),
        lambda: cpu(*evaluated),
    )
    check = Series("beam run --replay", checks)
    return [
        Figure("a start, CPU", Series("beam --version", starts), "ms", Series("promptfoo --version", their_starts)),
        Figure("one cached check, CPU", check, "ms", Series("promptfoo eval", their_checks), at_most=0.5),
    ]
