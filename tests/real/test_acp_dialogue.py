"""The real agents that speak the Agent Client Protocol, through the real `beam`, against the scripted model.

What they do as every agent with a protocol does is in the cells of `tests/conformance/dialogue.py`. What is of the
protocol alone is the same test for all, tried by `make soak`, and by `make conformance`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.conformance.adapters import ADAPTERS, Tool
from tests.support.asking import first_ask
from tests.support.cli import Cli, Ended, eventually
from tests.support.clis import ACP
from tests.support.repository import files

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
LEAST = {"kimi": "edit", "codex-acp": "ask"}  # kimi changes files of the folder unasked
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "May I?"}
TOOLS = {  # the adapters of Claude and Codex have the tools of these
    **ADAPTERS,
    "claude-agent-acp": replace(ADAPTERS["claude"], other_model="haiku"),
    "codex-acp": ADAPTERS["codex"],
}
SLOW = "!slow 40 !say zebra one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"


class Agent:
    """One agent in a place of its own."""

    def __init__(self, name: str, cli: Cli, model: FakeModel) -> None:
        self.name = name
        self.cli = cli
        self.model = model
        self.tools = TOOLS[name]
        self.least = LEAST.get(name, "read")

    def send(self, text: str, *words: str, access: str = "") -> Ended:
        return self.cli(*self._words(access or self.least), *words, text, timeout=240)

    def start(self, text: str, *, access: str) -> Any:
        return self.cli.start(*self._words(access), text)

    def _words(self, access: str) -> tuple[str, ...]:
        return ("send", self.name, "--via", "dialogue", "--access", access, "--json")

    def asked(self, text: str, *answer: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The ask of that prompt's turn, and the outcome after the answer (`approve` or `deny`, and its options)."""
        running = self.start(text, access="ask")
        ask = first_ask(self.cli)
        decided = self.cli(answer[0], ask["id"], *answer[1:])
        assert decided.code == 0, decided
        out, _ = running.communicate(timeout=240)
        return ask, json.loads(out)

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.cli.journal(self.name) if event["type"] == kind]

    def shell(self, command: str) -> str:
        assert self.tools.shell is not None
        return self.tools.shell.prompt(command=command)

    def asking(self, command: str) -> str:
        """The same for access `ask`: Codex asks only for what its sandbox would not let through."""
        if self.name == "codex-acp":
            return Tool("exec_command", {"cmd": "{command}", **ESCALATED}).prompt(command=command)
        return self.shell(command)

    def write(self, name: str) -> str:
        return self.tools.write.prompt(path=str(self.cli.project / name), text="x")

    @property
    def made(self) -> list[str]:
        return files(self.cli.project)


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture(params=ACP)
def agent(request: pytest.FixtureRequest, beam: Cli, agents_path: str, model: FakeModel) -> Iterator[Agent]:
    """beam in a place where the agent is the pinned one and talks to the scripted model only."""
    name = request.param
    env = {"PATH": agents_path, **model.env(name, beam.base / "home"), **TOOLS[name].env}
    yield Agent(name, beam.with_env(env), model)
    beam("broker", "stop", "--grace", "0s")


def _card(agent: Agent) -> Any:
    from beam.agents import registry

    return registry.adapter(agent.name).card.faces["dialogue"]


@pytest.mark.soak
def test_warm_the_next_turn_has_the_context_and_what_is_not_read_is_denied(agent: Agent) -> None:
    assert agent.cli("broker", "start").code == 0
    outcomes = [agent.send("plums").json, agent.send("what?").json]
    assert [outcome["reply"][-7:] for outcome in outcomes] in (["turns=1", "turns=2"], ["turns=2", "turns=3"])
    assert [outcome["session"] for outcome in outcomes] == ["new", "resumed"]
    if agent.least == "ask":
        _, outcome = agent.asked(agent.asking("touch made"), "deny")
    else:
        done = agent.send(f"{agent.write('made')} !then {agent.shell('touch made2')}")
        outcome = done.json
        assert (done.code, outcome["status"]) == (5, "denied"), done
    assert agent.made == (["made"] if agent.least == "edit" else []) and outcome["denials"]
    assert [event["since"] for event in agent.events("agent.started")] == [None, 1, 1]
    assert agent.events("unknown") == [] and agent.events("text.delta")


@pytest.mark.soak
def test_a_first_turn_prints_only_the_answer(agent: Agent) -> None:
    done = agent.cli("send", agent.name, "--via", "dialogue", "--access", agent.least, "hello", timeout=240)
    assert done.code == 0 and "hello" in done.out and done.err == "", done
    (exited,) = agent.events("agent.exited")
    left = 2 if agent.name == "claude-agent-acp" else 0  # it does not wait for the CLI that it started
    assert exited["stopped_by"] == "quit" and exited["swept"] <= left


