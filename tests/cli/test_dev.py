from __future__ import annotations

import http.client
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from beam.base.errors import NotFoundError, UnsupportedError, UsageError
from beam.cli.dev import app
from beam.cli.group import typer_of

BEAM_DEV = [sys.executable, "-m", "beam", "dev"]
RESULT = b'{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"s"}\n'
RESUMED = b'{"type":"system","subtype":"init","session_id":"s","model":"m"}\n' + RESULT
ASK = (
    "import json,os,sys,urllib.request as u;"
    "r=u.Request(os.environ['ANTHROPIC_BASE_URL']+'/v1/messages',"
    "json.dumps({'model':'m','messages':[{'role':'user','content':'hi'}]}).encode(),{'x-api-key':'k'});"
    "print(json.load(u.urlopen(r))['content'][0]['text']);sys.exit(7)"
)


def invoke(*args: str, given: bytes | None = None) -> str:
    result = CliRunner().invoke(typer_of(app), args, input=given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def finished(*args: str, given: bytes) -> dict[str, object]:
    last: dict[str, object] = json.loads(invoke("decode", *args, given=given).splitlines()[-1])
    assert last["type"] == "turn.finished"
    return last


@pytest.mark.slow
def test_decode_prints_events_as_json_lines_the_last_one_the_outcome(tmp_path: Path):
    (tmp_path / "recorded").write_bytes(RESUMED)

    lines = [json.loads(line) for line in invoke("decode", "claude", str(tmp_path / "recorded")).splitlines()]

    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert (lines[-1]["type"], lines[-1]["status"], lines[-1]["reply"]) == ("turn.finished", "completed", "hi")
    assert not any("raw" in line for line in lines)


@pytest.mark.slow
def test_decode_reads_stdin_and_keeps_the_lines_of_the_cli_when_asked():
    lines = [json.loads(line) for line in invoke("decode", "claude", "--raw", given=RESUMED).splitlines()]

    assert lines[0]["raw"] == RESUMED.splitlines()[0].decode()


@pytest.mark.slow
def test_decode_is_told_what_the_recording_does_not_say(tmp_path: Path):
    (tmp_path / "err").write_text("boom\n")

    killed = finished("claude", "--signal", "SIGKILL", given=b"")
    broken = finished("claude", "--exit-code", "3", "--stderr", str(tmp_path / "err"), given=b"")
    resumed = finished("claude", "--session", "s", given=RESUMED)

    assert "SIGKILL" in str(killed["reason"])
    assert (killed["status"], killed["exit_code"]) == ("failed", 1)
    assert "boom" in str(broken["reason"])
    assert resumed["session"] == "resumed"


@pytest.mark.slow
def test_decode_takes_a_dash_for_stdin():
    assert invoke("decode", "claude", "-", given=RESUMED) == invoke("decode", "claude", given=RESUMED)


@pytest.mark.slow
def test_schema_lists_its_names_and_prints_one():
    assert {"outcome", "error", "message", "beam.yaml", "turn.finished"} <= set(invoke("schema").splitlines())
    assert json.loads(invoke("schema", "outcome"))["$defs"]["Outcome"]


@pytest.mark.slow
def test_what_can_not_be_done_is_an_error_of_beams():
    for args, kind in (
        (("fake-model", "--", "true"), UsageError),
        (("fake-model", "--env", "mailbox", "--", "true"), UnsupportedError),
        (("fake-model", "--env", "claude", "--", "/no/such/program"), NotFoundError),
        (("schema", "nothing"), UsageError),
        (("decode", "clod"), NotFoundError),
    ):
        with pytest.raises(kind):
            CliRunner().invoke(typer_of(app), args, input=b"", catch_exceptions=False)


@contextmanager
def running(*args: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([*BEAM_DEV, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def get(url: str) -> int:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    connection.request("HEAD", "/")
    with connection.getresponse() as response:
        connection.close()
        return response.status


@pytest.mark.acceptance
def test_fake_model_prints_its_url_first_and_serves(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    with running("fake-model", "--log", str(log)) as process:
        assert process.stdout
        url = process.stdout.readline().strip()

        assert get(url) == 200
        assert json.loads(log.read_text())["method"] == "HEAD"


@pytest.mark.acceptance
def test_fake_model_prints_exports_that_a_shell_understands():
    with running("fake-model", "--env", "claude") as process:
        assert process.stderr
        assert process.stdout
        assert "^C ends it" in process.stderr.readline()
        lines = [process.stdout.readline() for _ in range(12)]
        script = "".join(lines) + 'printf %s "$ANTHROPIC_BASE_URL|$ANTHROPIC_API_KEY"'
        shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        url, key = shell.stdout.split("|")

        assert all(line.startswith("export ") for line in lines)
        assert key == "dummy"
        assert get(url) == 200


@pytest.mark.acceptance
def test_fake_model_runs_a_command_with_the_environment_and_ends_with_its_exit_code(tmp_path: Path):
    script = tmp_path / "script.yaml"
    script.write_text("replies: ['scripted {prompt}']")
    args = ["fake-model", "--script", str(script), "--env", "claude", "--", sys.executable, "-c", ASK]

    ran = subprocess.run([*BEAM_DEV, *args], capture_output=True, text=True, timeout=30)

    assert (ran.stdout, ran.stderr, ran.returncode) == ("scripted hi\n", "", 7)


@pytest.mark.acceptance
def test_fake_model_gives_a_cli_that_needs_files_a_scratch_home_that_is_gone_afterwards():
    show = "cat $HOME/.codex/config.toml; echo; echo $HOME"
    args = ["fake-model", "--env", "codex", "--", "sh", "-c", show]

    ran = subprocess.run([*BEAM_DEV, *args], capture_output=True, text=True, timeout=30)

    *config, home = ran.stdout.splitlines()
    assert any(line.startswith('base_url = "http://127.0.0.1:') for line in config)
    assert home != os.environ.get("HOME")
    assert not Path(home).exists()


@pytest.mark.acceptance
def test_fake_model_gives_several_clis_their_environment_and_no_empty_value_hides_another_cli_s(tmp_path: Path):
    show = 'cat $HOME/.codex/config.toml $HOME/.claude.json; echo; echo "$ANTHROPIC_BASE_URL|$OPENAI_API_KEY"'
    for names in (("claude", "codex", "qwen"), ("qwen", "codex", "claude")):
        wanted = [word for name in names for word in ("--env", name)]

        ran = subprocess.run(
            [*BEAM_DEV, "fake-model", *wanted, "--script", "-", "--", "sh", "-c", show],
            capture_output=True,
            text=True,
            timeout=30,
            input="replies: [hi]",
        )

        url, key = ran.stdout.splitlines()[-1].split("|")
        assert (ran.returncode, key) == (0, "dummy"), ran.stderr
        assert f'base_url = "{url}/v1"' in ran.stdout
        assert "hasCompletedOnboarding" in ran.stdout


@pytest.mark.acceptance
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_fake_model_as_it_ends_any_program(number: signal.Signals):
    with running("fake-model") as process:
        assert process.stdout
        assert process.stdout.readline().startswith("http://127.0.0.1:")

        process.send_signal(number)

        assert process.wait(10) in (-number, 128 + number)  # one and the same to a shell


@pytest.mark.acceptance
def test_an_error_is_one_line_and_its_exit_code():
    ran = subprocess.run([*BEAM_DEV, "schema", "outcom"], capture_output=True, text=True, timeout=30)

    assert (ran.stdout, ran.returncode) == ("", 2)
    assert ran.stderr == "beam: there is no schema called 'outcom'; did you mean outcome?\n"


@pytest.mark.acceptance
def test_fake_model_passes_sigterm_on_to_its_command():
    sleeper = f"echo $$; exec {shlex.quote(sys.executable)} -c 'import time; time.sleep(60)'"
    with running("fake-model", "--env", "claude", "--", "sh", "-c", sleeper) as process:
        assert process.stdout
        pid = int(process.stdout.readline())

        process.send_signal(signal.SIGTERM)

        assert process.wait(10) == 128 + signal.SIGTERM
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
