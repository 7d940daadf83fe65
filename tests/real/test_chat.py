"""`beam chat` with the real Claude Code and Codex, against the scripted model, on a terminal of 80 columns."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.chat import Chat
from tests.support.cli import Cli, eventually

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
_LONG_S = 90


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def place(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    """beam in a place where `claude` and `codex` are the pinned ones and talk to the scripted model only."""
    home = beam.base / "home"
    env = {**model.env("claude"), **model.env("codex", home), "IS_SANDBOX": "1"}
    return beam.with_env({"PATH": agents_path, **env})


def bash(command: str) -> str:
    return f"!tool Bash {json.dumps({'command': command, 'description': 'd'})}"


@pytest.mark.conformance
def test_claude_answers_asks_is_interrupted_and_stays_one_process(place: Cli) -> None:
    shown = Chat(place, "claude")
    shown.until("chat with claude")
    shown.type("hello\r")
    shown.until("ECHO[hello] turns=1", _LONG_S)
    shown.until("turn 1 · ")
    shown.type(bash("touch made") + "\r")
    shown.answer("? claude asks for Bash: touch made", "yes", _LONG_S)
    shown.until("turn 2 · ", _LONG_S)
    assert (place.project / "made").exists()
    shown.type(bash("touch other") + "\r")
    shown.answer("? claude asks for Bash: touch other", "no, use the first one", _LONG_S)
    shown.until("denied by human: use the first one", _LONG_S)
    shown.until("turn 3 · ", _LONG_S)
    assert not (place.project / "other").exists()
    shown.type("!stall 60 tell me\r")
    eventually(lambda: [event["type"] for event in place.journal("claude")].count("prompt.sent") == 4, _LONG_S)
    shown.type("\x03")
    shown.until("stopped by human", _LONG_S)
    shown.type("and on\r")
    shown.until("ECHO[and on]", _LONG_S)
    shown.until("turn 5 · ")
    shown.type("\x04")
    assert shown.end(_LONG_S) == 0
    starts = [event for event in place.journal("claude") if event["type"] == "agent.started"]
    assert [event["since"] for event in starts[:3]] == [None, 1, 1]


@pytest.mark.soak
def test_claude_reads_what_is_typed_while_its_tool_runs(place: Cli, model: FakeModel) -> None:
    shown = Chat(place, "claude", "--access", "full")
    shown.until("chat with claude")
    shown.type(bash("touch begun; while ! test -e gate; do sleep 0.1; done") + " !then !say done\r")
    eventually((place.project / "begun").exists, _LONG_S)
    shown.type("use tabs\r")
    shown.until("not read yet")
    time.sleep(0.5)  # nothing shows that Claude has got it and not read it yet
    (place.project / "gate").touch()
    shown.until("→ use tabs\n", _LONG_S)
    shown.until("turn 1 · ", _LONG_S)
    shown.type("\x04")
    assert shown.end(_LONG_S) == 0
    assert "use tabs" in json.dumps([request.body for request in model.requests])
    assert [event["type"] for event in place.journal("claude")].count("turn.started") == 1


@pytest.mark.conformance
def test_claude_and_codex_talk_until_the_limit_and_a_person_joins(place: Cli) -> None:
    shown = Chat(place, "claude", "codex", "--topic", "Tabs?", "--turns", "4")
    shown.until("── claude (1 of 4)", _LONG_S)
    shown.type("What of tea?\r")
    shown.until("── codex (2 of 4)", _LONG_S)
    shown.until("| What of tea?", _LONG_S)  # the line before it may be drawn by itself
    assert "human:" in shown.seen
    shown.until("ended: 4 turns were taken (4 of 4 turns · ", _LONG_S * 2)
    assert shown.end(_LONG_S) == 0
    for agent in ("claude@chat", "codex@chat"):
        starts = [event["since"] for event in place.journal(agent) if event["type"] == "agent.started"]
        assert starts == [None, 1], agent
