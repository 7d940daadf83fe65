"""The live process of real Claude Code and Codex under a person's control, against the scripted model.

What both can (another mode, their MCP servers) is tried by `make test`; the rest by `make soak`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.asking import first_ask
from tests.support.cli import Cli, Ended
from tests.support.repository import files

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
STUB = Path(__file__).parents[1] / "support" / "mcp_stub.py"


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def live(beam: Cli, agents_path: str, model: FakeModel) -> Iterator[Cli]:
    """beam in a place where both CLIs are the pinned ones and talk to the scripted model only."""
    env = {**model.env("claude"), **model.env("codex", beam.base / "home")}
    yield beam.with_env({"PATH": agents_path, "IS_SANDBOX": "1", **env})
    for name in ("claude", "codex"):
        beam("agent", "release", name)


def send(cli: Cli, agent: str, text: str, *words: str, access: str = "read") -> Ended:
    wanted = ("--via", "dialogue", "--access", access, "--keep", "5m", "--json")
    return cli("send", agent, *wanted, *words, text, timeout=120)


def last(model: FakeModel) -> Any:
    """The body of what the model was asked last."""
    return [request.body for request in model.requests if request.asked is not None][-1]


def write(path: Path) -> str:
    return f"!tool Write {json.dumps({'file_path': str(path), 'content': 'x'})}"


@pytest.mark.soak
def test_claude_plans_and_acts_again_as_it_is_set(live: Cli) -> None:
    assert send(live, "claude", "hello", access="edit").code == 0
    assert live("agent", "set", "claude", "--live", "mode=plan").code == 0
    planned = send(live, "claude", write(live.project / "made"), access="edit")
    assert (planned.json["status"], files(live.project)) == ("denied", []), planned
    shown = live("agent", "show", "claude", "--live", "--json").json
    assert shown["modes"] == {"current": "plan", "available": ["default", "plan"], "access": "edit"}
    assert live("agent", "set", "claude", "--live", "mode=default").code == 0
    assert send(live, "claude", write(live.project / "made"), access="edit").code == 0
    assert files(live.project) == ["made"]
    pids = [event["pid"] for event in live.journal("claude") if event["type"] == "agent.started"]
    assert len(set(pids)) == 1


@pytest.mark.soak
def test_claude_that_may_only_look_changes_nothing_in_a_plan_either(live: Cli) -> None:
    settings = live.base / "home" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash", "Write"]}}))
    send(live, "claude", "hello")
    for setting in ("mode=plan", "effort=low"):
        assert live("agent", "set", "claude", "--live", setting).code == 0
    command = json.dumps({"command": "touch made2", "description": "d"})
    done = send(live, "claude", f"{write(live.project / 'made')} !tool Bash {command}")
    assert (done.json["status"], files(live.project)) == ("denied", []), done
    refused = live("agent", "set", "claude", "--live", "access=edit")
    assert refused.code == 10 and "began with access read" in refused.err


@pytest.mark.soak
def test_another_access_in_a_turn_counts_at_once_and_binds_the_kept_process(live: Cli) -> None:
    prompt = f"{write(live.project / 'made')} !then {write(live.project / 'made2')}"
    running = live.start("send", "claude", "--via", "dialogue", "--access", "ask", "--keep", "5m", "--json", prompt)
    ask = first_ask(live)
    assert live("agent", "set", "claude", "--live", "access=edit").code == 0
    assert live("approve", ask["id"]).code == 0
    assert json.loads(running.communicate(timeout=120)[0])["status"] == "completed"
    assert files(live.project) == ["made", "made2"]
    assert send(live, "claude", "and?", access="edit").code == 0
    assert send(live, "claude", "and?", access="ask").code == 0
    since = [event["since"] for event in live.journal("claude") if event["type"] == "agent.started"]
    assert since == [None, 1, None]
    told = [event["text"] for event in live.journal("claude") if event.get("code") == "live_set"]
    assert told == ["access is edit in the running process: set by human"]


@pytest.mark.soak
def test_claude_takes_an_effort_and_a_thinking_budget_and_no_nonsense(live: Cli, model: FakeModel) -> None:
    assert send(live, "claude", "hello", "--model", "claude-sonnet-4-5").code == 0
    assert live("agent", "set", "claude", "--live", "thinking=2048").code == 0
    assert send(live, "claude", "think", "--model", "claude-sonnet-4-5").code == 0
    assert last(model)["thinking"]["budget_tokens"] == 2048
    for setting in ("thinking=much", "effort=bogus", "mode=bypassPermissions", "access=full", "colour=red"):
        assert live("agent", "set", "claude", "--live", setting).code == 10, setting
    assert live("agent", "set", "claude", "--live", "model=opus").code == 0
    assert live("agent", "set", "claude", "--live", "effort=low").code == 0
    assert send(live, "claude", "and?", "--model", "claude-sonnet-4-5").code == 0
    assert last(model)["output_config"]["effort"] == "low"


@pytest.mark.soak
def test_claude_gets_an_mcp_server_while_it_lives(live: Cli, model: FakeModel) -> None:
    send(live, "claude", "hello", access="full")
    servers = json.dumps({"docs": {"command": sys.executable, "args": [str(STUB)], "env": {"KEY": "hidden-key"}}})
    assert "added: docs" in live("agent", "mcp", "claude", "set", servers).err
    called = live("agent", "mcp", "claude", "call", "docs", "ping", '{"a": 1}')
    assert (called.code, called.out) == (0, 'pong {"a": 1}\n'), called
    assert live("agent", "mcp", "claude", "--json").lines == [
        {"name": "docs", "status": "connected", "tools": ["ping"], "error": ""}
    ]
    assert send(live, "claude", "!tool mcp__docs__ping {}", access="full").json["reply"].startswith("RESULT[pong {}")
    assert live("agent", "mcp", "claude", "reconnect", "docs").code == 0
    assert live("agent", "mcp", "claude", "disable", "docs").code == 0
    assert live("agent", "mcp", "claude", "--json").lines[0]["status"] == "disabled"
    assert live("agent", "mcp", "claude", "enable", "docs").code == 0
    assert live("agent", "mcp", "claude", "reconnect", "nope").code != 0
    assert "hidden-key" not in json.dumps([line for line in live.journal("claude") if line["type"] == "control.done"])


def test_codex_shows_and_calls_its_mcp_servers_and_plans(live: Cli, model: FakeModel) -> None:
    config = live.base / "home" / ".codex" / "config.toml"
    with config.open("a") as file:
        file.write(f'\n[mcp_servers.docs]\ncommand = "{sys.executable}"\nargs = ["{STUB}"]\n')
    assert send(live, "codex", "hello").code == 0
    called = live("agent", "mcp", "codex", "call", "docs", "ping")
    assert (called.code, called.out) == (0, "pong {}\n"), called
    (docs,) = live("agent", "mcp", "codex", "--json").lines
    assert (docs["name"], docs["status"], docs["tools"]) == ("docs", "connected", ["ping"])
    assert live("agent", "mcp", "codex", "reconnect").code == 0
    for words in (("disable", "docs"), ("reconnect", "docs"), ("set", "{}")):
        assert live("agent", "mcp", "codex", *words).code == 10, words
    assert live("agent", "set", "codex", "--live", "mode=plan").code == 0
    assert send(live, "codex", "plan it").code == 0
    assert "Plan Mode" in json.dumps(last(model))
    assert live("agent", "show", "codex", "--live", "--json").json["modes"]["current"] == "plan"


@pytest.mark.soak
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_conversation_is_compacted_by_a_slash_command_and_a_text_is_none(
    live: Cli, model: FakeModel, agent: str
) -> None:
    send(live, agent, "plums")
    assert send(live, agent, "/compact").json["reply"] != ""
    compacted = send(live, agent, "/compact", "--slash")
    assert (compacted.code, compacted.json["reply"]) == (0, ""), compacted
    words = {event["state"] for event in live.journal(agent) if event["type"] == "status"}
    assert words & {"compacting", "compacted"}
    assert send(live, agent, "and?").code == 0
    assert "plums" not in [request.asked.prompt for request in model.requests if request.asked][-1]
    refused = send(live, agent, "/nope", "--slash")
    assert (refused.code, refused.json["class"]) == (10, "unsupported"), refused


@pytest.mark.soak
def test_codex_takes_an_effort_of_its_model_and_no_other(live: Cli, model: FakeModel) -> None:
    send(live, "codex", "hello")
    for setting in ("effort=bogus", "mode=bogus", "access=full", "thinking=2048"):
        assert live("agent", "set", "codex", "--live", setting).code == 10, setting
    assert live("agent", "set", "codex", "--live", "effort=high").code == 0
    assert send(live, "codex", "and?").code == 0
    assert last(model)["reasoning"]["effort"] == "high"
