"""A turn of each installed CLI against the scripted model: programs here stand for CLIs, the real ones come last."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from beam.api.smoke import smoke_test_names
from tests.support.cli import Cli, eventually, processes_with

pytestmark = pytest.mark.acceptance


def stand_in(beam: Cli, name: str, script: str) -> Cli:
    """beam in a place where `name` is a shell script, and no other agent CLI is on PATH."""
    tools = beam.base / "tools"
    tools.mkdir(exist_ok=True)
    (tools / name).write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 9.9.9 && exit\n{script}\n')
    (tools / name).chmod(0o755)
    return beam.with_env({"PATH": f"{tools}:/usr/bin:/bin"})


def test_a_cli_that_is_not_installed_is_listed_with_how_to_get_it_and_is_no_failure(beam: Cli) -> None:
    done = beam.with_env({"PATH": "/usr/bin:/bin"})("doctor", "--smoke", "--json")
    assert (done.code, done.err) == (0, "")
    assert {line["agent"]: line["result"] for line in done.lines} == dict.fromkeys(smoke_test_names(), "missing")
    assert all("install" in line["hint"] for line in done.lines)
    assert {"claude", "codex", "gemini"} <= set(smoke_test_names()) and not {"command", "bash", "amp"} & set(
        smoke_test_names()
    )
    assert not beam.root.exists()


def test_a_failing_cli_is_reported_with_its_reason_and_exit_code_and_the_check_fails(beam: Cli) -> None:
    cli = stand_in(beam, "pi", "echo 'no good' >&2; exit 7")
    done = cli("doctor", "--smoke", "pi")
    assert done.code == 13
    assert done.err == "beam: 1 CLI(s) failed: pi; see above\n"
    head, row = (line.split("\t") for line in done.out.splitlines())
    assert head == ["CLI", "VERSION", "MODE", "OUTCOME", "SECONDS", "MESSAGE"]
    assert row[:4] == ["pi", "9.9.9", "exec", "failed: failed (exit 1)"]
    assert "no good" in row[5]


def test_an_answer_of_a_cli_that_never_asked_its_model_is_a_failure(beam: Cli) -> None:
    text = {"type": "text", "text": "an answer from nowhere"}
    said = {"type": "message_end", "message": {"role": "assistant", "stopReason": "stop", "content": [text]}}
    script = f"cat >/dev/null; echo '{json.dumps(said)}'; echo '{json.dumps({'type': 'agent_end'})}'"
    done = stand_in(beam, "pi", script)("doctor", "--smoke", "pi", "--json")
    assert (done.code, done.json["result"], done.json["status"]) == (13, "failed", "completed")
    assert "never sent the prompt" in done.json["reason"]


def test_the_cli_sees_a_scratch_home_and_nothing_of_the_callers_environment(beam: Cli) -> None:
    seen = beam.base / "tools" / "seen"  # not in a folder on the way to its state: there it can make nothing
    cli = stand_in(beam, "pi", f"env >{seen}; exit 1").with_env({"ANTHROPIC_API_KEY": "mine", "OTHER_SECRET": "mine"})
    cli("doctor", "--smoke", "pi")
    variables = dict(line.partition("=")[::2] for line in seen.read_text().splitlines())
    assert "mine" not in variables.values()
    assert "beam-smoke-" in variables["HOME"] and not Path(variables["HOME"]).exists()
    assert list(cli.base.glob("beam-smoke-*")) == []


def test_an_interrupt_ends_what_runs_and_removes_its_files(beam: Cli) -> None:
    seen = beam.base / "tools" / "seen"  # not in a folder on the way to its state: there it can make nothing
    cli = stand_in(beam, "pi", f"echo $HOME >{seen}; exec sleep 600")
    running = cli.start("doctor", "--smoke", "pi")
    eventually(lambda: seen.exists() and seen.read_text().endswith("\n"))
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode in (130, -signal.SIGINT), err
    assert not Path(seen.read_text().strip()).exists()
    eventually(lambda: processes_with("beam-smoke-") == [], what="it left processes behind")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--smoke", "nothing"), 4, "nothing"),
        (("--smoke", "bash"), 10, "bash"),
        (("pi", "--gc"), 2, "beam doctor NAME"),
        (("--smoke", "--gc"), 2, "don't go together"),
    ],
)
def test_what_can_not_be_smoked_is_reported(beam: Cli, args: tuple[str, ...], code: int, words: str) -> None:
    done = beam("doctor", *args)
    assert done.code == code
    assert words in done.err


@pytest.mark.real
def test_the_real_clis_answer(beam: Cli, agents_path: str) -> None:
    done = beam.with_env({"PATH": agents_path})("doctor", "--smoke", "claude,codex", "--json", timeout=400)
    assert done.code == 0, done
    by_name = {line["agent"]: line for line in done.lines}
    assert set(by_name) == {"claude", "codex"}
    for line in by_name.values():
        assert (line["result"], line["status"], line["face"], line["got"]) == (
            "ok",
            "completed",
            "exec",
            "hello from beam",
        )
        assert line["requests"] >= 1 and line["seconds"] > 0
    assert "2.1.332" in by_name["claude"]["version"] and "0.171.0" in by_name["codex"]["version"]