@pytest.mark.soak
def test_the_tokens_of_a_turn_are_of_all_its_model_calls(agent: Agent) -> None:
    note = agent.cli.project / "note.txt"
    note.write_text("the text of the note\n")
    assert agent.tools.look is not None
    outcomes = [agent.send(text).json for text in ("hello", agent.tools.look.prompt(path=str(note)))]
    if agent.name == "gemini":  # which has no second turn without a broker
        outcomes = outcomes[:1]
    can = _card(agent)
    for outcome, least in zip(outcomes, (1, 2), strict=False):
        assert (outcome["usage"]["input_tokens"] is not None) == can.tokens, outcome
        assert outcome["usage"]["calls"] == (least if can.calls else None), outcome


@pytest.mark.soak
def test_a_session_goes_on_in_another_process_or_that_is_refused(agent: Agent) -> None:
    first = agent.send("plums").json
    second = agent.send("what?")
    if agent.name == "gemini":
        assert second.code == 10 and "agent reset" in second.json["reason"], second
        return
    assert second.json["session_id"] == first["session_id"] and second.json["session"] == "resumed"
    number = int(first["reply"].rpartition("=")[2])
    assert second.json["reply"].endswith(f"turns={number + 1}"), second
    assert "plums" not in "".join(event["text"] for event in agent.events("text")[1:])


@pytest.mark.soak
def test_with_edit_it_changes_files_of_the_folder_and_runs_nothing(agent: Agent) -> None:
    if "edit" not in _card(agent).access:
        assert agent.send("hello", access="edit").code == 10
        return
    command = agent.shell("sh -c 'touch made2'")  # a plain one of these is an edit to Claude Code
    done = agent.send(f"{agent.write('made')} !then {command}", access="edit")
    assert agent.made == ["made"] and done.code == 5, done
    outside = agent.cli.base / "home" / "outside"
    agent.send(agent.tools.write.prompt(path=str(outside), text="x"), access="edit")
    assert not outside.exists()


@pytest.mark.soak
def test_with_full_it_does_all_and_asks_nobody(agent: Agent) -> None:
    outside = agent.cli.base / "home" / "outside"
    done = agent.send(f"{agent.write('made')} !then {agent.shell(f'touch {outside}')}", access="full")
    assert (done.code, agent.made) == (0, ["made"]), done
    assert outside.exists() and agent.events("permission.asked") == []


@pytest.mark.soak
def test_a_system_prompt_and_a_schema_reach_the_model_and_the_answer_is_checked(agent: Agent) -> None:
    schema = agent.cli.base / "schema.json"
    schema.write_text('{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}')
    assert agent.cli("agent", "set", agent.name, "system=Speak like a pirate.").code == 0
    good = agent.send('!say {"n": 3}', "--schema", str(schema))
    assert (good.code, good.json["structured"]) == (0, {"n": 3}), good
    sent = json.dumps([request.body for request in agent.model.requests])
    assert "Speak like a pirate." in sent and "integer" in sent
    bad = agent.send('!say {"n": "three"}', "--schema", str(schema), "--new")
    assert (bad.code, bad.json["class"]) == (1, "schema"), bad


@pytest.mark.soak
def test_a_failure_of_the_model_is_one_of_the_turn(agent: Agent) -> None:
    done = agent.send("!error 400")
    assert (done.code, done.json["status"]) == (1, "failed"), done


@pytest.mark.soak
def test_a_command_of_its_own_in_a_message_raises_no_access(agent: Agent) -> None:
    commands = ("/allow-all on", "/yolo", "/mode yolo", "/permissions allow-all")
    if agent.least == "ask":
        _, outcome = agent.asked(f"{commands[0]}\n{agent.asking('touch made')}", "deny")
        assert outcome["denials"] and agent.made == []
        return
    for command in commands:
        agent.send(f"{command}\n{agent.shell('touch made')}")
    agent.send(agent.shell("touch made2"))
    assert agent.made == []


