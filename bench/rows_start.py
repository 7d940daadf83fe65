"""What a command costs before and around the agent: start-up, putting, a whole cold turn."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from bench.measure import Bench, Figure, Series, in_turns, run
from bench.place import ACP_PROMPT, BEAM, PYTHON, Project, acp_agent, until

_CAT = "agents:\n  echo:\n    command: [cat]\n"


def version(bench: Bench) -> list[Figure]:
    """`beam --version`: CPU, over a bare Python's and over acpx's."""
    project = Project(bench, "version")

    def cpu(*argv: str) -> float:
        return run(argv, env=project.env, cwd=project.cwd).cpu_ms

    acpx = bench.acpx or PYTHON
    mine, python, theirs = in_turns(
        bench.times(25),
        lambda: cpu(*BEAM, "--version"),
        lambda: cpu(*PYTHON),
        lambda: cpu(*acpx, "--version"),
    )
    this = Series("beam --version", mine)
    figures = [Figure("beam --version, CPU", this, "ms", Series("python -c pass", python), at_most=8)]
    if bench.acpx:
        figures.append(Figure("beam --version, CPU", this, "ms", Series("acpx --version", theirs), at_most=0.25))
    return figures


def no_wait(bench: Bench) -> list[Figure]:
    """`beam send --no-wait`: CPU of the command; the worker that it starts is not in it."""
    project = Project(bench, "no-wait", _CAT)
    queue = project.root / "agents" / "echo" / "queue"

    def is_idle() -> bool:
        return not any(path.suffix == ".json" for box in ("new", "cur") for path in (queue / box).glob("*"))

    def mine() -> float:
        spent = run((*BEAM, "send", "echo", "hi", "--no-wait"), env=project.env, cwd=project.cwd)
        until(is_idle, "the worker's end")
        return spent.cpu_ms

    def python() -> float:
        return run(PYTHON, env=project.env, cwd=project.cwd).cpu_ms

    sent, bare, theirs = in_turns(bench.times(25), mine, python, _acpx_cpu(bench, project))
    this = Series("beam send AGENT hi --no-wait", sent)
    figures = [Figure("beam send --no-wait, CPU", this, "ms", Series("python -c pass", bare), at_most=12)]
    if bench.acpx:
        figures.append(
            Figure("beam send --no-wait, CPU", this, "ms", Series("acpx --agent A exec hi", theirs), at_most=0.25)
        )
    return figures


def cold_send(bench: Bench) -> list[Figure]:
    """A cold `beam send` to `cat`, less a bare `cat`, over what `acpx exec` adds to the smallest ACP agent."""
    project = Project(bench, "cold-send", _CAT)
    agent = acp_agent(project)

    def took(*argv: str, stdin: bytes = b"") -> tuple[float, float]:
        spent = run(argv, env=project.env, cwd=project.cwd, stdin=stdin)
        return spent.wall_ms, spent.cpu_ms

    mine: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for number in range(bench.times(25) + 1):
        sent = took(*BEAM, "send", "echo", "hi")
        bare = took("cat", stdin=b"hi")
        asked = run(_acpx_command(bench, agent), env=project.env, cwd=project.cwd) if bench.acpx else None
        alone = took(*agent, stdin=ACP_PROMPT)
        if number:
            mine.append((sent[0] - bare[0], sent[1] - bare[1]))
            if asked:
                theirs.append((asked.wall_ms - alone[0], asked.cpu_ms - alone[1]))
    wall = Series("beam send echo hi, less `cat`", tuple(wall for wall, _ in mine))
    cpu = Series("beam send echo hi, less `cat`", tuple(cpu for _, cpu in mine))
    figures = [Figure("cold beam send, CPU added", cpu, "ms", at_most=200)]
    if theirs:
        name = "acpx --agent A exec hi, less A"
        acpx_wall = Series(name, tuple(wall for wall, _ in theirs))
        figures += [
            Figure("cold beam send, time added", wall, "ms", acpx_wall, at_most=0.25),
            Figure("cold beam send, CPU added", cpu, "ms", Series(name, tuple(cpu for _, cpu in theirs))),
        ]
    return figures


def _acpx_command(bench: Bench, agent: tuple[str, ...]) -> tuple[str, ...]:
    assert bench.acpx
    return (*bench.acpx, "--agent", shlex.join(agent), "--format", "quiet", "exec", "hi")


def _acpx_cpu(bench: Bench, project: Project) -> Callable[[], float]:
    if not bench.acpx:
        return lambda: 0.0
    command = _acpx_command(bench, acp_agent(project))
    return lambda: run(command, env=project.env, cwd=project.cwd).cpu_ms
