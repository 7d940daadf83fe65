"""What is peculiar to the real Gemini CLI, through the real `beam`. What all must do alike is in tests/conformance."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, eventually, processes_with
from tests.support.repository import files

pytestmark = [pytest.mark.real, pytest.mark.acceptance]


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def gemini(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    """beam in a place where `gemini` is the pinned one and talks to the scripted model only."""
    return beam.with_env({"PATH": agents_path, **model.env("gemini", beam.base / "home")})


def sent(model: FakeModel) -> str:
    """All that the model was sent in the last request for an answer, as JSON."""
    return json.dumps([request.body["contents"] for request in model.requests if request.asked is not None][-1])


def tool(name: str, **given: object) -> str:
    return f"!tool {name} {json.dumps(given)}"


def events(cli: Cli, kind: str) -> list[dict[str, Any]]:
    return [event for event in cli.journal("gemini") if event["type"] == kind]


def settings(cli: Cli, **changed: object) -> None:
    """The person's own settings, with these changed."""
    path = cli.base / "home" / ".gemini" / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def chats(cli: Cli) -> list[Path]:
    """The files of the sessions."""
    return sorted((cli.base / "home" / ".gemini" / "tmp").glob("*/chats/session-*"))


def grow_old(cli: Cli) -> None:
    """The sessions' files are those of an earlier minute."""
    for path in chats(cli):
        stem = path.name.removeprefix("session-").rpartition("T")
        path.rename(path.with_name(f"session-2020-01-01T{stem[2]}"))


@pytest.mark.soak
def test_a_first_turn_with_nothing_set_up_prints_only_the_answer(gemini: Cli, model: FakeModel) -> None:
    done = gemini("send", "gemini", "hello")
    assert (done.code, done.out, done.err) == (0, "ECHO[hello] turns=1\n", "")
    assert events(gemini, "unknown") == []
    assert len(model.requests) == 1


@pytest.mark.soak
def test_the_second_turn_has_the_context_of_the_first_and_its_own_usage(gemini: Cli, model: FakeModel) -> None:
    outcomes = [gemini("send", "gemini", f"{word} !usage 100 7", "--json").json for word in ("plums", "what?")]
    assert [outcome["session"] for outcome in outcomes] == ["new", "resumed"]
    assert len({outcome["session_id"] for outcome in outcomes}) == 1
    assert outcomes[1]["reply"] == "ECHO[what? !usage 100 7] turns=2"
    assert "plums" in sent(model)
    for outcome in outcomes:
        assert (outcome["usage"]["input_tokens"], outcome["usage"]["output_tokens"]) == (100, 7)
        assert outcome["model"] == "gemini-2.5-flash"


@pytest.mark.soak
def test_a_session_survives_geminis_cleaning_up_that_destroys_sessions_with_geminis_own_ids(
    gemini: Cli, agents_path: str, model: FakeModel
) -> None:
    def bare(*words: str) -> int:
        ran = subprocess.run(
            ["gemini", "--output-format", "stream-json", *words],
            input=b"hi",
            cwd=gemini.project,
            env={**gemini.env, "GEMINI_CLI_NO_RELAUNCH": "true"},
            capture_output=True,
            timeout=60,
        )
        return ran.returncode

    theirs = "1b9d17cd-e1a5-4554-a76b-ae7b3837ccce"
    assert bare("--session-id", theirs) == 0
    assert gemini("send", "gemini", "remember plums").code == 0
    grow_old(gemini)
    assert bare("--resume", theirs) == 0
    assert gemini("send", "gemini", "in a later minute").code == 0
    assert bare() == 0, "a start of any other session cleans up"
    eventually(lambda: not [path for path in chats(gemini) if "1b9d17cd" in path.name])
    assert bare("--resume", theirs) == 42
    outcome = gemini("send", "gemini", "what?", "--json").json
    assert (outcome["session"], outcome["reply"]) == ("resumed", "ECHO[what?] turns=3")
    assert "remember plums" in sent(model)


