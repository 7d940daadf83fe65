"""`beam proxy` as a process: it prints its URL, serves, counts and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from beam.testing.fake_model import FakeModel
from tests.proxy.conftest import ask
from tests.support.cli import BEAM, Cli

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
    with running(beam, "--replay", "rec", "--json", "--exact-at-least", "2") as (process, out):
        url = json.loads(out.readline())["url"]
        assert ask(url, "hello").status == 200
        assert json.loads(out.readline())["served"]["step"] == "exact"
        os.kill(process.pid, signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    assert json.loads(rest)["counts"]["exact"] == 1
    assert process.returncode == 1  # two were to be exact


def test_a_signal_that_comes_as_soon_as_its_url_is_there_ends_it_with_what_it_counted(beam: Cli) -> None:
    with running(beam, "--record", "rec", "--upstream", "http://127.0.0.1:9", "--json") as (process, out):
        out.readline()
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(rest)["counts"]["calls"] == 0


def test_its_process_ends_with_it_however_it_ends(beam: Cli) -> None:
    from tests.support.cli import eventually, processes_with

    with FakeModel() as model, running(beam, "--record", "rec", "--upstream", model.url) as (process, out):
        out.readline()
        process.kill()
    eventually(lambda: processes_with(str(beam.base)) == [], what="the proxy is still there")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "needs a model to ask, or a recording"),
        (("--replay", "nothing"), "is no recording"),
        (("--upstream", "ftp://x"), "is not the URL of a model's API"),
        (("--upstream", "http://127.0.0.1:9", "--fill"), "go on with the model after a replay"),
        (("--upstream", "http://127.0.0.1:9", "--place", "x"), "is not NAME=DIR"),
        (("--upstream", "http://127.0.0.1:9", "--key-fd", "9"), "needs a dummy"),
    ],
)
def test_what_does_not_go_together_is_refused(beam: Cli, words: tuple[str, ...], said: str) -> None:
    done = beam("proxy", *words)
    assert done.code == 2 or done.code == 4 or done.code == 1, done
    assert said in done.err
