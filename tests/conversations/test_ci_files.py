"""examples/ci: GitHub and GitLab take the action and the template, and each of their steps does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Cli
from tests.support.console import installed

CI = Path(__file__).parents[2] / "examples" / "ci"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "schema"), [("action.yml", "github-actions"), ("gitlab.yml", "gitlab-ci")])
def test_the_vendors_schema_takes_it(name: str, schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    more = ["--data-transform", "gitlab-ci"] if schema == "gitlab-ci" else []
    done = subprocess.run([*command, *more, str(CI / name)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def place(beam: Cli) -> Cli:
    (beam.project / "good.yaml").write_text("beam: 1\nsteps: [{send: scripted, prompt: hi, expect: {contains: hi}}]\n")
    (beam.project / "bad.yaml").write_text("beam: 1\nsteps: [{send: scripted, prompt: hi, expect: {contains: x}}]\n")
    return installed(beam)


def shell(place: Cli, script: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As both runners do it: bash, which ends at the first command that fails."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=place.project, env={**place.env, **env}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def filled(text: str, inputs: dict[str, str]) -> str:
    """The expressions of an action, as far as ours has any."""
    return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: inputs[match[1]], text)


@pytest.mark.acceptance
@pytest.mark.parametrize(("name", "code"), [("good", 0), ("bad", 13)])
def test_the_action_runs_step_by_step(place: Cli, name: str, code: int) -> None:
    action: dict[str, Any] = yaml.safe_load((CI / "action.yml").read_text())
    inputs = {key: value.get("default", "") for key, value in action["inputs"].items()}
    inputs |= {"scenario": f"{name}.yaml", "install": "", "junit": "out/beam.xml"}
    output, summary = place.base / "output", place.base / "summary"
    ran = []
    for step in action["runs"]["steps"]:
        condition = step.get("if", "")
        assert condition in ("", "inputs.install != ''")
        if condition and inputs["install"] == "":
            continue
        assert step["shell"] == "bash"
        env = {key: filled(value, inputs) for key, value in step["env"].items()}
        env |= {
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
        }
        ran.append(shell(place, step["run"], env))
    (done,) = ran
    assert (done.returncode, done.stderr) == (code, "")
    assert output.read_text() == f"exit-code={code}\n"
    assert f"{name}: {'passed' if code == 0 else 'failed'}" in summary.read_text()
    assert ("::error" in done.stdout) == bool(code)
    assert (place.project / "out" / "beam.xml").is_file()


@pytest.mark.acceptance
def test_the_template_runs_line_by_line(place: Cli) -> None:
    template = yaml.safe_load((CI / "gitlab.yml").read_text())[".beam"]
    env = {**template["variables"], "SCENARIO": "good.yaml", "INSTALL": "", "GITLAB_CI": "true", "CI": "true"}
    done = shell(place, "\n".join([*template["before_script"], *template["script"]]), env)
    assert done.returncode == 0, done.stderr
    assert "section_start" in done.stdout
    assert (place.project / template["artifacts"]["reports"]["junit"]).is_file()


def test_the_scripts_take_no_text_of_a_request_into_their_code() -> None:
    action = yaml.safe_load((CI / "action.yml").read_text())
    assert [step["name"] for step in action["runs"]["steps"] if "${{" in step["run"]] == []
