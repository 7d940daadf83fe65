"""A line of a CLI is read as JSON as tolerantly as Python reads it, whatever the strict decoder says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.agents.base import json_object

SIGNS = ("{", "}", "[", "]", ":", ",", " ", "-", ".5", "e", "E+400", "'", "\\", '"', "\t", "\x00")
VALUES = ('"a"', "1", "0", "1e400", "9" * 40, "0" * 20, "true", "null", "NaN", "-Infinity", "nul", "tru")
TEXTS = ('"\\ud800"', '"\\u00e9"', '"é"', '"\\n"')
PIECES = st.sampled_from((*SIGNS, *VALUES, *TEXTS))


@pytest.mark.slow
@given(st.lists(PIECES, max_size=8))
def test_an_object_that_python_reads_is_read(pieces: list[str]) -> None:
    text = '{"a":' + "".join(pieces) + "}"
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    found = json_object(text.encode())
    assert (found is None) == (not isinstance(read, dict)), text


@pytest.mark.parametrize(
    "text", ['{"a":1e999}', '{"a":NaN}', '{"a":"\\ud800"}', '{"a":' + "7" * 400 + "}", ' {"a":-Infinity}']
)
def test_what_only_the_tolerant_decoder_takes_is_read(text: str) -> None:
    assert json_object(text.encode()) is not None


def test_invalid_utf_8_in_an_object_is_replaced() -> None:
    assert json_object(b'{"a":"\xff"}') == {"a": "\ufffd"}
