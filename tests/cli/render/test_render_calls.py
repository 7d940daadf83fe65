"""Calls of tools, on one line."""

from __future__ import annotations

import pytest

from beam.cli.render.calls import brief_doing


@pytest.mark.parametrize(
    ("doing", "shown"),
    [
        ('Bash {"command":"make test"}', "Bash make test"),
        ("Bash {}", "Bash"),
        ("Read of a file", "Read of a file"),
        ("thinking", "thinking"),
    ],
)
def test_a_call_is_its_tool_and_what_tells_most_of_its_input(doing: str, shown: str) -> None:
    assert brief_doing(doing) == shown
