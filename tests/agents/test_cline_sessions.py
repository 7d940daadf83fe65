"""What Cline's file of a session tells, block by block."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam.agents import registry
from beam.model import events


def read(*messages: dict[str, Any]) -> list[events.Event]:
    document = json.dumps(
        {"messages": [{"ts": 1764000000000, "id": f"m{n}", **message} for n, message in enumerate(messages)]}
    ).encode()
    return list(registry.sessions_of("cline").reader("s/s.messages.json").read(document))


def answer(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


PROMPT = {"role": "user", "content": [{"type": "text", "text": "Why?"}]}


def test_a_thought_of_an_answer_is_reported() -> None:
    found = read(PROMPT, answer({"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "So."}))
    assert [event.text for event in found if isinstance(event, events.Thinking)] == ["hmm"]
    assert [event.text for event in found if isinstance(event, events.Text)] == ["So."]


def test_a_tool_that_did_nothing_of_what_it_should_has_failed() -> None:
    call = {"type": "tool_use", "id": "c", "name": "read_files", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"query": "x", "success": False}]}
    found = read(PROMPT, answer(call), {"role": "user", "content": [result]})
    assert [event.is_error for event in found if isinstance(event, events.ToolReturned)] == [True]


@pytest.mark.parametrize(("content", "output"), [("done", "done"), ([{"a": "é"}], '[{"a": "é"}]')])
def test_a_result_is_reported_as_text_whatever_its_form(content: object, output: str) -> None:
    call = {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "x"}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": content}]}
    found = read(PROMPT, answer(call), result)
    (returned,) = [event for event in found if isinstance(event, events.ToolReturned)]
    assert (returned.call_id, returned.output) == ("c", output)
