"""What docs/fake-model.md says that Claude Code makes of the scripted model."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import eventually
from tests.support.repository import make_repository

pytestmark = pytest.mark.real


class Ran:
    """One `claude -p` run: its exit code, its result, and whether each request for an answer was for a stream;
    the names of all headers that it sent."""

    def __init__(self, code: int, result: dict[str, Any], streamed: list[bool], headers: set[str]) -> None:
        self.code = code
        self.result = result
        self.streamed = streamed
        self.headers = headers


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder in which the CLI runs, a git repository."""
    (tmp_path / "work").mkdir()
    make_repository(tmp_path / "work", tmp_path)
    return tmp_path / "work"


@pytest.fixture
def ask(claude: Path, tmp_path: Path, work: Path) -> Any:
    def ask(prompt: str, *args: str, **environ: str) -> Ran:
        with FakeModel() as model:
            clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CLAUDE_CODE_MAX_RETRIES": "1"}
            ran = subprocess.run(
                [claude, "-p", prompt, "--output-format", "json", *args],
                env={**clean, **environ, **model.env("claude")},
                cwd=work,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
            )
            streamed = [request.asked.stream for request in model.requests if request.asked]
            headers = {name for request in model.requests for name in request.headers}
        return Ran(ran.returncode, json.loads(ran.stdout), streamed, headers)

    return ask


@pytest.mark.parametrize(
    ("prompt", "code", "streamed"),
    [
        pytest.param("!error 500 1", 0, [True, True], marks=pytest.mark.soak),
        pytest.param("!max_tokens 1", 0, [True] * 2, marks=pytest.mark.soak),
        pytest.param("!error-mid", 0, [True, False], marks=pytest.mark.soak),
        pytest.param("!malformed", 1, [True, False], marks=pytest.mark.soak),
    ],
)
def test_claude_takes_each_fault_as_the_docs_say(ask: Any, prompt: str, code: int, streamed: list[bool]):
    """The others are in tests/agents/test_claude_real.py."""
    ran = ask(prompt)

    assert (ran.code, ran.streamed) == (code, streamed)
    assert ran.result["is_error"] is (code == 1)


@pytest.mark.soak
def test_claude_gives_up_a_stall_before_the_first_byte(ask: Any):
    assert (ran := ask("!stall", API_TIMEOUT_MS="1000")).code == 1
    assert ran.streamed == [True, True]


@pytest.mark.soak
def test_claude_waits_through_a_stall_in_the_middle(claude: Path, tmp_path: Path, work: Path):
    with FakeModel() as model:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "API_TIMEOUT_MS": "1000", **model.env("claude")}
        command = [claude, "-p", "!stall-mid"]
        with subprocess.Popen(command, env=environ, cwd=work, stdin=subprocess.DEVNULL) as running:
            try:
                eventually(lambda: model.prompts() != [], 60)
                with pytest.raises(subprocess.TimeoutExpired):
                    running.wait(3)
            finally:
                running.kill()

        assert model.prompts() == ["!stall-mid"]


@pytest.mark.soak
def test_claude_runs_the_tools_of_the_model_and_tells_it_the_results(ask: Any):
    ran = ask('!tool Bash {"command":"echo $((40+2))"} !then !tool Bash {"command":"echo 7"}', "--allowedTools", "Bash")

    assert (ran.code, ran.result["result"], ran.result["num_turns"]) == (0, "RESULT[7] turns=1", 3)


@pytest.mark.soak
def test_a_resumed_conversation_has_one_turn_more(ask: Any):
    first = ask("one")
    second = ask("two", "--resume", first.result["session_id"])

    assert (first.result["result"], second.result["result"]) == ("ECHO[one] turns=1", "ECHO[two] turns=2")


def test_claude_sends_no_credential_that_was_left_in_the_environment(ask: Any):
    leftovers = {
        "ANTHROPIC_AUTH_TOKEN": "left",
        "CLAUDE_CODE_OAUTH_TOKEN": "left",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }

    ran = ask("hi", **leftovers)

    assert ran.result["result"] == "ECHO[hi] turns=1"
    assert "x-api-key" in ran.headers
    assert "authorization" not in ran.headers
