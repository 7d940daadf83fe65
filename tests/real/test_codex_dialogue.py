"""The real Codex over its own protocol, through the real `beam`, against the scripted model.

What every CLI must do is in the cells of `tests/conformance/dialogue.py`. What only Codex could get wrong is tried by
`make test`; the rest by `make soak`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.agents.base import Host, Turn, Verdict
from beam.agents.codex import dialogue
from beam.agents.codex.dialogue import requests
from beam.agents.codex.dialogue.wire import IGNORED_METHODS, READ_METHODS
from beam.agents.link import AnsweredIntent, Query, Set, Steer
from beam.model.events import ToolCalled
from beam.testing.fake_model import FakeModel
from beam.turns.asks import CallAnswer
from beam.turns.dialogue import run_turn
from tests.support.asking import first_ask
from tests.support.cli import Cli, Ended, eventually, processes_with
from tests.support.repository import files
from tests.support.turns import Recorded, handle, services, turn_input

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n"
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "May I?"}
RULE = 'prefix_rule(pattern=["touch"], decision="allow")\n'
TRUSTED = "trust_level"


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def codex(beam: Cli, agents_path: str, model: FakeModel) -> Iterator[Cli]:
    """beam in a place where `codex` is the pinned one and talks to the scripted model only."""
    yield beam.with_env({"PATH": agents_path, **model.env("codex", beam.base / "home")})
    beam("broker", "stop", "--grace", "0s")


def send(cli: Cli, text: str, *words: str, access: str = "read", **more: Any) -> Ended:
    return cli("send", "codex", "--via", "dialogue", "--access", access, "--json", *words, text, timeout=120, **more)


def shell(command: str, **more: object) -> str:
    return f"!tool exec_command {json.dumps({'cmd': command, **more})}"


def patch() -> str:
    return f"!tool apply_patch {json.dumps({'input': PATCH})}"


def events(cli: Cli, kind: str) -> list[dict[str, Any]]:
    return [event for event in cli.journal("codex") if event["type"] == kind]


def asked(cli: Cli, prompt: str, *answer: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ask of that prompt's turn, and the outcome after the answer (`approve` or `deny`, and its options)."""
    running = cli.start("send", "codex", "--via", "dialogue", "--json", "--access", "ask", prompt)
    ask = first_ask(cli)
    decided = cli(answer[0], ask["id"], *answer[1:])
    assert decided.code == 0, decided
    out, _ = running.communicate(timeout=120)
    return ask, json.loads(out)


def configuration(cli: Cli) -> str:
    return (cli.base / "home" / ".codex" / "config.toml").read_text()


@pytest.mark.soak
def test_a_first_turn_prints_only_the_answer_and_streams_it(codex: Cli) -> None:
    done = codex("send", "codex", "--via", "dialogue", "hello")
    assert (done.code, done.out, done.err) == (0, "ECHO[hello] turns=1\n", "")
    assert events(codex, "unknown") == [] and events(codex, "notice") == []
    assert events(codex, "text.delta")
    (exited,) = events(codex, "agent.exited")
    assert (exited["code"], exited["stopped_by"]) == (0, "quit")
    assert exited["swept"] <= 1  # Codex 0.171.0 tries its sandbox at its start, and may end before that bwrap does


@pytest.mark.soak
def test_the_next_turn_resumes_the_session_and_counts_its_own_tokens(codex: Cli) -> None:
    outcomes = [send(codex, f"{word} !usage 100 7").json for word in ("plums", "what?", "and?")]
    assert [outcome["session"] for outcome in outcomes] == ["new", "resumed", "resumed"]
    assert [outcome["reply"][-7:] for outcome in outcomes] == ["turns=1", "turns=2", "turns=3"]
    for outcome in outcomes:
        assert (outcome["usage"]["input_tokens"], outcome["usage"]["output_tokens"]) == (100, 7)


@pytest.mark.soak
def test_a_session_goes_on_between_both_faces(codex: Cli) -> None:
    first = send(codex, "plums !usage 100 7").json
    second = codex("send", "codex", "--via", "exec", "--json", "what? !usage 100 7").json
    third = send(codex, "and? !usage 100 7").json
    assert len({outcome["session_id"] for outcome in (first, second, third)}) == 1
    assert third["reply"].endswith("turns=3") and third["usage"]["input_tokens"] == 100
    assert second["usage"]["input_tokens"] == 100


