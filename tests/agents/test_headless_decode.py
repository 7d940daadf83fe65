"""What the headless CLIs print becomes events and verdicts: what no recording shows, and the pitfalls by name."""

from __future__ import annotations

import ast
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from beam.agents import registry
from beam.agents.base import ErrorReader, Exit, Turn, Verdict
from beam.model import events
from beam.model.events import Event
from beam.model.message import Access
from beam.model.outcome import Class, Status, Total, Usage
from beam.turns.outcome import require_answer
from tests.support.clis import HEADLESS

UUID = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"


def decode(name: str, *lines: object, exit: Exit | None = None, **fields: Any) -> tuple[list[Event], Verdict]:
    face = registry.adapter(name).exec
    assert face is not None
    decoder = face.decoder(Turn(text="", message_id="", agent=name, fresh_session_id=UUID, **fields))
    found: list[Event] = []
    for line in lines:
        found += decoder.line(line if isinstance(line, bytes) else json.dumps(line).encode())
    last, verdict = decoder.end(exit or Exit(code=0))
    return [*found, *last], verdict


@pytest.mark.parametrize("name", HEADLESS)
def test_nothing_at_all_with_exit_code_0_is_no_success(name: str) -> None:
    _, verdict = decode(name)
    found = require_answer(verdict, name, worked=False)
    expected = Class.EMPTY if name == "cn" else Class.CRASHED  # cn prints nothing if its model answers nothing
    assert (found.status, found.class_) == (Status.FAILED, expected)


@pytest.mark.parametrize("name", [name for name in HEADLESS if name not in ("aider", "cn")])
def test_a_record_of_an_unknown_kind_is_kept_as_unknown(name: str) -> None:
    found, _ = decode(name, {"type": "from.the.future", "x": 1})
    (unknown,) = [event for event in found if isinstance(event, events.Unknown)]
    assert "from.the.future" in unknown.what
    assert json.loads(str(unknown.raw)) == {"type": "from.the.future", "x": 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADLESS)
def test_a_record_of_a_known_kind_without_its_fields_is_read(name: str) -> None:
    package = Path(str(importlib.import_module(registry.module_of(name)).__file__)).parent
    nodes = [node for path in package.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for word in words:
        for record in ({"type": word}, {"type": "system", "subtype": word}, {"role": word}):
            decode(name, record)


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADLESS)
@settings(max_examples=60)
@given(
    lines=st.lists(st.one_of(st.binary(max_size=60), st.from_regex(rb'\{"type":"[a-z_.]*","[a-z]+":.*\}')), max_size=8)
)
def test_no_line_makes_a_decoder_raise(name: str, lines: list[bytes]) -> None:
    decode(name, *(line.replace(b"\n", b"") for line in lines))


@pytest.mark.parametrize("name", HEADLESS)
def test_a_field_of_another_type_makes_no_decoder_raise(name: str) -> None:
    kinds = (
        "step_finish",
        "tool_use",
        "error",
        "assistant",
        "user",
        "result",
        "message_end",
        "agent_end",
        "run_result",
    )
    shapes: tuple[object, ...] = (None, 1, "x", [], {}, [1], {"x": 1})
    for kind in kinds:
        for shape in shapes:
            fields = ("part", "error", "message", "data", "usage", "result", "content", "tool_calls", "event")
            decode(name, {"type": kind, "role": kind, **dict.fromkeys(fields, shape)})


# -- OpenCode and Kilo -------------------------------------------------------------------------------------------------


def step(reason: str) -> dict[str, object]:
    tokens = {"input": 5, "output": 2, "reasoning": 1, "cache": {"read": 3, "write": 4}}
    return {"type": "step_finish", "sessionID": "ses_1", "part": {"reason": reason, "tokens": tokens, "cost": 0.5}}


@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_opencodes_exit_code_0_on_a_denied_tool_is_denied(name: str) -> None:
    state = {"status": "error", "input": {}, "error": "The user rejected permission to use this specific tool call."}
    tool = {"type": "tool_use", "sessionID": "ses_1", "part": {"tool": "bash", "callID": "c", "state": state}}
    _, verdict = decode(name, tool, step("tool-calls"))
    assert (verdict.status, [denial.tool for denial in verdict.denials]) == (Status.DENIED, ["bash"])


