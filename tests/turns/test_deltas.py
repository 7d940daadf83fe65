"""Deltas: joined, at most so many a second, and never with half a secret."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.model.events import Text, TextDelta, ToolCalled
from beam.turns.record import Deltas

KEY = "sk-ant-api03-" + "a1B2c3D4" * 12


def shown(found: list[TextDelta]) -> str:
    return "".join(delta.text for delta in found)


def test_pieces_are_joined_until_they_are_due() -> None:
    deltas = Deltas(20)
    assert deltas.due_in(10.0) is None
    deltas.add(TextDelta(text="one "))
    assert deltas.due_in(10.0) == 0.0
    assert shown(deltas.take_text(10.0)) == "one "
    deltas.add(TextDelta(text="two "))
    deltas.add(TextDelta(text="three "))
    assert deltas.due_in(10.0) == pytest.approx(0.05)
    assert [delta.text for delta in deltas.take_text(10.05)] == ["two three "]
    assert deltas.take_text(11.0) == []


def test_speakers_are_kept_apart() -> None:
    deltas = Deltas(20)
    for text, parent in (("a ", None), ("b ", "call"), ("c ", None)):
        deltas.add(TextDelta(text=text, parent=parent))
    assert [(delta.text, delta.parent) for delta in deltas.take_text(0.0)] == [("a c ", None), ("b ", "call")]


def test_what_is_ready_is_shown_before_any_other_event_and_all_of_it_before_the_whole_text() -> None:
    deltas = Deltas(20)
    deltas.add(TextDelta(text="look: sk-ant-"))
    assert "sk-ant-" not in shown(deltas.take_before(ToolCalled(call_id="1", name="t"), 0.0))
    assert shown(deltas.take_before(Text(text="look: sk-ant-"), 0.0)).endswith("sk-ant-")
    assert deltas.end(0.0) == []


@pytest.mark.slow
@given(st.lists(st.integers(0, len(KEY) + 20), max_size=6))
def test_a_secret_is_blanked_wherever_it_is_cut(cuts: list[int]) -> None:
    text = f"the key: {KEY} is it"
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    deltas, said = Deltas(20), ""
    for number, (begin, end) in enumerate(itertools.pairwise(edges)):
        deltas.add(TextDelta(text=text[begin:end]))
        said += shown(deltas.take_text(float(number)))
    said += shown(deltas.end(99.0))
    assert said.startswith("the key: [redacted:")
    assert said.endswith("] is it")


@pytest.mark.slow
@given(st.lists(st.text(alphabet="abc .\n-é", max_size=20), max_size=20))
def test_ordinary_text_comes_out_whole(pieces: list[str]) -> None:
    deltas, said = Deltas(20), ""
    for number, piece in enumerate(pieces):
        deltas.add(TextDelta(text=piece))
        said += shown(deltas.take_text(float(number)))
    assert said + shown(deltas.end(99.0)) == "".join(pieces)
