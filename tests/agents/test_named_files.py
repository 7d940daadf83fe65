"""Which files the CLIs name as changed, where nothing else tests it: in their output, their transcripts and their
sessions. `tests/real/test_undo.py` has the CLIs themselves write these records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.aider import history as aider
from beam.agents.base import Exit, HasHistory, Turn
from beam.agents.opencode.decode import file_changes
from beam.model import events

TURN = Turn(text="do it", message_id="x", agent="x", fresh_session_id="5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10")


def named(found: list[Any]) -> list[str]:
    return [event.path for event in found if isinstance(event, events.FileChanged)]


def printed(name: str, *lines: object) -> list[str]:
    """The files that a headless CLI named which printed these lines."""
    face = registry.adapter(name).exec
    assert face is not None
    decoder = face.decoder(TURN)
    found = [event for line in lines for event in decoder.line(_bytes(line))]
    return named([*found, *decoder.end(Exit(code=0))[0]])


def written(name: str, *lines: object) -> list[str]:
    """The files that a CLI on its screen named which wrote these lines of its transcript."""
    adapter = registry.adapter(name)
    assert isinstance(adapter, HasHistory)
    transcript = adapter.transcripts.transcript(TURN)
    return named([event for line in lines for event in transcript.line(_bytes(line))])


def stored(name: str, *records: object) -> list[str]:
    """The files that these records of a CLI's session name."""
    reader = registry.sessions_of(name).reader("x")
    return named([event for record in records for event in reader.read(_bytes(record))])


def _bytes(line: object) -> bytes:
    return line.encode() if isinstance(line, str) else json.dumps(line).encode()


def kimi(tool: str, answer: str) -> list[str]:
    call = {"id": "1", "function": {"name": tool, "arguments": '{"path": "a b"}'}}
    called = {"role": "assistant", "tool_calls": [call]}
    return printed("kimi", called, {"role": "tool", "tool_call_id": "1", "content": answer})


def test_kimi_names_a_file_where_its_tool_says_that_it_changed_it() -> None:
    changed = ("Wrote 12 bytes to a b", "Appended 1 bytes to a b", "Replaced 1 occurrence in a b")
    assert [kimi(tool, answer) for tool in ("Write", "Edit") for answer in changed] == [["a b"]] * 6
    assert kimi("Write", '"a b" is a directory') == [] == kimi("Read", "Wrote 12 bytes to x")


def cline(tool: str, output: object) -> list[str]:
    event = {"type": "content_end", "contentType": "tool", "toolName": tool, "toolCallId": "1", "output": output}
    return printed("cline", {"type": "agent_event", "event": event})


def test_cline_names_the_files_of_its_editor_and_of_a_patch() -> None:
    done = {"result": "File created", "success": True}
    assert cline("editor", {"query": "edit:/w/a:b", **done}) == ["/w/a:b"]
    assert cline("editor", {"query": "insert:c", **done}) == ["c"]
    assert cline("editor", {"query": "edit:a", "result": "", "error": "no such text", "success": False}) == []
    patched = "Successfully applied patch to the following files:\nmade\ngone: [deleted]\nfrom -> to"
    patch = {"query": "apply_patch", "result": patched, "success": True}
    assert cline("apply_patch", patch) == ["made", "gone", "from", "to"]
    assert cline("run_commands", [{"query": "edit:a", "result": patched, "success": True}]) == []


def opencode_state(tool: str, metadata: object, status: str = "completed") -> dict[str, Any]:
    return {"status": status, "input": {"filePath": "given"}, "output": "", "metadata": metadata}


PATCHED = {"files": [{"filePath": "/w/a", "type": "add"}, {"filePath": "/w/b", "type": "move"}, {"type": "delete"}]}


def test_opencode_names_the_files_of_a_patch_in_each_of_its_modes() -> None:
    found = file_changes("apply_patch", opencode_state("apply_patch", PATCHED))
    assert [(event.path, event.kind) for event in found] == [("/w/a", "add"), ("/w/b", "update")]
    assert named(list(file_changes("write", opencode_state("write", {"filepath": "/w/c", "exists": False})))) == [
        "/w/c"
    ]
    assert file_changes("bash", opencode_state("bash", PATCHED)) == []

    def row(status: str) -> dict[str, Any]:
        state = opencode_state("apply_patch", PATCHED, status)
        data = {"type": "tool", "tool": "apply_patch", "callID": "1", "state": state}
        return {"id": "p", "session": "s", "at": 1, "role": "assistant", "data": data}

    assert stored("opencode", row("running"), row("completed"), row("completed")) == ["/w/a", "/w/b"]
    assert stored("opencode", row("error")) == []


