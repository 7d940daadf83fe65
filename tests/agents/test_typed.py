"""Lines of JSON become structs, whatever was written in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from beam.agents.codex import wire as codex
from beam.agents.gemini import wire as gemini
from beam.agents.typed import Count, reader


class Inner(Struct, frozen=True):
    name: str = ""
    size: Count | None = None


NOTHING = Inner()


class Outer(Struct, frozen=True):
    type: str = ""
    anything: Any = None
    inner: Inner = NOTHING


read = reader(Outer)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"type":"a","anything":[1],"inner":{"name":"n","size":3},"more":1}', Outer("a", [1], Inner("n", 3))),
        (b"{}", Outer()),
        # What does not fit is left out, and nothing else with it.
        (b'{"type":null,"inner":{"name":"n"}}', Outer(inner=Inner("n"))),
        (b'{"type":"a","inner":"b"}', Outer("a")),
        (b'{"type":"a","inner":{"name":7,"size":1}}', Outer("a", inner=Inner(size=1))),
        (b'{"type":"a","inner":{"name":"n","size":99999999999999999999}}', Outer("a", inner=Inner("n"))),
        (b'{"type":"a","inner":{"name":"n","size":true}}', Outer("a", inner=Inner("n"))),
        (b'{"type":"\xff"}', Outer("�")),
        (b'{"type":"\\ud800"}', Outer("�")),
        (b"[]", None),
        (b"7", None),
        (b"{", None),
        (b"", None),
    ],
)
def test_a_line_is_read_as_far_as_it_fits(line: bytes, value: Outer | None) -> None:
    assert read(line) == value


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "inner", "name"]), inner),
        max_leaves=8,
    )
)
def test_no_value_of_any_shape_raises(value: object) -> None:
    line = json.dumps(value).encode()
    for found in (read(line), codex.read(line), gemini.read(line)):
        assert (found is None) == (not isinstance(value, dict))
