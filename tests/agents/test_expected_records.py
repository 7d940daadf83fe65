"""Records that no recording has: the events of each, and the verdict after them, whole.

`BEAM_WRITE_EXPECTED=1 pytest tests/agents/test_expected_records.py` writes the expectations anew
(tests/agents/expected/records and words); read the difference before you keep it.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import ErrorReader, Exit, Turn
from beam.agents.codex import history as codex_history
from beam.agents.link import Prompt
from tests.support import claude_dialogue, codex_dialogue, expected

HERE = Path(__file__).parent / "expected"
TURN = {"text": "hi", "message_id": "m-1", "agent": "x", "cwd": "/p", "fresh_session_id": "f-1"}
ENDS = {
    "0": Exit(code=0),
    "1": Exit(code=1, stderr_tail="one\ntwo\n"),
    "SIGKILL": Exit(signal="SIGKILL"),
    "lost": Exit(),
    "timeout": Exit(signal="SIGTERM", stopped_by="timeout"),
}


def asked(**fields: Any) -> Turn:
    return Turn(**{**TURN, **fields})


def decoded(name: str, records: list[Any], end: Exit, **fields: Any) -> list[Any]:
    """The events of each record, those of the end, and the verdict."""
    face = registry.adapter(name).exec
    assert face is not None
    decoder = face.decoder(asked(**fields))
    told: list[Any] = []
    for record in records:
        if isinstance(record, str) and isinstance(decoder, ErrorReader):
            told.append([expected.of_event(event) for event in decoder.error_line(record.encode())])
            continue
        line = record.encode() if isinstance(record, str) else json.dumps(record).encode()
        told.append([expected.of_event(event) for event in decoder.line(line)])
    last, verdict = decoder.end(end)
    return [*told, {"end": [expected.of_event(event) for event in last], "verdict": expected.told(verdict)}]


def copilot(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def qwen(*blocks: dict[str, Any], kind: str = "assistant", parent: str | None = None, **usage: int) -> dict[str, Any]:
    return {"type": kind, "parent_tool_use_id": parent, "message": {"content": list(blocks), "usage": usage}}


USED = {"input_tokens": 20, "output_tokens": 5, "cache_read_input_tokens": 4}
COPILOT_CALL = copilot("tool.execution_start", toolCallId="c", toolName="bash", arguments={"command": "ls"})
COPILOT_END = {
    "type": "result",
    "sessionId": "s",
    "exitCode": 0,
    "usage": {"totalApiDurationMs": 1500, "codeChanges": {"linesAdded": 3, "linesRemoved": 1}},
}
QWEN_INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "qwen_code_version": "0.1"}
QWEN_RETRY = {"type": "system", "subtype": "retry", "data": {"preserveText": True}}
SHOT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
RECORDS: dict[str, dict[str, list[Any]]] = {
    "copilot": {
        "told": [
            copilot("assistant.message_delta", deltaContent="a", parentToolCallId="p"),
            copilot("assistant.message_delta", deltaContent=""),
            copilot("assistant.reasoning", content="hm"),
            copilot("assistant.reasoning", content=""),
            copilot("assistant.message", content="of a subagent", parentToolCallId="p"),
            copilot("assistant.message", content="", parentToolCallId="p"),
            COPILOT_CALL,
            copilot("tool.execution_partial_result", toolCallId="c", partialOutput="half"),
            copilot("tool.execution_progress", toolCallId="c", progressMessage="on it"),
            copilot(
                "tool.execution_complete",
                toolCallId="c",
                success=True,
                result={"content": "done"},
                fileEdits=[{"path": "/p/a", "kind": "create"}, {"path": "/p/b", "kind": "what"}],
            ),
            copilot("session.warning", message="w"),
            copilot("session.info", message="i"),
            copilot("session.compaction_start"),
            copilot("session.compaction_complete"),
            copilot("model.call_finished", outcome="success"),
            copilot("model.call_finished", outcome="error"),
            copilot("assistant.message", content="the answer", model="m"),
            COPILOT_END,
        ],
        "denied": [
            COPILOT_CALL,
            copilot(
                "tool.execution_complete", toolCallId="c", success=False, error={"code": "denied", "message": "no"}
            ),
            copilot("assistant.message", content="I can't", model="m"),
            COPILOT_END,
        ],
        "failed": [
            copilot("assistant.turn_retry", reason="unknown"),
            copilot("model.call_failure", statusCode=429, errorMessage='{"message":"slow down"}'),
            copilot("assistant.turn_retry", reason="again"),
            copilot("model.call_failure", errorMessage="it broke", failureKind="transport"),
            copilot("model.call_failure", statusCode=500, errorMessage="{"),
            copilot("model.call_failure", statusCode=500),
            copilot("model.call_failure", errorMessage='{"a":1}'),
            copilot("assistant.turn_retry", reason="again"),
            {**COPILOT_END, "exitCode": 1},
        ],
        "failed without a word": [{**COPILOT_END, "exitCode": 2}],
        "an error of the session": [copilot("session.error", message="no", statusCode=401), COPILOT_END],
        "asks for a tool last": [
            copilot("assistant.message", content="let me", toolRequests=[{"name": "bash"}]),
            COPILOT_END,
        ],
    },
    "qwen": {
        "told": [
            QWEN_INIT,
            QWEN_RETRY,
            qwen({"type": "text", "text": "first"}, {"type": "thinking", "thinking": "hm"}, **USED),
            qwen({"type": "text", "text": "of a subagent"}, parent="p"),
            qwen({"type": "tool_use", "id": "c", "name": "write_file", "input": {"file_path": "/p/a"}}),
            qwen({"type": "tool_result", "tool_use_id": "c", "content": "ok"}, {"type": "text"}, kind="user"),
            qwen({"type": "tool_use", "id": "d", "name": "write_file", "input": {"file_path": "/p/a"}}),
            qwen({"type": "tool_result", "tool_use_id": "d", "content": [1], "is_error": True}, kind="user"),
            qwen({"type": "tool_result", "tool_use_id": "e"}, kind="user"),
            qwen({"type": "novel"}),
            {"type": "system", "subtype": "novel"},
            {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"text": "x"}}},
            {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"text": ""}}},
            {"type": "stream_event", "event": {"type": "message_stop", "delta": {"text": "x"}}},
            {
                "type": "result",
                "subtype": "success",
                "session_id": "s",
                "result": "done",
                "usage": USED,
                "duration_api_ms": 1500,
                "permission_denials": [{"tool_name": "edit", "tool_use_id": "c", "tool_input": {"a": 1}}],
            },
        ],
        "retries": [
            QWEN_INIT,
            qwen({"type": "text", "text": "half"}, **USED),
            QWEN_RETRY,
            QWEN_RETRY,
            {"type": "system", "subtype": "retry", "data": {}},
        ],
        "an error": [QWEN_INIT, {"type": "result", "subtype": "error_during_execution", "error": {"message": "no"}}],
        "an error of the API": [
            QWEN_INIT,
            {"type": "result", "subtype": "success", "is_error": True, "result": "[API Error: 429 slow down]"},
        ],
        "an error as an answer": [QWEN_INIT, {"type": "result", "subtype": "success", "result": "[API Error: no]"}],
        "an error without a word": [QWEN_INIT, {"type": "result", "subtype": "novel"}],
    },
    "claude": {
        "told": [
            {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "claude_code_version": "2"},
            {"type": "system", "subtype": "status", "status": None, "permissionMode": "plan"},
            {"type": "system", "subtype": "status", "status": "compacting"},
            {"type": "system", "subtype": "status"},
            {"type": "system", "subtype": "status", "compact_error": "too long"},
            {"type": "system", "subtype": "session_state_changed", "state": "idle"},
            {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto", "pre_tokens": 9}},
            {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"pre_tokens": 9, "post_tokens": 2}},
            {"type": "system", "subtype": "local_command_output", "content": "out"},
            {"type": "system", "subtype": "hook_started", "hook_name": "h", "hook_event": "e"},
            {"type": "system", "subtype": "hook_progress", "hook_event": "e"},
            {"type": "system", "subtype": "hook_response", "hook_name": "h", "outcome": "success"},
            {"type": "system", "subtype": "hook_response", "hook_name": "h", "outcome": "error", "stderr": " why "},
            {"type": "system", "subtype": "hook_response", "hook_name": "h", "outcome": "error", "output": " out "},
            {"type": "system", "subtype": "hook_response", "hook_name": "h", "outcome": "error"},
            {"type": "system", "subtype": "plugin_install", "name": "p", "status": "failed", "error": "no"},
            {"type": "system", "subtype": "plugin_install", "name": "p", "status": "installed"},
            {
                "type": "system",
                "subtype": "background_tasks_changed",
                "tasks": [{"description": "one"}, {"description": "two"}, {"description": "x", "ambient": True}],
            },
            {"type": "system", "subtype": "session_writes_lost", "lost": ["a_b", "c"], "error_code": "ENOSPC"},
            {"type": "system", "subtype": "api_error", "error": {"formatted": "it broke"}},
            {"type": "system", "subtype": "informational", "text": "by the way"},
            {"type": "system", "subtype": "notification", "message": "look"},
            {"type": "system", "subtype": "model_fallback"},
            {"type": "system", "subtype": "novel"},
            {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "rateLimitType": "five_hour"}},
            {
                "type": "rate_limit_event",
                "rate_limit_info": {"status": "rejected", "rateLimitType": "x", "resetsAt": 9},
            },
            {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning"}},
            {"type": "rate_limit_event", "rate_limit_info": {}},
            {"type": "auth_status", "error": "no"},
            {"type": "auth_status", "output": ["a", "b"]},
            {"type": "tool_use_summary", "summary": "did it"},
            {"type": "tool_progress", "tool_use_id": "c", "elapsed_time_seconds": 1.5, "parent_tool_use_id": "p"},
            {"type": "conversation_reset", "trigger": "clear_context"},
            {"type": "conversation_reset"},
            {"type": "control_response", "response": {"subtype": "success", "request_id": "r", "response": {"a": 1}}},
            {"type": "control_response", "response": {"subtype": "error", "request_id": "r", "error": "no"}},
            {"type": "control_cancel_request", "request_id": "r"},
            {
                "type": "control_request",
                "request_id": "r",
                "request": {"subtype": "hook_callback", "input": {"hook_event_name": "Stop"}},
            },
            {"type": "control_request", "request_id": "r", "request": {"subtype": "novel"}},
            {"type": "user", "message": {"content": "[Request interrupted by user]"}},
            {"type": "user", "message": {"content": "an aside"}},
            {"type": "user", "message": {"content": ""}},
            {"type": "user", "parent_tool_use_id": "p", "message": {"content": "a prompt"}},
            {"type": "user", "isReplay": True, "message": {"content": "again"}},
            {"type": "user", "message": {"content": [{"type": "text", "text": "x"}, {"type": "document"}]}},
            {"type": "user", "message": {"content": [{"type": "novel"}]}},
            {"type": "assistant", "message": {"id": "1", "content": [{"type": "redacted_thinking"}]}},
            {"type": "assistant", "message": {"id": "2", "content": [{"type": "thinking", "thinking": ""}]}},
            {"type": "assistant", "message": {"id": "3", "content": [{"type": "text", "text": ""}]}},
            {"type": "assistant", "message": {"id": "4", "content": [SHOT, {"type": "novel"}]}},
            {
                "type": "assistant",
                "message": {"id": "5", "content": [{"type": "server_tool_use", "id": "c", "name": "web", "input": {}}]},
            },
            {
                "type": "assistant",
                "message": {
                    "id": "6",
                    "content": [{"type": "web_search_tool_result", "tool_use_id": "c", "content": "found"}],
                },
            },
        ],
        **{
            f"asks, {end}": [
                {
                    "type": "control_request",
                    "request_id": "r",
                    "request": {"subtype": "can_use_tool", "tool_use_id": "c", "tool_name": "Bash", "input": {"a": 1}},
                },
                {"type": "result", "subtype": end, "result": "done", "session_id": "s", "is_error": end != "success"},
            ]
            for end in ("success", "error_max_turns", "error_during_execution", "error_max_budget_usd", "novel")
        },
    },
    "opencode": {
        "an error": [{"type": "error", "sessionID": "ses_1", "error": {"name": "APIError", "data": {"message": "no"}}}],
        "an error with a status": [
            {"type": "error", "sessionID": "ses_1", "error": {"data": {"message": "no", "statusCode": 429}}}
        ],
    },
    "pi": {
        "told": [
            {"type": "session", "id": "s"},
            {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 500, "errorMessage": "429 slow"},
            {"type": "auto_retry_end", "success": False, "finalError": "gave up"},
            {"type": "compaction_start"},
            {"type": "compaction_end", "errorMessage": "no"},
            {"type": "extension_error", "error": "no"},
        ],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDS)
def test_each_record_has_its_events_and_each_end_its_verdict(name: str) -> None:
    told = {}
    for word, records in RECORDS[name].items():
        for how, end in ENDS.items():
            told[f"{word}, {how}"] = decoded(name, records, end)[None if how == "0" else -1 :]
        told[f"{word}, resumed"] = decoded(name, records, ENDS["0"], session_id="s")[-1:]
        told[f"{word}, another session"] = decoded(name, records, ENDS["0"], session_id="t")[-1:]
        told[f"{word}, a copy"] = decoded(name, records, ENDS["0"], session_id="t", fork=True)[-1:]
        told[f"{word}, with a schema"] = decoded(name, records, ENDS["0"], schema="{}")[-1:]
    expected.check(HERE / "records" / f"{name}.json", expected.document(told))


# -- OpenCode's and Kilo's database ------------------------------------------------------------------------------------

NOON_MS = 1_700_000_000_000
TOKENS = {"input": 5, "output": 2, "reasoning": 1, "cache": {"read": 3, "write": 4}}


def row(number: int, role: str, **data: Any) -> dict[str, Any]:
    at = NOON_MS + number * 1000
    known = {"session": "ses_1", "parent": "ses_0", "cwd": "/p", "role": role, "model": "m"}
    return {"id": f"p-{number}", "at": at, **known, "data": data}


ROWS: list[dict[str, Any]] = [
    row(1, "user", type="text", text="do it"),
    row(1, "user", type="text", text="do it"),
    row(2, "user", type="text", text="not shown", synthetic=True),
    row(3, "assistant", type="text", text="not yet", time={"start": 1}),
    row(4, "assistant", type="reasoning", text="not yet", time={"start": 1}),
    row(4, "assistant", type="reasoning", text="hm", time={"end": 1}),
    row(5, "assistant", type="tool", callID="c", tool="bash", state={"status": "pending", "input": {}}),
    row(6, "assistant", type="tool", callID="c", tool="bash", state={"status": "running", "input": {"command": "ls"}}),
    row(7, "assistant", type="tool", callID="c", tool="bash", state={"status": "completed", "output": "a b"}),
    row(8, "assistant", type="tool", callID="d", tool="edit", state={"status": "error", "error": "no", "input": {}}),
    row(9, "assistant", type="step-finish", reason="tool-calls", tokens=TOKENS, cost=0.5),
    row(10, "assistant", type="text", text="done", time={"end": 1}),
    row(11, "assistant", type="step-finish", reason="stop", tokens=TOKENS, cost=0),
    row(11, "assistant", type="step-finish", reason="stop", tokens=TOKENS, cost=0),
    row(12, "assistant", type="novel"),
]
CALLS: list[dict[str, Any]] = [
    {"prompt": "m", "tokens": TOKENS, "cost": 0.5, "end": "stop", "error": None},
    {"prompt": "m", "tokens": TOKENS, "cost": 0.5, "end": "stop", "error": {}},
    {"prompt": "m", "tokens": TOKENS, "cost": 0.5, "end": ""},
    {"prompt": "", "tokens": TOKENS, "cost": 0.5, "end": "stop"},
    {"prompt": "m", "tokens": {"output": 3}, "end": "stop"},
    {"prompt": "m", "tokens": {"input": 0, "output": 3}, "end": "stop"},
]


@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_each_row_of_the_database_has_its_events(name: str) -> None:
    sessions: Any = registry.sessions_of(name)
    reader = sessions.reader("db")
    told = [{"events": [expected.of_event(event) for event in reader.read(json.dumps(each).encode())]} for each in ROWS]
    calls = [expected.told(sessions.call(json.dumps(each).encode())) for each in CALLS]
    last = {"session": expected.told(reader.session)}
    expected.check(HERE / "records" / f"{name}-rows.jsonl", expected.lines([*told, last, *calls]))


# -- session files -----------------------------------------------------------------------------------------------------

AT = "2026-01-01T00:00:{:02d}Z"


def of_codex(number: int, kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": AT.format(number), "type": kind, "payload": payload}


def item(number: int, kind: str, **fields: Any) -> dict[str, Any]:
    one = {"id": f"i-{number}", "type": kind, **fields}
    return of_codex(number, "event_msg", type="item_completed", turn_id="t", item=one)


CODEX: list[dict[str, Any]] = [
    of_codex(0, "session_meta", id="thread", session_id="root", cwd="/p"),
    of_codex(0, "turn_context", cwd="/p", model="m"),
    item(1, "UserMessage", content=[{"text": "h"}, {"text": "i"}]),
    item(1, "UserMessage", content=[{"text": "hi"}]),
    item(2, "Reasoning", summary_text=["one", "two"]),
    item(2, "Reasoning", summary_text=[]),
    item(3, "CommandExecution", command=["bash", "-lc", "ls"], exit_code=2, aggregated_output="x", status="failed"),
    item(4, "CommandExecution", command=["ls", "-l"], exit_code=0, aggregated_output="x", status="completed"),
    item(5, "CommandExecution", command=["rm"], status="declined"),
    item(6, "FileChange", changes={"/p/a": {}, "/p/b": {}}, status="completed"),
    item(7, "FileChange", changes={"/p/a": {}}, status="failed"),
    item(7, "FileChange", changes={"/p/a": {}}, status="declined"),
    item(8, "McpToolCall", server="docs", tool="ping", arguments={"a": 1}, status="failed"),
    item(9, "McpToolCall", server="docs", tool="ping", status="completed"),
    item(10, "AgentMessage", content=[{"text": "do"}, {"text": "ne"}]),
    item(11, "AgentMessage", content=[]),
    item(12, "Novel"),
    of_codex(
        13,
        "token_usage_record",
        turn_id="t",
        response_id="r",
        usage={"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2},
        turn_token_usage={"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2},
        thread_token_usage={"input_tokens": 19, "output_tokens": 12, "reasoning_output_tokens": 1},
    ),
]
_INCOMPLETE = "stream disconnected: Incomplete response returned, reason: "
CODEX_ENDS: dict[str, dict[str, Any]] = {
    "done": of_codex(20, "event_msg", type="task_complete", turn_id="t", last_agent_message="the last"),
    "silent": of_codex(20, "event_msg", type="task_complete", turn_id="t"),
    "aborted": of_codex(20, "event_msg", type="turn_aborted", turn_id="t"),
    "failed": of_codex(20, "event_msg", type="task_complete", turn_id="t", error={"message": "429 slow down"}),
    "failed by a code": of_codex(20, "event_msg", type="task_complete", turn_id="t", error={"codex_error_info": "x"}),
    "failed in silence": of_codex(20, "event_msg", type="task_complete", turn_id="t", error={"a": 1}),
    "cut off": of_codex(
        20, "event_msg", type="task_complete", turn_id="t", error={"message": f"{_INCOMPLETE}max_output_tokens"}
    ),
    "refused": of_codex(
        20, "event_msg", type="task_complete", turn_id="t", error={"message": f"{_INCOMPLETE}content_filter"}
    ),
    "of another turn": of_codex(20, "event_msg", type="task_complete", turn_id="u", last_agent_message="the last"),
}


@pytest.mark.parametrize("end", CODEX_ENDS)
def test_each_line_of_codexs_rollout_has_its_events(end: str) -> None:
    lines = [json.dumps(each).encode() for each in (*CODEX, CODEX_ENDS[end])]
    transcript = codex_history.transcript(asked())
    seen = [[expected.of_event(event) for event in transcript.line(line)] for line in lines]
    reader = registry.sessions_of("codex").reader("2026/01/01/rollout-x.jsonl")
    told = [[expected.of_event(event) for event in reader.read(line)] for line in lines]
    if end != "done":
        seen, told = seen[-1:], told[-1:]
    last = {"verdict": expected.told(transcript.verdict()), "session": expected.told(reader.session)}
    state = {"state": transcript.state, "error": transcript.error, **last}
    expected.check(HERE / "records" / f"codex-{end.replace(' ', '-')}.jsonl", expected.lines([*seen, *told, state]))


REGISTERED = [
    {"sessionId": "s", "status": status, "statusUpdatedAt": NOON_MS, "procStart": start}
    for status in ("busy", "idle", "waiting", "novel")
    for start in ("123", "12x", "1" * 18, "1" * 19, "")
]


def test_the_register_of_claudes_processes() -> None:
    sessions: Any = registry.sessions_of("claude")
    told = [
        expected.told(sessions.registered(json.dumps(each).encode())) for each in [*REGISTERED, {}, {"status": "x"}]
    ]
    expected.check(HERE / "records" / "claude-register.jsonl", expected.lines([*told, sessions.registered(b"{")]))


# -- words -------------------------------------------------------------------------------------------------------------


def words_of(name: str) -> list[str]:
    """The words of the checked-in expectation; where it is written anew, all that stand in the adapter's modules."""
    path = HERE / "words" / f"{name}.json"
    if not os.environ.get("BEAM_WRITE_EXPECTED"):
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return list(found)
    package = Path(str(importlib.import_module(registry.module_of(name)).__file__)).parent
    trees = [ast.parse(each.read_text("utf-8")) for each in sorted(package.rglob("*.py"))]
    nodes = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return sorted({word for word in nodes if isinstance(word, str) and 1 < len(word) < 60 and "\n" not in word})


