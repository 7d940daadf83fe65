"""The real Claude Code, through the real `beam`, against the scripted model: every status and its exit code."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import BEAM, Cli, eventually, kill_hard, processes_with
from tests.support.terminal import Terminal

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
SANDBOX = {"IS_SANDBOX": "1"}  # else full access is refused to root


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def claude(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    """beam in a place where `claude` is the pinned one and talks to the scripted model only."""
    return beam.with_env({"PATH": agents_path, **model.env("claude")})


def sent(model: FakeModel) -> list[Any]:
    """The bodies of what the model was asked to answer."""
    return [request.body for request in model.requests if request.asked is not None]


@pytest.mark.soak
def test_who_waits_for_claude_at_a_terminal_sees_its_call_and_the_tokens_so_far(claude: Cli) -> None:
    prompt = f"!tool Bash {json.dumps({'command': 'sleep 8', 'description': 'Wait'})}"
    terminal = Terminal(claude, "send", "claude", "--access", "full", prompt, columns=140, env=SANDBOX)
    assert re.search(r"claude-\w+: \d+s, Bash: sleep 8, [\d,]+ tokens", terminal.until(" tokens", 60))
    assert terminal.end(60) == 0


def test_a_first_turn_with_nothing_set_up_prints_only_the_answer(claude: Cli) -> None:
    done = claude("send", "claude", "hello")
    assert (done.code, done.out, done.err) == (0, "ECHO[hello] turns=1\n", "")


@pytest.mark.soak
def test_the_second_turn_has_the_context_of_the_first(claude: Cli, model: FakeModel) -> None:
    first = claude("send", "claude", "remember the number 4711", "--json").json
    second = claude("send", "claude", "which number?", "--json").json
    assert (first["session"], second["session"]) == ("new", "resumed")
    assert second["session_id"] == first["session_id"]
    assert "remember the number 4711" in json.dumps(sent(model)[-1]["messages"])
    assert second["reply"] == "ECHO[which number?] turns=2"
    assert second["usage"]["output_tokens"] > 0
    assert second["cost_usd"] > 0
    assert second["model"]


def test_a_tool_call_and_its_result_are_events(claude: Cli) -> None:
    (claude.project / "note.txt").write_text("the text of the note")
    prompt = f"!tool Read {json.dumps({'file_path': str(claude.project / 'note.txt')})}"
    done = claude("send", "claude", prompt, "--json").json
    assert done["status"] == "completed"
    called = next(event for event in claude.journal("claude") if event["type"] == "tool.called")
    returned = next(event for event in claude.journal("claude") if event["type"] == "tool.returned")
    assert (called["name"], called["call_id"]) == ("Read", returned["call_id"])
    assert "the text of the note" in returned["output"]
    assert not [event for event in claude.journal("claude") if event["type"] == "unknown"]


def test_what_read_access_does_not_allow_is_denied_and_said(claude: Cli) -> None:
    made = claude.project / "made"
    prompt = f"!tool Write {json.dumps({'file_path': str(made), 'content': 'x'})}"
    done = claude("send", "claude", prompt)
    assert done.code == 5
    assert "Write" in done.err
    assert not made.exists()
    assert claude("send", "claude", "--access", "edit", prompt).code == 0
    assert made.read_text() == "x"


@pytest.mark.parametrize(
    ("prompt", "options", "code", "status", "class_"),
    [
        # each class: tests/agents/test_claude_real.py; of them `make test` has the cell `api_401`
        pytest.param("!error 401", (), 1, "failed", "auth", marks=pytest.mark.soak),
        ("!refuse", (), 6, "refused", None),
        pytest.param("!max_tokens", (), 11, "truncated", None, marks=pytest.mark.soak),
        ('!tool Glob {"pattern":"*"}', ("--max-turns", "1"), 7, "limit", None),
        pytest.param('!tool Glob {"pattern":"*"}', ("--budget", "0.0001"), 7, "limit", None, marks=pytest.mark.soak),
    ],
)
def test_each_way_to_fail_has_its_own_status_and_exit_code(
    claude: Cli, prompt: str, options: tuple[str, ...], code: int, status: str, class_: str | None
) -> None:
    quick = claude.with_env({"BEAM_RETRIES": "1"})
    done = quick("send", "claude", *options, prompt, "--json")
    outcome = done.json
    assert (done.code, outcome["status"], outcome["class"]) == (code, status, class_), outcome
    assert outcome["exit_code"] == code
    if status == "failed":
        assert outcome["reply"] is None
        assert outcome["reason"]
        assert claude.box("claude", "dead"), "it is kept for beam queue retry"


@pytest.mark.soak
def test_the_plain_form_says_a_failure_in_one_line_and_nothing_on_stdout(claude: Cli) -> None:
    done = claude("send", "claude", "!error 400")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert done.err.startswith("beam: claude: failed (bad_request): API Error: 400")


@pytest.mark.soak
def test_retries_are_capped_and_seen_as_they_happen(claude: Cli) -> None:
    done = claude("send", "claude", "!error 500 2", "--json", env={"BEAM_RETRIES": "3"})
    assert done.json["status"] == "completed"
    retries = [
        event for event in claude.journal("claude") if event["type"] == "status" and event["state"] == "retrying"
    ]
    assert [(event["attempt"], event["of"]) for event in retries] == [(1, 3), (2, 3)]
    assert all(event["http_status"] == 500 and event["delay_s"] > 0 for event in retries)


@pytest.mark.soak
def test_a_session_that_claude_lost_is_said_and_the_message_runs_once_afresh(claude: Cli, model: FakeModel) -> None:
    first = claude("send", "claude", "one", "--json").json
    for transcript in (claude.base / "home" / ".claude" / "projects").rglob("*.jsonl"):
        transcript.unlink()
    second = claude("send", "claude", "two", "--json").json
    assert (second["status"], second["session"]) == ("completed", "lost")
    assert second["session_id"] != first["session_id"]
    assert claude.types("claude").count("session.lost") == 1
    assert len(sent(model)) == 2, "one turn each: nothing ran twice"
    third = claude("send", "claude", "three", "--json").json
    assert (third["session"], third["session_id"]) == ("resumed", second["session_id"])


def test_a_turn_over_its_time_is_stopped_and_keeps_its_session(claude: Cli) -> None:
    done = claude("send", "claude", "!stall", "--timeout", "2s", "--json")
    assert (done.code, done.json["status"]) == (3, "timeout")
    again = claude("send", "claude", "still there?", "--json").json
    assert again["status"] == "completed"
    assert not processes_with(str(claude.base))


@pytest.mark.soak
def test_a_killed_claude_is_a_crash_and_the_next_message_goes_on(claude: Cli) -> None:
    sending = claude.start("send", "claude", "!stall", "--json")
    eventually(lambda: "prompt.sent" in claude.types("claude"))
    started = next(event for event in claude.journal("claude") if event["type"] == "agent.started")
    eventually(lambda: "session.started" in claude.types("claude"))
    os.kill(started["pid"], 9)
    out, _ = sending.communicate(timeout=30)
    outcome = json.loads(out)
    assert (outcome["status"], outcome["class"], sending.returncode) == ("failed", "crashed", 1)
    assert "SIGKILL" in outcome["reason"]
    assert claude("send", "claude", "and now?").code == 0


def test_a_holder_killed_in_mid_turn_leaves_an_unknown_outcome_and_no_process(claude: Cli) -> None:
    sending = claude.start("send", "claude", "!stall")
    eventually(lambda: "session.started" in claude.types("claude"))
    message = next(event for event in claude.journal("claude") if event["type"] == "message.queued")["message_id"]
    kill_hard(sending)
    eventually(lambda: not processes_with(str(claude.base)), 5, "its processes outlived it by 5 s")
    done = claude("wait", message, "--json")
    assert (done.code, done.json["status"]) == (8, "unknown")


@pytest.mark.soak
@pytest.mark.parametrize("many", [3, 8])
def test_many_at_once_in_throw_away_sessions_all_answer(claude: Cli, model: FakeModel, many: int) -> None:
    kept = claude("send", "claude", "mine", "--json").json
    running = [claude.start("send", "claude", "--once", f"number {n}", "--json") for n in range(many)]
    outcomes = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    assert [outcome["reply"] for outcome in outcomes] == [f"ECHO[number {n}] turns=1" for n in range(many)]
    assert len({outcome["session_id"] for outcome in outcomes}) == many
    after = claude("send", "claude", "mine again", "--json").json
    assert (after["session_id"], after["reply"]) == (kept["session_id"], "ECHO[mine again] turns=2")


@pytest.mark.parametrize(
    ("text", "arrives"),
    [
        pytest.param(
            "/cost", " /cost", marks=pytest.mark.soak
        ),  # one documented space keeps it from being a slash command
        ("-hello --model x 'quotes' \"and\" `more` $HOME\nünï 漢字 🙂\n\n  indented", None),
    ],
)
def test_a_prompt_reaches_the_model_as_it_was_written(
    claude: Cli, model: FakeModel, text: str, arrives: str | None
) -> None:
    done = claude("send", "claude", "--", text)
    assert done.code == 0, done.err
    assert model.prompts()[-1].rstrip("\n") == (arrives or text)


@pytest.mark.soak
def test_a_schema_gives_a_structured_answer_or_says_that_there_is_none(claude: Cli) -> None:
    schema = claude.project / "schema.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}))
    done = claude("send", "claude", '!tool StructuredOutput {"n": 3}', "--schema", "schema.json", "--json")
    assert done.json["structured"] == {"n": 3}
    never = claude("send", "claude", "no", "--schema", "schema.json", "--json")
    assert (never.code, never.json["status"]) == (1, "failed")


@pytest.mark.soak
@pytest.mark.parametrize("size", [200_000, 900_000])
def test_a_large_prompt_comes_back_whole(claude: Cli, size: int) -> None:
    text = "x" * size
    done = claude("send", "claude", stdin=text)
    assert done.code == 0, done.err
    assert text in done.out


def test_dev_fake_model_points_a_real_claude_at_itself(beam: Cli, agents_path: str) -> None:
    script = ["dev", "fake-model", "--env", "claude", "--", *BEAM, "send", "claude", "hi"]
    done = beam.with_env({"PATH": agents_path})(*script)
    assert (done.code, done.out) == (0, "ECHO[hi] turns=1\n")


def test_a_missing_claude_is_said_with_the_way_to_install_it(beam: Cli, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "env").symlink_to("/usr/bin/env")
    done = beam.with_env({"PATH": str(tmp_path / "bin")})("send", "claude", "hi")
    assert done.code == 4
    assert "npm install" in done.err