@pytest.mark.parametrize("cost", [b"1e999", b"null"])
@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_the_cost_of_one_step_is_not_shown_as_the_cost_of_two(name: str, cost: bytes) -> None:
    first = step("tool-calls")
    second = json.dumps(step("stop")).encode().replace(b'"cost": 0.5', b'"cost": ' + cost)
    _, verdict = decode(name, first, second)
    assert (verdict.usage.output_tokens, verdict.cost_usd) == (6, None)


def tool_error(tool: str, error: str) -> dict[str, object]:
    state = {"status": "error", "input": {"filePath": "made"}, "error": error}
    return {"type": "tool_use", "sessionID": "ses_1", "part": {"tool": tool, "callID": "c", "state": state}}


@pytest.mark.parametrize("name", ["opencode", "kilo"])
@pytest.mark.parametrize(
    ("access", "tool", "status"),
    [
        ("read", "write", Status.DENIED),
        ("read", "bash", Status.DENIED),
        ("edit", "bash", Status.DENIED),
        ("edit", "write", Status.COMPLETED),  # it may; this is an error like any other
        ("read", "glob", Status.COMPLETED),
        ("full", "bash", Status.COMPLETED),
    ],
)
def test_a_tool_that_opencode_is_not_given_at_this_access_is_denied_when_it_is_called(
    name: str, access: Access, tool: str, status: Status
) -> None:
    error = "Model tried to call unavailable tool 'invalid'. Available tools: glob, grep, read, todowrite."
    _, verdict = decode(name, tool_error(tool, error), step("tool-calls"), step("stop"), access=access)
    assert (verdict.status, len(verdict.denials)) == (status, status is Status.DENIED)


@pytest.mark.parametrize(
    ("access", "by", "status"), [("edit", "default", Status.DENIED), ("full", "rule", Status.COMPLETED)]
)
def test_a_rule_of_opencode_is_the_person_s_own_where_beam_gave_it_all_rights(
    access: Access, by: str, status: Status
) -> None:
    error = "The user has specified a rule which prevents you from using this specific tool call."
    _, verdict = decode("opencode", tool_error("write", error), step("tool-calls"), step("stop"), access=access)
    assert (verdict.status, [denial.by for denial in verdict.denials]) == (status, [by])


@pytest.mark.parametrize(("access", "status"), [("read", Status.DENIED), ("full", Status.COMPLETED)])
def test_a_tool_that_pi_is_not_given_at_this_access_is_denied_when_it_is_called(access: Access, status: Status) -> None:
    call = {"toolCallId": "c", "toolName": "bash"}
    ended = {"role": "assistant", "stopReason": "stop", "content": [{"type": "text", "text": "no"}]}
    _, verdict = decode(
        "pi",
        {"type": "session", "id": "s"},
        {"type": "tool_execution_start", **call, "args": {"command": "ls"}},
        {"type": "tool_execution_end", **call, "result": {}, "isError": True},
        {"type": "message_end", "message": ended},
        {"type": "agent_end"},
        access=access,
    )
    assert verdict.status is status
    assert [bytes(denial.input) for denial in verdict.denials] == ([b'{"command":"ls"}'] if access == "read" else [])


def test_opencodes_exit_code_0_after_an_error_is_a_failure() -> None:
    error = {"name": "APIError", "data": {"message": "busy", "statusCode": 500}}
    _, verdict = decode("opencode", {"type": "error", "sessionID": "ses_1", "error": error})
    assert (verdict.status, verdict.class_, verdict.reason) == (Status.FAILED, Class.OVERLOADED, "busy")


LOGGED = (
    'timestamp=2026-11-22T01:45:57.159Z level=ERROR run=6e25fb20 message="stream error" providerID=fake '
    "modelID=scripted session.id=ses_1 small={} agent=build mode=primary "
    'error.error="AI_APICallError: {}"'
)


@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_the_silent_retries_of_opencode_are_read_from_its_log_on_stderr(name: str) -> None:
    face = registry.adapter(name).exec
    assert face is not None
    decoder = face.decoder(Turn(text="", message_id="", agent=name))
    assert isinstance(decoder, ErrorReader)
    found = [event for _ in range(2) for event in decoder.error_line(LOGGED.format("false", "error 500").encode())]
    assert [(event.attempt, event.class_) for event in found if isinstance(event, events.StatusChanged)] == [
        (1, Class.OVERLOADED),
        (2, Class.OVERLOADED),
    ]
    for line in (LOGGED.format("true", "error 500"), LOGGED.format("false", "error 401"), "stream error", ""):
        assert decoder.error_line(line.encode()) == (), "a title's request, what is not tried again, anything else"
    _, verdict = decoder.end(Exit(signal="SIGTERM", stopped_by="retries"))
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.OVERLOADED)