@pytest.mark.soak
def test_warm_the_second_turn_has_the_context_in_the_same_process(codex: Cli) -> None:
    assert codex("broker", "start").code == 0
    outcomes = [send(codex, f"{word} !usage 100 7").json for word in ("plums", "what?", "and?")]
    assert [outcome["reply"][-7:] for outcome in outcomes] == ["turns=1", "turns=2", "turns=3"]
    assert [outcome["usage"]["input_tokens"] for outcome in outcomes] == [100, 100, 100]
    assert [outcome["session"] for outcome in outcomes] == ["new", "resumed", "resumed"]
    assert [event["since"] for event in events(codex, "agent.started")] == [None, 1, 1]


def test_kept_without_a_broker_it_is_warm_controlled_from_any_shell_and_released(codex: Cli, model: FakeModel) -> None:
    first = send(codex, "plums", "--keep", "5m").json
    assert codex("agent", "set", "codex", "model=gpt-5.4").code == 0
    told = codex("agent", "show", "codex", "--live", "--json").json
    assert told["models"] and told["context"]["used"] is not None
    second = send(codex, "what?").json
    assert (first["reply"][-7:], second["reply"][-7:]) == ("turns=1", "turns=2")
    assert [request.body["model"] for request in model.requests if request.asked is not None][-1] == "gpt-5.4"
    assert [event["since"] for event in events(codex, "agent.started")] == [None, 1]
    released = codex("agent", "release", "codex")
    assert released.code == 0 and f"closed process {events(codex, 'agent.started')[0]['pid']}" in released.err
    eventually(lambda: not processes_with(str(codex.base)), what="a process is left")


# -- what it may do ----------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_access_read_changes_nothing_and_a_refused_call_is_said(codex: Cli) -> None:
    done = send(codex, patch())
    assert (done.code, done.json["status"]) == (5, "denied"), done
    assert [denial["tool"] for denial in done.json["denials"]] == ["apply_patch"]
    assert send(codex, shell("touch made-by-shell")).code == 0
    done = send(codex, shell("touch x", **ESCALATED))
    assert done.json["denials"], done
    assert [denial["tool"] for denial in done.json["denials"]] == ["shell"]
    assert files(codex.project) == [] and events(codex, "permission.asked") == []


@pytest.mark.parametrize("access", ["read", pytest.param("ask", marks=pytest.mark.soak)])
def test_it_only_reads_against_the_persons_own_rules(codex: Cli, model: FakeModel, access: str) -> None:
    rules = codex.base / "home" / ".codex" / "rules" / "default.rules"
    rules.parent.mkdir(parents=True)
    rules.write_text(RULE)
    prompt = " !then ".join([shell("touch made"), shell("touch made2", **({} if access == "ask" else ESCALATED))])
    send(codex, prompt, access=access)
    assert "Read-only file system" in json.dumps([request.body for request in model.requests])
    assert files(codex.project) == []


@pytest.mark.soak
def test_access_edit_changes_files_of_the_folder_only(codex: Cli) -> None:
    outside = codex.base / "home" / "outside"
    done = send(codex, f"{patch()} !then {shell(f'touch {outside} /tmp/x; mktemp')}", access="edit")
    assert done.code == 0, done
    assert (codex.project / "made.txt").read_text() == "made\n"
    assert not outside.exists()
    output = events(codex, "tool.returned")[-1]["output"]
    assert output.count("Read-only file system") == 2
    assert f"{codex.home.turns}/codex/" in output
    assert [(event["path"], event["kind"]) for event in events(codex, "file.changed")] == [("made.txt", "add")]


@pytest.mark.parametrize("access", [pytest.param("edit", marks=pytest.mark.soak), "full"])
def test_no_access_makes_codex_trust_the_folder(codex: Cli, access: str) -> None:
    before = configuration(codex)
    for _ in range(2):  # a new thread, and one that is resumed
        assert send(codex, shell("touch made"), access=access).code == 0
    assert (codex.project / "made").exists()
    assert configuration(codex) == before and TRUSTED not in before


