"""`beam proxy` as a process: it prints its URL, serves, counts and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from beam.proxy.packing import blob_name, encode
from beam.proxy.recording import RequestLine
from beam.testing.fake_model import FakeModel
from tests.proxy.conftest import ask
from tests.support.cli import BEAM, Cli, eventually, processes_with

pytestmark = pytest.mark.acceptance


@contextmanager
def running(beam: Cli, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    process = subprocess.Popen(
        [*BEAM, "proxy", *words], cwd=beam.project, env=beam.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def test_it_records_and_replays_and_says_what_was_exact(beam: Cli) -> None:
    with FakeModel() as model, running(beam, "--record", "rec", "--upstream", model.url) as (process, out):
        assert ask(out.readline().decode().strip(), "hello").status == 200
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "1 model calls went to the model" in err.decode()
    with running(beam, "--replay", "rec", "--json") as (process, out):
        url = json.loads(out.readline())["url"]
        assert ask(url, "hello").status == 200
        assert json.loads(out.readline())["served"]["step"] == "exact"
        os.kill(process.pid, signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    assert json.loads(rest)["counts"]["exact"] == 1
    assert process.returncode == 0


def test_a_signal_that_comes_as_soon_as_its_url_is_there_ends_it_with_what_it_counted(beam: Cli) -> None:
    with running(beam, "--record", "rec", "--upstream", "http://127.0.0.1:9", "--json") as (process, out):
        out.readline()
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(rest)["counts"]["calls"] == 0


def test_its_process_ends_with_it_however_it_ends(beam: Cli) -> None:
    with FakeModel() as model, running(beam, "--record", "rec", "--upstream", model.url) as (process, out):
        out.readline()
        process.kill()
    eventually(lambda: processes_with(str(beam.base)) == [], what="the proxy is still there")


def proxies(beam: Cli) -> set[int]:
    return {*processes_with("beam.proxy.process")} & {*processes_with(str(beam.base))}


def slow_recording(folder: Path) -> str:
    """Make a recording that is as large as may be, and takes a minute to read."""
    data = encode([f"{number}: {'x' * 40}" for number in range(20_000)])
    name = blob_name(data, is_text=False)
    blob = folder / "blobs" / name[:2] / f"{name}.json"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(data)
    lines = (
        RequestLine(
            n=n, at="", format="anthropic", kind="ask", method="POST", path="/v1/messages", body={"$blob": name}
        )
        for n in range(1, 190)
    )
    (folder / "model.exchanges.jsonl").write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    return str(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_its_process_ends_with_it_while_it_reads_a_recording(beam: Cli, number: signal.Signals) -> None:
    slow = slow_recording(beam.base / "slow")
    with running(beam, "--replay", slow) as (process, _):
        eventually(lambda: proxies(beam) != set(), what="no proxy was started")
        process.send_signal(number)
        process.wait(timeout=20)
        eventually(lambda: processes_with(str(beam.base)) == [], timeout=20, what="the proxy is still there")


def test_a_turn_whose_proxy_is_not_ready_ends_with_its_timeout_and_by_a_signal(beam: Cli) -> None:
    slow = slow_recording(beam.base / "slow")
    (beam.base / "bin").mkdir(exist_ok=True)
    claude = beam.base / "bin" / "claude"
    claude.write_text('#!/bin/sh\necho "2.1.330 (Claude Code)"\n')
    claude.chmod(0o755)
    env = {"PATH": f"{claude.parent}:{os.environ['PATH']}"}
    words = ("send", "claude", "--replay", slow, "--depth", "model", "hi")
    late = beam(*words, "--timeout", "2s", env=env, timeout=40)
    assert (late.code, "stopped after 2s, the turn's timeout" in late.err) == (3, True), late
    process = beam.start(*words, env=env)
    eventually(lambda: proxies(beam) != set(), what="no proxy was started")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=40) == -signal.SIGTERM
    assert [event["status"] for event in beam.journal("claude") if event["type"] == "turn.finished"] == [
        "timeout",
        "cancelled",
    ]
    eventually(lambda: processes_with(str(beam.base)) == [], timeout=20, what="the proxy is still there")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[" * 100_000 + "]" * 100_000, "line 1 of model.exchanges.jsonl is not a call"),
        ("{}", "line 1 of model.exchanges.jsonl is not a call"),
        (None, "is a named pipe"),
    ],
    ids=["nested", "no call", "pipe"],
)
def test_a_turn_with_a_recording_that_nobody_can_read_fails_and_leaves_no_message_behind(
    line: str | None, said: str, beam: Cli
) -> None:
    bad, claude = beam.base / "bad", beam.base / "bin" / "claude"
    for folder in (bad, claude.parent):
        folder.mkdir(exist_ok=True)
    (bad / "recording.json").write_text('{"v": 1, "agent": "claude", "places": {}}')
    if line is None:
        os.mkfifo(bad / "model.exchanges.jsonl")
    else:
        (bad / "model.exchanges.jsonl").write_text(f"{line}\n")
    claude.write_text('#!/bin/sh\necho "2.1.330 (Claude Code)"\n')
    claude.chmod(0o755)
    env = {"PATH": f"{claude.parent}:{os.environ['PATH']}"}
    failed = beam("send", "claude", "--replay", str(bad), "--depth", "model", "hi", "--json", env=env).json
    assert (failed["status"], failed["class"], said in failed["reason"]) == ("failed", "bad_request", True), failed
    assert beam.box("claude", "cur") == beam.box("claude", "new") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "needs a model to ask, or a recording"),
        (("--replay", "nothing"), "is no recording"),
        (("--upstream", "ftp://x"), "is not the URL of a model's API"),
        (("--upstream", "http://127.0.0.1:9", "--on-miss", "live"), "go on with the model after a replay"),
        (("--upstream", "http://127.0.0.1:9", "--place", "x"), "is not NAME=DIR"),
        (("--upstream", "http://127.0.0.1:9", "--shield", "fd:9"), "needs a dummy"),
    ],
)
def test_what_does_not_go_together_is_refused(beam: Cli, words: tuple[str, ...], said: str) -> None:
    done = beam("proxy", *words)
    assert done.code == 2 or done.code == 4 or done.code == 1, done
    assert said in done.err