def test_opencodes_figures_are_the_sum_of_its_steps() -> None:
    _, verdict = decode("opencode", step("tool-calls"), step("stop"))
    tokens = Usage(input_tokens=18, output_tokens=6, cached_tokens=6, reasoning_tokens=2)
    assert verdict.usage == replace(tokens, cache_write_tokens=8, calls=2)
    assert (verdict.cost_usd, verdict.status) == (1.0, Status.COMPLETED)


def test_opencode_that_ends_in_the_middle_of_its_steps_has_crashed() -> None:
    _, verdict = decode("opencode", step("tool-calls"))
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)


def test_opencodes_session_not_found_is_believed_only_where_nothing_was_said() -> None:
    gone = Exit(code=1, stderr_tail="\x1b[91m\x1b[1mError: \x1b[0mSession not found\n")
    assert decode("opencode", exit=gone, session_id="ses_1")[1].session == "lost"
    assert decode("opencode", step("stop"), exit=gone, session_id="ses_1")[1].session == "resumed"


# -- Qwen Code ---------------------------------------------------------------------------------------------------------


def said(text: str, **usage: int) -> dict[str, object]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}], "usage": usage}}


def result(text: str, **fields: object) -> dict[str, object]:
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": UUID, "result": text, **fields}


def test_qwens_api_error_that_says_success_with_exit_code_0_is_a_failure() -> None:
    error = "[API Error: 429 slow down]"
    _, verdict = decode("qwen", said(error, input_tokens=0, output_tokens=0), result(error))
    assert (verdict.status, verdict.class_, verdict.reason) == (Status.FAILED, Class.RATE_LIMIT, "429 slow down")


def test_qwens_answer_whose_stream_broke_off_is_a_failure_though_tokens_were_counted() -> None:
    text = "The first half[API Error: terminated (cause: other side closed)]"
    _, verdict = decode("qwen", said(text, input_tokens=9, output_tokens=9), result(text))
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.NETWORK, None)
    assert verdict.reason == "terminated (cause: other side closed)"


def test_an_answer_of_qwen_that_its_result_does_not_repeat_is_the_reply() -> None:
    assert decode("qwen", said("The answer is 42.", input_tokens=9, output_tokens=9), result(""))[1].reply == (
        "The answer is 42."
    )


def test_a_prompt_of_qwen_that_no_model_was_asked_was_blocked_by_a_hook() -> None:
    _, verdict = decode("qwen", {"type": "system", "subtype": "init", "session_id": UUID}, result(""))
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.STOPPED, None)
    assert decode("qwen", ANSWERED, result(""))[1].reply == ""


ANSWERED = b"[log_0a1b2c] post http://127.0.0.1:9/v1/chat/completions succeeded with status 200 in 9ms"


def retry(*, kept: bool) -> dict[str, object]:
    data = {"reason": "retry", "discardedToolCalls": 0, "preserveText": kept}
    return {"type": "system", "subtype": "retry", "session_id": UUID, "parent_tool_use_id": None, "data": data}


@pytest.mark.parametrize(
    ("lines", "status", "class_"),
    [
        ((said("Half", input_tokens=9, output_tokens=9), retry(kept=False)), Status.TRUNCATED, None),
        (
            (said("Half", input_tokens=9, output_tokens=9), retry(kept=False), ANSWERED, retry(kept=True)),
            Status.TRUNCATED,
            None,
        ),
        ((retry(kept=True),), Status.FAILED, Class.NETWORK),  # the stream broke off
        ((retry(kept=False),), Status.FAILED, Class.EMPTY),
    ],
)
def test_qwen_asks_again_with_a_higher_limit_only_for_an_answer_that_its_limit_cut_off(
    lines: tuple[object, ...], status: Status, class_: Class | None
) -> None:
    _, verdict = decode("qwen", ANSWERED, *lines, exit=Exit(code=None, signal="SIGTERM", stopped_by="retries"))
    assert (verdict.status, verdict.class_) == (status, class_)


