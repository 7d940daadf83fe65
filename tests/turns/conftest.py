"""Fixtures of the tests of turns."""

from __future__ import annotations

import pytest

from tests.support.memory import IN_MEMORY, Memory


@pytest.fixture(params=IN_MEMORY)
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Memory | None:
    """A test with agents in memory, where time passes at once, and once more with real processes."""
    if not request.param:
        return None
    memory = Memory()
    memory.install(monkeypatch)
    return memory
