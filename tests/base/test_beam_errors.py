"""Errors: each kind has its exit code, wherever the error was made."""

from __future__ import annotations

import pytest

from beam.base.errors import (
    BeamError,
    CorruptError,
    DiskError,
    ExitCode,
    LimitError,
    NotFoundError,
    UsageError,
    exit_code_of,
)


@pytest.mark.parametrize("error", [UsageError, NotFoundError, LimitError, DiskError, CorruptError])
def test_the_kind_of_an_error_gives_its_exit_code_back(error: type[BeamError]) -> None:
    assert exit_code_of(error.kind) is error.exit_code


def test_a_kind_that_nobody_has_gives_none() -> None:
    assert exit_code_of("no such kind") is None


def test_an_error_says_what_happened_and_the_next_step() -> None:
    assert str(UsageError("it is empty", "give a text")) == "it is empty (give a text)"
    assert str(UsageError("it is empty")) == "it is empty"
    assert ExitCode.LIMIT.meaning.startswith("a limit")


def test_the_exit_codes_are_those_that_scripts_rely_on() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "COMPLETED": 0, "FAILED": 1, "USAGE": 2, "TIMEOUT": 3, "NOT_FOUND": 4, "DENIED": 5, "REFUSED": 6, "LIMIT": 7,
        "UNKNOWN": 8, "CANCELLED": 9, "UNSUPPORTED": 10, "TRUNCATED": 11, "UNFINISHED": 12, "CHECK_FAILED": 13,
        "BUG": 70, "DISK": 74, "HANGUP": 129, "INTERRUPTED": 130, "TERMINATED": 143,
    }  # fmt: skip