@pytest.mark.parametrize("how", ["error_during_execution", "success"])
def test_an_empty_answer_of_qwen_is_empty(how: str) -> None:
    text = "[API Error: Model stream ended with empty response text.]"
    error = {"is_error": how != "success", "subtype": how, "error": {"message": text}}
    _, verdict = decode("qwen", ANSWERED, said(text), {**result(text), **error})
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.EMPTY)


@pytest.mark.parametrize(("given", "seconds"), [(0, None), (1500, 1.5)])
def test_the_time_of_model_calls_that_qwen_did_not_count_is_not_known(given: int, seconds: float | None) -> None:
    ended = {"type": "result", "subtype": "error_during_execution", "is_error": True, "duration_api_ms": given}
    assert decode("qwen", {**ended, "error": {"message": "no"}})[1].api_s == seconds


def test_a_model_that_only_talks_of_an_api_error_is_believed() -> None:
    text = "[API Error: 429] means: slow down"
    _, verdict = decode("qwen", said(text, input_tokens=9, output_tokens=9), result(text))
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, text)


def test_qwens_cumulative_figures_of_the_session_are_not_taken_for_the_turns() -> None:
    lines = said("a", input_tokens=10, output_tokens=5), result("a", usage={"input_tokens": 1000, "output_tokens": 500})
    before = Total(input_tokens=980, output_tokens=493)
    _, verdict = decode("qwen", *lines, session_id="s", carried=before)
    assert verdict.usage == Usage(input_tokens=20, output_tokens=7), "one call was in no message"
    assert decode("qwen", *lines, session_id="s")[1].usage == Usage(), "nobody knows what was before"


def test_a_tool_call_of_qwens_subagent_names_the_call_that_began_it() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}}
    back = {"type": "tool_result", "tool_use_id": "t1", "content": "text", "is_error": False}
    emitted, _ = decode(
        "qwen",
        {"type": "assistant", "parent_tool_use_id": "task-1", "message": {"content": [call]}},
        {"type": "user", "parent_tool_use_id": "task-1", "message": {"content": [back]}},
        result("done"),
    )
    tools = [event for event in emitted if isinstance(event, events.ToolCalled | events.ToolReturned)]
    assert [event.parent for event in tools] == ["task-1", "task-1"]


QWEN_LOGGED = "[log_848f69, retryOf: log_0a1b2c] post http://127.0.0.1:1/v1/chat/completions {} in 106ms - {}"
CONNECTION = "[log_848f69] connection {} - {}"


def test_the_silent_retries_of_qwen_are_read_from_the_log_of_its_library() -> None:
    again, last = "retrying, 3 attempts remaining", "error; no more retries left"
    lines = (
        QWEN_LOGGED.format("failed with status 429", again),
        QWEN_LOGGED.format("failed with status 503", last),  # qwen itself tries this one again
        CONNECTION.format("failed", again),
        CONNECTION.format("timed out", again),
    )
    found, verdict = decode("qwen", *(line.encode() for line in lines), exit=Exit(code=130, stopped_by="retries"))
    assert [(event.attempt, event.class_) for event in found if isinstance(event, events.StatusChanged)] == [
        (1, Class.RATE_LIMIT),
        (2, Class.OVERLOADED),
        (3, Class.NETWORK),
        (4, Class.STALLED),
    ]
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.STALLED)


def test_what_qwen_does_not_try_again_is_no_retry_and_an_answer_ends_a_row_of_them() -> None:
    good = b"[log_848f69] post http://127.0.0.1:1/v1/chat/completions succeeded with status 200 in 9ms"
    tried = QWEN_LOGGED.format("failed with status 500", "retrying, 3 attempts remaining").encode()
    silent = (
        QWEN_LOGGED.format("failed with status 401", "error; not retryable").encode(),
        CONNECTION.format("failed", "error; no more retries left").encode(),
        b"[log_848f69] something else",
    )
    found, _ = decode("qwen", tried, good, *silent, tried)
    assert [event.attempt for event in found if isinstance(event, events.StatusChanged)] == [1, 1]
    assert not any(isinstance(event, events.Unknown) for event in found)


def test_a_prompt_that_qwen_changes_is_said_to_be_changed() -> None:
    init = {"type": "system", "subtype": "init", "session_id": UUID}
    for text, codes in (("mail a@b.c", ["prompt_changed"]), ("see @a.py", [])):
        decoder = registry.adapter("qwen").exec.decoder(Turn(text=text, message_id="", agent="qwen"))  # type: ignore[union-attr]
        found = decoder.line(json.dumps(init).encode())
        assert [event.code for event in found if isinstance(event, events.Notice)] == codes


