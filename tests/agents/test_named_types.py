"""Each kind of line that is known of a CLI decodes to what it says, or to nothing, and never to `unknown`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Turn
from beam.model import events

ITEM_TYPES = (
    "agent_message",
    "reasoning",
    "command_execution",
    "file_change",
    "mcp_tool_call",
    "web_search",
    "todo_list",
    "collab_tool_call",
    "error",
)
CODEX = [
    {"type": "thread.started", "thread_id": "0192f000-0000-7000-8000-000000000000"},
    {"type": "turn.started"},
    {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
    {"type": "turn.failed", "error": {"message": "no"}},
    {"type": "error", "message": "Reconnecting... 1/5 (x)"},
    *(
        {"type": f"item.{step}", "item": {"id": "item_0", "type": kind, "status": "completed"}}
        for kind in ITEM_TYPES
        for step in ("started", "updated", "completed")
    ),
]
GEMINI = [
    {"type": "init", "session_id": "x", "model": "m"},
    {"type": "message", "role": "user", "content": "x"},
    {"type": "message", "role": "assistant", "content": "x", "delta": True},
    {"type": "tool_use", "tool_name": "x", "tool_id": "1", "parameters": {}},
    {"type": "tool_result", "tool_id": "1", "status": "success"},
    {"type": "tool_result", "tool_id": "1", "status": "error", "error": {"type": "x", "message": "y"}},
    {"type": "error", "severity": "error", "message": "x"},
    {"type": "result", "status": "success", "stats": {}},
]
OPENCODE = [
    {"type": "step_start", "sessionID": "ses_1", "part": {}},
    {"type": "text", "sessionID": "ses_1", "part": {"text": "x"}},
    {"type": "reasoning", "sessionID": "ses_1", "part": {"text": "x"}},
    {"type": "tool_use", "sessionID": "ses_1", "part": {"tool": "bash", "state": {"status": "completed"}}},
    {"type": "tool_use", "sessionID": "ses_1", "part": {"tool": "bash", "state": {"status": "error"}}},
    {"type": "step_finish", "sessionID": "ses_1", "part": {"reason": "stop"}},
    {"type": "step_finish", "sessionID": "ses_1", "part": {"reason": "tool-calls"}},
    {"type": "error", "sessionID": "ses_1", "error": {"name": "APIError", "data": {"message": "x"}}},
]
LINES = [("codex", line) for line in CODEX] + [("gemini", line) for line in GEMINI]
LINES += [(name, line) for name in ("opencode", "kilo") for line in OPENCODE]


@pytest.mark.parametrize(
    ("adapter", "line"), LINES, ids=[f"{n}-{adapter}-{line['type']}" for n, (adapter, line) in enumerate(LINES)]
)
def test_a_kind_of_line_that_is_known_is_never_unknown(adapter: str, line: dict[str, Any]) -> None:
    face = registry.adapter(adapter).exec
    assert face is not None
    found = face.decoder(Turn(text="", message_id="", agent=adapter)).line(json.dumps(line).encode())
    assert [event for event in found if isinstance(event, events.Unknown)] == []
