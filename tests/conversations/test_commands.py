"""A command of a scenario: what is kept of what it wrote."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from beam.conversations.commands import MAX_OUTPUT, TIMED_OUT, CommandEnd, run_command

pytestmark = pytest.mark.slow


def test_of_a_key_in_which_the_output_is_cut_no_end_is_left(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Kq7" * 30
    write = f"import sys; sys.stdout.write({key!r} + ' ' + 'x' * {MAX_OUTPUT - 40})"
    ran = asyncio.run(run_command((sys.executable, "-c", write), tmp_path, os.environ, 60.0))
    assert (ran.exit_code, len(ran.output) <= MAX_OUTPUT) == (0, True)
    assert "Kq7" not in ran.output
    assert ran.output.endswith("x" * (MAX_OUTPUT - 40))


def test_a_command_is_ended_as_soon_as_its_run_is_stopped_and_says_why_the_run_was(tmp_path: Path) -> None:
    words = (sys.executable, "-c", "import time; print('begun', flush=True); open('made', 'w'); time.sleep(300)")
    made = tmp_path / "made"

    def stopped_by() -> str:
        return "ann" if made.exists() else ""

    ran = asyncio.run(run_command(words, tmp_path, os.environ, 60.0, stopped_by))
    assert ran == CommandEnd(exit_code=TIMED_OUT, output="begun\n", why="ann", is_stopped=True)