@pytest.mark.soak
def test_a_session_that_is_gone_is_said_and_the_turn_begins_once_afresh(gemini: Cli) -> None:
    first = gemini("send", "gemini", "remember plums", "--json").json
    for path in chats(gemini):
        path.unlink()
    second = gemini("send", "gemini", "what?", "--json").json
    assert (second["session"], second["reply"]) == ("lost", "ECHO[what?] turns=1")
    assert [event["session_id"] for event in events(gemini, "session.lost")] == [first["session_id"]]


@pytest.mark.soak
def test_a_megabyte_arrives_whole(gemini: Cli, model: FakeModel) -> None:
    text = "word " * 200_000 + "!say ok"
    assert gemini("send", "gemini", stdin=text).code == 0
    assert model.prompts() == [text]


def test_access_read_changes_nothing_whatever_the_persons_own_rules_say_and_a_denied_tool_is_said(gemini: Cli) -> None:
    settings(gemini, tools={"allowed": ["run_shell_command", "write_file"]})
    policies = gemini.base / "home" / ".gemini" / "policies"
    policies.mkdir()
    (policies / "mine.toml").write_text('[[rule]]\ntoolName = "*"\ndecision = "allow"\npriority = 999\n')
    prompt = " ".join(
        [
            tool("run_shell_command", command="touch made"),
            tool("write_file", file_path="made2", content="x"),
            tool("list_directory", dir_path="."),
        ]
    )
    done = gemini("send", "gemini", prompt, "--json")
    assert (done.code, done.json["status"]) == (5, "denied")
    assert [denial["tool"] for denial in done.json["denials"]] == ["run_shell_command", "write_file"]
    assert files(gemini.project) == []


@pytest.mark.soak
def test_access_edit_changes_files_of_the_folder_only(gemini: Cli) -> None:
    outside = gemini.base / "home" / "outside"
    prompt = (
        f"{tool('write_file', file_path='made', content='x')} {tool('write_file', file_path=str(outside), content='x')}"
    )
    assert gemini("send", "gemini", "--access", "edit", prompt).code == 0
    assert (gemini.project / "made").read_text() == "x"
    assert not outside.exists()
    assert [event["path"] for event in events(gemini, "file.changed")] == ["made"]
    done = gemini("send", "gemini", "--access", "edit", tool("run_shell_command", command="touch by-shell"), "--json")
    assert done.json["status"] == "denied"
    assert not (gemini.project / "by-shell").exists()


@pytest.mark.soak
def test_access_full_runs_commands(gemini: Cli) -> None:
    outside = gemini.base / "home" / "outside"
    assert gemini("send", "gemini", "--access", "full", tool("run_shell_command", command=f"touch {outside}")).code == 0
    assert outside.exists()


def command(text: str) -> str:
    return tool("run_shell_command", command=text, description="d")


@pytest.mark.soak
def test_a_rule_lets_one_command_through_at_read_and_nothing_that_only_begins_like_it(gemini: Cli) -> None:
    asked = [
        "git init -q made",
        "git init -q made2 > made3",
        "git init -q x; touch made4",
        "git init -q $(touch made5)",
    ]
    asked += ["X=1 git init -q made6", "git initx made7", "touch made8", "git init -q made9\ntouch made10"]
    prompt = " !then ".join([command(text) for text in asked])
    gemini("send", "gemini", "--via", "exec", "--allow", "Bash(git init *)", "--json", prompt, timeout=120)
    assert sorted(path.name for path in gemini.project.iterdir() if path.name.startswith("made")) == ["made"]


