"""A command of a scenario: what is kept of what it wrote."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from beam.conversations.commands import MOST_OUTPUT, run_command

pytestmark = pytest.mark.slow


def test_of_a_key_in_which_the_output_is_cut_no_end_is_left(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Kq7" * 30
    write = f"import sys; sys.stdout.write({key!r} + ' ' + 'x' * {MOST_OUTPUT - 40})"
    ran = asyncio.run(run_command((sys.executable, "-c", write), tmp_path, os.environ, 60.0))
    assert (ran.exit_code, len(ran.output) <= MOST_OUTPUT) == (0, True)
    assert "Kq7" not in ran.output
    assert ran.output.endswith("x" * (MOST_OUTPUT - 40))
