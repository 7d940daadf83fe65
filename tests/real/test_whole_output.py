"""What a CLI says of a long answer arrives whole, however slowly it is read.

One that ends without waiting for its reader gets a file for its stdout (`Launch.drops_output`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from beam.agents import registry
from beam.agents.base import Exit, Host, Turn
from beam.process.pipes import LineSplitter
from beam.testing.fake_model import FakeModel
from tests.conformance.adapters import ADAPTERS
from tests.support.cli import Cli, processes_with
from tests.support.repository import make_repository

pytestmark = [pytest.mark.real, pytest.mark.soak]
PROMPT = "hello there"
LONG = "".join(f"{number:07d} " for number in range(500_000)) + "the end"
FIGURES = {"input_tokens": 10, "output_tokens": 10}  # else the CLI would make its conversation shorter
SCRIPT = {
    "rules": [{"match": PROMPT, "times": 2, "text": LONG, "chunk": 200_000, "usage": FIGURES}],  # once for a title
    "otherwise": {"text": "short", "usage": FIGURES},
}
PIPE = 65_536


DROPS = ("opencode", "kilo", "gemini", "qwen", "copilot", "cn", "cline")
WAITS = ("codex", "pi", "kimi", "vibe", "aider")


@pytest.mark.parametrize("name", WAITS)
def test_four_megabytes_arrive_whole_through_a_pipe_that_is_read_slowly(
    name: str, tmp_path: Path, agents_path: str
) -> None:
    skip_unless_installed(name, agents_path)
    assert reply(name, tmp_path / "pipe", agents_path, pipe=True) == LONG


@pytest.mark.parametrize("name", DROPS)
def test_four_megabytes_arrive_whole_in_a_file_and_not_through_a_pipe_that_is_read_slowly(
    name: str, tmp_path: Path, agents_path: str
) -> None:
    """Where the pipe is enough, the CLI waits for its reader now: then it needs no file any more."""
    skip_unless_installed(name, agents_path)
    assert reply(name, tmp_path / "file", agents_path, pipe=False) == LONG
    assert reply(name, tmp_path / "pipe", agents_path, pipe=True) != LONG


def skip_unless_installed(name: str, path: str) -> None:
    if shutil.which(name, path=path) is None:
        pytest.skip(f"left out: {name} does not install here")


def reply(name: str, place: Path, path: str, *, pipe: bool) -> str | None:
    """What beam would take for the answer, of a CLI whose stdout is that."""
    adapter = registry.adapter(name)
    face, access = adapter.exec, adapter.card.faces["exec"].access[0]
    assert face is not None
    cli, scratch = Cli(place), place / "scratch"
    make_repository(cli.project, place / "home")
    turn = Turn(
        text=PROMPT, message_id="m", agent=name, access=access, cwd=str(cli.project), scratch=str(scratch), once=True
    )
    launch = face.launch(turn, Host(executable=str(shutil.which(name, path=path))))
    assert launch.drops_output is (name in DROPS)
    for file, data in launch.files.items():
        (scratch / file).parent.mkdir(parents=True, exist_ok=True)
        (scratch / file).write_bytes(data)
    decoder, lines = face.decoder(turn), LineSplitter(1 << 30)
    with FakeModel(SCRIPT) as model, (place / "out").open("wb") as out, (place / "err").open("wb") as err:
        env = {**cli.env, "PATH": path, **ADAPTERS[name].env, **model.env(name, place / "home"), **launch.env}
        process = subprocess.Popen(
            launch.argv,
            cwd=cli.project,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if pipe else out,
            stderr=err,
        )
        try:
            assert process.stdin
            process.stdin.write(launch.stdin or b"")
            process.stdin.close()
            while process.stdout and (data := os.read(process.stdout.fileno(), PIPE)):
                out.write(data)
                time.sleep(0.05)  # the pipe is full again by then
            code = process.wait(300)
        finally:
            for pid in processes_with(str(place)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            process.wait()
            if process.stdout:
                process.stdout.close()
    for line in [*lines.feed((place / "out").read_bytes()), *lines.end()]:
        decoder.line(line)
    return decoder.end(Exit(code=code))[1].reply
