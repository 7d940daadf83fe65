"""What stands for a field that a value of this package does not have."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.defaults import given, structs_in


@pytest.mark.parametrize("kind", structs_in("beam.store"), ids=lambda kind: kind.__name__)
def test_a_value_without_a_field_is_as_if_it_said_this(kind: type[msgspec.Struct]) -> None:
    assert given(kind) == _GIVEN[kind.__name__]


_GIVEN = {
    "ControlRequest": {"v": 1, "from": "human", "target": None, "text": None, "always": False, "stop": False},
    "Answer": {"v": 1, "accepted": None, "said": "", "outcome": None, "refused": None},
    "OpenTurn": {"v": 1},
    "Refusal": {"hint": "", "subject": None, "kind": "error", "exit_code": 1},
    "Request": {
        "v": 1,
        "verb": "send",
        "to": "",
        "text": "",
        "wait": False,
        "target": "",
        "attach": (),
        "options": {
            "access": None,
            "model": None,
            "new": False,
            "once": False,
            "schema": None,
            "via": None,
            "timeout": None,
            "max_turns": None,
            "budget_usd": None,
            "require": "UNSET",
            "tolerate": "UNSET",
            "no_circuit": "UNSET",
            "keep": "UNSET",
            "rules": "UNSET",
            "max_tokens": "UNSET",
            "model_calls": "UNSET",
            "slash": "UNSET",
        },
        "key": None,
        "deadline": None,
        "replies": None,
        "failed": False,
        "stop": False,
    },
    "Segment": {"tail": b""},
}
