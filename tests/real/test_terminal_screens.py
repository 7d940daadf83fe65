"""Every agent CLI with a screen of its own, driven on it for real, through the real `beam`, against the scripted model.

The model pauses for six seconds in the middle of answers, and answers with what the CLI itself draws.
"""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, Ended, eventually, processes_with

pytestmark = [pytest.mark.real, pytest.mark.acceptance]

VERBATIM = ("claude", "codex", "gemini", "aider")
FROM_SCREEN = ("opencode",)
RARE = ("qwen", "copilot")
SOAKED = ("claude", "codex", "gemini", "opencode", "aider")
HALF = "the first half of the answer, and "
WHOLE = f"{HALF}the second half"
RULE = "─" * 60
LOOKALIKE = {
    "claude": f"✻ Booping… (esc to interrupt)\n{RULE}\n❯ \n{RULE}\n  esc to interrupt\n❯ 1. Yes",
    "codex": "• Working (3s • esc to interrupt)\n\n› Ask Codex to do anything\n\n  gpt · ~/x\n■ error",
    "gemini": f"⠹ Thinking... (esc to cancel, 2s)\n{RULE}\n >   Type your message\n\n● 1. Allow once\n✕ [API Error",
    "opencode": "   ■■⬝⬝  esc interrupt\n  ┃\n  ┃  Ask anything\n  ┃  Build · x\n  ╹▀▀▀▀",
    "aider": "> \nask> \nCreate new file? (Y)es/(N)o [Yes]: \n#### what\nthe end",
    "qwen": f"⠹ Thinking... (esc to cancel, 2s)\n{RULE}\n>   Type your message\n{RULE}\n✕ [API Error",
    "copilot": f"◎ Working esc esc interrupt\n{RULE}\n❯\n{RULE}\n❯ 1. Yes",
}
FIFTY = "\n".join(f"line {number} of fifty" for number in range(50))


class Agent:
    """One CLI in its scratch place, which is trusted, with the model that it talks to."""

    def __init__(self, name: str, beam: Cli, path: str, model: FakeModel) -> None:
        self.name = name
        self.model = model
        home = beam.base / "home"
        if name == "claude":
            (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True, "theme": "dark"}))
        self.cli = beam.with_env({"PATH": path, "BEAM_TRUST": "1", **model.env(name, home)})

    def send(self, text: str, *options: str) -> Ended:
        return self.cli("send", self.name, "--via", "terminal", "--json", *options, "--", text, timeout=400)

    def done(self, text: str) -> dict[str, Any]:
        """The outcome of a turn that must be completed."""
        ended = self.send(text)
        assert (ended.code, ended.json["status"]) == (0, "completed"), ended
        outcome: dict[str, Any] = ended.json
        return outcome

    def asked(self, text: str) -> list[str]:
        """All that the model was sent, as JSON, a request each, in which this text is the last thing that was asked."""
        bodies = [json.dumps(request.body, ensure_ascii=False) for request in self.model.requests if request.asked]
        wanted = json.dumps(text, ensure_ascii=False)[1:-1]
        return [body for body in bodies if wanted in body]

    def gone(self) -> None:
        """Nothing that has this place in its command or environment runs any more."""
        eventually(lambda: processes_with(str(self.cli.base)) == [], what=f"{self.name} left processes behind")


def script(name: str) -> dict[str, Any]:
    return {
        "directives": True,
        "rules": [
            {"match": "PAUSE", "text": WHOLE, "chunk": len(HALF), "delay": 6},
            {"match": "MIRROR", "text": LOOKALIKE[name]},
            {"match": "PLAIN", "text": "plain words"},
        ],
    }


@pytest.fixture
def agent(request: pytest.FixtureRequest, beam: Cli, agents_path: str) -> Any:
    """The CLI that the test is for."""
    if shutil.which(request.param, path=agents_path) is None:
        pytest.skip(f"left out: {request.param} does not install here")
    with FakeModel(script(request.param)) as model:
        yield Agent(request.param, beam, agents_path, model)