# -- pi ----------------------------------------------------------------------------------------------------------------


def message(stop: str, text: str = "", error: str = "") -> dict[str, object]:
    content = [{"type": "text", "text": text}] if text else []
    body = {"role": "assistant", "content": content, "stopReason": stop, "errorMessage": error}
    return {"type": "message_end", "message": body}


def test_pis_exit_code_0_on_a_failing_api_is_a_failure() -> None:
    _, verdict = decode("pi", message("error", error="401 no"), {"type": "agent_end", "messages": []})
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.AUTH)


def test_a_tool_of_pi_that_says_nothing_yet_has_no_progress_and_one_that_says_nothing_at_all_no_text() -> None:
    call = {"toolCallId": "c", "toolName": "bash", "args": {}}
    found, _ = decode(
        "pi",
        {"type": "tool_execution_start", **call},
        {"type": "tool_execution_update", **call, "partialResult": {"content": []}},
        {"type": "tool_execution_update", **call, "partialResult": {"content": [{"type": "text", "text": "on it"}]}},
        {"type": "tool_execution_end", **call, "result": {"content": [], "details": {}}},
    )
    assert [event.text for event in found if isinstance(event, events.ToolProgress)] == ["on it"]
    assert [event.output for event in found if isinstance(event, events.ToolReturned)] == [""]


def test_the_apis_answer_in_pis_failure_is_its_message_alone() -> None:
    text = '429: {"message":"slow down","type":"rate_limit_error"}'
    found, verdict = decode(
        "pi",
        message("error", error=text),
        {"type": "auto_retry_start", "attempt": 1, "errorMessage": text},
        {"type": "agent_end"},
    )
    assert [event.detail for event in found if isinstance(event, events.StatusChanged)] == ["429: slow down"]
    assert (verdict.class_, verdict.reason) == (Class.RATE_LIMIT, "429: slow down")


def test_pis_failure_is_forgotten_when_a_retry_succeeds() -> None:
    end: dict[str, object] = {"type": "agent_end", "messages": []}
    retry = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "errorMessage": "500 no"}
    found, verdict = decode("pi", message("error", error="500 no"), end, retry, message("stop", "good"), end)
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "good")
    (status,) = [event for event in found if isinstance(event, events.StatusChanged)]
    assert (status.state, status.attempt, status.of, status.class_) == ("retrying", 1, 3, Class.OVERLOADED)


def test_pis_whole_history_in_its_last_line_is_not_kept_in_the_journal() -> None:
    found, _ = decode("pi", message("stop", "x"), {"type": "agent_end", "messages": ["the whole history"]})
    assert "the whole history" not in str(found)


# -- Kimi Code ---------------------------------------------------------------------------------------------------------


def test_kimi_without_its_resume_hint_has_not_completed() -> None:
    _, verdict = decode("kimi", {"role": "assistant", "content": "half"})
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)


def test_kimis_failure_is_found_among_what_its_tools_wrote_to_stderr() -> None:
    tail = "a tool's line\nerror: failed to run prompt: provider.auth_error: 401 no\nSee log: x\n"
    _, verdict = decode("kimi", exit=Exit(code=1, stderr_tail=tail))
    assert (verdict.class_, verdict.reason) == (Class.AUTH, "provider.auth_error: 401 no")


# -- GitHub Copilot CLI ------------------------------------------------------------------------------------------------


def test_copilots_result_of_another_code_than_0_is_a_failure_though_it_answered() -> None:
    answer = {"type": "assistant.message", "data": {"content": "half"}}
    _, verdict = decode("copilot", answer, {"type": "result", "sessionId": UUID, "exitCode": 1})
    assert (verdict.status, verdict.reply) == (Status.FAILED, None)


def test_copilots_result_of_0_without_an_answer_is_no_success() -> None:
    calls = {"type": "assistant.message", "data": {"content": "I'll look", "toolRequests": [{"name": "bash"}]}}
    end = {"type": "result", "sessionId": UUID, "exitCode": 0}
    for lines in ((end,), (calls, end)):
        _, verdict = decode("copilot", *lines, exit=Exit(signal="SIGKILL"))
        assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)


