"""What real agents leave running when they answer, in a git repository: waited for where the agent waits, else told."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, eventually, is_held, processes_with

pytestmark = [pytest.mark.real, pytest.mark.acceptance]


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def claude(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    """beam in a place where `claude` is the pinned one, may do anything, and talks to the scripted model only."""
    beam.config("agents: {claude: {access: full, env: {IS_SANDBOX: '1'}}}\n")
    return beam.with_env({"PATH": agents_path, "BEAM_TRUST": "1", **model.env("claude")})


@pytest.fixture
def screen(claude: Cli) -> Cli:
    """The same on its screen, where it was set up once."""
    known = {"hasCompletedOnboarding": True, "theme": "dark", "bypassPermissionsModeAccepted": True}
    (claude.base / "home" / ".claude.json").write_text(json.dumps(known))
    return claude


@pytest.fixture
def codex(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    """The same with the pinned `codex`."""
    return beam.with_env({"PATH": agents_path, **model.env("codex", beam.base / "home")})


def tool(name: str, **given: object) -> str:
    return f"!tool {name} {json.dumps(given)}"


@pytest.mark.soak
def test_a_background_agent_that_claude_stops_with_its_turn_is_said_on_stderr_and_in_the_outcome(claude: Cli) -> None:
    prompt = tool("Agent", description="Look", subagent_type="general-purpose", prompt="!stall 60")
    done = claude("send", "claude", prompt, "--json", env={"CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": "2000"})
    assert (done.code, done.json["status"]) == (0, "completed"), done
    (left,) = done.json["unfinished"]
    assert (left["tool"], left["input"]["description"], left["how"]) == ("Agent", "Look", "killed")
    assert done.err.splitlines()[-1] == "beam: claude: unfinished when its turn ended: Agent Look (killed)"
    finished = next(event for event in claude.journal("claude") if event["type"] == "turn.finished")
    assert finished["unfinished"] == [left]
    assert "unfinished when its turn ended: Agent Look" in claude("log", "claude").out


@pytest.mark.soak
def test_a_background_command_is_waited_for_and_one_that_beam_stopped_is_said(claude: Cli) -> None:
    shell = tool("Bash", command="sleep 4; touch made", run_in_background=True, description="Make")
    done = claude("send", "claude", shell, "--json").json
    assert (done["status"], done["unfinished"]) == ("completed", [])
    assert (claude.project / "made").exists()
    longer = tool("Bash", command="sleep 500; touch late", run_in_background=True, description="Make")
    done = claude("send", "claude", longer, "--json", "--timeout", "15s")
    (left,) = done.json["unfinished"]
    assert left["input"]["command"] == "sleep 500; touch late"
    assert "Bash sleep 500; touch late" in done.err
    assert not processes_with(str(claude.base))


@pytest.mark.soak
def test_claude_on_its_screen_is_not_done_while_an_agent_of_its_own_runs(screen: Cli) -> None:
    agent = tool("Agent", description="Look", subagent_type="general-purpose", prompt="!stall 12")
    done = screen("send", "claude", "--via", "terminal", "--json", f"{agent} !then !say It looks.", timeout=100).json
    assert (done["status"], done["unfinished"], done["evidence"]) == ("completed", [], "history"), done
    assert done["duration_s"] > 12 and done["reply"] == "ECHO[] turns=1", "what it says when its agent is done"
    again = screen("send", "claude", "--via", "terminal", "--json", "and now?", timeout=100).json
    assert again["reply"] == "ECHO[and now?] turns=2"


@pytest.mark.soak
def test_a_command_that_claude_leaves_running_on_its_screen_is_said_and_is_no_part_of_the_answer(screen: Cli) -> None:
    shell = tool("Bash", command="sleep 500; touch late", run_in_background=True, description="Serve")
    done = screen("send", "claude", "--via", "terminal", "--json", f"{shell} !then !say It serves.", timeout=100)
    assert (done.json["status"], done.json["reply"]) == ("completed", "It serves."), done
    (left,) = done.json["unfinished"]
    assert (left["tool"], left["input"]["command"], left["how"]) == ("Bash", "sleep 500; touch late", "running")
    assert "claude: unfinished when its turn ended: Bash sleep 500; touch late (running)" in done.err
    assert not processes_with(str(screen.base))


@pytest.mark.parametrize("via", ["exec", pytest.param("dialogue", marks=pytest.mark.soak)])
def test_a_command_that_codex_leaves_running_is_said_on_stderr_and_in_the_outcome(codex: Cli, via: str) -> None:
    left_running = tool("exec_command", cmd="sleep 500", yield_time_ms=300)
    done = codex("send", "codex", left_running, "--json", "--via", via)
    assert (done.code, done.json["status"]) == (0, "completed"), done
    (left,) = done.json["unfinished"]
    assert (left["tool"], left["how"]) == ("shell", "running")
    assert "sleep 500" in left["input"]["command"]
    assert "codex: unfinished when its turn ended: shell" in done.err
    finished = next(event for event in codex.journal("codex") if event["type"] == "turn.finished")
    assert finished["unfinished"] == [left]
    assert not processes_with(str(codex.base))


@pytest.mark.soak
def test_a_claude_that_waits_on_its_screen_is_stopped_in_time_and_goes_on_afterwards(screen: Cli) -> None:
    agent = tool("Agent", description="Look", subagent_type="general-purpose", prompt="!stall 300")
    send = ("send", "claude", "--via", "terminal", "--json")
    done = screen(*send, "--timeout", "15s", f"{agent} !then !say It looks.", timeout=100)
    assert (done.code, done.json["status"]) == (3, "timeout"), done
    assert done.json["duration_s"] < 30
    assert not processes_with(str(screen.base))
    again = screen(*send, "and now?", timeout=100).json
    assert (again["status"], again["session"]) == ("completed", "resumed")


@pytest.fixture
def kept(screen: Cli) -> Iterator[Cli]:
    """The same in a broker, which keeps it."""
    assert screen("queue", "pause", "claude").code == screen("queue", "resume", "claude").code == 0
    assert screen("broker", "start").code == 0
    eventually(lambda: is_held(screen, "claude"))
    yield screen
    screen("broker", "stop", "--grace", "0s")


@pytest.mark.soak
def test_a_command_that_a_kept_claude_left_running_ends_later_and_is_no_part_of_the_next_answer(kept: Cli) -> None:
    send = ("send", "claude", "--via", "terminal", "--json")
    shell = tool("Bash", command="sleep 6; touch made", run_in_background=True, description="Make")
    done = kept(*send, f"{shell} !then !say It makes.", timeout=100).json
    assert (done["reply"], [left["how"] for left in done["unfinished"]]) == ("It makes.", ["running"])
    eventually((kept.project / "made").exists, 30)
    again = kept(*send, "and now?", timeout=100).json
    assert (again["reply"], again["unfinished"]) == ("ECHO[and now?] turns=2", [])
