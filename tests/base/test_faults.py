"""Crash points: every one is in the code once armed, and none does anything unarmed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import beam
from beam.base.faults import CRASH_POINTS, crash_point

SOURCE = Path(beam.__file__).parent


def _reached() -> set[str]:
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    return set(re.findall(r'crash_point\("([a-z.]+)"\)', text))


@pytest.mark.slow
def test_every_point_is_reached_somewhere_and_every_reached_one_is_listed() -> None:
    assert _reached() == set(CRASH_POINTS)


def test_an_unarmed_point_does_nothing() -> None:
    for point in CRASH_POINTS:
        crash_point(point)


@pytest.mark.slow
def test_an_armed_point_is_the_end_of_the_process() -> None:
    code = "from beam.base.faults import crash_point as at; at('put.written'); at('claim.before'); print('alive')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"BEAM_CRASH_AT": "claim.before"}, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (-9, b"")
