"""`beam board` before anything is drawn."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from beam import UnsupportedError
from beam.board.command import board
from beam.cli.context import Context


def test_without_textual_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError) as caught:
        board(Context(), since=None, claude_home=None)
    assert caught.value.hint == "pip install 'beam-agents[board]'" and caught.value.exit_code == 10


@pytest.mark.parametrize("name", ["words", "rows", "stream", "spans", "teams", "decision", "help", "actions", "feed"])
def test_the_models_know_nothing_of_widgets(name: str) -> None:
    found = importlib.util.find_spec(f"beam.board.{name}")
    assert found is not None and found.origin is not None
    text = Path(found.origin).read_text()
    assert "import textual" not in text and "from textual" not in text and "beam.board.lines" not in text
