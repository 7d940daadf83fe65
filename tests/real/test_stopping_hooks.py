"""Each kind of hook with which a person can stop a turn of Claude Code or Codex: beam never says that it completed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli
from tests.support.codex_hooks import stop_prompts

pytestmark = [pytest.mark.real, pytest.mark.acceptance, pytest.mark.soak]
WORDS = "policy says stop"
STOP = {"continue": False, "stopReason": WORDS}
BLOCK = {"decision": "block", "reason": WORDS}
DEFER = {"permissionDecision": "defer", "permissionDecisionReason": WORDS}
EXIT_2 = f"echo {WORDS} >&2; exit 2"
TOOL = '!tool Bash {"command": "echo hi", "description": "x"} !then !say Done.'
STOPPING: dict[str, tuple[str, Any, int]] = {
    "blocked prompt": ("UserPromptSubmit", BLOCK, 0),
    "prompt, exit code 2": ("UserPromptSubmit", EXIT_2, 0),
    "stopped prompt": ("UserPromptSubmit", STOP, 0),
    "before a call": ("PreToolUse", STOP, 1),
    "deferred call": ("PreToolUse", {"hookSpecificOutput": {"hookEventName": "PreToolUse", **DEFER}}, 1),
    "after a call": ("PostToolUse", STOP, 1),
    "after all calls": ("PostToolBatch", STOP, 1),
    "after all calls, blocked": ("PostToolBatch", BLOCK, 1),
    "after all calls, exit code 2": ("PostToolBatch", EXIT_2, 1),
    "after the answer": ("Stop", STOP, 2),
}
"""Its name -> the hook's event, what it answers or runs, and the number of times that the model is asked."""

CASES = [
    (kind, via)
    for kind in STOPPING
    for via in ("exec", "dialogue", "terminal")
    if (kind, via) != ("deferred call", "terminal")  # there Claude Code takes no notice of it
]

LETTING_ON: dict[str, tuple[str, Any]] = {
    "after a call, blocked": ("PostToolUse", BLOCK),
    "a hook that only looks": ("PreToolUse", {}),
    "at the start": ("SessionStart", STOP),
}


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def claude(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    return beam.with_env({"PATH": agents_path, "IS_SANDBOX": "1", **model.env("claude", beam.base / "home")})


def hooked(cli: Cli, event: str, answer: Any) -> None:
    command = answer if isinstance(answer, str) else f"echo {shlex.quote(json.dumps(answer))}"
    path = cli.base / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}}))


@pytest.mark.parametrize(("kind", "via"), CASES)
def test_a_hook_that_stops_the_turn_fails_it_with_its_words(claude: Cli, model: FakeModel, kind: str, via: str) -> None:
    event, answer, times = STOPPING[kind]
    claude("trust", "--yes")
    hooked(claude, event, answer)
    done = claude("send", "claude", TOOL, "--access", "full", "--via", via, "--json", timeout=120)
    outcome = done.json
    assert (done.code, outcome["status"], outcome["class"]) == (1, "failed", "stopped"), outcome
    assert outcome["reply"] == ("Done." if event == "Stop" else None)
    assert WORDS in outcome["reason"]
    assert len(model.prompts()) == times


@pytest.mark.parametrize("via", ["exec", "dialogue"])
@pytest.mark.parametrize("kind", LETTING_ON)
def test_a_hook_that_lets_the_turn_go_on_does_not_fail_it(claude: Cli, kind: str, via: str) -> None:
    hooked(claude, *LETTING_ON[kind])
    done = claude("send", "claude", TOOL, "--access", "full", "--via", via, "--json", timeout=120)
    assert (done.code, done.json["status"], done.json["reply"]) == (0, "completed", "Done."), done


@pytest.fixture
def codex(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    return beam.with_env({"PATH": agents_path, **model.env("codex", beam.base / "home")})


@pytest.mark.parametrize("via", ["exec", "dialogue", "terminal"])
@pytest.mark.parametrize("answer", [BLOCK, STOP], ids=["blocked", "stopped"])
def test_a_hook_that_stops_a_prompt_of_codex_fails_its_turn(
    codex: Cli, model: FakeModel, answer: dict[str, Any], via: str
) -> None:
    stop_prompts(codex, answer)
    codex("trust", "--yes")
    outcome = codex("send", "codex", "hello", "--via", via, "--json", timeout=120).json
    assert (outcome["status"], outcome["class"], outcome["reply"]) == ("failed", "stopped", None), outcome
    assert via == "exec" or WORDS in outcome["reason"]
    assert model.prompts() == []