@pytest.mark.soak
def test_what_a_rule_denies_is_denied_with_full_access_too(gemini: Cli) -> None:
    asked = [
        "touch made",
        "ls; touch made2",
        "X=1 touch made3",
        "bash -c 'touch made4'",
        "(touch made5)",
        "mkdir other",
    ]
    written = tool("write_file", file_path="made6", content="x")
    prompt = " !then ".join([*(command(text) for text in asked), written])
    words = ("--access", "full", "--deny", "Bash(touch *)", "--ask", "Edit", "--json")
    gemini("send", "gemini", "--via", "exec", *words, prompt, timeout=120)
    assert sorted(path.name for path in gemini.project.iterdir() if path.name[0] in "mo") == ["other"]


def test_a_folder_that_nobody_trusted_is_said_with_the_next_step_and_runs_once_trusted(gemini: Cli) -> None:
    settings(gemini, security={"auth": {"selectedType": "gemini-api-key"}})
    done = gemini("send", "gemini", "hello")
    assert (done.code, done.out) == (1, "")
    assert "beam trust" in done.err
    assert gemini("send", "gemini", "hello", env={"BEAM_TRUST": "1"}).code == 0


@pytest.mark.parametrize(
    ("prompt", "code", "status", "class_"),
    [
        pytest.param("!error-mid", 1, "failed", "network", marks=pytest.mark.soak),
        pytest.param("!refuse", 6, "refused", None, marks=pytest.mark.soak),
        pytest.param("!max_tokens", 0, "completed", None, marks=pytest.mark.soak),
    ],
)
def test_each_way_to_fail_has_its_own_status_and_exit_code(
    gemini: Cli, prompt: str, code: int, status: str, class_: str | None
) -> None:
    done = gemini("send", "gemini", prompt, "--json", env={"BEAM_RETRIES": "0"})
    assert (done.code, done.json["status"], done.json["class"]) == (code, status, class_), done
    assert done.json["reply"] is None or status == "completed"


@pytest.mark.soak
def test_an_answer_that_the_token_limit_cut_off_is_told_if_it_has_to_be_whole(gemini: Cli) -> None:
    done = gemini("send", "gemini", "!max_tokens", "--require", "whole", "--json")
    assert (done.code, done.json["status"]) == (11, "truncated") and done.json["reply"]


STOPS = {"continue": False, "stopReason": "no by rule 7"}
DENIES = {"decision": "deny", "reason": "no by rule 7"}
LIST = '!tool list_directory {"dir_path":"."}'


@pytest.mark.soak
@pytest.mark.parametrize(
    ("event", "answer", "prompt", "code", "class_"),
    [
        ("BeforeAgent", STOPS, "hello", 1, "stopped"),
        ("BeforeAgent", DENIES, "hello", 1, "stopped"),
        ("BeforeModel", STOPS, "hello", 1, "stopped"),
        ("BeforeModel", DENIES, "hello", 1, "stopped"),
        ("AfterModel", STOPS, "hello", 1, "stopped"),
        ("AfterAgent", STOPS, "hello", 1, "stopped"),
        ("BeforeTool", STOPS, LIST, 1, "stopped"),
        ("AfterTool", STOPS, LIST, 1, "stopped"),
        ("BeforeTool", DENIES, LIST, 5, None),
        ("SessionEnd", STOPS, "hello", 0, None),
    ],
)
def test_a_hook_that_ends_the_turn_or_denies_a_tool_is_told_with_its_words(
    gemini: Cli, event: str, answer: dict[str, object], prompt: str, code: int, class_: str | None
) -> None:
    hook = {"type": "command", "name": "rule", "command": f"echo {shlex.quote(json.dumps(answer))}"}
    matched = {"matcher": "*"} if event.endswith("Tool") else {}
    hooks = {event: [{**matched, "hooks": [hook]}]}
    settings(gemini, hooks=hooks, hooksConfig={"enabled": True}, tools={"enableHooks": True})
    done = gemini("send", "gemini", prompt, "--access", "full", "--json")
    assert (done.code, done.json["class"]) == (code, class_), done
    assert ("no by rule 7" in (done.json["reason"] or "")) == (class_ == "stopped")


