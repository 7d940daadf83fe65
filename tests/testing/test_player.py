"""Templates of scripted agents; the steps themselves are played by the real program in test_scripted_program.py."""

from __future__ import annotations

from typing import Any

import pytest

from beam.testing.player import fill

NAMES = {"prompt": "{turn}!", "turn": "3", "session": "s1", "agent": "a", "model": "m", "from": "me"}
ENVIRON = {"X": "1", "Y_2": "{X}"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{turn} {session} {agent} {model} {from}", "3 s1 a m me"),
        ("{prompt}", "{turn}!"),
        ("{env.X}{env.Y_2}{env.NONE}", "1{X}"),
        ('{"a": {b}} {}', '{"a": {b}} {}'),
        ({"a": ["{turn}", 1, None]}, {"a": ["3", 1, None]}),
        (b"{turn}", b"{turn}"),
    ],
)
def test_templates_are_filled_in_once_and_other_braces_stay(value: Any, expected: Any) -> None:
    assert fill(value, NAMES, ENVIRON) == expected
