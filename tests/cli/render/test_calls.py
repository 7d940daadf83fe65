"""A call is one line with its result, and a line of its own beginning only if it lasts or its agent goes on."""

from __future__ import annotations

import io

import msgspec
import pytest

from beam.cli.render.calls import call_text
from beam.cli.render.days import Days
from beam.cli.render.stream import Stream
from beam.model import events


def at(seconds: float) -> str:
    return f"2026-01-02T03:04:{seconds:09.6f}Z"


def call(call_id: str, seconds: float, **given: str | None) -> events.ToolCalled:
    data = msgspec.Raw(b'{"command":"make ' + call_id.encode() + b'","description":"run"}')
    return events.ToolCalled(call_id=call_id, name="Bash", input=data, agent="a", ts=at(seconds), **given)  # type: ignore[arg-type]


def back(call_id: str, seconds: float, output: str = "ok", **given: bool) -> events.ToolReturned:
    return events.ToolReturned(call_id=call_id, output=output, agent="a", ts=at(seconds), **given)  # type: ignore[arg-type]


def text(seconds: float, **given: str) -> events.Text:
    return events.Text(text="hm", ts=at(seconds), **{"agent": "a", **given})  # type: ignore[arg-type]


def lines(*found: events.AnyEvent, now: str = "") -> list[str]:
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(at(0)))
    for event in found:
        stream.event(event)
    if now:
        stream.tick(now)
    return [line[6:8] + " " + line[18:] for line in out.getvalue().splitlines()]


def test_a_call_that_returns_soon_is_one_line_with_its_outcome_and_time() -> None:
    assert lines(call("x", 1), back("x", 2.2)) == ["02 ✓ Bash make x → ok (1.2s)"]
    assert lines(call("x", 1), back("x", 1, is_error=True)) == ["01 ✗ Bash make x → ok"]
    assert lines(call("x", 1), back("x", 1.5, output="")) == ["01 ✓ Bash make x (500ms)"]
    assert lines(call("x", 1), back("x", 1.5, unfinished=True)) == ["01 ✗ Bash make x → the turn ended first (500ms)"]


def test_calls_at_the_same_time_are_reported_in_the_order_of_their_results() -> None:
    assert lines(call("x", 1), call("y", 1), back("y", 2), back("x", 2.5)) == [
        "02 ✓ Bash make y → ok (1s)",
        "02 ✓ Bash make x → ok (1.5s)",
    ]


def test_a_call_that_lasts_is_reported_when_time_goes_by_and_when_others_speak() -> None:
    assert lines(call("x", 1), now=at(2.9)) == []
    assert lines(call("x", 1), now=at(3)) == ["01 ⚙ Bash make x"]
    assert lines(call("x", 1), text(4, agent="b"), back("x", 9)) == [
        "01 ⚙ Bash make x",
        "04 │ hm",
        "09 ✓ Bash make x → ok (8s)",
    ]


def test_a_call_whose_agent_goes_on_is_reported_first() -> None:
    assert lines(call("x", 1), text(1.1), back("x", 1.2)) == [
        "01 ⚙ Bash make x",
        "01 │ hm",
        "01 ✓ Bash make x → ok (200ms)",
    ]


def test_a_subagents_first_word_tells_the_call_that_it_belongs_to_and_is_indented() -> None:
    assert lines(call("x", 1), text(1.1, parent="x"), call("y", 1.2, parent="x"), back("x", 1.5)) == [
        "01 ⚙ Bash make x",
        "01   │ hm",
        "01 ✓ Bash make x → ok (500ms)",
    ]


def test_at_the_end_the_calls_that_did_not_return_are_reported() -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(at(0)))
    stream.event(call("x", 1))
    stream.end()
    assert out.getvalue() == "03:04:01 a        ⚙ Bash make x\n"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b'{"old":"x","file_path":"a.py"}', "T a.py"),
        (b'{"at":7}', "T 7"),
        (b'{"a":1,"b":[2]}', 'T {"a":1,"b":[2]}'),
        (b"{}", "T"),
        (b"null", "T"),
        (b'"plain"', "T plain"),
    ],
)
def test_of_a_calls_input_the_part_that_says_most_is_shown(data: bytes, shown: str) -> None:
    assert call_text(events.ToolCalled(call_id="1", name="T", input=msgspec.Raw(data))) == shown
