"""What the files of a CLI's sessions tell of a turn: its tokens, how its answer ended, and which files it changed."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents.base import Verdict
from beam.base.clock import rfc3339
from beam.model.outcome import Class, Status, Usage
from beam.turns.told_in_files import file_changes, with_answer_end, with_tokens

BEGAN_MS = 1_800_000_000_000
VERDICT = Verdict(status=Status.COMPLETED, session_id="ses_1")


def message(at: int = 0, /, session: str = "ses_1", **fields: Any) -> tuple[str, int, str]:
    """A row of the database: an answer of the model, so many ms after the turn began."""
    tokens = {"input": 100, "output": 5, "reasoning": 0, "cache": {"read": 30, "write": 0}}
    data = {"role": "assistant", "parentID": "msg_1", "tokens": tokens, "cost": 0.25, "finish": "stop", **fields}
    return session, BEGAN_MS + at, json.dumps(data)


def counted(home: Path, *rows: tuple[str, int, str], verdict: Verdict = VERDICT, name: str = "opencode") -> Verdict:
    """The verdict after a turn whose CLI has these rows."""
    path = home / f".local/share/{name}/{name}.db"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE message (session_id text, time_created integer, data text)")
        made.executemany("INSERT INTO message VALUES (?, ?, ?)", rows)
    made.close()
    return with_tokens(verdict, name, {"HOME": str(home)}, since_ns=BEGAN_MS * 1_000_000)


@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_the_tokens_of_a_turn_are_those_of_all_its_model_calls(tmp_path: Path, name: str) -> None:
    rows = (
        message(1, finish="tool-calls"),
        message(2),
        message(-9),
        message(3, session="ses_2"),
        message(4, role="user"),
    )
    found = counted(tmp_path, *rows, name=name)
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.cached_tokens) == (200, 10, 60)
    assert (found.usage.calls, found.cost_usd) == (2, 0.5)


def test_a_cost_that_the_protocol_told_stays(tmp_path: Path) -> None:
    found = counted(tmp_path, message(), verdict=structs.replace(VERDICT, cost_usd=0.1))
    assert (found.usage.input_tokens, found.cost_usd) == (100, 0.1)


@pytest.mark.parametrize(
    "row",
    [
        message(1, error={"name": "MessageAbortedError"}),
        message(1, finish=None),
        message(1, tokens={"input": 0, "output": 0}),
        message(1, tokens="many"),
        message(1, parentID="msg_of_somebody_else"),
        message(1, parentID=7),
    ],
)
def test_with_a_call_that_nobody_can_count_the_tokens_stay_unknown(tmp_path: Path, row: tuple[str, int, str]) -> None:
    assert counted(tmp_path, message(), row).usage == Usage()


def test_without_calls_without_a_database_or_an_answer_nothing_is_reported(tmp_path: Path) -> None:
    assert counted(tmp_path / "a") is VERDICT
    assert with_tokens(VERDICT, "opencode", {"HOME": str(tmp_path / "b")}, since_ns=0) is VERDICT
    assert with_tokens(VERDICT, "claude", {"HOME": str(tmp_path / "b")}, since_ns=0) is VERDICT
    stopped = structs.replace(VERDICT, status=Status.CANCELLED)
    assert counted(tmp_path / "c", message(), verdict=stopped) is stopped
    (tmp_path / "d/.local/share/opencode").mkdir(parents=True)
    (tmp_path / "d/.local/share/opencode/opencode.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    assert with_tokens(VERDICT, "opencode", {"HOME": str(tmp_path / "d")}, since_ns=0) is VERDICT


# -- which files it changed --------------------------------------------------------------------------------------------


def changed(home: Path, adapter: str) -> list[str]:
    found = file_changes("ses_1", adapter, {"HOME": str(home)}, since_ns=BEGAN_MS * 1_000_000)
    return [event.path for event in found]


def copilot_edit(at: int, path: str) -> str:
    data = {"toolCallId": path, "success": True, "fileEdits": [{"path": path}]}
    time = rfc3339((BEGAN_MS + at) * 1_000_000)
    return json.dumps({"type": "tool.execution_complete", "id": path, "timestamp": time, "data": data})


def test_the_files_of_a_turn_are_those_that_its_session_named_since_it_began(tmp_path: Path) -> None:
    assert changed(tmp_path, "copilot") == []
    lines = (copilot_edit(-1, "earlier"), copilot_edit(0, "/w/a"), copilot_edit(7, "/w/b"))
    in_file(tmp_path, ".copilot/session-state/ses_1/events.jsonl", *lines)
    in_file(tmp_path, ".copilot/session-state/ses_2/events.jsonl", copilot_edit(1, "elsewhere"))
    assert changed(tmp_path, "copilot") == ["/w/a", "/w/b"]
    assert file_changes(None, "copilot", {"HOME": str(tmp_path)}, since_ns=0) == []


def test_of_a_database_the_rows_of_the_session_and_of_its_subagents_count(tmp_path: Path) -> None:
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    rows = (("earlier", -1, "ses_1"), ("/w/a", 1, "ses_1"), ("/w/b", 2, "ses_3"), ("elsewhere", 3, "ses_2"))
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE session (id text, parent_id text, directory text, time_updated integer)")
        made.execute("CREATE TABLE message (id text, data text)")
        made.execute(
            "CREATE TABLE part (id text, session_id text, message_id text, data text, time_created integer, "
            "time_updated integer)"
        )
        made.execute("INSERT INTO message VALUES ('m', '{}')")
        for session, parent in (("ses_1", None), ("ses_2", None), ("ses_3", "ses_1")):
            made.execute("INSERT INTO session VALUES (?, ?, '/w', ?)", (session, parent, BEGAN_MS))
        for name, at, session in rows:
            state = {"status": "completed", "metadata": {"filepath": name}}
            data = json.dumps({"type": "tool", "tool": "write", "callID": name, "state": state})
            made.execute(
                "INSERT INTO part VALUES (?, ?, 'm', ?, ?, ?)", (name, session, data, BEGAN_MS + at, BEGAN_MS + at)
            )
    made.close()
    assert changed(tmp_path, "opencode") == ["/w/a", "/w/b"]


# -- how the last answer ended -----------------------------------------------------------------------------------------

SESSION = "session_00000000-0000-4000-8000-000000000001"


def kimi_line(at: int, reason: str, kind: str = "step.end") -> str:
    event = {"type": kind, "providerFinishReason": reason}
    return json.dumps({"type": "context.append_loop_event", "time": BEGAN_MS + at, "event": event})


def copilot_line(at: int, reason: str, *, is_filtered: bool = False, kind: str = "conversation-agent") -> str:
    usage = {"interactionType": kind, "finishReason": reason, "contentFilterTriggered": is_filtered}
    time = rfc3339((BEGAN_MS + at) * 1_000_000)
    return json.dumps({"type": "session.usage_record", "timestamp": time, "data": {"usage": usage}})


def vibe_line(at: int, reason: str, kind: str = "core_input") -> str:
    given = {"command": {"result": {"finish_reason": reason}}, "determinism": {"time_unix_ms": BEGAN_MS + at}}
    return json.dumps({"type": kind, "payload": {"input": given}})


def in_file(home: Path, path: str, *lines: str) -> None:
    file = home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(("{broken", *lines, "")))


def ended(home: Path, adapter: str, verdict: Verdict = VERDICT) -> Verdict:
    session_id = "ses_1" if adapter in ("opencode", "kilo") else SESSION
    given = structs.replace(verdict, session_id=session_id, reply="part")
    return with_answer_end(given, adapter, {"HOME": str(home)}, since_ns=BEGAN_MS * 1_000_000)


KIMI = f".kimi-code/sessions/wd/{SESSION}/agents/main/wire.jsonl"
VIBE = f".vibe/logs/session/unified/{SESSION}/journal/{{:016}}.jsonl"
COPILOT = f".copilot/session-state/{SESSION}/events.jsonl"


@pytest.mark.parametrize(
    ("adapter", "path", "lines"),
    [
        ("kimi", KIMI, [kimi_line(1, "completed"), kimi_line(2, "truncated")]),
        ("vibe", VIBE.format(1), [vibe_line(1, "tool_call"), vibe_line(2, "length"), vibe_line(3, "stop", "told")]),
        (
            "copilot",
            COPILOT,
            [copilot_line(1, "stop"), copilot_line(2, "length"), copilot_line(3, "stop", kind="title")],
        ),
    ],
)
def test_an_answer_that_only_the_clis_file_says_was_cut_off_is_truncated(
    tmp_path: Path, adapter: str, path: str, lines: list[str]
) -> None:
    in_file(tmp_path, path, *lines)
    found = ended(tmp_path, adapter)
    assert (found.status, found.class_, found.reply) == (Status.TRUNCATED, None, "part")


@pytest.mark.parametrize("name", ["opencode", "kilo"])
@pytest.mark.parametrize(
    ("end", "status", "reply"), [("length", Status.TRUNCATED, "part"), ("content-filter", Status.REFUSED, None)]
)
def test_an_end_in_the_database_counts(tmp_path: Path, name: str, end: str, status: Status, reply: str | None) -> None:
    counted(tmp_path, message(1, finish="tool-calls"), message(2, finish=end), name=name)
    found = ended(tmp_path, name)
    assert (found.status, found.reply) == (status, reply)


def test_a_refusal_in_the_file_explains_an_empty_answer(tmp_path: Path) -> None:
    in_file(tmp_path, COPILOT, copilot_line(1, "stop", is_filtered=True))
    empty = Verdict(status=Status.FAILED, class_=Class.EMPTY, reason="nothing")
    assert (ended(tmp_path, "copilot", empty).status, ended(tmp_path, "copilot", empty).class_) == (
        Status.REFUSED,
        None,
    )


def test_of_a_session_in_several_files_the_newest_answer_counts(tmp_path: Path) -> None:
    in_file(tmp_path, VIBE.format(20), vibe_line(2, "content_filter"))
    in_file(tmp_path, VIBE.format(9), vibe_line(1, "stop"))
    in_file(tmp_path, VIBE.format(31))
    assert ended(tmp_path, "vibe").status is Status.REFUSED
    in_file(tmp_path, VIBE.format(31), vibe_line(3, "stop"))
    assert ended(tmp_path, "vibe").status is Status.COMPLETED


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [kimi_line(1, "completed")],
        [kimi_line(-5, "truncated")],  # an earlier turn's
        [kimi_line(1, "truncated"), kimi_line(2, "completed")],  # the model went on
        [kimi_line(1, "truncated", kind="step.begin")],
    ],
)
def test_a_whole_answer_stays_completed(tmp_path: Path, lines: list[str]) -> None:
    in_file(tmp_path, KIMI, *lines)
    assert ended(tmp_path, "kimi").status is Status.COMPLETED


def test_the_file_of_a_subagent_or_of_another_session_says_nothing(tmp_path: Path) -> None:
    in_file(tmp_path, KIMI.replace("/main/", "/agent-1/"), kimi_line(1, "truncated"))
    in_file(tmp_path, KIMI.replace("0001/", "0002/"), kimi_line(1, "truncated"))
    assert ended(tmp_path, "kimi").status is Status.COMPLETED


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.DENIED, Status.TIMEOUT])
def test_the_file_changes_no_other_outcome(tmp_path: Path, status: Status) -> None:
    in_file(tmp_path, KIMI, kimi_line(1, "truncated"))
    assert ended(tmp_path, "kimi", structs.replace(VERDICT, status=status)).status is status


def chat(home: Path, *lines: object, name: str = "session-2027-01-15T08-00-9a9d17c_.jsonl") -> Path:
    path = home / ".gemini/tmp/p/chats" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, ns=(BEGAN_MS * 1_000_000 + 1, BEGAN_MS * 1_000_000 + 1))
    return path


def called(at_ms: int, name: str, **tokens: int) -> dict[str, object]:
    given = {"input": 1200, "output": 30, "cached": 1000, "thoughts": 0, "tool": 0, "total": 1230, **tokens}
    at = rfc3339((BEGAN_MS + at_ms) * 1_000_000)
    return {"id": name, "timestamp": at, "type": "gemini", "content": "Hi", "tokens": given, "model": "g"}


def test_the_tokens_of_a_turn_of_gemini_are_those_of_its_calls_in_the_chat_file(tmp_path: Path) -> None:
    chat(tmp_path, {"sessionId": "another"}, called(1, "x"), name="session-2027-01-15T08-00-another.jsonl")
    twice = called(20, "b", thoughts=7)
    chat(tmp_path, {"sessionId": "ses_1"}, called(-5, "old"), called(10, "a"), twice, twice)
    found = with_tokens(VERDICT, "gemini", {"HOME": str(tmp_path)}, since_ns=BEGAN_MS * 1_000_000)
    assert found.usage == Usage(input_tokens=400, output_tokens=67, cached_tokens=2000, reasoning_tokens=7, calls=2)


def test_without_the_chat_file_the_tokens_of_gemini_stay_unknown(tmp_path: Path) -> None:
    assert with_tokens(VERDICT, "gemini", {"HOME": str(tmp_path)}, since_ns=BEGAN_MS * 1_000_000).usage == Usage()
