"""A turn that Claude Code, a hook or the model's vendor ended early is never completed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from beam.agents.claude import verdict as verdicts
from beam.model.outcome import Class, Status
from tests.agents.test_claude_decode import called, decode, init, result, returned, said, stop, turn

# The words of version 2.1.332: `grep -a malformed_tool_use_exhausted claude`.
NAMES = (
    "aborted_streaming",
    "aborted_tools",
    "api_error",
    "background_requested",
    "blocking_limit",
    "budget_exhausted",
    "completed",
    "hook_stopped",
    "image_error",
    "malformed_tool_use_exhausted",
    "max_turns",
    "model_error",
    "prompt_too_long",
    "rapid_refill_breaker",
    "stop_hook_prevented",
    "structured_output_retry_exhausted",
    "tool_deferred",
    "tool_deferred_unavailable",
    "turn_setup_failed",
)
WORDS = "policy says stop"


def hooked(event: str, answer: object, *, code: int = 0) -> dict[str, object]:
    """The line about the end of a hook. `answer`: what it printed, on stderr if its exit code is not 0."""
    printed = answer if isinstance(answer, str) else json.dumps(answer)
    out, err = (printed, "") if code == 0 else ("", printed)
    name = f"{event}:Bash" if event.endswith("ToolUse") else event
    told = {"subtype": "hook_response", "hook_name": name, "hook_event": event, "exit_code": code}
    return {"type": "system", **told, "stdout": out, "stderr": err, "output": printed, "outcome": "success"}


@pytest.mark.parametrize("reason", NAMES)
def test_only_a_result_that_says_completed_is_completed(reason: str) -> None:
    _, found = decode(init(), said("half"), result(terminal_reason=reason))
    assert (found.status is Status.COMPLETED) is (reason == "completed")
    assert found.status is Status.COMPLETED or found.reason
    assert reason in verdicts._VERDICT_BY_END


@pytest.mark.parametrize("reason", ["moon_phase", "COMPLETED", "completed "])
def test_a_reason_that_beam_does_not_know_is_no_success(reason: str) -> None:
    _, found = decode(init(), said("half"), result(terminal_reason=reason))
    assert (found.status, found.class_) == (Status.FAILED, Class.UNKNOWN)
    assert reason.replace("_", " ") in (found.reason or "")


@pytest.mark.parametrize(
    ("reason", "status", "class_"),
    [
        ("hook_stopped", Status.FAILED, Class.STOPPED),
        ("tool_deferred", Status.FAILED, Class.STOPPED),
        ("prompt_too_long", Status.FAILED, Class.CONTEXT_OVERFLOW),
        ("structured_output_retry_exhausted", Status.FAILED, Class.SCHEMA),
        ("budget_exhausted", Status.LIMIT, None),
        ("image_error", Status.FAILED, Class.BAD_REQUEST),
    ],
)
@pytest.mark.parametrize("is_error", [True, False])
def test_the_end_decides_about_the_class_where_the_text_says_nothing(
    reason: str, status: Status, class_: Class | None, *, is_error: bool
) -> None:
    _, found = decode(init(), result(terminal_reason=reason, is_error=is_error, result="Hm."))
    assert (found.status, found.class_) == (status, class_)


def test_the_text_of_an_api_error_decides_about_its_class() -> None:
    told = {"terminal_reason": "api_error", "is_error": True, "result": "API Error: Overloaded"}
    assert decode(init(), result(**told))[1].class_ is Class.OVERLOADED
    assert decode(init(), result(**told | {"api_error_status": 401}))[1].class_ is Class.AUTH


def _stops() -> Iterator[tuple[str, object, int, str]]:
    for event in ("PreToolUse", "PostToolUse", "PostToolBatch", "Stop"):
        yield event, {"continue": False, "stopReason": WORDS}, 0, "hook_stopped"
    yield "PostToolBatch", {"decision": "block", "reason": WORDS}, 0, "hook_stopped"
    yield "PostToolBatch", WORDS + "\n", 2, "hook_stopped"
    specific = {"permissionDecision": "defer", "permissionDecisionReason": WORDS}
    yield "PreToolUse", {"hookSpecificOutput": specific}, 0, "tool_deferred"
    decision = {"behavior": "deny", "message": WORDS, "interrupt": True}
    yield "PermissionRequest", {"hookSpecificOutput": {"decision": decision}}, 0, "aborted_tools"


@pytest.mark.parametrize(("event", "answer", "code", "end"), list(_stops()))
def test_a_turn_that_a_hook_stopped_has_the_words_of_the_hook(event: str, answer: object, code: int, end: str) -> None:
    tool = called("1", "Bash", {"command": "true"}), returned("1")
    told = result(terminal_reason=end, stop_reason="tool_use", result="")
    _, found = decode(init(), *tool, hooked(event, answer, code=code), told)
    assert (found.status, found.class_, found.reply) == (Status.FAILED, Class.STOPPED, None)
    assert re.search(f"{event}[^:]*(:Bash)?: {WORDS}\\Z", found.reason or "")


def test_the_answer_that_a_stop_hook_came_after_stays() -> None:
    hook = hooked("Stop", {"continue": False, "stopReason": WORDS})
    _, found = decode(init(), said("All."), hook, result(terminal_reason="stop_hook_prevented", result="All."))
    assert (found.status, found.class_, found.reply) == (Status.FAILED, Class.STOPPED, "All.")
    assert WORDS in (found.reason or "")


def test_a_turn_that_a_person_interrupted_after_a_hooks_denial_is_cancelled() -> None:
    decision = {"behavior": "deny", "message": WORDS}
    hook = hooked("PermissionRequest", {"hookSpecificOutput": {"decision": decision}})
    _, found = decode(init(), hook, result(terminal_reason="aborted_tools", is_error=True))
    assert (found.status, found.reason) == (Status.CANCELLED, "the turn was interrupted")


def test_a_hook_that_lets_the_turn_go_on_changes_nothing() -> None:
    hook = hooked("PreToolUse", {"continue": True, "stopReason": WORDS})
    assert decode(init(), hook, said("All."), result(terminal_reason="completed"))[1].status is Status.COMPLETED
    _, found = decode(init(), hook, result(terminal_reason="hook_stopped"))
    assert found.reason == "a hook stopped the turn"


@pytest.mark.parametrize("junk", ["", "not JSON", "[]", '{"continue": "no"}', '{"hookSpecificOutput": 1}', "{" * 9])
def test_a_hook_may_print_anything(junk: str) -> None:
    assert decode(init(), hooked("PreToolUse", junk), said("All."), result())[1].status is Status.COMPLETED


_BLOCK = {"type": "system", "subtype": "informational", "level": "warning", "prevent_continuation": True}


@pytest.mark.parametrize(
    "told",
    [
        {"content": f"UserPromptSubmit operation blocked by hook:\n{WORDS}\n\nOriginal prompt: secret plan"},
        {"content": "x", "prompt_submit_outcome": {"kind": "blocked_by_hook", "reason": WORDS}},
        {"content": f"Operation stopped by hook: {WORDS}"},
    ],
)
def test_a_prompt_that_a_hook_kept_from_the_model_failed(told: dict[str, object]) -> None:
    _, found = decode(init(), _BLOCK | told, result(result=told["content"], num_turns=0, stop_reason=None))
    assert (found.status, found.class_, found.reply) == (Status.FAILED, Class.STOPPED, None)
    assert WORDS in (found.reason or "")
    assert "secret plan" not in (found.reason or "")


def test_a_blocked_prompt_says_nothing_about_the_turn_after_it() -> None:
    block = _BLOCK | {"content": WORDS}
    _, found = decode(init(), block, result(result=WORDS), init(), said("All."), result(result="All."))
    assert (found.status, found.reply) == (Status.COMPLETED, "All.")


@pytest.mark.parametrize("reason", ["pause_turn", "max_tokens", "model_context_window_exceeded", "compaction"])
def test_an_answer_that_ends_in_the_middle_is_truncated(reason: str) -> None:
    told = result(terminal_reason="completed", stop_reason=reason, result="Half an ans")
    _, found = decode(init(), said("Half an ans"), stop(reason), told)
    assert (found.status, found.reply) == (Status.TRUNCATED, "Half an ans")
    assert reason in (found.reason or "")


def test_an_answer_of_which_a_safeguard_withheld_a_part_is_truncated() -> None:
    noted = {"role": "user", "content": [{"type": "text", "text": "Your response above was stopped"}]}
    retry = {"type": "user", "message": noted, "isSynthetic": True, "refusal_retry": True}
    _, found = decode(init(), said("Half an ans"), stop("refusal"), retry, said("Rest."), result(result="Rest."))
    assert (found.status, found.reply) == (Status.TRUNCATED, "Half an ans\n\nRest.")
    assert "withheld" in (found.reason or "")
    inside = retry | {"parent_tool_use_id": "1"}
    assert decode(init(), inside, said("All."), result())[1].status is Status.COMPLETED


@pytest.mark.parametrize("is_error", [True, False])
def test_an_answer_that_never_followed_its_schema_is_of_class_schema(*, is_error: bool) -> None:
    told = {"subtype": "error_max_structured_output_retries", "is_error": is_error, "errors": ["no valid output"]}
    _, found = decode(init(), {"type": "result", **told}, of=turn(schema="{}"))
    assert (found.status, found.class_, found.reason) == (Status.FAILED, Class.SCHEMA, "no valid output")


def test_a_turn_that_claudes_own_permission_check_ended_was_stopped() -> None:
    told = result(terminal_reason="aborted_streaming", stopped_by_permission_check=True)
    assert decode(init(), told)[1].class_ is Class.STOPPED
