"""The attempts of the cells are real ones: where nothing is refused, each of them comes to what it is after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import attacker
from tests.conformance.attempts import ATTEMPTS
from tests.conformance.subject import Subject, place

pytestmark = [pytest.mark.real, pytest.mark.acceptance, pytest.mark.conformance]


@pytest.fixture
def subject(tmp_path: Path, agents_path: str) -> Iterator[Subject]:
    """The CLI that refuses the least, and the model that tries all it can."""
    yield from place("pi", tmp_path, agents_path, attacker.Model())


def test_with_full_access_each_attempt_succeeds_by_both_tools(subject: Subject) -> None:
    found = attacker.tried(subject, "full")
    wanted = {"write": "written", "read": "read", "ask": "capped"}  # at its own access, which is full
    for attempt in ATTEMPTS:
        by_file = "not offered" if attempt.by_shell_alone else wanted[attempt.kind]
        assert found[attempt.name] == {"file": by_file, "shell": wanted[attempt.kind]}, attempt.name
