"""Commands in this process, and verbs of the library that are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.inside import Inside, Told


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    return Inside(tmp_path, monkeypatch)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)
