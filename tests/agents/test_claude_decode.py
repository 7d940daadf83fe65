"""Claude Code's output becomes events and a verdict."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs

from beam.agents.base import Exit, Turn, Verdict
from beam.agents.claude.decode import FrameDecoder
from beam.model import events
from beam.model.outcome import Class, Denial, Status, Usage
from tests.agents import claude_recordings as recordings
from tests.support.turn import turn_of

ENDED = Exit(code=0)
ID = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"


turn = partial(turn_of, "claude")


def decode(*lines: object, of: Turn | None = None, ended: Exit = ENDED) -> tuple[list[events.Event], Verdict]:
    frames = FrameDecoder(of or turn())
    found: list[events.Event] = []
    for line in lines:
        found += frames.line(line if isinstance(line, bytes) else json.dumps(line).encode())
    last, verdict = frames.end(ended)
    return [*found, *last], verdict


def result(**fields: object) -> dict[str, object]:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "done",
        "stop_reason": "end_turn",
        "session_id": ID,
        **fields,
    }


def init(**fields: object) -> dict[str, object]:
    return {"type": "system", "subtype": "init", "session_id": ID, "model": "claude-x", **fields}


def said(text: str, **fields: object) -> dict[str, object]:
    message = {"model": "claude-x", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, **fields}


def called(call_id: str, name: str, given: object) -> dict[str, object]:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": given}
    return {"type": "assistant", "message": {"content": [block]}}


def returned(call_id: str, content: object = "ok", **fields: object) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {"type": "user", "message": {"role": "user", "content": [block]}, **fields}


def stop(reason: str) -> dict[str, object]:
    return {"type": "stream_event", "event": {"type": "message_delta", "delta": {"stop_reason": reason}}}


# -- recordings --------------------------------------------------------------------------------------------------------


def test_every_recording_is_decoded_or_named_with_a_reason() -> None:
    files = {path.name for path in recordings.HERE.iterdir() if path.is_file()}
    beside = {name for name in files if name.endswith((".cmd", ".err"))}
    assert files - beside == set(recordings.names()) | set(recordings.NOT_DECODED)


def task(subtype: str, **fields: object) -> dict[str, object]:
    return {"type": "system", "subtype": subtype, "task_id": "b1", "tool_use_id": "t1", **fields}


SHELL = {"command": "make serve", "run_in_background": True}
STARTED = (init(), called("t1", "Bash", SHELL), task("task_started", task_type="local_bash"), returned("t1"))
KILLED = (task("task_updated", patch={"status": "killed"}), task("task_notification", status="stopped"))


@pytest.mark.parametrize("lines", [(result(), *KILLED), (*KILLED, result())])
def test_a_background_command_that_claude_stopped_with_its_turn_is_reported_as_unfinished(
    lines: tuple[object, ...],
) -> None:
    _, verdict = decode(*STARTED, *lines)
    assert verdict.status is Status.COMPLETED
    (left,) = verdict.unfinished
    assert (left.tool, left.call_id, json.loads(bytes(left.input)), left.how) == ("Bash", "t1", SHELL, "killed")


def test_a_background_command_whose_end_nobody_saw_is_reported_as_running() -> None:
    _, verdict = decode(*STARTED, result(), ended=Exit(signal="SIGTERM", stopped_by="timeout"))
    assert (verdict.status, [left.how for left in verdict.unfinished]) == (Status.COMPLETED, ["running"])


@pytest.mark.parametrize("how", ["completed", "failed"])
def test_a_background_command_that_ended_by_itself_is_nothing_left_undone(how: str) -> None:
    _, verdict = decode(*STARTED, result(), task("task_updated", patch={"status": how}))
    assert verdict.unfinished == ()


@pytest.mark.parametrize(("tool", "key"), [("TaskStop", "task_id"), ("KillShell", "shell_id")])
def test_a_background_command_that_the_agent_itself_stopped_is_nothing_left_undone(tool: str, key: str) -> None:
    _, verdict = decode(*STARTED, called("t2", tool, {key: "b1"}), *KILLED, returned("t2"), result())
    assert verdict.unfinished == ()


GOES_ON = {"kind": "task-notification"}


@pytest.mark.parametrize("ended", [Exit(code=0), Exit(code=1), Exit(signal="SIGKILL")])
def test_a_claude_that_died_in_the_turn_that_follows_a_task_in_the_background_has_crashed(ended: Exit) -> None:
    _, verdict = decode(init(), said("started"), result(result="started"), init(), said("half"), ended=ended)
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.CRASHED, None)
    assert (verdict.session_id, verdict.session) == (ID, "new")


def test_a_claude_that_was_killed_between_the_results_of_two_turns_has_crashed() -> None:
    lines = (init(), said("started"), init(), said("all done"), result(result="started"))
    assert decode(*lines, ended=Exit(signal="SIGKILL"))[1].status is Status.FAILED
    assert (
        decode(*lines, result(result="all done", origin=GOES_ON), ended=Exit(signal="SIGKILL"))[1].reply == "all done"
    )


VERDICTS = [
    ("01-json.out", "completed", None, None),
    ("05-tool-denied.out", "denied", None, "not permitted: Bash"),
    ("02b-streamjson-noverbose.out", "failed", "bad_request", "requires --verbose"),
    ("14-sid-reuse.out", "failed", "bad_request", "is already in use"),
    ("15-sid+resume.out", "failed", "bad_request", "--session-id can only be used"),
    ("16-resume-unknown.out", "failed", "bad_request", "No conversation found"),
    ("17-resume-nonuuid.out", "failed", "bad_request", "does not match any session title"),
    ("22-resume-unknown-sj.out", "failed", "bad_request", "No conversation found"),
    ("31-control.rec", "completed", None, None),
    ("32-perm.rec", "completed", None, None),
    ("32b-perm.rec", "denied", None, "not permitted: Bash"),
    ("40-SIGHUP-slow.out", "failed", "crashed", "ended by SIGHUP"),
    ("40-SIGINT-slow.out", "cancelled", None, "interrupted"),
    ("40-SIGKILL-slow.out", "failed", "crashed", "ended by SIGKILL"),
    ("40-SIGTERM-slow.out", "failed", "crashed", "ended by SIGTERM"),
    ("40-SIGTERM-tool-res.out", "failed", "bad_request", "No conversation found"),
    ("42d-at-c.rec", "failed", "bad_request", "No message found"),
    ("45-duplex-SIGINT.rec", "cancelled", None, "interrupted"),
    ("50-err500.out", "failed", "overloaded", "500 Internal server error"),
    ("51-err429.out", "failed", "rate_limit", "429"),
    ("52-err529.out", "failed", "overloaded", "Repeated 529"),
    ("53-refused.out", "failed", "network", "ConnectionRefused"),
    ("54-hang.out", "failed", "crashed", "before it answered"),
    ("55-midhang.out", "failed", "crashed", "before it answered"),
    ("56-drop.out", "failed", "network", "ECONNRESET"),
    ("57-middrop.out", "failed", "network", "ECONNRESET"),
    ("59-err429ra.out", "failed", "rate_limit", "429"),
    ("60-err401.out", "failed", "crashed", "before it answered"),
    ("61-err400.out", "failed", "bad_request", "400 stub error"),
    ("62-err403.out", "failed", "auth", "403"),
    ("63-err404.out", "failed", "bad_request", "selected model"),
    ("64-ptl.out", "failed", "context_overflow", "Prompt is too long"),
    ("65-credit.out", "failed", "bad_request", "Credit balance is too low"),
    ("66-err413.out", "failed", "context_overflow", "Request too large"),
    ("67-401r.out", "failed", "auth", "Invalid API key"),
    ("67-apitimeout.out", "failed", "stalled", "timed out"),
    ("67-empty.out", "completed", None, None),
    ("67-maxretries.out", "failed", "overloaded", "500"),
    ("67-maxtok.out", "completed", None, None),
    ("67-refuse.out", "refused", None, "Usage Policy"),
    ("70-maxturns.out", "limit", None, "maximum number of turns (2)"),
    ("72-schema.out", "completed", None, None),
    ("72b-schema-bad.out", "failed", "schema", "does not follow the schema"),
    ("72c-schema-never.out", "failed", "schema", "does not follow the schema"),
    ("73-skip-root.out", "failed", "bad_request", "IS_SANDBOX"),
    ("74b-plan.out", "denied", None, "Write"),
    ("82-unknownflag.out", "failed", "bad_request", "unknown option '--zzz'"),
]


@pytest.mark.parametrize(("name", "status", "class_", "reason"), VERDICTS, ids=[row[0] for row in VERDICTS])
def test_the_verdict_on_a_recorded_turn(name: str, status: str, class_: str | None, reason: str | None) -> None:
    _, verdict = recordings.decode(name)
    assert (verdict.status, verdict.class_) == (Status(status), Class(class_) if class_ else None)
    assert verdict.reason is None if reason is None else re.search(re.escape(reason), verdict.reason or "")
    if verdict.status is Status.FAILED and verdict.class_ is not Class.SCHEMA:
        assert verdict.reply is None


# -- the verdict -------------------------------------------------------------------------------------------------------


def test_an_api_failures_text_is_the_reason_and_a_notice_and_never_the_reply() -> None:
    line = said("API Error: 400 no", error="invalid_request")
    found, verdict = decode(line, result(is_error=True, api_error_status=400, result="API Error: 400 no"))
    assert (verdict.reason, verdict.reply) == ("API Error: 400 no", None)
    assert [type(event) for event in found] == [events.Notice, events.UsageSeen]


def test_an_empty_result_is_an_empty_reply() -> None:
    assert decode(result(result=""))[1].reply == ""


def test_an_unknown_slash_command_completes_with_claudes_text_as_the_reply() -> None:
    _, verdict = decode(result(result="Unknown command: /foo", num_turns=0, stop_reason=None))
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "Unknown command: /foo")


def test_the_exit_code_after_a_good_result_is_only_a_notice() -> None:
    found, verdict = decode(result(), ended=Exit(code=3))
    assert verdict.status is Status.COMPLETED
    assert isinstance(found[-1], events.Notice) and found[-1].code == "exit_code"


def test_exit_code_0_without_a_result_is_a_crash() -> None:
    _, verdict = decode(init())
    assert (verdict.status, verdict.class_, verdict.session_id) == (Status.FAILED, Class.CRASHED, ID)


@pytest.mark.parametrize(
    ("why", "status"),
    [
        ("timeout", Status.TIMEOUT),
        ("idle", Status.TIMEOUT),
        ("cancelled", Status.CANCELLED),
        ("interrupted", Status.CANCELLED),
    ],
)
def test_beams_own_stop_is_the_verdict_with_and_without_a_result_of_the_interrupted_turn(
    why: str, status: Status
) -> None:
    aborted = result(is_error=True, subtype="error_during_execution", terminal_reason="aborted_streaming", result=None)
    for lines in ([init()], [init(), aborted], [init(), said("half an"), aborted]):
        _, verdict = decode(*lines, ended=Exit(code=0, stopped_by=why))
        assert (verdict.status, verdict.class_, verdict.session_id) == (status, None, ID)


def test_a_stop_after_a_good_result_does_not_undo_it() -> None:
    assert decode(result(), ended=Exit(signal="SIGKILL", stopped_by="timeout"))[1].status is Status.COMPLETED


def test_an_interrupted_turns_figures_are_not_known() -> None:
    usage = {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0}
    aborted = result(is_error=True, terminal_reason="aborted_streaming", usage=usage, total_cost_usd=0)
    verdict = decode(aborted)[1]
    assert (verdict.usage, verdict.cost_usd) == (Usage(), None)


def test_a_turn_ended_by_its_budget_has_the_figures_of_its_models() -> None:
    line = result(
        subtype="error_max_budget_usd",
        is_error=True,
        errors=["Reached maximum budget ($0.0001)"],
        usage={"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0},
        modelUsage={
            "a": {"inputTokens": 5, "outputTokens": 2, "cacheReadInputTokens": 1, "cacheCreationInputTokens": 7},
            "b": {"inputTokens": 1, "outputTokens": 1, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0},
        },
        total_cost_usd=0.05,
    )
    verdict = decode(line)[1]
    assert (verdict.status, verdict.reason, verdict.cost_usd) == (
        Status.LIMIT,
        "Reached maximum budget ($0.0001)",
        0.05,
    )
    assert verdict.usage == Usage(input_tokens=13, output_tokens=3, cached_tokens=1, cache_write_tokens=7)
    assert [share.model for share in verdict.models or ()] == ["a", "b"]


def test_what_claude_says_of_its_arguments_is_the_reason_without_the_code_around_it() -> None:
    stderr = (
        "33618 | `),await x\nerror: --max-budget-usd must be a positive number\n    at <anonymous> (/x/cli.js:1:2)\n"
    )
    verdict = decode(ended=Exit(code=1, stderr_tail=stderr))[1]
    assert (verdict.class_, verdict.reason) == (Class.BAD_REQUEST, "error: --max-budget-usd must be a positive number")


def test_an_error_of_a_session_that_had_begun_is_a_crash() -> None:
    verdict = decode(init(), ended=Exit(code=1, stderr_tail="error: out of memory\n"))[1]
    assert (verdict.class_, verdict.session) == (Class.CRASHED, "new")


def test_a_session_is_lost_only_where_claude_says_so_of_the_id_that_was_asked() -> None:
    text = f"No conversation found with session ID: {ID}"
    ended = Exit(code=1, stderr_tail=text + "\n")
    found, verdict = decode(of=turn(session_id=ID), ended=ended)
    assert (verdict.status, verdict.session, verdict.session_id) == (Status.FAILED, "lost", None)
    assert [event for event in found if isinstance(event, events.SessionLost)] == found
    line = result(subtype="error_during_execution", is_error=True, result=None, errors=[text])
    found, verdict = decode(line, of=turn(session_id=ID), ended=ended)
    assert verdict.session == "lost"
    assert sum(isinstance(event, events.SessionLost) for event in found) == 1
    other = "00000000-e1a5-4554-a76b-ae7b3837ccce"
    for of in (turn(), turn(session_id=other), turn(session_id=ID[:-1])):
        found, verdict = decode(of=of, ended=ended)
        assert (verdict.status, verdict.session) == (Status.FAILED, None)
        assert not found
    _, verdict = decode(said(text), result(result=text), of=turn(session_id=ID))
    assert (verdict.status, verdict.session) == (Status.COMPLETED, "resumed")


def test_an_answer_that_claude_continued_is_the_reply_whole() -> None:
    lines = [said("part one, "), stop("max_tokens"), said("part two"), stop("end_turn"), result(result="part two")]
    verdict = decode(*lines)[1]
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "part one, part two")


def test_an_answer_cut_off_before_a_tool_call_does_not_count_for_the_reply() -> None:
    lines = [said("old"), stop("max_tokens"), called("c", "Read", {}), returned("c"), said("new"), result(result="new")]
    assert decode(*lines)[1].reply == "new"


def test_an_answer_that_stays_cut_off_is_truncated_with_what_there_is() -> None:
    text = "API Error: Claude's response exceeded the 64000 output token maximum."
    lines = [said("part one"), stop("max_tokens"), said(text, error="max_output_tokens")]
    verdict = decode(*lines, result(is_error=True, result=text, stop_reason="stop_sequence"))[1]
    assert (verdict.status, verdict.reply) == (Status.TRUNCATED, "part one")
    verdict = decode(said("half"), result(result="half", stop_reason="max_tokens"))[1]
    assert (verdict.status, verdict.reply) == (Status.TRUNCATED, "half")


def test_a_refusal_keeps_the_models_text_before_it() -> None:
    refused = result(is_error=True, stop_reason="refusal", result="API Error: unable to respond\n\nRequest ID: x")
    verdict = decode(said("Well,"), refused)[1]
    assert (verdict.status, verdict.reply) == (Status.REFUSED, "Well,")
    assert verdict.reason == "API Error: unable to respond"
    assert decode(refused)[1].reply is None


def test_structured_output_is_kept_and_its_absence_fails_a_turn_that_asked_for_it() -> None:
    asked = turn(schema="{}")
    verdict = decode(result(structured_output={"name": "bob"}), of=asked)[1]
    assert verdict.status is Status.COMPLETED
    assert verdict.structured is not UNSET and bytes(verdict.structured) == b'{"name":"bob"}'
    verdict = decode(result(), of=asked)[1]
    assert (verdict.status, verdict.class_, verdict.structured) == (Status.FAILED, Class.SCHEMA, UNSET)


def test_a_denial_that_somebody_decided_is_an_ordinary_answer() -> None:
    ask = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "c1"}
    denied = result(permission_denials=[{"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "ls"}}])
    for by, status in (("ana", Status.COMPLETED), (None, Status.DENIED)):
        frames = FrameDecoder(turn())
        (asked,) = frames.line(json.dumps({"type": "control_request", "request_id": "r", "request": ask}).encode())
        assert isinstance(asked, events.PermissionAsked) and (asked.ask_id, asked.call_id) == ("r", "c1")
        if by:
            frames.on_decided("r", by)
        frames.line(json.dumps(denied).encode())
        _, verdict = frames.end(Exit(code=0))
        assert verdict.status is status
        (denial,) = verdict.denials
        assert isinstance(denial, Denial) and (denial.tool, denial.by) == ("Bash", by or "default")


def test_a_turn_that_a_denial_ended_is_denied_and_one_interrupted_after_a_denial_is_cancelled() -> None:
    denials = [{"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {}}]
    for why, status in (("aborted_tools", Status.DENIED), ("aborted_streaming", Status.CANCELLED)):
        ended = result(is_error=True, result=None, terminal_reason=why, permission_denials=denials)
        assert decode(ended)[1].status is status


def test_each_result_updates_the_verdict_and_the_session_id() -> None:
    verdict = decode(init(), result(result="one"), result(result="two", session_id="other"))[1]
    assert (verdict.reply, verdict.session_id) == ("two", "other")


# -- events ------------------------------------------------------------------------------------------------------------


def test_only_the_first_init_opens_the_session_unless_its_id_changes() -> None:
    found, _ = decode(init(), init(), init(session_id="after /clear"), of=turn(session_id=ID))
    assert [(event.resumed, event.session_id) for event in found if isinstance(event, events.SessionStarted)] == [
        (True, ID),
        (False, "after /clear"),
    ]


def test_a_changed_file_is_an_event_and_a_failed_change_is_none() -> None:
    lines = [
        called("a", "Write", {"file_path": "/w/a"}),
        returned("a", tool_use_result={"type": "create", "filePath": "/w/a"}),
        called("b", "Edit", {"file_path": "/w/b"}),
        returned("b", tool_use_result={"filePath": "/w/b"}),
        called("c", "NotebookEdit", {"notebook_path": "/w/c.ipynb"}),
        returned("c"),
    ]
    found, _ = decode(*lines, result())
    changed = [(event.path, event.kind) for event in found if isinstance(event, events.FileChanged)]
    assert changed == [("/w/a", "add"), ("/w/b", "update"), ("/w/c.ipynb", "update")]
    failed = returned("a")
    failed["message"]["content"][0]["is_error"] = True  # type: ignore[index]
    found, _ = decode(lines[0], failed, result())
    assert not any(isinstance(event, events.FileChanged) for event in found)


def test_the_plan_is_told_whole_whichever_tools_keep_it() -> None:
    todos = [{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}]
    found, _ = decode(called("a", "TodoWrite", {"todos": todos}))
    (plan,) = [event for event in found if isinstance(event, events.PlanUpdated)]
    assert [(step.text, step.status) for step in plan.steps] == [("one", "completed"), ("two", "in_progress")]
    found, _ = decode(
        called("a", "TaskCreate", {"subject": "one"}),
        returned("a", tool_use_result={"task": {"id": "1", "subject": "one"}}),
        called("b", "TaskUpdate", {"taskId": "1", "status": "in_progress"}),
        returned("b", tool_use_result={}),
        called("c", "TaskUpdate", {"taskId": "7", "status": "completed"}),
        returned("c", tool_use_result={}),
        called("d", "TaskUpdate", {"taskId": "1", "status": "deleted"}),
        returned("d", tool_use_result={}),
    )
    plans = [event.steps for event in found if isinstance(event, events.PlanUpdated)]
    assert [[(step.text, step.status) for step in steps] for steps in plans] == [
        [("one", "pending")],
        [("one", "in_progress")],
        [],
    ]


def test_the_list_of_its_tasks_that_an_agent_reads_is_its_plan_where_it_has_one() -> None:
    listed = [{"id": "1", "subject": "one", "status": "completed"}, {"id": "2", "subject": "two", "status": "pending"}]
    for tasks, plans in ((listed, [[("one", "completed"), ("two", "pending")]]), ([], [])):
        found, _ = decode(called("a", "TaskList", {}), returned("a", tool_use_result={"tasks": tasks}))
        told = [event.steps for event in found if isinstance(event, events.PlanUpdated)]
        assert [[(step.text, step.status) for step in steps] for steps in told] == plans


def test_a_call_that_the_turn_left_open_is_unfinished() -> None:
    found, _ = decode(called("a", "Bash", {"command": "sleep 9"}), ended=Exit(signal="SIGKILL"))
    assert isinstance(found[-1], events.ToolReturned)
    assert (found[-1].call_id, found[-1].unfinished) == ("a", True)


def test_what_a_subagent_says_has_its_call_as_parent_and_is_not_the_reply() -> None:
    lines = [
        said("inner", parent_tool_use_id="call"),
        said("inner failure", parent_tool_use_id="call", error="unknown"),
    ]
    refused = result(is_error=True, stop_reason="refusal", result="no")
    found, verdict = decode(*lines, refused)
    assert isinstance(found[0], events.Text) and found[0].parent == "call"
    assert verdict.reply is None


def test_what_a_compacting_kept_is_not_said_again() -> None:
    kept = {"preserved_messages": {"all_uuids": ["u1", "u2", "u3"]}}
    boundary = {"type": "system", "subtype": "compact_boundary", "compact_metadata": kept}
    earlier = called("a", "Bash", {"command": "ls"}) | {"uuid": "u2"}
    again = (said("an earlier answer", uuid="u1"), earlier, returned("a", uuid="u3"))
    found, verdict = decode(init(), boundary, *again, said("the answer", uuid="u4"), stop("max_tokens"), result())
    assert [event.text for event in found if isinstance(event, events.Text)] == ["the answer"]
    assert not any(isinstance(event, events.ToolCalled | events.ToolReturned) for event in found)
    assert verdict.reply == "the answer"
    assert decode(init(), boundary, *again[:1])[1].point.ends == "u1"  # type: ignore[union-attr]


def test_a_command_that_prints_nothing_says_nothing() -> None:
    message = {"model": "<synthetic>", "content": [{"type": "text", "text": "(no content)"}]}
    assert decode({"type": "assistant", "message": message})[0] == []
    assert len(decode(said("(no content)"))[0]) == 1


def test_a_request_that_claude_withdrew_was_not_denied() -> None:
    asked = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "c"}
    lines = (init(), called("c", "Bash", {}), {"type": "control_request", "request_id": "r", "request": asked})
    ended = result(is_error=True, terminal_reason="aborted_tools", permission_denials=[{"tool_use_id": "c"}])
    assert decode(*lines, ended)[1].status is Status.DENIED
    _, verdict = decode(*lines, {"type": "control_cancel_request", "request_id": "r"}, ended)
    assert (verdict.status, verdict.denials) == (Status.CANCELLED, ())


def test_a_turn_that_was_cut_before_anything_was_counted_has_no_figures() -> None:
    none = {"input_tokens": 0, "output_tokens": 0}
    cut = result(is_error=True, terminal_reason="aborted_streaming", duration_api_ms=0, usage=none, total_cost_usd=0)
    verdict = decode(init(), cut)[1]
    assert (verdict.usage, verdict.cost_usd, verdict.api_s) == (Usage(), None, None)


@pytest.mark.parametrize(("output_tokens", "api_ms", "api_s"), [(2, 0, None), (0, 0, 0.0), (2, 5, 0.005)])
def test_calls_that_were_counted_without_a_time_took_a_time_that_nobody_knows(
    output_tokens: int, api_ms: int, api_s: float | None
) -> None:
    used = {"input_tokens": 0, "output_tokens": output_tokens}
    assert decode(init(), result(duration_api_ms=api_ms, usage=used))[1].api_s == api_s


@pytest.mark.parametrize("called_by", ["claude-x", "claude-x[1m]"])
def test_the_size_of_the_context_is_that_of_the_model_whatever_its_name_says_of_it(called_by: str) -> None:
    used = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "m", "model": "claude-x", "content": [], "usage": used}
    sizes = {"claude-y": {"contextWindow": 5}, called_by: {"contextWindow": 1000, "inputTokens": 9, "outputTokens": 1}}
    found, _ = decode(init(), {"type": "assistant", "message": message}, result(usage=used, modelUsage=sizes))
    assert found[-1] == events.ContextUsed(used=9, size=1000)
    assert decode(result(modelUsage={called_by: {}}))[1].model == "claude-x"


NAMED = [
    ({"type": "keep_alive"}, []),
    (
        {"type": "system", "subtype": "permission_denied", "message": "Not Bash. IMPORTANT: You *may* use another."},
        [events.Notice(text="Not Bash.", code="permission_denied")],
    ),
    (
        {"type": "system", "subtype": "model_refusal_no_fallback", "original_model": "claude-x"},
        [events.Notice(text="claude-x refused; no other is asked", code="model_refusal_no_fallback")],
    ),
    ({"type": "transcript_mirror", "entries": []}, []),
    ({"type": "user", "isReplay": True, "message": {"role": "user", "content": "echo"}}, []),
    ({"type": "stream_event", "event": {"type": "message_start"}}, []),
    ({"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"thinking": "x"}}}, []),
    ({"type": "system", "subtype": "thinking_tokens"}, []),
    ({"type": "system", "subtype": "commands_changed"}, []),
    ({"type": "system", "subtype": "status", "status": None, "compact_result": "success"}, []),
    ({"type": "system", "subtype": "status", "status": "compacting"}, [events.StatusChanged(state="compacting")]),
    (
        {"type": "system", "subtype": "status", "status": None, "permissionMode": "plan"},
        [events.StatusChanged(state="mode", detail="plan")],
    ),
    (
        {
            "type": "system",
            "subtype": "compact_boundary",
            "compact_metadata": {"trigger": "auto", "pre_tokens": 9, "post_tokens": 2},
        },
        [events.StatusChanged(state="compacted", detail="auto: 9 tokens -> 2 tokens"), events.ContextUsed(used=2)],
    ),
    (
        {
            "type": "system",
            "subtype": "api_retry",
            "attempt": 2,
            "max_retries": 3,
            "retry_delay_ms": 539.57,
            "error_status": 529,
            "error": "overloaded",
        },
        [
            events.StatusChanged(
                state="retrying",
                detail="overloaded",
                attempt=2,
                of=3,
                delay_s=0.54,
                class_=Class.OVERLOADED,
                http_status=529,
            )
        ],
    ),
    (
        {
            "type": "system",
            "subtype": "api_retry",
            "attempt": 1,
            "max_retries": 3,
            "error_status": None,
            "error": "unknown",
        },
        [events.StatusChanged(state="retrying", detail="unknown", attempt=1, of=3, class_=Class.NETWORK)],
    ),
    (
        {"type": "system", "subtype": "session_state_changed", "state": "requires_action"},
        [events.StatusChanged(state="requires_action")],
    ),
    (
        {"type": "system", "subtype": "model_fallback", "content": "Switched to Sonnet"},
        [events.Notice(text="Switched to Sonnet", code="model_fallback")],
    ),
    (
        {"type": "system", "subtype": "hook_response", "hook_name": "h", "outcome": "error", "stderr": "no\n"},
        [events.Notice(text="hook h: error: no", code="hook_failed")],
    ),
    (
        {"type": "control_cancel_request", "request_id": "r"},
        [events.PermissionDecided(ask_id="r", decision="cancelled", why="the agent withdrew it")],
    ),
    (
        {"type": "control_request", "request_id": "r", "request": {"subtype": "hook_callback", "input": {}}},
        [events.StatusChanged(state="hook")],
    ),
    (
        {"type": "tool_progress", "tool_use_id": "c", "elapsed_time_seconds": 2.5, "parent_tool_use_id": None},
        [events.ToolProgress(call_id="c", elapsed_s=2.5)],
    ),
    (
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 5}},
        [events.Notice(text="rate limit: rejected, resets at 1970-01-01T00:00:05.000000Z", code="rate_limit")],
    ),
    (
        {
            "type": "user",
            "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
        },
        [events.Notice(text="[Request interrupted by user]", code="interrupted")],
    ),
]


@pytest.mark.parametrize(("line", "expected"), NAMED, ids=[json.dumps(row[0])[:60] for row in NAMED])
def test_a_line_of_a_known_kind_becomes_what_it_says(line: dict[str, object], expected: list[events.Event]) -> None:
    raw = json.dumps(line)
    kept = [structs.replace(event, raw=raw) for event in expected[:1]]
    assert list(FrameDecoder(turn()).line(raw.encode())) == [*kept, *expected[1:]]


def test_a_control_response_is_control_done() -> None:
    line = {"type": "control_response", "response": {"subtype": "error", "request_id": "r", "error": "no"}}
    (done,) = FrameDecoder(turn()).line(json.dumps(line).encode())
    assert isinstance(done, events.ControlDone)
    assert (done.control_id, done.ok, done.message) == ("r", False, "no")


@pytest.mark.parametrize(
    "line", [b"not json", b"[1]", b'{"a":1}', b'{"type":"new"}', b'{"type":"system","subtype":"new"}', b"\xff\xfe"]
)
def test_what_nobody_understands_is_unknown_and_keeps_the_line(line: bytes) -> None:
    (event,) = FrameDecoder(turn()).line(line)
    assert isinstance(event, events.Unknown)
    assert event.raw == line.decode("utf-8", "replace")


# -- robustness --------------------------------------------------------------------------------------------------------


def check(line: bytes) -> None:
    frames = FrameDecoder(turn(schema="{}"))
    for event in frames.line(line):
        events.decode(events.encode(event))
    found, verdict = frames.end(Exit(code=0))
    for event in found:
        events.encode(event)
    assert isinstance(verdict, Verdict)


LINES = [
    line for name in recordings.names() for line in recordings.load(name).stdout.split(b"\n") if 0 < len(line) < 4000
]


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    check(data)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from(LINES), st.data())
def test_no_change_of_a_real_line_makes_it_raise(line: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, min(len(line), start + 20)))
    check(line[:start] + data.draw(st.binary(max_size=6)) + line[end:])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from(LINES), st.data())
def test_no_field_of_another_type_makes_it_raise(line: bytes, data: st.DataObject) -> None:
    value = json.loads(line)
    place = value
    while isinstance(place, dict) and place:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    check(json.dumps(value).encode())


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"\\udc00 \\ud83d"', "1e999", "1" + "0" * 400, "NaN", "-Infinity", "[" * 5000 + "]" * 5000]
)
def test_a_value_that_few_can_hold_does_not_make_it_raise(text: str) -> None:
    check(b'{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","input":%b}]}}' % text.encode())
    check(b'{"type":"result","result":%b,"total_cost_usd":%b,"structured_output":%b}' % ((text.encode(),) * 3))


def test_a_lone_surrogate_becomes_a_replacement_character_and_raw_keeps_the_line() -> None:
    line = b'{"type":"assistant","message":{"content":[{"type":"text","text":"a\\ud800b"}]}}'
    (event,) = FrameDecoder(turn()).line(line)
    assert isinstance(event, events.Text)
    assert (event.text, event.raw) == ("a\ufffdb", line.decode())


def test_invalid_utf_8_becomes_replacement_characters() -> None:
    line = b'{"type":"assistant","message":{"content":[{"type":"text","text":"a\xffb"}]}}'
    (event,) = FrameDecoder(turn()).line(line)
    assert isinstance(event, events.Text)
    assert event.text == "a\ufffdb"


@pytest.mark.slow
def test_a_line_of_a_megabyte_is_one_event() -> None:
    (event,) = FrameDecoder(turn()).line(json.dumps(said("x" * 1_000_000)).encode())
    assert isinstance(event, events.Text)
    assert len(event.text) == 1_000_000


def test_what_a_turn_used_so_far_is_reported_whenever_a_call_of_the_api_is_over() -> None:
    frames, told = FrameDecoder(turn()), []
    for number, (asked, gave) in enumerate(((1000, 20), (1500, 30))):
        message = {"id": f"m{number}", "usage": {"input_tokens": asked, "cache_read_input_tokens": 5}}
        for event in (
            {"type": "message_start", "message": message},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": gave}},
        ):
            told += frames.line(json.dumps({"type": "stream_event", "event": event}).encode())
    assert [(event.usage.input_tokens, event.usage.output_tokens) for event in told] == [(1000, 20), (2500, 50)]
    assert told[-1].usage.cached_tokens == 10


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({}, "claude's result does not say success"),
        ({"subtype": "success"}, "claude's result does not say success"),
        ({"subtype": "error_during_execution"}, "error_during_execution"),
        ({"subtype": "error_during_execution", "is_error": "true", "errors": ["boom"]}, "boom"),
    ],
)
def test_a_turn_whose_result_does_not_say_success_has_failed(told: dict[str, object], reason: str) -> None:
    _, verdict = decode(init(), said("half"), {"type": "result", **told})
    assert (verdict.status, verdict.reason, verdict.reply) == (Status.FAILED, reason, None)


def test_a_turn_that_was_interrupted_is_cancelled_though_its_result_names_no_error() -> None:
    told = {"subtype": "error_during_execution", "is_error": False, "terminal_reason": "aborted_streaming"}
    _, verdict = decode(init(), said("half"), {"type": "result", **told})
    assert (verdict.status, verdict.reply) == (Status.CANCELLED, "half")


def test_an_answer_that_the_result_does_not_repeat_is_the_reply() -> None:
    assert decode(init(), said("The answer is 42."), result(result=""))[1].reply == "The answer is 42."
    assert decode(init(), result(result=""))[1].reply == ""
