"""Claude's transcript as a turn on its screen reads it: what runs in the background, and whose the last words are."""

from __future__ import annotations

import json
from typing import Any

from beam.agents.base import Transcript, Turn
from beam.agents.claude import screen
from beam.model.outcome import Class, Status

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


def refused(text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    message = {"id": "e", "model": "<synthetic>", "content": content, "stop_reason": "refusal"}
    return {"type": "assistant", "isApiErrorMessage": True, "error": "invalid_request", "message": message}


def cut_off(text: str, stop: str = "max_tokens") -> dict[str, Any]:
    line = said(text)
    return {**line, "message": {**line["message"], "stop_reason": stop}}


def blocked(content: str, **fields: Any) -> dict[str, Any]:
    line = {"type": "system", "subtype": "informational", "level": "warning", "preventContinuation": True}
    return {**line, "sessionId": ID, "content": content, **fields}


WORDS = "policy says stop"


def test_a_refusal_is_refused_and_no_failure() -> None:
    found = read(asked("hi"), refused("API Error: flagged\n\nRequest ID: 1")).verdict()
    assert (found.status, found.reason, found.reply) == (Status.REFUSED, "API Error: flagged", None)


def test_an_answer_that_the_token_limit_cut_off_is_truncated() -> None:
    limit = {**refused("API Error: too long"), "error": "max_output_tokens"}
    limit["message"] = {**limit["message"], "stop_reason": "stop_sequence"}
    transcript = read(asked("hi"), cut_off("Half"), limit)
    found = transcript.verdict()
    assert (transcript.state, found.status, found.reply) == ("done", Status.TRUNCATED, "Half")


def test_an_answer_that_pauses_is_truncated_unless_it_goes_on() -> None:
    assert read(asked("hi"), cut_off("Half", "pause_turn"), ended()).verdict().status is Status.TRUNCATED
    found = read(asked("hi"), cut_off("Half"), said("Rest."), ended()).verdict()
    assert found.status is Status.COMPLETED


def test_an_answer_of_which_a_safeguard_withheld_a_part_is_truncated() -> None:
    retry = {**asked("Your response above was stopped"), "isMeta": True, "refusalRetry": True}
    found = read(asked("hi"), said("Half"), retry, said("Rest."), ended()).verdict()
    assert (found.status, found.reply) == (Status.TRUNCATED, "Half\n\nRest.")


def test_a_prompt_that_a_hook_blocks_ends_the_turn_with_the_hooks_words() -> None:
    transcript = read(blocked(f"UserPromptSubmit operation blocked by hook:\n{WORDS}\n\nOriginal prompt: hi"))
    found = transcript.verdict()
    assert (transcript.state, found.status, found.class_) == ("done", Status.FAILED, Class.STOPPED)
    assert (found.reply, found.session_id) == (None, ID)
    assert WORDS in (found.reason or "")


def test_a_blocked_prompt_of_somebody_else_does_not_end_the_turn() -> None:
    for content in (f"blocked:\n{WORDS}\n\nOriginal prompt: other", f"blocked: {WORDS}", "Original prompt: hi", ""):
        assert read(blocked(content)).state == ""


def test_a_prompt_that_a_hook_stops_has_no_answer() -> None:
    found = read(asked("hi"), blocked(f"Operation stopped by hook: {WORDS}")).verdict()
    assert (found.status, found.class_, found.reply) == (Status.FAILED, Class.STOPPED, None)


def test_a_hook_that_ends_the_turn_after_a_call_stopped_it() -> None:
    hook = {"type": "hook_stopped_continuation", "hookName": "PreToolUse:Bash", "message": WORDS}
    stopped = {"type": "attachment", "attachment": hook}
    found = read(asked("hi"), *called("Bash", {"command": "true"}), stopped, ended()).verdict()
    assert (found.status, found.class_) == (Status.FAILED, Class.STOPPED)
    assert found.reason == f"a hook stopped the turn: PreToolUse:Bash: {WORDS}"
