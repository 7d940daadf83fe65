"""Gemini's stream-json output becomes events and a verdict."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from beam.agents.base import Exit, Turn, Verdict
from beam.agents.gemini import exec
from beam.agents.gemini.decode import LineDecoder
from beam.agents.gemini.history import usage_of_call
from beam.model import events
from beam.model.outcome import Class, Status, Usage
from tests.agents import gemini_recordings as recordings
from tests.support.turn import turn_of

ID = "9a9d17c_d-e1a5-4554-a76b-ae7b3837ccce"
FOREIGN = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"
ENDED = Exit(code=0)


turn = partial(turn_of, "gemini")


def decode(*lines: object, of: Turn | None = None, ended: Exit = ENDED) -> tuple[list[events.Event], Verdict]:
    decoder = exec.decoder(of or turn())
    found: list[events.Event] = []
    for line in lines:
        found += decoder.line(line if isinstance(line, bytes) else json.dumps(line).encode())
    last, verdict = decoder.end(ended)
    return [*found, *last], verdict


def init(session_id: str = ID, model: str = "gemini-x") -> dict[str, object]:
    return {"type": "init", "session_id": session_id, "model": model}


def delta(text: str) -> dict[str, object]:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def called(name: str, given: object = None) -> dict[str, object]:
    return {"type": "tool_use", "tool_name": name, "tool_id": f"{name}__1", "parameters": given or {}}


def returned(name: str, error: object = None, **fields: object) -> dict[str, object]:
    status = {"status": "error", "error": error} if error else {"status": "success"}
    return {"type": "tool_result", "tool_id": f"{name}__1", **status, **fields}


def result(status: str = "success", **fields: object) -> dict[str, object]:
    stats = {"input_tokens": 100, "input": 90, "cached": 10, "output_tokens": 7, "models": {"gemini-x": {}}}
    return {"type": "result", "status": status, "stats": stats, **fields}


# -- recordings --------------------------------------------------------------------------------------------------------


def test_every_recording_has_its_stderr_and_its_expectation() -> None:
    assert {path.stem for path in recordings.HERE.glob("*.err")} == {
        path.stem for path in recordings.HERE.glob("*.out")
    }


VERDICTS = [
    ("g-B-new.out", "completed", None, None),
    ("g-B-r6.out", "failed", "bad_request", "has no session"),
    ("g-badflag.out", "failed", "bad_request", "Unknown argument"),
    ("g-cut.out", "failed", "network", "without a finish reason"),
    ("g-dup2.out", "failed", "bad_request", "already exists"),
    ("g-err401.out", "failed", "auth", "stub 401"),
    ("g-err429.out", "timeout", None, "timeout"),
    ("g-err500max2.out", "failed", "overloaded", "stub 500"),
    ("g-err503full.out", "failed", "overloaded", "stub 503"),
    ("g-nokey.out", "failed", "auth", "GEMINI_API_KEY"),
    ("g-sigterm.out", "failed", "crashed", "exited with 0"),
    ("g-tool-default.out", "denied", None, "not permitted: write_file"),
    ("g-tool-yolo.out", "completed", None, None),
]


@pytest.mark.parametrize(("name", "status", "class_", "reason"), VERDICTS, ids=[row[0] for row in VERDICTS])
def test_the_verdict_on_a_recorded_turn(name: str, status: str, class_: str | None, reason: str | None) -> None:
    _, verdict = recordings.decode(name)
    assert (verdict.status, verdict.class_) == (Status(status), Class(class_) if class_ else None)
    assert verdict.reason is None if reason is None else re.search(re.escape(reason), verdict.reason or "")
    if verdict.status is Status.FAILED:
        assert verdict.reply is None


# -- pitfalls ----------------------------------------------------------------------------------------------------------


def test_the_result_line_tells_the_outcome_and_never_the_exit_code() -> None:
    truncated = result("error", error={"type": "unknown", "message": "[API Error: terminated]"})
    assert decode(init(), delta("half"), truncated, ended=Exit(code=0))[1].status is Status.FAILED
    found, verdict = decode(init(), delta("ok"), result(), ended=Exit(code=1))
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "ok")
    assert isinstance(found[-1], events.Notice) and found[-1].code == "exit_code"


def test_exit_code_0_without_a_result_is_an_interrupted_turn_and_no_success() -> None:
    _, verdict = decode(init(), delta("half"))
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)
    _, verdict = decode(init(), delta("half"), ended=Exit(code=0, stopped_by="interrupted"))
    assert (verdict.status, verdict.reply) == (Status.CANCELLED, "half")


def test_the_silent_retries_are_read_from_stderr() -> None:
    decoder = LineDecoder(turn())
    lines = [
        b'Attempt 2 failed with status 503. Retrying with backoff... _ApiError: {"error":{"message":"busy"}}',
        b"Attempt 3 failed. Retrying with backoff... Error: exception TypeError: fetch failed sending request",
        b"Attempt 10 failed: busy. Max attempts reached",
        b"    at retryWithBackoff (file:///x.js:1:2)",
        b"\xff",
    ]
    found = [list(decoder.error_line(line)) for line in lines]
    assert found[2:] == [[], [], []]
    for (event,), attempt, http_status, class_, detail in (
        (found[0], 2, 503, Class.OVERLOADED, "busy"),
        (found[1], 3, None, Class.NETWORK, "exception TypeError: fetch failed sending request"),
    ):
        assert isinstance(event, events.StatusChanged)
        assert (event.state, event.attempt, event.http_status) == ("retrying", attempt, http_status)
        assert (event.class_, event.detail) == (class_, detail)


def test_a_turn_that_beam_ended_at_its_retries_failed_with_their_reason() -> None:
    decoder = LineDecoder(turn())
    decoder.line(json.dumps(init()).encode())
    decoder.error_line(b"Attempt 4 failed with status 429. Retrying with backoff... Error: slow down")
    _, verdict = decoder.end(Exit(signal="SIGTERM", stopped_by="retries"))
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.RATE_LIMIT)
    assert "slow down" in (verdict.reason or "")


def test_a_session_is_lost_only_where_gemini_says_so_of_the_id_that_was_asked() -> None:
    for text in (
        f'Error resuming session: Invalid session identifier "{ID}".\n  Searched for sessions in /x.\n',
        "Warning: True color\nError resuming session: No previous sessions found for this project.\n",
    ):
        found, verdict = decode(of=turn(session_id=ID), ended=Exit(code=42, stderr_tail=text))
        assert (verdict.status, verdict.session, verdict.session_id) == (Status.FAILED, "lost", None)
        assert [type(event) for event in found] == [events.SessionLost]
    other = f'Error resuming session: Invalid session identifier "{FOREIGN}".\n'
    _, verdict = decode(of=turn(session_id=ID), ended=Exit(code=42, stderr_tail=other))
    assert (verdict.status, verdict.class_, verdict.session) == (Status.FAILED, Class.BAD_REQUEST, None)


def test_another_session_than_the_asked_one_is_said_to_be_lost() -> None:
    _, verdict = decode(init(FOREIGN), delta("x"), result(), of=turn(session_id=ID))
    assert (verdict.status, verdict.session, verdict.session_id) == (Status.COMPLETED, "lost", FOREIGN)


def test_a_session_that_gemini_may_remove_is_noticed_and_one_of_beams_is_not() -> None:
    found, _ = decode(init(FOREIGN), of=turn(session_id=FOREIGN))
    assert [event.code for event in found if isinstance(event, events.Notice)] == ["session_at_risk"]
    found, _ = decode(init(), of=turn(session_id=ID))
    (opened,) = found
    assert isinstance(opened, events.SessionStarted) and opened.resumed


def test_a_folder_that_nobody_trusted_is_a_bad_request_with_the_next_step() -> None:
    text = "\x1b[31mGemini CLI is not running in a trusted directory. To proceed, ...\x1b[0m\n"
    _, verdict = decode(ended=Exit(code=55, stderr_tail=text))
    assert verdict.class_ is Class.BAD_REQUEST
    assert "beam trust" in (verdict.reason or "")


def test_a_tool_that_was_not_offered_is_a_denial_unless_everything_was_allowed() -> None:
    missing = {"type": "tool_not_registered", "message": "not found"}
    lines = [init(), called("run_shell_command", {"command": "rm x"}), returned("run_shell_command", missing), result()]
    _, verdict = decode(*lines, of=turn(access="read"))
    assert verdict.status is Status.DENIED
    assert [(denial.tool, denial.call_id) for denial in verdict.denials] == [
        ("run_shell_command", "run_shell_command__1")
    ]
    assert decode(*lines, of=turn(access="full"))[1].status is Status.COMPLETED
    unheard = [init(), called("teleport"), returned("teleport", missing), result()]
    assert decode(*unheard)[1].status is Status.COMPLETED


# -- the stream --------------------------------------------------------------------------------------------------------


def test_pieces_become_one_text_before_whatever_ends_them() -> None:
    found, verdict = decode(
        init(), delta("I "), delta("look."), called("glob"), returned("glob"), delta("done"), result()
    )
    assert [type(event) for event in found] == [
        events.SessionStarted,
        events.TextDelta,
        events.TextDelta,
        events.Text,
        events.ToolCalled,
        events.ToolReturned,
        events.TextDelta,
        events.Text,
        events.UsageSeen,
    ]
    assert found[3] == events.Text(text="I look.")
    assert getattr(found[4], "raw", UNSET) is not UNSET
    assert verdict.reply == "done"


def test_the_persons_own_words_are_no_event_and_a_whole_message_is_a_text() -> None:
    user = {"type": "message", "role": "user", "content": "hi"}
    found, _ = decode(user, {"type": "message", "role": "assistant", "content": "whole"})
    assert [event.text for event in found if isinstance(event, events.Text)] == ["whole"]
    assert len(found) == 1


def test_a_written_file_is_a_change_and_one_that_could_not_be_written_is_not() -> None:
    lines = [called("write_file", {"file_path": "/w/a"}), returned("write_file")]
    assert [event.path for event in decode(*lines)[0] if isinstance(event, events.FileChanged)] == ["/w/a"]
    lines = [called("write_file", {"file_path": "/w/a"}), returned("write_file", {"type": "x", "message": "no"})]
    found, _ = decode(*lines)
    assert not [event for event in found if isinstance(event, events.FileChanged)]
    assert [event.output for event in found if isinstance(event, events.ToolReturned)] == ["no"]


def test_usage_is_that_of_the_process_without_what_came_from_a_cache() -> None:
    _, verdict = decode(init(model="auto"), delta("x"), result())
    assert verdict.usage == Usage(input_tokens=90, output_tokens=7, cached_tokens=10)
    assert verdict.model == "gemini-x"


def test_the_thoughts_are_part_of_the_output() -> None:
    counts = {"total_tokens": 130, "input_tokens": 100, "input": 90, "cached": 10, "output_tokens": 7}
    _, verdict = decode(init(), delta("x"), result(stats={**counts, "models": {"gemini-x": counts}}))
    assert verdict.usage == Usage(input_tokens=90, output_tokens=30, cached_tokens=10)
    assert verdict.models is not None and verdict.models[0].usage == verdict.usage
    call = usage_of_call({"input": 100, "cached": 10, "output": 7, "thoughts": 23, "total": 130})
    assert call == Usage(input_tokens=90, output_tokens=30, cached_tokens=10, reasoning_tokens=23, calls=1)


def test_the_noughts_of_a_turn_that_failed_at_once_are_no_figures() -> None:
    stats = {"input_tokens": 0, "input": 0, "cached": 0, "output_tokens": 0}
    _, verdict = decode(init(), result("error", error={"message": "no"}, stats=stats))
    assert verdict.usage == Usage()


@pytest.mark.parametrize(
    ("message", "class_", "reason"),
    [
        ('[API Error: {"error":{"code":401,"message":"bad key"}}]', Class.AUTH, "bad key"),
        ('[API Error: {"error":{"code":400,"message":"odd"}}]', Class.BAD_REQUEST, "odd"),
        ("[API Error: terminated]", Class.NETWORK, "terminated"),
        ("[API Error: exception TypeError: fetch failed sending request]", Class.NETWORK, "fetch failed"),
    ],
)
def test_the_reason_is_what_the_api_said(message: str, class_: Class, reason: str) -> None:
    found, verdict = decode(init(), result("error", error={"type": "unknown", "message": message}))
    assert verdict.class_ is class_
    assert reason in (verdict.reason or "")
    assert verdict.reply is None
    assert sum(isinstance(event, events.Notice) for event in found) == 1


def test_a_blocked_answer_is_a_refusal_and_a_stream_without_its_end_a_failure_each_noticed_once() -> None:
    blocked = {
        "type": "error",
        "severity": "error",
        "message": "The model response was blocked due to safety settings.",
    }
    found, verdict = decode(init(), blocked, result("error"))
    assert verdict.status is Status.REFUSED
    assert sum(isinstance(event, events.Notice) for event in found) == 1
    cut = {"type": "error", "severity": "error", "message": "Model stream ended without a finish reason."}
    found, verdict = decode(init(), delta("half"), cut, result("error"))
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.NETWORK, None)
    assert sum(isinstance(event, events.Notice) for event in found) == 1


def test_what_nobody_knows_is_unknown_and_kept() -> None:
    for line, what in (
        ({"type": "new"}, "new"),
        ({}, "no type"),
        ({"type": "message", "role": "tool"}, "message/tool"),
        (b"x", "not JSON"),
    ):
        (event,) = decode(line)[0]
        assert isinstance(event, events.Unknown)
        assert event.what == what
        assert event.raw is not UNSET


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KINDS = ["init", "message", "tool_use", "tool_result", "error", "result"]


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from(KINDS), st.dictionaries(st.text(), JSON), JSON, st.binary())
def test_no_line_whatever_it_holds_breaks_the_decoder(kind: str, fields: dict[str, Any], any: Any, err: bytes) -> None:
    decoder = LineDecoder(turn(session_id=ID))
    line = {**fields, "type": kind, "stats": any, "error": any, "parameters": any, "content": any, "delta": any}
    found = [*decoder.line(json.dumps(line).encode()), *decoder.error_line(err)]
    last, verdict = decoder.end(ENDED)
    for event in [*found, *last]:
        events.encode(event)
    assert verdict.status is not Status.UNKNOWN