def of_copilot(*texts: str, ended: str = "success") -> list[dict[str, object]]:
    """The records of an answer that ended without its message."""
    said = [{"type": "assistant.message_delta", "data": {"deltaContent": text}} for text in texts]
    return [*said, {"type": "model.call_finished", "data": {"outcome": ended}}, {"type": "assistant.turn_end"}]


COPILOT_ENDS = {"type": "result", "sessionId": UUID, "exitCode": 0}


def test_copilots_answer_after_its_token_limit_has_both_parts() -> None:
    rest = {"type": "assistant.message", "data": {"content": " and two."}}
    found, verdict = decode("copilot", *of_copilot("One", ","), rest, {"type": "assistant.turn_end"}, COPILOT_ENDS)
    assert [event.text for event in found if isinstance(event, events.Text)] == ["One,", " and two."]
    assert (verdict.status, verdict.reply, verdict.usage.calls) == (Status.COMPLETED, "One, and two.", 1)


def test_copilots_answer_that_its_token_limit_cut_off_is_truncated() -> None:
    _, verdict = decode("copilot", *of_copilot("One,"), *of_copilot(" and"), COPILOT_ENDS)
    assert (verdict.status, verdict.reply) == (Status.TRUNCATED, "One, and")


def test_what_copilot_said_before_its_request_failed_is_no_part_of_the_answer() -> None:
    whole = {"type": "assistant.message", "data": {"content": "One and two."}}
    found, verdict = decode("copilot", *of_copilot("One", ended="error"), whole, COPILOT_ENDS)
    assert [event.text for event in found if isinstance(event, events.Text)] == ["One and two."]
    assert verdict.reply == "One and two."


def test_a_failure_that_names_no_reason_says_so() -> None:
    failure = {"type": "model.call_failure", "data": {}}
    found, _ = decode("copilot", failure, {"type": "session.error", "data": {}})
    assert [event.text for event in found if isinstance(event, events.Notice)] == [
        "a request to the model failed",
        "copilot failed and gave no reason",
    ]
    _, verdict = decode("cline", {"type": "run_result"})
    assert verdict.reason == "cline finished with no reason"


def test_copilots_own_word_of_what_other_events_tell_is_no_notice() -> None:
    lines = [
        {"type": "session.info", "data": {"infoType": word, "message": word}}
        for word in ("file_created", "model_retry", "other")
    ]
    found, _ = decode("copilot", *lines)
    assert [event.text for event in found if isinstance(event, events.Notice)] == ["other"]


def test_copilots_answer_is_kept_while_its_subagent_still_calls_tools() -> None:
    call = {"toolCallId": "c2", "toolName": "bash"}
    found, verdict = decode(
        "copilot",
        {"type": "assistant.message", "data": {"content": "The answer is 42."}},
        {"type": "tool.execution_start", "data": {**call, "parentToolCallId": "c1", "arguments": {}}},
        {"type": "tool.execution_complete", "data": {**call, "success": True, "result": {"content": "ok"}}},
        COPILOT_ENDS,
    )
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "The answer is 42.")
    assert [event.parent for event in found if isinstance(event, events.ToolCalled | events.ToolReturned)] == ["c1"] * 2


# -- Continue ----------------------------------------------------------------------------------------------------------


def test_cns_failure_stands_on_stderr_only() -> None:
    tail = '{"status":"error","message":"Connection error."}\n'
    _, verdict = decode("cn", exit=Exit(code=1, stderr_tail=tail))
    assert (verdict.status, verdict.class_, verdict.reason) == (Status.FAILED, Class.NETWORK, "Connection error.")


def test_cns_answer_in_json_is_the_answer_and_not_a_wrapper() -> None:
    for line in (b'{"a": 1}', b'{"status":"success","response":"ok","rows":[1,2,3],"next":"page2"}'):
        assert decode("cn", line)[1].reply == line.decode()


# -- Cline -------------------------------------------------------------------------------------------------------------


def test_clines_error_of_a_tool_in_the_middle_is_no_failure_of_the_turn() -> None:
    error = {"type": "error", "error": {"message": "1 tool call(s) failed"}}
    done = {"type": "run_result", "finishReason": "completed", "text": "done", "usage": {}}
    _, verdict = decode("cline", {"type": "agent_event", "event": error}, done)
    assert (verdict.status, verdict.reply, verdict.session) == (Status.COMPLETED, "done", "new")


