"""A scenario of three vendors: the real Claude Code plans, the real Codex writes, the real Gemini CLI reviews.

They talk to the scripted model; Codex's tool really changes a file in a git work tree. Then the same file from its
recording of turns, with no CLI and no model, and from its recording of model calls, with the CLIs and no model.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli

pytestmark = [pytest.mark.real, pytest.mark.acceptance, pytest.mark.soak]
EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "plan-write-review.yaml"
PLAN, WRITE, REVIEW = "Plan this task", "Do this task", "Review this change"
MODEL = {
    "rules": [
        {"match": REVIEW, "text": "OK, it greets the reader."},
        {
            "match": WRITE,
            "tools": [{"name": "exec_command", "input": {"cmd": "echo hello > hello.txt"}}],
            "then": "I wrote hello.txt.",
        },
        {"match": PLAN, "text": "1. Write hello.txt. 2. Read it."},
    ],
    "otherwise": "What?",
}


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel(MODEL) as model:
        yield model


@pytest.fixture
def place(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    home = beam.base / "home"
    env: dict[str, str] = {}
    for adapter in ("claude", "codex", "gemini"):
        env |= {name: value for name, value in model.env(adapter, home).items() if value or name not in env}
    (beam.project / "s.yaml").write_text(EXAMPLE.read_text())
    return beam.with_env({"BEAM_TRUST": "1", **env, "PATH": agents_path})


def cases(path: Path) -> dict[str, str]:
    """Each case of a report, and how it ended."""
    found = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        ends = [child.tag for child in case if child.tag != "system-out"]
        found[f"{case.get('classname')} {case.get('name')}"] = ends[0] if ends else "passed"
    return found


def test_three_vendors_change_a_work_tree_and_a_recording_gives_the_same_result(place: Cli, model: FakeModel) -> None:
    done = place("run", "s.yaml", "--ci", "--json", "--record", "turns", "--junit", "live.xml", timeout=240)
    result = json.loads(done.out)
    assert done.code == 0, json.dumps(result, indent=1)
    assert [step["verdict"] for step in result["steps"]] == ["passed"] * 4
    (tree,) = result["worktrees"]
    assert tree["files"] == ["hello.txt"]
    shown = subprocess.run(
        ["git", "show", f"{tree['branch']}:hello.txt"],
        cwd=place.project,
        env=place.env,
        capture_output=True,
        check=True,
    )
    assert shown.stdout == b"hello\n"
    assert not (place.project / "hello.txt").exists()

    asked = len(model.requests)
    bare = place.with_env({"PATH": "/usr/bin:/bin"})
    again = bare("run", "s.yaml", "--ci", "--json", "--replay", "turns", "--junit", "again.xml")
    replayed = json.loads(again.out)
    assert again.code == 0, json.dumps(replayed, indent=1)
    assert replayed["replay"] == {"exact": 3, "minor": 0, "major": 0, "unmatched": 0, "live": 0}
    assert replayed["worktrees"][0]["diff"] == tree["diff"]
    assert cases(place.project / "live.xml") == cases(place.project / "again.xml")
    assert len(model.requests) == asked


def test_three_vendors_run_again_from_their_model_calls_with_the_model_gone(place: Cli) -> None:
    words = ("run", "s.yaml", "--ci", "--json")
    with FakeModel(MODEL) as model:
        env: dict[str, str] = {}
        for adapter in ("claude", "codex", "gemini"):
            env |= {
                name: value
                for name, value in model.env(adapter, place.base / "home").items()
                if value or name not in env
            }
        cli = place.with_env(env)
        done = cli(*words, "--record", "calls", "--depth", "model", "--junit", "live.xml", timeout=240)
        result = json.loads(done.out)
        assert done.code == 0, json.dumps(result, indent=1)
    calls = result["model_calls"]["calls"]
    assert calls == result["model_calls"]["live"] >= 4  # Codex asks once more after its tool
    # Claude names its work tree, and that of the second run has another name: its call fits, and not exactly.
    again = cli(*words, "--replay", "calls", "--depth", "model", "--junit", "again.xml", timeout=240)
    replayed = json.loads(again.out)
    assert again.code == 0, json.dumps(replayed, indent=1)
    assert (replayed["model_calls"]["live"], replayed["model_calls"]["unmatched"]) == (0, 0)
    assert replayed["worktrees"][0]["diff"] == result["worktrees"][0]["diff"]
    assert cases(place.project / "live.xml") == cases(place.project / "again.xml")


@pytest.mark.parametrize(("agent", "words"), [("codex", ("--record", "calls", "--depth", "model")), ("claude", ())])
def test_a_budget_ends_a_real_turn_in_the_middle_by_what_its_proxy_or_its_cli_tells_meanwhile(
    beam: Cli, agents_path: str, agent: str, words: tuple[str, ...]
) -> None:
    tool = {"codex": ("exec_command", "cmd"), "claude": ("Bash", "command")}[agent]
    waits = {"tools": [{"name": tool[0], "input": {tool[1]: "sleep 120"}}], "then": "I waited."}
    with FakeModel({"rules": [{"match": "Wait", **waits}], "otherwise": "What?"}) as model:
        env = {"BEAM_TRUST": "1", "IS_SANDBOX": "1", "PATH": agents_path, **model.env(agent, beam.base / "home")}
        (beam.project / "s.yaml").write_text(
            f"beam: 1\nsteps:\n- {{send: {agent}, prompt: Wait, access: full}}\n- {{send: {agent}, prompt: Wait}}\n"
        )
        began = time.monotonic()
        result = beam.with_env(env)("run", "s.yaml", "--json", "--max-tokens", "5", *words, timeout=240).json
    assert time.monotonic() - began < 100, "the tool alone would take longer"
    assert (result["exit_code"], [step["verdict"] for step in result["steps"]]) == (7, ["failed", "skipped"]), result[
        "steps"
    ]
    assert result["steps"][0]["turns"][0]["outcome"]["status"] == "cancelled"
    assert "5 tokens, its budget" in result["why"]
