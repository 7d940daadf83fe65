"""`beam log --subagent`: the lines of one subagent, or of all."""

from __future__ import annotations

import pytest
from msgspec import Raw

from beam import NotFoundError, UsageError, events
from beam.cli.log import subagent_lines
from beam.cli.render.stream import EventLine

FOUND = [
    EventLine(event)
    for event in (
        events.Text(text="I begin"),
        events.ToolCalled(call_id="toolu_a1", name="Agent", input=Raw(b'{"prompt":"look"}')),
        events.ToolCalled(call_id="toolu_b2", name="Agent", input=Raw(b'{"prompt":"write"}')),
        events.ToolCalled(call_id="toolu_c3", name="Bash", parent="toolu_a1"),
        events.ToolReturned(call_id="toolu_c3", output="files", parent="toolu_a1"),
        events.Text(text="b writes", parent="toolu_b2"),
        events.ToolCalled(call_id="toolu_d4", name="Agent", parent="toolu_a1"),
        events.Text(text="d looks for a", parent="toolu_d4"),
        events.ToolReturned(call_id="toolu_d4", output="d's answer", parent="toolu_a1"),
        events.Text(text="a looks", parent="toolu_a1"),
        events.ToolReturned(call_id="toolu_a1", output="a's answer"),
        events.ToolCalled(call_id="toolu_e5", name="Bash"),
        events.Text(text="I end"),
    )
]


def told(wanted: str) -> list[str]:
    """The texts, results and calls that are printed."""
    found = [line.event for line in subagent_lines("boss", FOUND, wanted)]
    return [
        getattr(event, "text", "") or getattr(event, "output", "") or str(getattr(event, "call_id", ""))
        for event in found
    ]


def test_one_subagent_has_what_it_was_asked_did_and_said_with_its_own_subagents() -> None:
    expected = ["toolu_a1", "toolu_c3", "files", "toolu_d4", "d looks for a", "d's answer", "a looks", "a's answer"]
    assert told("toolu_a1") == told("toolu_a") == expected
    assert told("toolu_d4") == ["toolu_d4", "d looks for a", "d's answer"]


def test_all_subagents_are_reported_without_what_the_agent_itself_says_and_does() -> None:
    assert {"b writes", "a looks", "d looks for a"} <= {*told("all")}
    assert not {"I begin", "I end", "toolu_e5"} & {*told("all")}


def test_an_id_of_none_or_several_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="names 3 subagents"):
        told("toolu_")
    with pytest.raises(NotFoundError) as error:
        told("toolu_e5")
    assert "toolu_a1, toolu_b2, toolu_d4" in (error.value.hint or "")
    with pytest.raises(NotFoundError, match="no subagent of boss"):
        subagent_lines("boss", FOUND[:1], "all")
