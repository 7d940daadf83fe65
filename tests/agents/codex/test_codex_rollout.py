"""Codex's rollout file as a turn on its screen reads it: a turn that never had a prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam.agents.base import Transcript, Turn
from beam.agents.codex import history
from beam.model.outcome import Class, Status


def read(*events: dict[str, Any], text: str = "hi", cwd: str = "/p") -> Transcript:
    """The reader after the lines of a new thread, in the folder `cwd`, with these events."""
    transcript = history.transcript(Turn(text=text, message_id="m", agent="codex", cwd="/p"))
    lines = [{"type": "session_meta", "payload": {"id": "thread", "cwd": cwd}}]
    for line in [*lines, *({"type": "event_msg", "payload": event} for event in events)]:
        transcript.line(json.dumps(line).encode())
    return transcript


BEGUN = {"type": "task_started", "turn_id": "t"}
OVER = {"type": "task_complete", "turn_id": "t", "last_agent_message": None}


def test_a_turn_that_ends_without_a_prompt_was_stopped() -> None:
    transcript = read(BEGUN, OVER)
    found = transcript.verdict()
    assert (transcript.state, found.status, found.class_, found.reply) == ("done", Status.FAILED, Class.STOPPED, None)
    assert found.lossy is True  # the screen has the hook's words


@pytest.mark.parametrize(
    ("events", "fields"),
    [
        ((OVER,), {}),
        ((BEGUN, {**OVER, "turn_id": "other"}), {}),
        ((BEGUN, {**OVER, "last_agent_message": "All."}), {}),
        ((BEGUN, {**OVER, "error": {"message": "no"}}), {}),
        ((BEGUN, OVER), {"cwd": "/elsewhere"}),
        ((BEGUN, OVER), {"text": "/compact"}),
    ],
)
def test_what_is_no_such_turn_says_nothing(events: tuple[dict[str, Any], ...], fields: dict[str, str]) -> None:
    assert read(*events, **fields).state == ""