@pytest.mark.soak
def test_a_rule_decides_what_the_agent_asks_about_or_is_refused(agent: Agent) -> None:
    access = "ask" if "ask" in _card(agent).access else "edit"
    made = agent.asking(f"touch {agent.cli.project}/made")
    allowed = agent.send(made, "--allow", "Bash(touch *)", access=access)
    if agent.name == "gemini":
        assert allowed.code == 10 and agent.events("agent.started") == []
    else:
        assert (allowed.code, agent.made) == (0, ["made"]), allowed
        (decided,) = agent.events("permission.decided")
        assert (decided["by"], decided["decision"]) == ("rule", "allow")
    denied = agent.send(agent.shell("touch made2"), "--deny", "Bash(touch *)", access=access)
    if agent.name in ("opencode", "kilo"):
        assert (denied.code, [denial["by"] for denial in denied.json["denials"]]) == (0, ["rule"]), denied
        assert "beam approve" not in denied.err
    else:
        assert denied.code == (0 if agent.name == "gemini" else 10), denied
    assert "made2" not in agent.made


@pytest.mark.soak
@pytest.mark.parametrize("agent", ["opencode", "kilo"], indirect=True)
def test_rules_with_an_access_that_asks_nobody(agent: Agent) -> None:
    both = f"{agent.shell('touch made')} !then {agent.shell('rm -f other')}"
    done = agent.send(both, "--allow", "Bash(touch *)", access="read")
    assert (done.code, agent.made) == (5, ["made"]), done
    (agent.cli.project / "src").mkdir()
    for name in ("src/a", "b"):
        assert agent.send(agent.write(name), "--deny", "Edit(src/**)", access="edit").code == 0
    assert agent.made == ["b", "made", "src"] and not (agent.cli.project / "src/a").exists()
    assert [event["by"] for event in agent.events("permission.decided")][-1:] == ["rule"]


@pytest.mark.soak
@pytest.mark.parametrize("agent", ["claude-agent-acp"], indirect=True)
def test_the_draft_of_version_2_of_the_protocol(agent: Agent) -> None:
    agent.cli.config("agents:\n  mine: {command: [claude-agent-acp], protocol: acp-v2, access: ask}\n")
    agent.name = "mine"
    (agent.cli.base / "home" / ".claude").mkdir(exist_ok=True)  # it can't make its own under Landlock
    assert agent.cli("broker", "start").code == 0
    outcomes = [agent.send(text, access="ask").json for text in ("plums", "what?")]
    assert [(one["reply"][-7:], one["session"]) for one in outcomes] == [("turns=1", "new"), ("turns=2", "resumed")]
    _, outcome = agent.asked(agent.shell(f"touch {agent.cli.project}/made"), "approve")
    assert (outcome["status"], agent.made) == ("completed", ["beam.yaml", "made"]), outcome
    running = agent.start(SLOW, access="ask")
    eventually(lambda: "zebra" in "".join(event["text"] for event in agent.events("text.delta")), 120)
    assert agent.cli("interrupt", "mine").code == 0
    assert json.loads(running.communicate(timeout=120)[0])["status"] == "cancelled"
    assert agent.send("and now?", access="ask").json["session"] == "resumed"
    assert [event["since"] for event in agent.events("agent.started")] == [None, 1, 1, 1, None]
    assert agent.events("unknown") == []


@pytest.mark.soak
@pytest.mark.parametrize("agent", ["claude-agent-acp"], indirect=True)
def test_a_rule_allows_what_read_alone_does_not(agent: Agent) -> None:
    both = f"{agent.shell('touch made')} !then {agent.shell('rm -f other')}"
    done = agent.send(both, "--allow", "Bash(touch *)", access="read")
    assert (done.code, agent.made) == (5, ["made"]), done


@pytest.mark.soak
@pytest.mark.parametrize("agent", ["gemini", "qwen"], indirect=True)
def test_a_live_session_only_plans_until_it_is_told_otherwise(agent: Agent) -> None:
    assert agent.cli("broker", "start").code == 0
    assert agent.send("hello", access="full").code == 0
    assert agent.cli("agent", "set", agent.name, "--live", "mode=plan", timeout=60).code == 0
    agent.send(agent.write("planned"), access="full")
    assert agent.made == []
    assert agent.cli("agent", "set", agent.name, "--live", "mode=yolo", timeout=60).code == 10
    assert agent.cli("agent", "set", agent.name, "--live", "mode=default", timeout=60).code == 0
    agent.send(agent.write("made"), access="full")
    assert agent.made == ["made"]
    assert [event["since"] for event in agent.events("agent.started")] == [None, 1, 1]


@pytest.mark.soak
def test_access_ask_runs_over_the_protocol_without_being_named(agent: Agent) -> None:
    done = agent.cli("send", agent.name, "--access", "ask", "--json", "hello", timeout=240)
    if agent.name in ("gemini", "kimi"):  # its exec mode asks nobody
        assert done.code == 10, done
    else:
        assert (done.code, done.json["via"]) == (0, "dialogue"), done
