"""Claude's transcript as a turn on its screen reads it: what runs in the background, and whose the last words are."""

from __future__ import annotations

import json
from typing import Any

from beam.agents.base import Transcript, Turn
from beam.agents.claude import screen
from beam.model.outcome import Status

ID = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"
SHELL = {"command": "make serve", "run_in_background": True}


def asked(text: str) -> dict[str, Any]:
    return {"type": "user", "sessionId": ID, "message": {"role": "user", "content": text}}


def said(text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "message": {"id": text, "model": "m", "content": content, "stop_reason": "end_turn"}}


def called(name: str, given: dict[str, Any], **record: Any) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": "t1", "name": name, "input": given}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "started"}
    return [
        {"type": "assistant", "message": {"id": "m1", "model": "m", "content": [use], "stop_reason": "tool_use"}},
        {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": record},
    ]


def ended(**pending: int) -> dict[str, Any]:
    return {"type": "system", "subtype": "turn_duration", "durationMs": 9, **pending}


def notice(status: str = "completed") -> list[dict[str, Any]]:
    text = f"<task-notification>\n<task-id>b1</task-id>\n<status>{status}</status>\n</task-notification>"
    queued = {"type": "queue-operation", "operation": "enqueue", "content": text}
    return [queued, {**asked(text), "origin": {"kind": "task-notification"}}]


def chained(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines as claude writes them: each names the one that it follows."""
    return [{"uuid": f"u{at}", "parentUuid": f"u{at - 1}", **line} for at, line in enumerate(lines)]


def read(*lines: dict[str, Any]) -> Transcript:
    transcript = screen.transcript(Turn(text="hi", message_id="claude-1", agent="claude"))
    for line in chained(*lines):
        transcript.line(json.dumps(line, separators=(",", ":")).encode())
    return transcript


def test_a_turn_is_not_done_while_agents_or_workflows_of_its_own_run() -> None:
    for pending in ({"pendingBackgroundAgentCount": 1}, {"pendingWorkflowCount": 2}):
        assert read(asked("hi"), said("started"), ended(**pending)).state == "waiting"
    assert read(asked("hi"), said("started"), ended(pendingBackgroundAgentCount=0)).state == "done"


def test_what_claude_says_when_its_agent_is_done_is_the_answer() -> None:
    begun = (asked("hi"), said("started"), ended(pendingBackgroundAgentCount=1))
    transcript = read(*begun, *notice())
    assert transcript.state == "working"
    transcript = read(*begun, *notice(), said("all done"), ended())
    assert (transcript.state, transcript.verdict().reply, transcript.verdict().unfinished) == ("done", "all done", ())


def test_a_command_in_the_background_is_reported_as_unfinished_until_it_ends() -> None:
    lines = (asked("hi"), *called("Bash", SHELL, backgroundTaskId="b1"), said("started"), ended())
    transcript = read(*lines)
    assert transcript.state == "done"
    (left,) = transcript.verdict().unfinished
    assert (left.tool, left.call_id, json.loads(bytes(left.input)), left.how) == ("Bash", "t1", SHELL, "running")
    assert read(*lines, *notice()).verdict().unfinished == ()
    assert [left.how for left in read(*lines, *notice("killed")).verdict().unfinished] == ["killed"]


def test_a_task_of_an_earlier_turn_that_ends_before_the_prompt_is_no_part_of_this_turn() -> None:
    other = (*notice(), said("the server stopped"), ended())
    transcript = read(*other)
    assert transcript.state == ""
    transcript = read(*other, asked("hi"), said("hello"), ended())
    assert (transcript.state, transcript.verdict().status, transcript.verdict().reply) == (
        "done",
        Status.COMPLETED,
        "hello",
    )
    assert read(*notice(), asked("hi"), said("hello"), ended()).verdict().reply == "hello"


def test_a_run_that_claude_began_before_the_prompt_is_no_part_of_this_turn_though_its_notice_was_written_before() -> (
    None
):
    run = chained(*notice(), said("the server stopped"), ended(), asked("hi"), said("hello"), ended())
    transcript = read(*run[2:])
    assert (transcript.state, transcript.verdict().reply) == ("done", "hello")
    assert read(*run[2:4]).state == "", "nothing of this turn is there yet"


def test_an_answer_that_is_written_before_its_prompt_is_of_this_turn() -> None:
    lines = chained(asked("hi"), said("hello"), ended())
    transcript = read(*lines[1:], lines[0])
    assert (transcript.state, transcript.verdict().reply) == ("done", "hello")
    other = chained(*notice(), said("the server stopped"), ended())
    assert (
        read(*other, *[{**line, "uuid": f"a{at}", "parentUuid": f"a{at - 1}"} for at, line in enumerate(lines)]).state
        == "done"
    )


def test_a_message_of_another_member_of_its_team_is_not_the_prompt() -> None:
    letter = {**asked("<teammate-message>hi</teammate-message>"), "origin": {"kind": "teammate"}}
    assert read(letter, said("to my team"), ended()).state == ""