@pytest.mark.soak
def test_access_full_changes_files_anywhere_and_the_next_turn_that_reads_none(codex: Cli) -> None:
    outside = codex.base / "home" / "outside"
    assert send(codex, shell(f"touch {outside}"), access="full").code == 0
    assert outside.exists()
    assert send(codex, shell(f"touch {outside}2; touch made")).json["session"] == "resumed"
    assert not Path(f"{outside}2").exists() and files(codex.project) == []


@pytest.mark.soak
def test_at_edit_it_sends_from_its_sandbox_in_each_turn_of_a_kept_process(codex: Cli) -> None:
    codex.config("agents:\n  box: {adapter: mailbox}\n")
    assert codex("broker", "start").code == 0
    for number in (1, 2):
        done = send(codex, shell(f'"$BEAM_BIN" send box hello{number} --no-wait; echo code $?'), access="edit")
        assert "code 0" in done.json["reply"], done
    assert [event["since"] for event in events(codex, "agent.started")] == [None, 1]


# -- asks --------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_command_is_asked_for_word_by_word_and_runs_once_it_is_approved(codex: Cli) -> None:
    ask, outcome = asked(codex, shell("touch made", **ESCALATED), "approve")
    assert ask["tool"] == "shell"
    given = {"command": "/bin/bash -lc 'touch made'", "cwd": str(codex.project), "reason": "May I?"}
    assert ask["input"] == given and ask["description"] == f"{given['command']}\nMay I?"
    assert ask["call_id"] == events(codex, "tool.called")[-1]["call_id"]
    assert (outcome["status"], outcome["exit_code"], outcome["denials"]) == ("completed", 0, []), outcome
    assert files(codex.project) == ["made"]


@pytest.mark.soak
def test_a_change_of_files_is_asked_for_with_what_it_changes(codex: Cli) -> None:
    ask, outcome = asked(codex, patch(), "approve")
    made = str(codex.project / "made.txt")
    assert (ask["tool"], ask["description"]) == ("apply_patch", f"add {made}")
    assert ask["input"] == {"changes": [{"path": made, "kind": "add", "diff": "made\n"}]}
    assert (outcome["status"], (codex.project / "made.txt").read_text()) == ("completed", "made\n")


@pytest.mark.soak
def test_what_is_allowed_always_is_not_asked_again_in_the_session(codex: Cli) -> None:
    command = shell("touch made", **ESCALATED)
    _, outcome = asked(codex, f"{command} !then {command}", "approve", "--always")
    assert outcome["status"] == "completed", outcome
    assert len(events(codex, "permission.asked")) == 1 and len(events(codex, "tool.returned")) == 2
    assert not (codex.base / "home" / ".codex" / "rules").exists()


# -- its end -----------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_rule_lets_one_command_out_of_the_sandbox_and_nothing_that_only_begins_like_it(codex: Cli) -> None:
    calls = [shell(command, **ESCALATED) for command in ("touch made", "touch made2; id", "touch made3 > made4", "id")]
    prompt = " !then ".join([*calls, shell("touch made5"), patch()])
    done = send(codex, prompt, "--allow", "Bash(touch *)", "--deny", "Edit")
    assert files(codex.project) == ["made"], done
    decided = [(event["decision"], event["by"], event["rule"]) for event in events(codex, "permission.decided")]
    assert decided[0] == ("allow", "rule", "Bash(touch *)")
    assert all(decision == "deny" for decision, _, _ in decided[1:])
    refused = send(codex, "hello", "--deny", "Bash(rm *)")
    assert refused.code == 10 and "it runs commands in its sandbox without asking" in refused.err, refused


@pytest.mark.soak
def test_one_that_is_killed_in_its_turn_leaves_nothing_and_its_session_goes_on(codex: Cli) -> None:
    running = codex.start("send", "codex", "--via", "dialogue", "--json", shell("sleep 60; echo"))
    eventually(lambda: bool(events(codex, "tool.called")))
    key = events(codex, "turn.started")[0]["turn_key"]
    os.kill(int(events(codex, "agent.started")[-1]["pid"]), 9)
    out, _ = running.communicate(timeout=60)
    outcome = json.loads(out)
    assert (running.returncode, outcome["status"], outcome["class"]) == (1, "failed", "crashed")
    assert processes_with(key) == []
    assert send(codex, "go on").json["session"] == "resumed"