def test_an_answer_of_cline_that_its_end_does_not_repeat_is_the_reply() -> None:
    text = {"type": "content_end", "contentType": "text", "text": "The answer is 42."}
    done = {"type": "run_result", "finishReason": "completed", "text": "", "usage": {}}
    assert decode("cline", {"type": "agent_event", "event": text}, done)[1].reply == "The answer is 42."
    assert decode("cline", done)[1].reply == ""


def test_clines_failure_is_noticed_once() -> None:
    error = {"type": "error", "error": {"message": "no"}, "errorClass": "auth"}
    ended = {"type": "run_result", "finishReason": "error", "text": "no"}
    found, verdict = decode("cline", {"type": "agent_event", "event": error}, ended)
    assert [event.text for event in found if isinstance(event, events.Notice)] == ["no"]
    assert (verdict.class_, verdict.reason) == (Class.AUTH, "no")


@pytest.mark.parametrize(
    ("output", "is_error"),
    [
        ([{"query": "a", "success": False}], True),
        ([{"query": "a", "success": False}, {"query": "b", "success": True}], False),
        ([{"query": "a"}], False),
        ([], False),
        (["a"], False),
        ("done", False),
    ],
)
def test_clines_tool_that_did_nothing_of_what_it_should_has_failed(output: object, is_error: bool) -> None:
    call = {"contentType": "tool", "toolCallId": "c", "toolName": "read_files"}
    lines = [{"type": "content_start", **call}, {"type": "content_end", **call, "output": output}]
    found, _ = decode("cline", *({"type": "agent_event", "event": line} for line in lines))
    assert [event.is_error for event in found if isinstance(event, events.ToolReturned)] == [is_error]


# -- aider -------------------------------------------------------------------------------------------------------------

BANNER = (b"Aider v0.86.2", b"Model: openai/x with whole edit format", b"Git repo: none", b"Repo-map: disabled")


def test_aiders_exit_code_0_without_a_line_of_tokens_is_a_failure() -> None:
    lines = (*BANNER, b"", b"litellm.AuthenticationError: AuthenticationError: no", b"Check your API key.", b"")
    _, verdict = decode("aider", *lines)
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.AUTH)
    assert "Check your API key." in str(verdict.reason)


def test_aiders_edits_are_events_and_no_part_of_the_answer() -> None:
    lines = (
        *BANNER,
        b"",
        b"Here it is:",
        b"",
        b"made.txt",
        b"",
        b"Tokens: 591 sent, 17 received.",
        b"Applied edit to made.txt",
    )
    found, verdict = decode("aider", *lines)
    assert verdict.reply == "Here it is:\n\nmade.txt"
    assert [event.path for event in found if isinstance(event, events.FileChanged)] == ["made.txt"]


@pytest.mark.parametrize(
    ("exit", "how"),
    [(Exit(signal="SIGKILL"), "was ended by SIGKILL"), (Exit(code=1), "exited with 1"), (Exit(), "was lost")],
)
def test_an_aider_that_died_before_it_applied_its_edit_has_crashed_though_it_answered(exit: Exit, how: str) -> None:
    lines = (*BANNER, b"", b"Here it is:", b"", b"made.txt", b"", b"Tokens: 591 sent, 17 received.")
    _, verdict = decode("aider", *lines, exit=exit)
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.CRASHED, None)
    assert verdict.reason == f"aider {how} after its answer; it may not have applied its edits"


@pytest.mark.parametrize("exit", [Exit(code=0, stopped_by="timeout"), Exit(signal="SIGKILL", stopped_by="timeout")])
def test_an_aider_that_beam_stopped_after_its_answer_ran_out_of_time_and_keeps_what_it_said(exit: Exit) -> None:
    _, verdict = decode("aider", *BANNER, b"", b"Here it is:", b"Tokens: 591 sent, 17 received.", exit=exit)
    assert (verdict.status, verdict.reply) == (Status.TIMEOUT, "Here it is:")


def test_aiders_estimated_figures_stay_null() -> None:
    _, verdict = decode(
        "aider", *BANNER, b"", b"x", b"Tokens: 240 sent, 7 received. Cost: $0.01 message, $0.02 session."
    )
    assert verdict.usage == Usage()
    assert verdict.cost_usd == 0.01


