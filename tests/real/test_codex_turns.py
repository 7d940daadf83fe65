"""What is peculiar to the real Codex, through the real `beam`; what every CLI must do alike is in tests/conformance."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from beam.agents.base import Exit, Host, Turn
from beam.agents.codex import exec
from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, eventually, processes_with
from tests.support.repository import files

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n"


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def codex(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    """beam in a place where `codex` is the pinned one and talks to the scripted model only."""
    return beam.with_env({"PATH": agents_path, **model.env("codex", beam.base / "home")})


def sent(model: FakeModel) -> str:
    """All that the model was sent in the last request for an answer, as JSON."""
    return json.dumps([request.body for request in model.requests if request.asked is not None][-1])


def shell(command: str, **more: object) -> str:
    return f"!tool exec_command {json.dumps({'cmd': command, **more})}"


def events(cli: Cli, kind: str) -> list[dict[str, Any]]:
    return [event for event in cli.journal("codex") if event["type"] == kind]


def agent_pid(cli: Cli) -> int:
    eventually(lambda: bool(events(cli, "session.started")))
    return int(events(cli, "agent.started")[-1]["pid"])


def test_a_first_turn_with_nothing_set_up_prints_only_the_answer(codex: Cli) -> None:
    done = codex("send", "codex", "hello")
    assert (done.code, done.out, done.err) == (0, "ECHO[hello] turns=1\n", "")
    assert events(codex, "unknown") == []


@pytest.mark.soak
def test_the_second_turn_has_the_context_of_the_first_and_its_own_usage(codex: Cli, model: FakeModel) -> None:
    outcomes = [codex("send", "codex", f"{word} !usage 100 7", "--json").json for word in ("plums", "what?", "and?")]
    assert [outcome["session"] for outcome in outcomes] == ["new", "resumed", "resumed"]
    assert len({outcome["session_id"] for outcome in outcomes}) == 1
    assert outcomes[1]["reply"] == "ECHO[what? !usage 100 7] turns=2"
    assert "plums" in sent(model)
    for outcome in outcomes:
        assert (outcome["usage"]["input_tokens"], outcome["usage"]["output_tokens"]) == (100, 7)
    assert [event["total"]["input_tokens"] for event in events(codex, "usage")] == [100, 200, 300]


@pytest.mark.soak
def test_a_fork_goes_on_in_a_copy_and_leaves_its_parent_as_it_is(codex: Cli, model: FakeModel) -> None:
    parent = codex("send", "codex", "remember plums", "--json").json["session_id"]
    turn = Turn(text="what?", message_id="codex-2", agent="codex", session_id=parent, fork=True)
    launch = exec.launch(turn, Host(executable="codex"))
    ran = subprocess.run(
        launch.argv, input=launch.stdin, cwd=codex.project, env=codex.env, capture_output=True, timeout=60
    )
    decoder = exec.decoder(turn)
    for line in ran.stdout.splitlines():
        decoder.line(line)
    _, verdict = decoder.end(Exit(code=ran.returncode, stderr_tail=ran.stderr.decode()))
    assert (verdict.reply, verdict.session) == ("ECHO[what?] turns=2", "new")
    assert verdict.session_id != parent
    assert "remember plums" in sent(model)
    after = codex("send", "codex", "and?", "--json").json
    assert (after["session_id"], after["reply"]) == (parent, "ECHO[and?] turns=2")


@pytest.mark.soak
def test_a_session_that_is_gone_is_said_and_the_turn_begins_once_afresh(codex: Cli) -> None:
    first = codex("send", "codex", "remember plums", "--json").json
    shutil.rmtree(codex.base / "home" / ".codex" / "sessions")
    for database in (codex.base / "home" / ".codex").glob("*.sqlite*"):
        database.unlink()
    second = codex("send", "codex", "what? !usage 100 7", "--json").json
    assert (second["session"], second["reply"]) == ("lost", "ECHO[what? !usage 100 7] turns=1")
    assert second["usage"]["input_tokens"] == 100
    assert [event["session_id"] for event in events(codex, "session.lost")] == [first["session_id"]]


@pytest.mark.soak
def test_a_megabyte_arrives_whole(codex: Cli, model: FakeModel) -> None:
    text = "word " * 200_000
    assert codex("send", "codex", stdin=text).code == 0
    assert model.prompts() == [text]


def test_a_tool_call_and_its_result_are_events(codex: Cli) -> None:
    assert codex("send", "codex", shell("echo out; exit 3")).code == 0
    (called,), (returned,) = events(codex, "tool.called"), events(codex, "tool.returned")
    assert (called["name"], called["call_id"]) == ("shell", returned["call_id"])
    assert (returned["output"], returned["is_error"]) == ("out\n[exit code 3]", True)


@pytest.mark.soak
def test_call_ids_are_unique_over_turns_though_item_ids_restart(codex: Cli) -> None:
    for _ in range(2):
        assert codex("send", "codex", shell("true")).code == 0
    ids = [event["call_id"] for event in events(codex, "tool.called")]
    assert len(ids) == len(set(ids)) == 2


def test_access_read_changes_nothing_and_a_denied_tool_is_said(codex: Cli) -> None:
    done = codex("send", "codex", f"!tool apply_patch {json.dumps({'input': PATCH})}", "--json")
    assert (done.code, done.json["status"]) == (5, "denied")
    assert [denial["tool"] for denial in done.json["denials"]] == ["apply_patch"]
    assert codex("send", "codex", shell("touch made-by-shell")).code == 0
    done = codex(
        "send", "codex", shell("touch x", sandbox_permissions="require_escalated", justification="j"), "--json"
    )
    assert [denial["tool"] for denial in done.json["denials"]] == ["shell"]
    assert files(codex.project) == []


def test_access_read_holds_against_the_persons_own_rules(codex: Cli) -> None:
    rules = codex.base / "home" / ".codex" / "rules" / "default.rules"
    rules.parent.mkdir(parents=True)
    rules.write_text('prefix_rule(pattern=["touch"], decision="allow")\n')
    assert codex("send", "codex", shell("touch made")).code == 0
    assert not (codex.project / "made").exists()


@pytest.mark.soak
def test_access_edit_changes_files_of_the_folder_only(codex: Cli) -> None:
    outside = codex.base / "home" / "outside"
    prompt = f"!tool apply_patch {json.dumps({'input': PATCH})} !then {shell(f'touch {outside} /tmp/x; mktemp')}"
    assert codex("send", "codex", "--access", "edit", prompt).code == 0
    assert (codex.project / "made.txt").read_text() == "made\n"
    assert not outside.exists()
    output = events(codex, "tool.returned")[-1]["output"]
    assert output.count("Read-only file system") == 2
    assert f"{codex.home.turns}/codex/" in output
    assert [(event["path"], event["kind"]) for event in events(codex, "file.changed")] == [("made.txt", "add")]


@pytest.mark.soak
def test_access_full_changes_files_anywhere(codex: Cli) -> None:
    outside = codex.base / "home" / "outside"
    assert codex("send", "codex", "--access", "full", shell(f"touch {outside}")).code == 0
    assert outside.exists()


@pytest.mark.parametrize(
    ("prompt", "code", "status", "class_"),
    [
        ("!max_tokens", 11, "truncated", None),
        ("!refuse", 6, "refused", None),
    ],
)
def test_each_way_to_fail_has_its_own_status_and_exit_code(
    codex: Cli, prompt: str, code: int, status: str, class_: str | None
) -> None:
    done = codex("send", "codex", prompt, "--json", env={"BEAM_RETRIES": "0"})
    assert (done.code, done.json["status"], done.json["class"]) == (code, status, class_), done
    assert done.json["reply"] is None or status == "truncated"


def test_retries_are_seen_as_they_happen(codex: Cli) -> None:
    done = codex("send", "codex", "!error 401 2", "--json")
    assert done.json["status"] == "completed"
    retries = [event for event in events(codex, "status") if event["state"] == "retrying"]
    assert [(event["attempt"], event["of"], event["class"]) for event in retries] == [(1, 5, "auth"), (2, 5, "auth")]


@pytest.mark.soak
def test_a_refused_connection_ends_by_beams_own_cap(codex: Cli, model: FakeModel) -> None:
    model.stop()
    done = codex("send", "codex", "hello", "--json", env={"BEAM_RETRIES": "1"}, timeout=40)
    assert (done.code, done.json["status"], done.json["class"]) == (1, "failed", "network")
    assert len([event for event in events(codex, "status") if event["state"] == "retrying"]) == 2


def test_a_stream_that_stalls_is_stopped_after_the_idle_time(codex: Cli) -> None:
    codex.config("agents:\n  codex:\n    idle_timeout: 5s\n")  # it has begun its session by then
    done = codex("send", "codex", "!stall-mid", "--json")
    assert (done.code, done.json["status"], done.json["class"]) == (3, "timeout", "stalled")
    assert codex("send", "codex", "go on", "--json").json["session"] == "resumed"


@pytest.mark.soak
def test_a_killed_codex_leaves_no_native_process_and_its_session_goes_on(codex: Cli, model: FakeModel) -> None:
    running = codex.start("send", "codex", shell("sleep 60"), "--json")
    pid = agent_pid(codex)
    eventually(lambda: bool(events(codex, "tool.called")))
    key = events(codex, "turn.started")[0]["turn_key"]
    assert len(processes_with(key)) > 2, "the node wrapper, the native program, the command, the guard"
    os.kill(pid, 9)
    out, _ = running.communicate(timeout=30)
    outcome = json.loads(out)
    assert (running.returncode, outcome["status"], outcome["class"]) == (1, "failed", "crashed")
    assert processes_with(key) == []
    assert [event["unfinished"] for event in events(codex, "tool.returned")] == [True]
    after = codex("send", "codex", "go on", "--json").json
    assert (after["status"], after["session"]) == ("completed", "resumed")
    assert "sleep 60" in sent(model)


def test_a_turn_that_runs_out_of_time_is_stopped_with_all_that_it_started(codex: Cli) -> None:
    done = codex("send", "codex", "--timeout", "3s", shell("sleep 60"), "--json")
    assert (done.code, done.json["status"]) == (3, "timeout")
    assert processes_with(events(codex, "turn.started")[0]["turn_key"]) == []


def test_a_throw_away_session_leaves_nothing(codex: Cli) -> None:
    assert codex("send", "codex", "--once", "hello").code == 0
    assert list((codex.base / "home" / ".codex").rglob("rollout-*")) == []


def test_at_edit_it_sends_from_its_sandbox_and_at_read_it_is_told_that_it_can_not(codex: Cli) -> None:
    codex.config("agents:\n  box: {adapter: mailbox}\n")
    send = shell('"$BEAM_BIN" send box hello --no-wait; echo code $?')
    codex("send", "codex", send, "--access", "edit")
    told = codex("recv", "box", "--json").json
    assert (told["from"], told["hops"], told["at_most"]) == ("codex", 1, "edit")
    codex("send", "codex", send, "--access", "read")
    said = [event for event in events(codex, "tool.returned") if "code 10" in json.dumps(event)]
    assert said and "can't send from here" in json.dumps(said)
    assert codex("recv", "box").code != 0 or codex("recv", "box").out == ""


def test_a_file_that_it_plants_where_beams_state_lies_is_not_written(codex: Cli) -> None:
    codex.config("agents:\n  box: {adapter: mailbox}\n")
    codex("send", "box", "first", "--no-wait")
    target = codex.root / "agents/box/queue/new/99999999999999999999-box-planted.json"
    codex("send", "codex", shell(f"echo x > '{target}'; ln -s '{target}' way; echo y > way"), "--access", "edit")
    assert not target.exists()