@pytest.mark.soak
def test_a_session_that_is_gone_is_said_and_the_turn_begins_once_afresh(codex: Cli) -> None:
    first = send(codex, "remember plums").json
    shutil.rmtree(codex.base / "home" / ".codex" / "sessions")
    for database in (codex.base / "home" / ".codex").glob("*.sqlite*"):
        database.unlink()
    second = send(codex, "what? !usage 100 7").json
    assert (second["session"], second["reply"]) == ("lost", "ECHO[what? !usage 100 7] turns=1")
    assert second["usage"]["input_tokens"] == 100
    assert [event["session_id"] for event in events(codex, "session.lost")] == [first["session_id"]]


@pytest.mark.soak
def test_without_a_login_it_is_said_and_not_tried_again(codex: Cli) -> None:
    (codex.base / "home" / ".codex" / "config.toml").unlink()
    done = send(codex, "hello")
    assert (done.code, done.json["class"]) == (1, "auth") and "codex login" in done.json["reason"], done
    assert events(codex, "prompt.sent") == [] and len(events(codex, "turn.started")) == 1


# -- control -----------------------------------------------------------------------------------------------------------


def controlled(cli: Cli, text: str, *calls: AnsweredIntent) -> tuple[list[CallAnswer], Recorded, Verdict]:
    """A turn in which these calls are made while its command runs; their answers, its journal and its verdict."""
    journal, answers = Recorded(), list[CallAnswer]()
    held = handle(journal)
    scratch = cli.base / "scratch"
    turn = Turn(text=text, message_id="x-1", agent="x", cwd=str(cli.project), scratch=str(scratch), access="read")
    host = Host(executable=shutil.which("codex", path=cli.env["PATH"]) or "")

    async def play() -> Verdict:
        input = turn_input(turn, environ=cli.env, host=host)
        running = asyncio.create_task(run_turn(dialogue, input, services(journal), held))
        async with asyncio.timeout(60):
            while not journal.of(ToolCalled):
                assert not running.done(), running.result()
                await asyncio.sleep(0.02)
        for call in calls:
            held.calls.add(call, answers.append)
        return await running

    return answers, journal, asyncio.run(play())


@pytest.mark.soak
def test_a_text_for_the_turn_that_runs_is_read_in_it(codex: Cli, model: FakeModel) -> None:
    steer = Steer(id="s-1", text="go left")
    answers, _, verdict = controlled(codex, shell("sleep 2; echo"), steer)
    assert [answer.ok for answer in answers] == [True]
    assert verdict.status == "completed" and "go left" in (verdict.reply or "")
    assert "go left" in json.dumps([request.body for request in model.requests][-1])


@pytest.mark.soak
def test_what_a_live_process_tells_and_can_not_change(codex: Cli) -> None:
    calls = (
        Query(id="q", name="models"),
        Set(id="m", name="model", value="gpt-5.4"),
        Set(id="a", name="access", value="full"),
    )
    answers, _, _ = controlled(codex, shell("sleep 2; echo"), *calls)
    found = {(answer.ok, answer.code): answer for answer in answers}
    assert len(answers) == 3 and (False, "unsupported") in found
    assert b"gpt-5.5" in b"".join(bytes(answer.result) for answer in answers)


# -- what it is given --------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_the_model_a_schema_and_a_system_text_reach_the_model(codex: Cli, model: FakeModel) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    codex.config("agents:\n  codex: {system: Speak like a pirate}\n")
    (codex.project / "schema.json").write_text(json.dumps(schema))
    done = send(codex, '!say {"a": "b"}', "--model", "gpt-5.4", "--schema", "schema.json")
    assert (done.json["structured"], done.json["model"]) == ({"a": "b"}, "gpt-5.4"), done
    body = json.dumps([request.body for request in model.requests if request.asked is not None][-1])
    assert "Speak like a pirate" in body and '"model": "gpt-5.4"' in body


@pytest.mark.soak
@pytest.mark.parametrize(
    ("prompt", "code", "status"),
    [("!max_tokens", 11, "truncated"), ("!refuse", 6, "refused"), ("!error 400", 1, "failed")],
)
def test_each_way_to_fail_has_its_own_status(codex: Cli, prompt: str, code: int, status: str) -> None:
    done = send(codex, prompt, env={"BEAM_RETRIES": "0"})
    assert (done.code, done.json["status"]) == (code, status), done


