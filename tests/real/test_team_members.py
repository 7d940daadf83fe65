"""Agents of other vendors in a real Claude team, with the scripted model: they take, do and report a task."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.teams.act import TeamFiles
from beam.testing.fake_model import FakeModel
from tests.support.cli import BEAM, Cli, eventually
from tests.teams.test_teams_real import Pane, chain, tool

pytestmark = [pytest.mark.real, pytest.mark.conformance]
WAIT = 120
SCRIPT = {
    "rules": [
        {
            "match": "codex joined the team",
            **chain(
                [tool("TaskCreate", subject="Write parser", description="PARSER-WORK")],
                [tool("TaskUpdate", taskId="1", owner="codex")],
                "codex has a task",
            ),
        },
        {
            "match": "gemini joined the team",
            **chain(
                [tool("TaskCreate", subject="Read parser", description="READER-WORK")],
                [tool("TaskUpdate", taskId="2", owner="gemini")],
                [tool("SendMessage", to="gemini", summary="style", message="STYLE-QUESTION")],
                "gemini has a task",
            ),
        },
        {"match": "PARSER-WORK", "text": "the parser is written"},
        {"match": "READER-WORK", "text": "the parser was read"},
        {"match": "STYLE-QUESTION", "text": "snake case it is"},
        {
            "match": "start the helper",
            **chain(
                [
                    tool(
                        "Agent",
                        description="helper",
                        prompt="HELPER-START",
                        name="alice",
                        subagent_type="general-purpose",
                    )
                ],
                "alice is there",
            ),
        },
        {"match": "HELPER-START", "text": "alice waits"},
        {"match": "WORD-OF-A-PERSON", "text": "alice has read it"},
    ],
    "otherwise": "noted",
}


@pytest.fixture
def pane(tmp_path: Path, claude: Path) -> Iterator[Pane]:
    if shutil.which("tmux") is None:
        if os.environ.get("BEAM_REQUIRE_REAL_AGENTS"):
            pytest.fail("tmux is required here, and not installed")
        pytest.skip("left out: tmux is not installed")
    with FakeModel(SCRIPT) as model:
        opened = Pane(tmp_path / "pane", claude, model, "in-process")
        opened.model = model  # type: ignore[attr-defined]
        yield opened
        opened.tmux("kill-server")


def team_of(pane: Pane) -> TeamFiles:
    folder = pane.home / ".claude" / "teams"
    eventually(lambda: folder.is_dir() and any(folder.iterdir()), 60, "there is no team")
    (one,) = folder.iterdir()
    return TeamFiles(str(pane.home / ".claude"), one.name)


def transcripts(pane: Pane) -> str:
    return "".join(path.read_text() for path in (pane.home / ".claude" / "projects").rglob("*.jsonl"))


def test_a_codex_and_a_gemini_agent_take_do_and_report_a_task(beam: Cli, pane: Pane, agents_path: str) -> None:
    pane.say("start the helper")  # a lead reads its mail once it has a teammate of its own
    team = team_of(pane)
    eventually(lambda: team.roster().member("alice") is not None, 60, "alice did not join")
    model: Any = pane.model  # type: ignore[attr-defined]
    env = {**beam.env, **model.env("codex", pane.home), **model.env("gemini", pane.home)}
    env |= {"HOME": str(pane.home), "PATH": agents_path, "BEAM_STATE": str(beam.base / "state")}
    joined = []
    try:
        for name, task in (("codex", "1"), ("gemini", "2")):
            words = [*BEAM, "team", "join", team.folder, name]
            joined.append(subprocess.Popen(words, cwd=pane.project, env=env, stderr=subprocess.DEVNULL))
            eventually(lambda task=task: task in team.tasks(), WAIT, f"the lead made no task for {name}")  # type: ignore[misc]
            eventually(
                lambda task=task: team.tasks()[task].status == "completed",  # type: ignore[misc]
                WAIT,
                f"{name} did not do its task",
            )
            assert team.tasks()[task].owner == name
        for words in ("Task #1 (Write parser): the parser is written", "Task #2 (Read parser): the parser was read"):
            eventually(lambda words=words: words in transcripts(pane), 60, f"the lead has not read: {words}")  # type: ignore[misc]
        eventually(lambda: "snake case it is" in transcripts(pane), 60, "the lead got no answer to its message")
        done = subprocess.run(
            [*BEAM, "team", "shutdown", team.folder], cwd=pane.project, env=env, capture_output=True, check=False
        )
        assert done.returncode == 0, done
        assert [process.wait(WAIT) for process in joined] == [0, 0]
        left = {"codex", "gemini"}
        eventually(lambda: not left & {one.name for one in team.roster().members}, 20, "they are still members")
    finally:
        for process in joined:
            process.kill()
            process.wait()


def test_what_a_person_sends_is_read_by_a_real_teammate(beam: Cli, pane: Pane) -> None:
    pane.say("start the helper")
    team = team_of(pane)
    eventually(lambda: team.roster().member("alice") is not None, 60, "alice did not join")
    eventually(lambda: "alice waits" in transcripts(pane), 60, "alice did not begin")
    env = {**beam.env, "HOME": str(pane.home)}
    words = [*BEAM, "team", "send", team.folder, "alice", "WORD-OF-A-PERSON", "--json"]
    done = subprocess.run(words, cwd=pane.project, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["to"] == "alice"
    eventually(lambda: "alice has read it" in transcripts(pane), 60, "alice did not read it")
    assert 'teammate_id=\\"human\\"' in transcripts(pane)


def test_a_team_without_claude_has_members_of_two_vendors(beam: Cli, agents_path: str) -> None:
    home = beam.base / "home"
    with FakeModel(SCRIPT) as model:
        env = {**beam.env, **model.env("codex", home), **model.env("gemini", home)}
        cli = beam.with_env({**env, "HOME": str(home), "PATH": agents_path})
        assert cli.cold("team", "create", "mixed").code == 0
        team = TeamFiles(str(home / ".claude"), "mixed")
        joined = []

        def join(*words: str) -> None:
            count = len(team.roster().members)
            command = [*BEAM, "team", "join", "mixed", *words]
            joined.append(subprocess.Popen(command, cwd=cli.project, env=cli.env, stderr=subprocess.DEVNULL))
            eventually(lambda: len(team.roster().members) > count, WAIT, f"{words[0]} did not join")

        try:
            join("codex")
            cli.cold("team", "task", "add", "mixed", "Write parser", "--description", "PARSER-WORK")
            cli.cold("team", "task", "add", "mixed", "Read parser", "--description", "READER-WORK", "--after", "1")
            cli.cold("team", "task", "claim", "mixed", "1", "--as", "codex")
            join("gemini", "--take")
            eventually(lambda: team.tasks()["2"].status == "completed", WAIT, "the tasks were not done")
            tasks = team.tasks()
            assert [(tasks[one].owner, tasks[one].status) for one in "12"] == [
                ("codex", "completed"),
                ("gemini", "completed"),
            ]
            inbox = Path(team.inbox("team-lead"))
            eventually(lambda: "the parser was read" in inbox.read_text(), 20, "gemini did not report")
            assert "the parser is written" in inbox.read_text()
            assert cli.cold("team", "shutdown", "mixed").code == 0
            assert [process.wait(WAIT) for process in joined] == [0, 0]
        finally:
            for process in joined:
                process.kill()
                process.wait()
