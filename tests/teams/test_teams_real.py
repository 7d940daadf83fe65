"""A real Claude Code team with the scripted model, in a tmux pane as people have it, seen live by `beam watch`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import BEAM, Cli, asleep, eventually
from tests.support.repository import make_repository

pytestmark = pytest.mark.real
KEY = "sk-dummy-000000000000000000000000"


def tool(tool_name: str, /, **given: Any) -> dict[str, Any]:
    return {"name": tool_name, "input": given}


def chain(*steps: Any) -> dict[str, Any]:
    """Tool calls one after the other, and what is said at the end."""
    answer: Any = {"text": steps[-1]}
    for tools in reversed(steps[:-1]):
        answer = {"tools": tools, "then": answer}
    return dict(answer)


SCRIPT = {
    "rules": [
        {
            "match": "begin the work",
            **chain(
                [tool("TaskCreate", subject="Write parser", description="the parser")],
                [
                    tool(
                        "Agent",
                        description="parser",
                        prompt="ALICE-START",
                        subagent_type="general-purpose",
                        name="alice",
                    )
                ],
                [tool("SendMessage", to="alice", summary="hello", message="please use snake_case")],
                "the lead waits",
            ),
        },
        {
            "match": "ALICE-START",
            **chain(
                [tool("TaskUpdate", taskId="1", status="in_progress", owner="alice")],
                [tool("TaskUpdate", taskId="1", status="completed")],
                [tool("SendMessage", to="team-lead", summary="done", message="the parser is done")],
                "alice is done",
            ),
        },
    ],
    "otherwise": "noted",
}


class Pane:
    """Claude Code in a tmux of its own."""

    def __init__(self, place: Path, claude: Path, model: FakeModel, mode: str) -> None:
        self.home, self.project = place / "home", place / "project"
        (self.home / ".claude").mkdir(parents=True)
        self.project.mkdir()
        make_repository(self.project, self.home)
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(self.project): {"hasTrustDialogAccepted": True}},
        }
        (self.home / ".claude.json").write_text(json.dumps(known))
        settings = {"teammateMode": mode, "skipDangerousModePermissionPrompt": True}
        (self.home / ".claude" / "settings.json").write_text(json.dumps(settings))
        self._env = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1",
            **model.env("claude"),
            "ANTHROPIC_API_KEY": KEY,
        }
        self._socket = str(place / "tmux")
        command = f"{claude} --model claude-opus-4-6 --dangerously-skip-permissions"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "160", "-y", "50", "-c", str(self.project), command)

    def tmux(self, *args: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *args], env=self._env, capture_output=True, text=True, check=False, timeout=20
        )
        return done.stdout

    def say(self, text: str) -> None:
        """Types it when the prompt is there."""
        eventually(lambda: "\u276f" in self.tmux("capture-pane", "-p", "-t", ":0.0"), 60, "Claude Code shows no prompt")
        self.tmux("send-keys", "-t", ":0.0", "-l", text)
        eventually(lambda: text in self.tmux("capture-pane", "-p", "-t", ":0.0"), 20)
        for _ in range(5):  # a busy machine loses an Enter now and then
            self.tmux("send-keys", "-t", ":0.0", "Enter")
            with contextlib.suppress(AssertionError):
                eventually(lambda: text not in self._composer(), 5)
                return

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", ":0.0").strip()

    def _composer(self) -> str:
        """The text in the composer; "" if the screen shows no composer any more."""
        rows = self.tmux("capture-pane", "-p", "-t", ":0.0").splitlines()
        return next((row for row in reversed(rows) if row.startswith("\u276f")), "")

    @property
    def lead_pid(self) -> int:
        (session,) = (self.home / ".claude" / "sessions").glob("*.json")
        return int(json.loads(session.read_text())["pid"])


@pytest.fixture
def start(tmp_path: Path, claude: Path) -> Iterator[Callable[[str], Pane]]:
    if shutil.which("tmux") is None:
        pytest.skip("left out: tmux is not installed")
    panes: list[Pane] = []
    with FakeModel(SCRIPT) as model:

        def started(mode: str) -> Pane:
            panes.append(Pane(tmp_path / "pane", claude, model, mode))
            return panes[0]

        yield started
        for pane in panes:
            pane.tmux("kill-server")


@pytest.mark.parametrize("mode", ["in-process", pytest.param("tmux", marks=pytest.mark.soak)])
def test_a_real_team_is_seen_live_from_its_start_to_its_end(beam: Cli, start: Callable[[str], Pane], mode: str) -> None:
    output = (beam.base / "events").open("wb+")
    pane = start(mode)
    process = subprocess.Popen(
        [*BEAM, "watch", "--json", "--claude-home", str(pane.home / ".claude")],
        cwd=beam.project,
        env=beam.env,
        stdout=output,
    )

    def told(kind: str, **fields: Any) -> list[dict[str, Any]]:
        lines = (beam.base / "events").read_bytes().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [e for e in events if e["type"] == kind and all(e.get(name) == fields[name] for name in fields)]

    def seen(kind: str, **fields: Any) -> bool:
        return told(kind, **fields) != []

    def lead_rests() -> bool:
        """It has read all its mail and does nothing."""
        sent, read = ({e["mail_id"] for e in told(kind, to="team-lead")} for kind in ("mail.sent", "mail.delivered"))
        idle, works = (told(kind, member="team-lead") for kind in ("member.idle", "member.working"))
        return sent <= read and bool(idle and works) and idle[-1]["ts"] > works[-1]["ts"]

    try:
        asleep(process)  # it does not report a team that it finds when it starts
        pane.say("begin the work")
        eventually(lambda: seen("member.joined", member="alice"), 60, lambda: f"alice did not join\n{pane.screen()}")
        for word in ("created", "claimed", "started", "completed"):
            eventually(lambda word=word: seen(f"task.{word}", task_id="1"), 60, f"no task.{word}")  # type: ignore[misc]
        eventually(lambda: seen("mail.sent", to="alice", text="please use snake_case"), 60, "no mail to alice")
        eventually(lambda: seen("mail.sent", to="team-lead", text="the parser is done"), 60, "no mail to the lead")
        eventually(lambda: seen("member.idle", member="alice"), 60, "alice is not idle")
        eventually(lambda: seen("text", text="alice is done", agent=f"alice@{_team(pane)}"), 60, "alice's words")
        if mode == "tmux":
            os.kill(pane.lead_pid, signal.SIGKILL)
            eventually(lambda: seen("team.stale"), 20, "the team is not stale")
            eventually(lambda: seen("member.orphaned", member="alice"), 20, "alice is no orphan")
        else:
            # In the middle of its work it would go without removing its team.
            eventually(lead_rests, 60, "the lead goes on working")
            pane.say("/exit")
            eventually(lambda: seen("team.ended"), 60, "the team did not end")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        output.close()


def _team(pane: Pane) -> str:
    (config,) = (pane.home / ".claude" / "teams").glob("*/config.json")
    return config.parent.name