def test_qwens_sessions_name_a_file_that_was_written() -> None:
    def result(status: str, **shown: str) -> list[str]:
        answer = {"functionResponse": {"id": "1", "response": {"output": "x"}}}
        value = {"type": "tool_result", "timestamp": "2026-11-28T01:00:00Z", "message": {"parts": [answer]}}
        return stored("qwen", value | {"toolCallResult": {"status": status, "resultDisplay": shown}})

    assert result("success", fileDiff="+x", filePath="/w/a") == ["/w/a"]
    assert result("cancelled", fileDiff="+x", filePath="/w/a") == [] == result("success", filePath="/w/a")


def test_qwen_names_a_notebook_too() -> None:
    call = {"type": "tool_use", "id": "1", "name": "notebook_edit", "input": {"notebook_path": "/w/a.ipynb"}}
    returned = {"type": "tool_result", "tool_use_id": "1", "is_error": False, "content": "x"}
    lines = (
        {"type": kind, "message": {"content": [block]}} for kind, block in (("assistant", call), ("user", returned))
    )
    assert printed("qwen", *lines) == ["/w/a.ipynb"]


@pytest.mark.parametrize(("success", "expected"), [(True, ["/w/a"]), (False, [])])
def test_copilots_sessions_name_the_files_of_a_tool_that_succeeded(success: bool, expected: list[str]) -> None:
    data = {"toolCallId": "1", "success": success, "fileEdits": [{"path": "/w/a", "kind": "create"}]}
    assert stored("copilot", {"type": "tool.execution_complete", "id": "e", "data": data}) == expected


def test_geminis_transcript_names_the_files_of_a_tool_that_succeeded() -> None:
    def call(number: int, name: str, status: str) -> dict[str, Any]:
        return {"id": str(number), "name": name, "status": status, "args": {"file_path": f"/w/{number}"}, "result": []}

    calls = [
        call(number, *what)
        for number, what in enumerate(
            (("write_file", "success"), ("replace", "success"), ("read_file", "success"), ("write_file", "error"))
        )
    ]
    asked, answered = {"type": "user", "content": "do it"}, {"type": "gemini", "id": "m", "toolCalls": calls}
    assert written("gemini", asked, answered, answered) == ["/w/0", "/w/1"]


def test_claudes_transcript_names_the_files_that_it_wrote_and_edited() -> None:
    def result(**record: object) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": "1", "content": "x", "is_error": record.pop("is_error", False)}
        return {"type": "user", "uuid": str(record), "message": {"content": [block]}, "toolUseResult": record}

    asked = {
        "type": "user",
        "uuid": "u",
        "promptId": "p",
        "message": {"content": "do it"},
        "sessionId": TURN.fresh_session_id,
    }
    made = result(type="create", filePath="/w/a", structuredPatch=[])
    edited = result(filePath="/w/b", oldString="x", newString="y", structuredPatch=[{}])
    others = (result(filePath="/w/plan.md", plan="x"), result(filePath="/w/c", structuredPatch=[], is_error=True))
    assert written("claude", asked, made, edited, *others) == ["/w/a", "/w/b"]


AIDER = ["#### do it  ", "", "```", "text", "```", ""]
TOKENS = "> Tokens: 793 sent, 227 received.  "


def test_aiders_history_names_what_it_edited_after_a_whole_answer() -> None:
    assert written("aider", *AIDER, TOKENS, "> Applied edit to src/a b.py  ", "> Applied edit to c  ") == [
        "src/a b.py",
        "c",
    ]
    assert written("aider", *AIDER, "> Applied edit to a  ") == []
    assert written("aider", *AIDER, TOKENS, "Applied edit to a") == []
    assert aider.transcript(TURN).line(b"> Applied edit to a  ") == ()


def test_vibe_names_a_file_that_it_edited() -> None:
    detail = {"kind": "file_edit", "toolName": "file_system.search_replace", "input": {}}
    state = {"status": "completed", "display": {"success": True}, "output": {"file": "/w/a"}}
    assert printed("vibe", {"type": "effect", "id": "1", "detail": detail, "state": state}) == ["/w/a"]