QUICK = ("codex", "aider")


def each(*names: str) -> pytest.MarkDecorator:
    """For each of the CLIs; `make test` takes the two that start quickly, `make soak` all."""
    marks = {name: () if name in QUICK else pytest.mark.soak for name in names}
    return pytest.mark.parametrize("agent", [pytest.param(name, marks=marks[name]) for name in names], indirect=True)


@each(*VERBATIM)
def test_an_answer_that_looks_like_the_screen_is_verbatim_and_a_pause_is_no_end(agent: Agent) -> None:
    first = agent.done(f"MIRROR\n{FIFTY}")
    assert (first["reply"], first["session"]) == (LOOKALIKE[agent.name], "new")
    assert "lossy" not in first
    second = agent.done("PAUSE here")
    assert (second["reply"], second["session"]) == (WHOLE, "resumed")
    assert second["session_id"] == first["session_id"] is not None
    assert agent.asked(f"MIRROR\n{FIFTY}"), "fifty lines did not arrive verbatim"
    context = agent.asked("PAUSE here")[0]  # aider puts its own blanks between the lines that it gives again
    assert all(f"line {number} of fifty" in context for number in range(50))
    agent.gone()


@each(*FROM_SCREEN)
def test_an_answer_from_the_screen_is_whole_and_a_pause_is_no_end(agent: Agent) -> None:
    first = agent.done(f"PLAIN\n{FIFTY}")
    assert (first["reply"], first["lossy"]) == ("plain words", True)
    second = agent.done("PAUSE here")
    assert second["reply"] == WHOLE
    assert agent.asked(f"PLAIN\n{FIFTY}"), "fifty lines did not arrive verbatim"
    assert "line 49 of fifty" in agent.asked("PAUSE here")[0]
    agent.gone()


@pytest.mark.soak
@each(*RARE)
def test_two_turns_of_a_cli_that_is_rarely_driven_so(agent: Agent) -> None:
    assert agent.done("PLAIN here")["reply"] == "plain words"
    assert agent.done("PAUSE here")["reply"] == WHOLE
    assert "PLAIN here" in agent.asked("PAUSE here")[0]
    agent.gone()


@each("codex")
def test_a_command_that_no_protocol_offers_runs_on_codexs_screen(agent: Agent) -> None:
    outcome = agent.done("/status")
    assert outcome["lossy"] is True and "Model:" in outcome["reply"] and "Session:" in outcome["reply"]


@each("codex", "gemini", "aider", "opencode")
def test_an_api_error_on_the_screen_is_a_failure(agent: Agent) -> None:
    ended = agent.send("!error 401")
    assert (ended.code, ended.json["status"], ended.json["reply"]) == (1, "failed", None)
    assert "401" in ended.json["reason"]


# -- many turns --------------------------------------------------------------------------------------------------------


@pytest.mark.soak
@each(*SOAKED)
def test_ten_turns_in_a_row_on_the_screen(agent: Agent) -> None:
    texts = [f"turn {number} {('PAUSE', 'MIRROR', 'PLAIN')[number % 3]}" for number in range(10)]
    ended: list[str] = []
    for number, text in enumerate(texts):
        began = time.monotonic()
        outcome = agent.done(text)
        expected = WHOLE if "PAUSE" in text else LOOKALIKE[agent.name] if "MIRROR" in text else "plain words"
        if agent.name in VERBATIM or "MIRROR" not in text:
            assert outcome["reply"] == expected
        for earlier in texts[:number]:
            assert earlier in agent.asked(text)[0]
        ended.append(f"{outcome['evidence']} {time.monotonic() - began:.1f} s")
    print(agent.name, ended)
    agent.gone()


@pytest.mark.soak
@each(*SOAKED)
def test_a_turn_on_the_screen_that_takes_too_long_is_interrupted_and_the_next_one_works(agent: Agent) -> None:
    agent.done("PLAIN first")
    assert agent.send("!stall", "--timeout", "45").code == 3
    assert agent.done("PLAIN again")["reply"] == "plain words"
    agent.gone()