@pytest.mark.parametrize("name", ["claude", "copilot", "qwen", "pi", "kimi", "cline", "gemini", "vibe", "opencode"])
def test_a_record_of_a_known_kind_without_a_field_has_its_events(name: str) -> None:
    face = registry.adapter(name).exec
    assert face is not None
    told = {}
    for word in words_of(name):
        for record in ({"type": word}, {"type": "system", "subtype": word}, {"role": word}):
            events = [expected.of_event(event) for event in face.decoder(asked()).line(json.dumps(record).encode())]
            if not any(event.get("type") == "unknown" for event in events):
                told.setdefault(word, {})[" ".join(record)] = [
                    {key: value for key, value in event.items() if key != "raw"} for event in events
                ]
    expected.check(HERE / "words" / f"{name}.json", expected.document(told))


@pytest.mark.slow
def test_a_method_that_codex_calls_without_a_field_has_its_steps() -> None:
    told = {}
    for word in words_of("codex"):
        for number in ({}, {"id": 7}):
            talk = codex_dialogue.Talk()
            talk.begin()
            talk.do(Prompt(turn=talk.turn))
            before = len(talk.steps)
            talk.hear({"method": word, "params": {"threadId": codex_dialogue.THREAD}, **number})
            steps = [expected.of_step(step) for step in talk.steps[before:]]
            if '"unknown"' not in json.dumps(steps) and '"error"' not in json.dumps(steps):
                told.setdefault(word, {})[" ".join(number) or "told"] = steps
    expected.check(HERE / "words" / "codex.json", expected.document(told))


@pytest.mark.slow
def test_a_frame_of_claudes_without_a_field_has_its_steps() -> None:
    path = HERE / "words" / "claude-link.json"
    words = list(json.loads(path.read_text())) if path.exists() else words_of("claude")
    told = {}
    for word in words:
        for frame in ({"type": word}, {"type": "system", "subtype": word}):
            talk = claude_dialogue.Talk()
            talk.begin()
            talk.do(Prompt(turn=talk.turn))
            before = len(talk.steps)
            talk.hear(frame)
            steps = [expected.of_step(step) for step in talk.steps[before:]]
            if '"unknown"' not in json.dumps(steps):
                told.setdefault(word, {})[" ".join(frame)] = steps
    expected.check(path, expected.document(told))
