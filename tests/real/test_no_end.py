"""Real CLIs over their protocols whose end never arrives: their answer is printed all the same."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli

pytestmark = [pytest.mark.real, pytest.mark.acceptance, pytest.mark.soak]
SAID = "ECHO[hello] turns=1\n"


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


def deaf(beam: Cli, agents_path: str, model: FakeModel, agent: str, *lost: str) -> Cli:
    """beam in a place where the lines of this CLI that contain one of these words are lost."""
    real = shutil.which(agent, path=agents_path)
    assert real is not None
    bin_dir = beam.base / "bin"
    bin_dir.mkdir()
    words = " ".join(f"-e {shlex.quote(word)}" for word in lost)
    (bin_dir / agent).write_text(f'#!/bin/sh\n{shlex.quote(real)} "$@" | grep --line-buffered -v -F {words}\n')
    (bin_dir / agent).chmod(0o755)
    env = {**model.env(agent, beam.base / "home"), "BEAM_IDLE_TIMEOUT": "6s", "IS_SANDBOX": "1"}
    return beam.with_env({"PATH": f"{bin_dir}:{agents_path}", **env})


def test_a_turn_of_codex_without_its_end_ends_when_its_thread_is_idle(
    beam: Cli, agents_path: str, model: FakeModel
) -> None:
    cli = deaf(beam, agents_path, model, "codex", '"method":"turn/completed"')
    done = cli("send", "codex", "hello", "--via", "dialogue", timeout=120)
    assert (done.code, done.out) == (0, SAID), done


@pytest.mark.parametrize(
    ("agent", "access", "lost"),
    [
        ("codex", "read", ('"method":"turn/completed"', "thread/status/changed")),
        ("claude", "read", ('"type":"result"', "session_state_changed", "command_lifecycle")),
        ("codex-acp", "ask", ('"stopReason"',)),
        ("gemini", "read", ('"stopReason"',)),
    ],
)
def test_what_a_turn_said_is_printed_when_beam_gives_it_up_and_nobody_is_told_to_run_it_again(
    beam: Cli, agents_path: str, model: FakeModel, agent: str, access: str, lost: tuple[str, ...]
) -> None:
    cli = deaf(beam, agents_path, model, agent, *lost)
    done = cli("send", agent, "hello", "--via", "dialogue", "--access", access, timeout=120)
    assert (done.code, done.out) == (3, SAID), done
    assert "run it again" not in done.err
    assert f"beam log {agent}" in done.err
