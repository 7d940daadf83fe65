"""Why a program was not started, as an error that says who must act."""

from __future__ import annotations

import errno
import os

import pytest

from beam.base.errors import BeamError, NotFoundError, ShortageError
from beam.process.program import start_error


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EAGAIN, ShortageError), (errno.ENOMEM, ShortageError), (errno.ENOENT, NotFoundError)]
)
def test_a_shortage_passes_and_a_missing_program_does_not(number: int, kind: type[BeamError]) -> None:
    error = start_error(OSError(number, os.strerror(number)), "prog", env={}, cwd="/")
    assert type(error) is kind
    assert "prog" in error.message
