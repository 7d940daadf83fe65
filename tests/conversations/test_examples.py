"""The scenarios of examples/ do what they say: with stand-ins for the agents, and again from a recording."""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.cli import Cli
from tests.support.repository import make_repository

pytestmark = pytest.mark.acceptance
SCENARIOS = Path(__file__).parents[2] / "examples" / "scenarios"
EXAMPLES = sorted(path.name for path in SCENARIOS.glob("*.yaml"))
AGENTS = ("claude", "codex", "gemini")


@pytest.fixture
def place(beam: Cli) -> Cli:
    """A git repository with the examples, in which each agent is a stand-in."""
    shutil.copytree(SCENARIOS, beam.project, dirs_exist_ok=True)
    shutil.copy(Path(__file__).with_name("stand_in.yaml"), beam.project)
    for name in EXAMPLES:  # a panel names adapters itself
        path = beam.project / name
        for agent in AGENTS:
            path.write_text(path.read_text().replace(f"adapter: {agent}", "adapter: scripted, script: stand_in.yaml"))
        path.write_text(path.read_text().replace(", system: You care for security above all.", ""))
    make_repository(beam.project, beam.base / "home")
    beam.config("agents:\n" + "".join(f"  {name}: {{adapter: scripted, script: stand_in.yaml}}\n" for name in AGENTS))
    return beam


def test_there_are_eight() -> None:
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_is_recorded_and_is_replayed_to_the_same_result(place: Cli, name: str) -> None:
    plan = place("run", name, "--dry-run")
    assert (plan.code, plan.err) == (0, ""), plan
    assert place.home.agents() == []  # nothing was run

    times = ("--repeat", "2") if "repeat:" in (place.project / name).read_text() else ()
    done = place("run", name, "--ci", "--record", "turns", "--junit", "live.xml", *times)
    assert done.code == 0, done.out + done.err
    again = place("run", name, "--ci", "--replay", "turns", "--junit", "again.xml", *times)
    assert again.code == 0, again.out + again.err
    assert " 0 minor, 0 major, 0 unmatched, 0 live\n" in again.out
    live, replayed = (cases(place.project / name) for name in ("live.xml", "again.xml"))
    assert live.keys() == replayed.keys()
    assert set(replayed.values()) <= {"passed", "skipped"}
    if "worktree" in (place.project / name).read_text():
        assert live == replayed


def cases(path: Path) -> dict[tuple[str, str], str]:
    """Each case of a report, and how it ended."""
    found = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        ends = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        found[case.get("classname", ""), case.get("name", "")] = ends[0] if ends else "passed"
    return found
