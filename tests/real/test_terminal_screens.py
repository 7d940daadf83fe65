"""Every agent CLI with a screen of its own, driven on it for real, through the real `beam`, against the scripted model.

What each screen must do is in the cells of tests/conformance; these are many turns, and what is rarer. The model pauses
for six seconds in the middle of answers, and answers with what the CLI itself draws.
"""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.conformance.adapters import ADAPTERS
from tests.conformance.screens import FIFTY, HALF, SCREENS, WHOLE, rows_of
from tests.support.cli import Cli, Ended, eventually, is_held, processes_with

pytestmark = [pytest.mark.real, pytest.mark.acceptance]

SOAKED = ("claude", "codex", "gemini", "opencode", "aider")
LONG = "\n".join(f"{number}. a row of the answer" for number in range(1, 61))


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

    def keep(self) -> None:
        """From now on a broker keeps its terminal between turns."""
        for words in (("queue", "pause", self.name), ("queue", "resume", self.name), ("broker", "start")):
            assert self.cli(*words).code == 0
        eventually(lambda: is_held(self.cli, self.name))

    def leave(self) -> None:
        """The broker is gone, and the terminal with it."""
        self.cli("broker", "stop", "--grace", "0s")

    def enters(self) -> int:
        """How often Enter was pressed for a message, as the recordings of its turns say."""
        pressed = 0
        for cast in (self.cli.root / "agents" / self.name / "casts").glob("*.cast"):
            said = [json.loads(line)[1:] for line in cast.read_text().splitlines()[1:]]
            typing = said[said.index(["m", "typing"]) : said.index(["m", "sent"])]
            pressed += typing.count(["i", "\r"])
        return pressed

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
            {"match": "MIRROR", "text": SCREENS[name].lookalike},
            {"match": "PLAIN", "text": "plain words"},
            {"match": "LONG", "text": LONG},
        ],
    }


@pytest.fixture
def agent(request: pytest.FixtureRequest, beam: Cli, agents_path: str) -> Any:
    """The CLI that the test is for."""
    if shutil.which(request.param, path=agents_path) is None:
        pytest.skip(f"left out: {request.param} does not install here")
    with FakeModel(script(request.param)) as model:
        found = Agent(request.param, beam, agents_path, model)
        yield found
        found.leave()


QUICK = ("codex",)


def each(*names: str) -> pytest.MarkDecorator:
    """For each of the CLIs; `make test` takes the one that starts quickest, `make soak` all."""
    marks = {name: () if name in QUICK else pytest.mark.soak for name in names}
    return pytest.mark.parametrize("agent", [pytest.param(name, marks=marks[name]) for name in names], indirect=True)


@each("opencode")
def test_a_new_session_has_the_model_that_is_asked_for(agent: Agent) -> None:
    """A session that goes on keeps the model that it has: that is a cell which fails."""
    other = ADAPTERS[agent.name].other_model
    ended = agent.send("PLAIN here", "--new", "--model", other)
    assert (ended.code, ended.json["status"]) == (0, "completed"), ended
    asked = [request.asked for request in agent.model.requests if request.asked is not None]
    assert other.rpartition("/")[2] in [request.model for request in asked if "PLAIN here" in request.prompt]


@pytest.mark.soak
@each("codex")
def test_a_command_that_no_protocol_offers_runs_on_the_screen(agent: Agent) -> None:
    said = agent.done("/status")
    assert said["lossy"] is True and "Model:" in said["reply"] and "Session:" in said["reply"]


@pytest.mark.soak
@each("codex", "gemini", "opencode")
def test_an_api_error_on_the_screen_is_a_failure(agent: Agent) -> None:
    ended = agent.send("!error 401")
    assert (ended.code, ended.json["status"], ended.json["class"]) == (1, "failed", "auth")
    assert ended.json["reply"] is None and "401" in ended.json["reason"]


# -- many turns --------------------------------------------------------------------------------------------------------


@pytest.mark.soak
@each(*SOAKED)
def test_ten_turns_in_a_row_on_the_screen(agent: Agent) -> None:
    texts = [f"turn {number} {('PAUSE', 'MIRROR', 'PLAIN')[number % 3]}" for number in range(10)]
    ended: list[str] = []
    for number, text in enumerate(texts):
        began = time.monotonic()
        outcome = agent.done(text)
        expected = WHOLE if "PAUSE" in text else SCREENS[agent.name].lookalike if "MIRROR" in text else "plain words"
        if SCREENS[agent.name].is_verbatim or "MIRROR" not in text:
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


HUNDRED = {"claude": 20, "codex": 20, "gemini": 15, "opencode": 15, "aider": 20, "python": 10}  # turns


