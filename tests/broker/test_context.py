"""A root as it is opened: where it lies is looked at then, and again for each decision."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.broker.asking.agent_requests import carry_out
from beam.broker.inbox.context import RootContext
from beam.config.source import PARSED_JSON
from beam.root import discovery
from beam.root.paths import RootPaths
from tests.support.context import FakeClock


def opened(root: Path, project: Path) -> RootContext:
    """The context of a root that exists already."""
    project.mkdir(exist_ok=True)
    (project / "beam.yaml").write_text("agents: {a: {command: [cat]}}\n")
    home = RootPaths(root, project)
    discovery.create(home)
    environ = {"HOME": str(project.parent), "PATH": "/usr/bin:/bin"}
    exposed = discovery.exposing_folder(home, environ)
    return RootContext.load(home, environ=environ, clock=FakeClock(), carry_out=carry_out, exposed=exposed)


@pytest.mark.parametrize("inside", [False, True])
def test_only_a_root_out_of_agents_reach_remembers_what_its_files_were_parsed_to(tmp_path: Path, inside: bool) -> None:
    project = tmp_path / "project"
    project.mkdir()
    root = (project if inside else tmp_path) / "root"
    context = opened(root, project)
    assert (context.exposed is not None, (root / PARSED_JSON).exists()) == (inside, not inside)


def test_a_root_that_comes_within_reach_is_noticed_by_the_next_decision(tmp_path: Path) -> None:
    context = opened(tmp_path / "elsewhere" / "root", tmp_path / "project")
    assert context.recheck_exposure() is context
    where = tmp_path / "elsewhere"
    (where / ".git").mkdir()
    assert (context.exposed, context.recheck_exposure().exposed, context.reload_config().exposed) == (
        None,
        where,
        where,
    )
