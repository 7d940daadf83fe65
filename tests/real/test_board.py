"""The board over real agents with the scripted model: a running turn is told something, its changes are shown, and a
task of a real Claude team is given to a member who reads of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("textual")

from beam.teams.act import TeamFiles
from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, eventually
from tests.support.terminal import Terminal
from tests.teams.test_teams_real import Pane, chain, tool

pytestmark = [pytest.mark.real, pytest.mark.conformance]
WAIT = 120
SCRIPT = {
    "rules": [
        {
            "match": "LONG WORK",
            **chain(
                [tool("Bash", command="sleep 8; printf 'one\\ntwo\\n' > made.txt", description="Make a file")],
                [tool("Bash", command="sleep 1", description="Wait")],
                "the work is done",
            ),
        },
        {
            "match": "start the helper",
            **chain(
                [tool("TaskCreate", subject="Write the parser", description="PARSER-WORK")],
                [tool("Agent", description="helper", prompt="HELPER", name="alice", subagent_type="general-purpose")],
                "alice is there",
            ),
        },
        {"match": "HELPER", "text": "alice waits"},
    ],
    "otherwise": "noted",
}


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel(SCRIPT) as model:
        yield model


def select(terminal: Terminal) -> None:
    """Goes down from the top of the team until the key acts: what stands above the task differs."""
    terminal.type("\x1b[H")
    for _ in range(12):
        terminal.type("\x1b[B")
        terminal.type("c")
        with contextlib.suppress(AssertionError):
            terminal.until("Whose is #1 Write the parser?", 3)
            return
    terminal.until("Whose is #1 Write the parser?", 2)


def test_a_running_turn_of_claude_is_told_something_and_what_it_changed_is_shown(
    beam: Cli, agents_path: str, model: FakeModel
) -> None:
    cli = beam.with_env({"PATH": agents_path, "BEAM_TRUST": "1", "LC_ALL": "C.UTF-8", **model.env("claude")})
    sent = cli.start("send", "claude", "--via", "dialogue", "--access", "full", "LONG WORK", env={"IS_SANDBOX": "1"})
    terminal = Terminal(cli, "board", "--since", "1h")
    terminal.until("Bash sleep 8", WAIT)
    terminal.type("s")
    terminal.until("Tell the running turn of claude")
    terminal.type("please hurry\r")
    terminal.until("the agent has read the text", WAIT)
    sent.communicate(timeout=WAIT)
    assert sent.returncode == 0
    terminal.type("f")
    terminal.until("+two", WAIT)
    terminal.type("q")  # the dialog, then the board
    terminal.type("q")
    assert terminal.end() == 0
    assert any(event["type"] == "control.done" and event["verb"] == "steer" for event in cli.journal("claude"))


def test_a_task_of_a_real_team_is_given_to_a_member_who_reads_of_it(
    beam: Cli, claude: Path, model: FakeModel, tmp_path: Path
) -> None:
    if shutil.which("tmux") is None:
        if os.environ.get("BEAM_REQUIRE_REAL_AGENTS"):
            pytest.fail("tmux is required here, and not installed")
        pytest.skip("left out: tmux is not installed")
    pane = Pane(tmp_path / "pane", claude, model, "in-process")
    try:
        pane.say("start the helper")
        folder = pane.home / ".claude" / "teams"
        eventually(lambda: folder.is_dir() and any(folder.iterdir()), 60, "there is no team")
        team = TeamFiles(str(pane.home / ".claude"), next(folder.iterdir()).name)
        eventually(lambda: team.roster().member("alice") is not None, 60, "alice did not join")
        cli = beam.with_env({"HOME": str(pane.home), "LC_ALL": "C.UTF-8"})
        terminal = Terminal(cli, "board")
        terminal.until("STATE")
        terminal.type("2")
        terminal.until("Write the parser", WAIT)
        terminal.type("\t")
        select(terminal)
        for key in ("\x15", "alice", "\r"):  # whatever stands there
            terminal.type(key)
            time.sleep(0.5)
        terminal.until("#1 Write the parser: pending, alice's", WAIT)
        assert team.tasks()["1"].owner == "alice"
        transcripts = pane.home / ".claude" / "projects"
        eventually(
            lambda: any("task_assignment" in path.read_text() for path in transcripts.rglob("agent-aalice*.jsonl")),
            60,
            "alice did not read that the task is hers",
        )
        terminal.type("q")
        assert terminal.end() == 0
    finally:
        pane.tmux("kill-server")