def is_whole(agent: Agent, text: str, reply: str | None) -> bool:
    """Whether that is the answer and not a part of it."""
    kind = text.split()[2]
    expected = {"PAUSE": WHOLE, "MIRROR": SCREENS[agent.name].lookalike, "PLAIN": "plain words", "LONG": LONG}[kind]
    if SCREENS[agent.name].is_verbatim:
        return reply == expected
    return rows_of(reply or "") == rows_of(expected)


@pytest.mark.soak
@each(*SOAKED)
def test_no_end_is_early_and_no_enter_is_lost_on_a_screen_that_lives_on(agent: Agent) -> None:
    """With those of python's a hundred turns; the terminal is kept by a broker, which `beam send` gives them to."""
    agent.cli.config(f"agents: {{{agent.name}: {{record: true}}}}\n")
    agent.keep()
    early, lost, failed, evidence = [], [], [], []
    turns = HUNDRED[agent.name]
    for number in range(turns):
        kind = ("PLAIN", "PAUSE", "MIRROR", "LONG")[number % 4]
        text = f"turn {number} {kind}" + (f"\n{FIFTY}" if number % 5 == 0 else "")
        ended = agent.send(text)
        outcome = ended.json
        evidence.append(outcome["evidence"])
        if not agent.asked(text):
            lost.append((text[:20], outcome))
        elif outcome["status"] != "completed":
            failed.append((text[:20], outcome))
        elif not is_whole(agent, text, outcome["reply"]):
            early.append((text[:20], outcome["reply"]))
        if number == turns // 2:
            assert agent.send("!stall", "--timeout", "15").code == 3
    agent.leave()
    pressed = agent.enters() - turns - 1
    print(f"{agent.name}: {turns} turns, {len(early)} ended early, {len(lost)} lost, {len(failed)} failed,", end=" ")
    print(f"{pressed} times Enter again, by {sorted(set(map(str, evidence)))}")
    assert (early, lost, failed) == ([], [], [])
    context = agent.asked(f"turn {turns - 1} ")[0]
    known = range(turns - 2, turns) if agent.name == "aider" else range(turns)  # it sums up what is older
    assert [number for number in known if f"turn {number} " not in context] == []
    agent.gone()


@pytest.mark.soak
def test_no_end_is_early_and_no_enter_is_lost_in_an_interactive_python(beam: Cli) -> None:
    beam = beam.with_env({"BEAM_TRUST": "1"})
    slow = "import sys, time; print(HALF, end='', flush=True); time.sleep(6); print('and whole')"
    mirror = "print('>>> 1\\n... 2\\n>>> \\n  x\\nTraceback (most recent call last):')"
    table = "table = [\n" + "".join(f"    'row {number} of fifty',\n" for number in range(50)) + "]"
    answers = [
        ("count = 0; HALF = 'half, '", ""),
        (slow, "half, and whole"),
        (mirror, ">>> 1\n... 2\n>>>\n  x\nTraceback (most recent call last):"),
        (table, ""),
        ("count += 1; print(len(table), table[0], table[-1], count)", "50 row 0 of fifty row 49 of fifty 1"),
        (slow, "half, and whole"),
        ("for number in range(3):\n    print('number', number)\n", "number 0\nnumber 1\nnumber 2"),
        ("print('x' * 5000)", "x" * 5000),
        (mirror, ">>> 1\n... 2\n>>>\n  x\nTraceback (most recent call last):"),
        ("count += 1; print(count)", "2"),
    ]
    for words in (("queue", "pause", "python"), ("queue", "resume", "python"), ("broker", "start")):
        assert beam(*words).code == 0
    eventually(lambda: is_held(beam, "python"))
    try:
        got = [beam("send", "python", "--via", "terminal", "--json", text, timeout=120).json for text, _ in answers]
        stopped = beam("send", "python", "--via", "terminal", "while True: pass", "--timeout", "5", timeout=120)
        after = beam("send", "python", "--via", "terminal", "print(6 * 7)", timeout=120)
    finally:
        beam("broker", "stop", "--grace", "0s")
    wrong = [(text, outcome) for (text, reply), outcome in zip(answers, got, strict=True) if outcome["reply"] != reply]
    print(f"python: {len(got)} turns, {len(wrong)} wrong")
    assert wrong == [] and stopped.code == 3 and after.out == "42\n"


@pytest.mark.real
@pytest.mark.soak
def test_codex_that_is_logged_out_says_so_on_its_screen(beam: Cli, agents_path: str) -> None:
    cli = beam.with_env({"PATH": agents_path, "BEAM_TRUST": "1"})

    ended = cli("send", "codex", "--via", "terminal", "hello", timeout=400)

    assert ended.code == 1, ended
    first, *rows = ended.err.splitlines()
    assert first.startswith(
        "beam: codex: failed (auth): the agent shows a dialog that a person must answer (login); log in with"
    ), ended
    assert any("1. Sign in with ChatGPT" in row for row in rows), ended
    assert len(rows) <= 12, ended
