"""What is known of a version of a CLI."""

from __future__ import annotations

import pytest

from beam.agents.base import BrokenVersion
from beam.turns.cli_version import untested_note, version_number, what_is_broken

BROKEN = (BrokenVersion(first="2.1.9", what="it hangs"), BrokenVersion(first="3.0.0", last="3.10.1", what="no asks"))


@pytest.mark.parametrize(
    ("version", "tested", "said"),
    [
        ("codex-cli 0.169.0", ("0.169.0",), ""),
        ("0.170.1", ("0.9.0", "0.169.0"), "newer than the tested 0.169.0"),
        ("v0.9.12", ("0.10.0",), "older than the tested 0.10.0"),
        ("nightly", ("0.10.0",), "not the tested 0.10.0"),
        ("", ("0.10.0",), ""),
        ("1.0", (), ""),
    ],
)
def test_a_version_that_was_not_tested_is_reported(version: str, tested: tuple[str, ...], said: str) -> None:
    assert untested_note(version, tested) == said


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.1.9 (Some CLI)", "it hangs"),
        ("2.1.10", ""),
        ("2.1", ""),
        ("3.0.0", "no asks"),
        ("cli 3.9.99", "no asks"),
        ("3.10.1", "no asks"),
        ("3.10.2", ""),
        ("nightly", ""),
        ("", ""),
    ],
)
def test_a_version_is_broken_from_the_first_to_the_last_that_is_named(version: str, said: str) -> None:
    assert what_is_broken(version, BROKEN) == said


@pytest.mark.parametrize(
    ("printed", "number"), [("2.1.9 (Some CLI)", "2.1.9"), ("codex-cli 0.169.0", "0.169.0"), ("7", ""), ("", "")]
)
def test_the_number_is_what_counts_of_what_a_cli_prints(printed: str, number: str) -> None:
    assert version_number(printed) == number
