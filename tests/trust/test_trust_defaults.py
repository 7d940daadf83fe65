"""What stands for a field that a value of this package does not have."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.defaults import given, structs_in


@pytest.mark.parametrize("kind", structs_in("beam.trust"), ids=lambda kind: kind.__name__)
def test_a_value_without_a_field_is_as_if_it_said_this(kind: type[msgspec.Struct]) -> None:
    assert given(kind) == _GIVEN[kind.__name__]


_GIVEN = {
    "_GitDirectories": {"unreadable": ()},
    "AdapterFacts": {"adapters": (), "runs_text": False, "is_program": False},
    "Effect": {"when": "", "unset": None},
    "GitFindings": {"found": (), "off": {}},
    "TrustedFolder": {"birth_ns": None, "held": {}},
    "TrustedFinding": {"lines": "", "by": ""},
    "Standing": {"once": False, "another": False, "changes": (), "by_variable": False},
    "_Store": {"v": 1, "folders": (), "files": {}},
    "ScannedFile": {"content": None},
}