@pytest.mark.soak
def test_retries_are_seen_as_they_happen_and_are_no_failure(codex: Cli) -> None:
    done = send(codex, "!error 401 2")
    assert done.json["status"] == "completed", done
    retries = [event for event in events(codex, "status") if event["state"] == "retrying"]
    assert [(event["attempt"], event["of"], event["class"]) for event in retries] == [(1, 5, "auth"), (2, 5, "auth")]


@pytest.mark.soak
def test_another_model_is_used_from_the_next_turn_of_the_process_on(codex: Cli, model: FakeModel) -> None:
    for name in ("gpt-5.4", "gpt-5.5"):
        assert send(codex, "hello", "--model", name).json["model"] == name
    asked_of = [request.body["model"] for request in model.requests if request.asked is not None]
    assert asked_of == ["gpt-5.4", "gpt-5.5"]


@pytest.mark.soak
def test_outside_of_a_repository_it_answers_and_changes_nothing(codex: Cli) -> None:
    shutil.rmtree(codex.project / ".git")
    done = send(codex, f"{shell('touch made')} !then hello")
    assert (done.code, done.json["status"]) == (0, "completed"), done
    assert files(codex.project) == []


def test_its_protocol_has_what_the_link_knows_of_it(codex: Cli, tmp_path: Path) -> None:
    words = ["app-server", "generate-json-schema", "--experimental", "--out", str(tmp_path / "schema")]
    subprocess.run(["codex", *words], env=codex.env, check=True, capture_output=True, timeout=60)
    said = methods(tmp_path / "schema" / "ServerNotification.json")
    assert said == READ_METHODS | IGNORED_METHODS
    assert methods(tmp_path / "schema" / "ServerRequest.json") == ANSWERED
    known = methods(tmp_path / "schema" / "ClientRequest.json")
    assert known >= SENT
    for name, given in FIELDS.items():
        schema = json.loads((tmp_path / "schema" / "v2" / f"{name}.json").read_text())
        assert given <= set(schema["properties"]), name


def methods(schema: Path) -> set[str]:
    return {kind["properties"]["method"]["enum"][0] for kind in json.loads(schema.read_text())["oneOf"]}


ANSWERED = {
    *(requests.COMMAND_METHOD, requests.FILES_METHOD, requests.PERMISSIONS_METHOD, requests.ELICITATION_METHOD),
    *(requests.QUESTION_METHOD, requests.CLIENT_TOOL_METHOD, *requests.LEGACY_METHODS, *requests.REFUSED_METHODS),
}
SENT = {
    *("initialize", "account/read", "config/read", "thread/start", "thread/resume", "thread/fork", "turn/start"),
    *("turn/steer", "turn/interrupt", "thread/backgroundTerminals/clean", "thread/settings/update", "model/list"),
    *("mcpServerStatus/list", "mcpServer/tool/call", "config/mcpServer/reload", "thread/turns/list", "thread/revert"),
}
RIGHTS = {"approvalPolicy", "approvalsReviewer"}
FIELDS = {
    "ThreadStartParams": {*RIGHTS, "permissions", "sandbox", "cwd", "model", "developerInstructions", "ephemeral"},
    "ThreadResumeParams": {*RIGHTS, "permissions", "sandbox", "cwd", "model", "threadId", "excludeTurns"},
    "ThreadForkParams": {*RIGHTS, "permissions", "sandbox", "cwd", "model", "threadId", "excludeTurns", "lastTurnId"},
    "TurnStartParams": {*RIGHTS, "sandboxPolicy", "threadId", "input", "outputSchema"},
    "TurnSteerParams": {"threadId", "expectedTurnId", "clientUserMessageId", "input"},
    "TurnInterruptParams": {"threadId", "turnId"},
    "ThreadSettingsUpdateParams": {"threadId", "model", "effort", "collaborationMode"},
    "ThreadTurnsListParams": {"threadId", "limit", "sortDirection", "itemsView", "cursor"},
    "ThreadRevertParams": {"threadId", "beforeTurnId"},
    "McpServerToolCallParams": {"threadId", "server", "tool", "arguments"},
    "ListMcpServerStatusParams": {"threadId"},
}
