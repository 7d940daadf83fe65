"""Templates of scripted agents; the steps themselves are played by the real program in test_scripted_program.py."""

from __future__ import annotations

import time
from typing import Any

import pytest

from beam.testing.player import STEP_S, Player, fill_templates
from beam.testing.script import Step

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
    assert fill_templates(value, NAMES, ENVIRON) == expected


@pytest.mark.parametrize(
    "step",
    [
        Step("hang", True, {}),
        Step("delay", 60, {}),
        Step("tool", {"name": "ls", "delay": 60}, {}),
        Step("stream", {"text": "abc", "delay": 60}, {}),
    ],
)
def test_an_interrupt_just_before_a_long_sleep_is_seen_soon(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        Player(lambda: None).play((step,), NAMES, ENVIRON)
    assert max(slept) <= STEP_S
