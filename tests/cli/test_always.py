"""What `--always` would allow is told before it is decided."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam.cli.render.asks import always_words


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        ([], ""),
        (["the same again in this session"], "the same again in this session"),
        (
            [{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch *"}], "destination": "session"}],
            "Bash(touch *), in this session",
        ),
        ([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}], "all edits of files, in this session"),
        (
            [{"type": "addDirectories", "directories": ["/a"], "destination": "localSettings"}],
            "files in /a, in this folder for good",
        ),
        ([{"type": "addRules", "rules": [{"toolName": "Read"}], "destination": "?"}], "Read, as the agent keeps it"),
        ([3, None, {"type": "addRules", "rules": "x"}, {}], ""),
        ("x", ""),
    ],
)
def test_the_scope_is_reported_in_words(offered: Any, words: str) -> None:
    assert always_words(json.dumps(offered).encode()) == words