def test_an_aider_session_without_its_history_is_said_to_be_lost_and_is_not_run_again() -> None:
    found, verdict = decode("aider", *BANNER, b"", b"x", b"Tokens: 2 sent, 7 received.", session_id=UUID)
    assert (verdict.status, verdict.session) == (Status.COMPLETED, "lost")
    assert not any(isinstance(event, events.SessionLost) for event in found)
    restored = (*BANNER, b"Restored previous conversation history.", b"", b"x", b"Tokens: 2 sent, 7 received.")
    assert decode("aider", *restored, session_id=UUID)[1].session == "resumed"


def test_aiders_answer_keeps_its_tabs_and_blank_lines() -> None:
    _, verdict = decode("aider", *BANNER, b"", b"\tif x:", b"", b"\t\ty", b"", b"Tokens: 2 sent, 7 received.")
    assert verdict.reply == "\tif x:\n\n\t\ty"


def test_what_aider_does_with_an_answer_does_not_hide_its_edits() -> None:
    work = (b"", b"made.txt", b"Applied edit to made.txt", b"Commit dfbbb84 Here it is:", b"", b"made.txt")
    found, verdict = decode("aider", *BANNER, b"", b"Here", b"Tokens: 2 sent, 7 received.", *work)
    assert [event.path for event in found if isinstance(event, events.FileChanged)] == ["made.txt"]
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "Here")


def test_an_api_that_fails_when_aider_asks_again_fails_the_turn() -> None:
    lines = (b"", b"Here", b"Tokens: 2 sent, 7 received.", b"", b"litellm.RateLimitError: slow down", b"")
    _, verdict = decode("aider", *BANNER, *lines)
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.RATE_LIMIT)


BROKEN = (
    b"Reply ilitellm.APIConnectionError: APIConnectionError: OpenAIException - peer closed",
    b"connection without sending complete message body (incomplete chunked read)",
)


def test_an_aider_answer_that_broke_off_in_the_middle_of_a_line_is_a_failure_of_the_network() -> None:
    _, verdict = decode("aider", *BANNER, b"", b"Half of", b"", *BROKEN, b"")
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.NETWORK, None)
    assert str(verdict.reason).startswith("litellm.APIConnectionError: ")


def test_aider_that_asks_again_after_half_an_answer_says_so_and_only_the_whole_one_counts() -> None:
    tries = (b"Half of", *BROKEN, b"Retrying in 0.2 seconds...", b"All of it", b"Tokens: 2 sent, 7 received.")
    found, verdict = decode("aider", *BANNER, b"", *tries)
    (retry,) = [event for event in found if isinstance(event, events.StatusChanged)]
    assert (retry.attempt, retry.class_) == (1, Class.NETWORK)
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "All of it")


def test_a_model_that_talks_of_trying_again_in_an_aider_session_is_believed() -> None:
    talk = (b"It prints litellm.X and then", b"Retrying in 0.2 seconds...", b"Tokens: 2 sent, 7 received.")
    found, verdict = decode("aider", *BANNER, b"", *talk)
    assert not any(isinstance(event, events.StatusChanged) for event in found)
    assert verdict.reply == "It prints litellm.X and then\nRetrying in 0.2 seconds..."


def test_an_aider_answer_that_begins_like_a_retry_without_its_time_is_an_answer() -> None:
    found, verdict = decode(
        "aider", *BANNER, b"", b"Retrying in a few seconds is fine.", b"Tokens: 2 sent, 7 received."
    )
    assert not any(isinstance(event, events.StatusChanged) for event in found)
    assert verdict.reply == "Retrying in a few seconds is fine."


def test_a_second_answer_of_aider_that_broke_off_fails_the_turn_that_its_first_one_would_have_completed() -> None:
    first = (b"Here", b"Tokens: 2 sent, 7 received.", b"", b"Half of", *BROKEN)
    assert decode("aider", *BANNER, b"", *first)[1].status is Status.FAILED
    _, verdict = decode(
        "aider", *BANNER, b"", *first, b"Retrying in 0.2 seconds...", exit=Exit(code=1, stopped_by="retries")
    )
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.NETWORK)


def test_qwens_limit_of_model_calls_is_a_limit_though_it_says_so_on_stderr_only() -> None:
    exit = Exit(code=53, stderr_tail="Reached max session turns for this session. Increase the number of turns.\n")
    _, verdict = decode("qwen", exit=exit, max_turns=1)
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.LIMIT, None, None)
    assert verdict.reason == "Reached max session turns for this session"