@pytest.mark.soak
def test_an_answer_that_gemini_ends_as_a_loop_is_a_limit(beam: Cli, agents_path: str) -> None:
    lines = "a line that the model says again and again\n" * 400
    with FakeModel({"rules": [{"match": "go", "text": lines, "chunk": 200}]}) as model:
        gemini = beam.with_env({"PATH": agents_path, **model.env("gemini", beam.base / "home")})
        done = gemini("send", "gemini", "go", "--json")
    assert (done.code, done.json["status"]) == (7, "limit"), done
    assert 0 < len(done.json["reply"]) < len(lines)


@pytest.mark.soak
def test_the_silent_retries_are_seen_as_they_happen(gemini: Cli) -> None:
    done = gemini("send", "gemini", "!error 503 1", "--json")
    assert done.json["status"] == "completed"
    retries = [event for event in events(gemini, "status") if event["state"] == "retrying"]
    assert [(event["attempt"], event["http_status"], event["class"]) for event in retries] == [(1, 503, "overloaded")]


@pytest.mark.soak
def test_a_refused_connection_ends_by_beams_own_cap(gemini: Cli, model: FakeModel) -> None:
    model.stop()
    done = gemini("send", "gemini", "hello", "--json", env={"BEAM_RETRIES": "1"}, timeout=40)
    assert (done.code, done.json["status"], done.json["class"]) == (1, "failed", "network")
    assert len([event for event in events(gemini, "status") if event["state"] == "retrying"]) == 2


@pytest.mark.soak
def test_a_model_that_is_silent_is_stopped_after_the_idle_time(gemini: Cli) -> None:
    gemini.config("agents:\n  gemini:\n    idle_timeout: 4s\n")
    done = gemini("send", "gemini", "!stall", "--json")
    assert (done.code, done.json["status"], done.json["class"]) == (3, "timeout", "stalled")


@pytest.mark.soak
def test_a_killed_gemini_is_one_process_and_its_session_goes_on(beam: Cli, agents_path: str) -> None:
    with FakeModel({"rules": [{"match": "hang", "stall": True, "at": "middle", "times": 1}]}) as model:
        gemini = beam.with_env({"PATH": agents_path, **model.env("gemini", beam.base / "home")})
        assert gemini("send", "gemini", "remember plums").code == 0
        running = gemini.start("send", "gemini", "hang", "--json")
        eventually(lambda: len(model.requests) == 2)
        started = events(gemini, "agent.started")[-1]
        key = events(gemini, "turn.started")[-1]["turn_key"]
        assert set(processes_with(key)) == {started["pid"], started["guard_pid"]}
        os.kill(started["pid"], 9)
        out, _ = running.communicate(timeout=30)
        outcome = json.loads(out)
        assert (running.returncode, outcome["status"], outcome["class"]) == (1, "failed", "crashed")
        assert processes_with(key) == []
        after = gemini("send", "gemini", "what?", "--json").json
        assert (after["status"], after["session"]) == ("completed", "resumed")
        assert "remember plums" in sent(model)


def test_a_turn_that_runs_out_of_time_is_cancelled_though_gemini_exits_with_0(gemini: Cli) -> None:
    done = gemini("send", "gemini", "--timeout", "4s", "!stall-mid", "--json")
    assert (done.code, done.json["status"]) == (3, "timeout")
    assert events(gemini, "agent.exited")[0]["code"] == 0
    assert processes_with(events(gemini, "turn.started")[0]["turn_key"]) == []


@pytest.mark.soak
def test_an_attached_file_goes_into_the_prompt(gemini: Cli, model: FakeModel) -> None:
    (gemini.project / "two words.txt").write_text("the text of the note")
    assert gemini("send", "gemini", "--attach", str(gemini.project / "two words.txt"), "look").code == 0
    assert "the text of the note" in sent(model)
