"""The screen keeps up with what agents write."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from beam.pty_adapter.screen import Screen

RECORDINGS = sorted((Path(__file__).parents[1] / "recordings" / "pty").glob("*.raw"))
LEAST_MB_S = 2.5  # half of what it does alone on a slow machine: tests share theirs


@pytest.mark.acceptance
def test_tokenizer_and_screen_read_the_recordings_at_megabytes_a_second() -> None:
    total, spent = 0, 0.0
    for path in RECORDINGS:
        data = path.read_bytes()
        data *= 500_000 // len(data)
        screen, began = Screen(100, 40), time.process_time()
        for at in range(0, len(data), 4096):
            screen.feed(data[at : at + 4096])
        spent += time.process_time() - began
        total += len(data)
    assert total / spent / 1e6 >= LEAST_MB_S
