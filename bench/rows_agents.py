"""What beam adds to each agent CLI that runs here: a whole cold `beam send` over the bare command that it runs."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from beam.agents import registry
from beam.agents.base import Host, Launch, Turn
from beam.api.smoke import smoke_test_names
from beam.testing.fake_model import FakeModel
from beam.turns.process import write_scratch
from bench.measure import Bench, Figure, Series, Spent, run
from bench.place import BEAM, Project
from tests.real.install import bin_directories


def overhead(bench: Bench, name: str) -> list[Figure]:
    """`beam send` over the bare CLI, both new sessions with one turn against the scripted model: CPU and time. No
    figures where the CLI is not installed."""
    path = os.pathsep.join([*map(str, bin_directories()), os.environ["PATH"]])
    executable = shutil.which(name, path=path)
    if executable is None:
        return []
    project = Project(bench, f"overhead-{name}")
    access = registry.adapter(name).card.faces["exec"].access[0]
    mine: list[Spent] = []
    theirs: list[Spent] = []
    with FakeModel() as model:
        env = {**project.env, "PATH": path, **model.env(name, project.home)}
        for number in range(bench.times(3) + 1):
            launch = _launch(name, executable, project, access)
            bare = run(launch.argv, env=env | launch.env, cwd=project.cwd, stdin=launch.stdin or b"")
            asked = len(model.prompts())
            sent = run((*BEAM, "send", name, "--new", "--access", access, "hi"), env=env, cwd=project.cwd)
            assert len(model.prompts()) > asked > 0, f"{name} did not ask its model"
            if number:
                mine.append(sent)
                theirs.append(bare)
    over = f"{name}, bare"
    what = f"beam send {name} hi"
    cpu = Series(what, tuple(spent.cpu_ms for spent in mine)), Series(over, tuple(spent.cpu_ms for spent in theirs))
    wall = Series(what, tuple(spent.wall_ms for spent in mine)), Series(over, tuple(spent.wall_ms for spent in theirs))
    return [Figure(f"over {name}, CPU", cpu[0], "ms", cpu[1]), Figure(f"over {name}, time", wall[0], "ms", wall[1])]


def _launch(name: str, executable: str, project: Project, access: str) -> Launch:
    """The command that beam itself runs for such a turn, its files written."""
    scratch = project.base / "scratch" / uuid.uuid4().hex
    scratch.mkdir(parents=True)
    turn = Turn(
        text="hi",
        message_id="worker-1m7zzzzzzzz2ab9",
        agent=name,
        access=access,  # type: ignore[arg-type]
        cwd=str(project.cwd),
        scratch=str(scratch),
        fresh_session_id=str(uuid.uuid4()),
    )
    face = registry.adapter(name).exec
    assert face is not None
    launch = face.launch(turn, Host(executable=executable, home=str(project.home)))
    write_scratch(Path(scratch), launch.files)
    return launch


def _row(name: str) -> Callable[[Bench], list[Figure]]:
    def row(bench: Bench) -> list[Figure]:
        return overhead(bench, name)

    row.__name__ = f"over_{name}"
    row.__doc__ = f"A cold `beam send {name}` over the bare CLI: CPU and time."
    return row


OVER_CLIS = tuple(_row(name) for name in smoke_test_names())
