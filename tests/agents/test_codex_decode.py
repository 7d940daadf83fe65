"""The output of `codex exec` becomes events and a verdict."""

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
from beam.agents.codex import exec
from beam.agents.figures import NOTHING_YET, usage_since
from beam.model import events
from beam.model.outcome import Class, Status, Total, Usage
from tests.agents import codex_recordings as recordings
from tests.support.turn import turn_of

ID = "01a1ffc9-bce8-7200-9c11-4d22ab4a9624"
OTHER = "01a1ffc9-0000-7200-9c11-4d22ab4a9624"
ENDED = Exit(code=0)


turn = partial(turn_of, "codex")


def decode(*lines: object, of: Turn | None = None, ended: Exit = ENDED) -> tuple[list[events.Event], Verdict]:
    decoder = exec.decoder(of or turn())
    found: list[events.Event] = []
    for line in lines:
        found += decoder.line(line if isinstance(line, bytes) else json.dumps(line).encode())
    last, verdict = decoder.end(ended)
    return [*found, *last], verdict


def thread(thread_id: str = ID) -> dict[str, object]:
    return {"type": "thread.started", "thread_id": thread_id}


def item(kind: str, when: str = "completed", **fields: object) -> dict[str, object]:
    return {"type": f"item.{when}", "item": {"id": "item_0", "type": kind, **fields}}


def said(text: str) -> dict[str, object]:
    return item("agent_message", text=text)


def completed(given: int = 100, cached: int = 10, output: int = 7, reasoning: int = 3) -> dict[str, object]:
    usage = {
        "input_tokens": given,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": reasoning,
    }
    return {"type": "turn.completed", "usage": usage}


def failed(text: str) -> list[dict[str, object]]:
    return [{"type": "error", "message": text}, {"type": "turn.failed", "error": {"message": text}}]


# -- recordings --------------------------------------------------------------------------------------------------------


def test_every_recording_is_decoded_or_named_with_a_reason() -> None:
    files = {path.name for path in recordings.HERE.iterdir() if path.is_file()}
    assert files == set(recordings.names()) | set(recordings.NOT_DECODED)


VERDICTS = [
    ("exec-01-minimal.rec", "completed", None, None),
    ("exec-04-resume-unknown.rec", "failed", "bad_request", "no rollout found"),
    ("resume-archived.rec", "failed", "bad_request", "is archived"),
    ("conc-2resume-1.rec", "failed", "bad_request", "already has an active writer"),
    ("badhome.rec", "failed", "bad_request", "CODEX_HOME"),
    ("flag-12-empty.rec", "failed", "bad_request", "No prompt provided via stdin."),
    ("flag-01-nogit.rec", "failed", "bad_request", "Not inside a trusted directory"),
    ("flag-05b-badschema.rec", "failed", "bad_request", "not valid JSON"),
    ("flag-06b-askapproval-global.rec", "denied", None, "not permitted: shell"),
    ("flag-07-fullauto.rec", "failed", "bad_request", "--full-auto"),
    ("flag-14-nokey.rec", "failed", "auth", "Missing environment variable"),
    ("fail-400.rec", "failed", "bad_request", "stub error 400"),
    ("fail-401.rec", "failed", "auth", "401"),
    ("fail-403.rec", "failed", "auth", "403"),
    ("fail-404.rec", "failed", "bad_request", "404"),
    ("fail-429.rec", "failed", "rate_limit", "429"),
    ("fail-500.rec", "failed", "overloaded", "high demand"),
    ("fail-503.rec", "failed", "overloaded", "503"),
    ("fail-ctx.rec", "failed", "context_overflow", "context window"),
    ("fail-quota.rec", "failed", "rate_limit", "Quota"),
    ("fail-incomplete.rec", "truncated", None, "token limit"),
    ("fail-hang-idle3s-r1.rec", "failed", "stalled", "idle timeout"),
    ("fail-refused.rec", "timeout", None, "timeout"),
    ("fail-refused-bounded.rec", "failed", "network", "Connection failed"),
    ("sig-INT-group-slow.rec", "failed", "crashed", "exited with 1"),
    ("sig-TERM-native-slow.rec", "failed", "crashed", "SIGTERM"),
    ("sig-KILL-tool.rec", "failed", "crashed", "SIGKILL"),
    ("stdin-badutf8.rec", "failed", "bad_request", "not valid UTF-8"),
]


@pytest.mark.parametrize(("name", "status", "class_", "reason"), VERDICTS, ids=[row[0] for row in VERDICTS])
def test_the_verdict_on_a_recorded_turn(name: str, status: str, class_: str | None, reason: str | None) -> None:
    _, verdict = recordings.decode(name)
    assert (verdict.status, verdict.class_) == (Status(status), Class(class_) if class_ else None)
    assert verdict.reason is None if reason is None else re.search(re.escape(reason), verdict.reason or "")
    if verdict.status is Status.FAILED:
        assert verdict.reply is None


# -- pitfalls ----------------------------------------------------------------------------------------------------------


def test_usage_is_cumulative_and_becomes_that_of_the_turn_by_what_was_carried() -> None:
    carried = Total(input_tokens=90, output_tokens=7, cached_tokens=10, reasoning_tokens=3)
    found, verdict = decode(thread(), completed(203, 20, 14, 6), of=turn(session_id=ID, carried=carried))
    assert verdict.usage == Usage(input_tokens=93, output_tokens=7, cached_tokens=10, reasoning_tokens=3)
    (seen,) = [event for event in found if isinstance(event, events.UsageSeen)]
    assert seen.usage == verdict.usage
    assert seen.total == Total(input_tokens=183, output_tokens=14, cached_tokens=20, reasoning_tokens=6)


def test_the_usage_of_a_new_session_is_its_total_and_that_of_an_unknown_past_is_not_known() -> None:
    assert decode(thread(), completed())[1].usage == Usage(
        input_tokens=90, output_tokens=7, cached_tokens=10, reasoning_tokens=3
    )
    assert decode(thread(), completed(), of=turn(session_id=ID))[1].usage == Usage()
    assert decode(thread(OTHER), completed(), of=turn(session_id=ID, fork=True))[1].usage == Usage()


def test_tokens_that_codex_did_not_count_are_not_known() -> None:
    found, verdict = decode(thread(), completed(0, 0, 0, 0))
    assert verdict.usage == Usage()
    assert not any(isinstance(event, events.UsageSeen) for event in found)


def test_totals_that_became_smaller_say_nothing_of_the_turn() -> None:
    assert (
        usage_since(Usage(input_tokens=5, output_tokens=5, cached_tokens=0, reasoning_tokens=0), NOTHING_YET) == Usage()
    )


def test_a_silently_new_session_is_said_to_be_lost_and_its_id_is_the_new_one() -> None:
    found, verdict = decode(thread(OTHER), said("hello"), completed(), of=turn(session_id=ID))
    assert (verdict.status, verdict.session, verdict.session_id) == (Status.COMPLETED, "lost", OTHER)
    assert [type(event) for event in found[:2]] == [events.SessionStarted, events.Notice]
    assert verdict.usage.output_tokens == 7


def test_a_session_is_lost_only_where_codex_says_so_of_the_id_that_was_asked() -> None:
    def ended(thread_id: str) -> Exit:
        return Exit(
            code=1, stderr_tail=f"Error: thread/resume failed: no rollout found for thread id {thread_id} (code)"
        )

    found, verdict = decode(of=turn(session_id=ID), ended=ended(ID))
    assert (verdict.status, verdict.session, verdict.session_id) == (Status.FAILED, "lost", None)
    assert [type(event) for event in found] == [events.SessionLost]
    for of in (turn(), turn(session_id=OTHER)):
        found, verdict = decode(of=of, ended=ended(ID))
        assert (verdict.status, verdict.session) == (Status.FAILED, None)
        assert not [event for event in found if isinstance(event, events.SessionLost)]


def test_item_ids_restart_in_each_process_and_call_ids_do_not() -> None:
    started = item("command_execution", "started", command="ls", status="in_progress")

    def call_id(of: Turn) -> str:
        found, _ = decode(thread(), started, of=of)
        return next(event.call_id for event in found if isinstance(event, events.ToolCalled))

    ids = {call_id(turn()), call_id(turn(message_id="codex-2")), call_id(turn(attempt=2))}
    assert len(ids) == 3


def test_exit_code_0_without_the_end_of_the_turn_is_a_failure() -> None:
    _, verdict = decode(thread(), said("half"))
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.CRASHED, None)


def test_an_exit_code_after_the_end_of_the_turn_is_only_a_notice() -> None:
    found, verdict = decode(thread(), said("x"), completed(), ended=Exit(code=1))
    assert verdict.status is Status.COMPLETED
    assert isinstance(found[-1], events.Notice) and found[-1].code == "exit_code"


def test_a_command_may_end_without_having_begun_and_begin_without_ending() -> None:
    ended = item("command_execution", command="ls", aggregated_output="out\n", exit_code=0, status="completed")
    found, _ = decode(thread(), ended)
    assert [type(event) for event in found[1:3]] == [events.ToolCalled, events.ToolReturned]
    begun = item("command_execution", "started", command="sleep 9", status="in_progress")
    found, verdict = decode(thread(), begun, said("started it"), completed())
    assert verdict.status is Status.COMPLETED
    (left,) = [event for event in found if isinstance(event, events.ToolReturned)]
    assert left.unfinished
    (work,) = verdict.unfinished
    assert (work.tool, work.call_id, bytes(work.input), work.how) == (
        "shell",
        left.call_id,
        b'{"command":"sleep 9"}',
        "running",
    )


def test_what_only_the_log_says_was_refused_to_the_model_is_a_denial() -> None:
    log = "2026-11-21T22:35:55Z ERROR codex_core::tools::router: error=patch rejected: writing is blocked\n"
    _, verdict = decode(thread(), said("could not"), completed(), ended=Exit(code=0, stderr_tail=log))
    assert (verdict.status, verdict.reply) == (Status.DENIED, "could not")
    assert [(denial.tool, denial.by) for denial in verdict.denials] == [("apply_patch", "default")]


def test_an_mcp_tool_that_needs_approval_is_a_denial() -> None:
    error = {"message": "MCP tool call requires approval, but approval policy is never"}
    line = item("mcp_tool_call", server="lab", tool="ping", arguments={"x": 1}, error=error, status="failed")
    found, verdict = decode(thread(), line, completed())
    assert verdict.status is Status.DENIED
    assert [denial.tool for denial in verdict.denials] == ["mcp__lab__ping"]
    returned = next(event for event in found if isinstance(event, events.ToolReturned))
    assert returned.is_error and "requires approval" in returned.output


# -- retries -----------------------------------------------------------------------------------------------------------


def test_a_retry_is_a_status_and_no_failure() -> None:
    line = {"type": "error", "message": "Reconnecting... 2/5 (unexpected status 503 Service Unavailable: busy)"}
    found, verdict = decode(thread(), line, said("ok"), completed())
    assert verdict.status is Status.COMPLETED
    (retry,) = [event for event in found if isinstance(event, events.StatusChanged)]
    assert (retry.state, retry.attempt, retry.of, retry.class_) == ("retrying", 2, 5, Class.OVERLOADED)


def test_waiting_for_the_network_without_end_is_a_retry_too() -> None:
    text = "Reconnecting... waiting for network (Connection failed: error sending request)"
    found, _ = decode(thread(), {"type": "error", "message": text})
    assert isinstance(found[1], events.StatusChanged)
    assert (found[1].attempt, found[1].class_) == (None, Class.NETWORK)


def test_a_turn_that_beam_ended_at_its_retries_failed_with_their_reason() -> None:
    line = {"type": "error", "message": "Reconnecting... 2/5 (Connection failed: error sending request)"}
    _, verdict = decode(thread(), line, ended=Exit(signal="SIGINT", stopped_by="retries"))
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.NETWORK)
    assert "Connection failed" in (verdict.reason or "")


def test_the_failure_is_noticed_once_and_is_never_the_reply() -> None:
    found, verdict = decode(thread(), *failed("unexpected status 401 Unauthorized: no"))
    assert sum(isinstance(event, events.Notice) for event in found) == 1
    assert (verdict.class_, verdict.reply) == (Class.AUTH, None)


def test_an_answer_that_is_cut_off_is_truncated_with_what_there_is_and_a_blocked_one_refused() -> None:
    _, verdict = decode(thread(), said("half"), *failed("Incomplete response returned, reason: max_output_tokens"))
    assert (verdict.status, verdict.reply) == (Status.TRUNCATED, "half")
    text = "stream disconnected before completion: Incomplete response returned, reason: content_filter"
    assert decode(thread(), *failed(text))[1].status is Status.REFUSED
    again = {"type": "error", "message": f"Reconnecting... 1/5 ({text})"}
    assert decode(thread(), again, ended=Exit(signal="SIGINT", stopped_by="retries"))[1].status is Status.REFUSED
    assert decode(thread(), again, said("ok"), completed())[1].status is Status.COMPLETED


@pytest.mark.parametrize("why", ["content_filter", "max_output_tokens"])
def test_a_codex_that_is_killed_while_it_tries_again_has_crashed(why: str) -> None:
    text = f"Reconnecting... 1/5 (stream disconnected: Incomplete response returned, reason: {why})"
    _, verdict = decode(thread(), {"type": "error", "message": text}, ended=Exit(signal="SIGKILL"))
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)


@pytest.mark.parametrize(
    ("why", "status"), [("content_filter", Status.REFUSED), ("max_output_tokens", Status.TRUNCATED)]
)
def test_a_codex_that_is_stopped_at_its_retries_ends_as_its_last_answer_did(why: str, status: Status) -> None:
    text = f"Reconnecting... 1/5 (stream disconnected: Incomplete response returned, reason: {why})"
    ended = Exit(signal="SIGINT", stopped_by="retries")
    assert decode(thread(), {"type": "error", "message": text}, ended=ended)[1].status is status


@pytest.mark.parametrize(
    ("why", "status"), [("timeout", Status.TIMEOUT), ("idle", Status.TIMEOUT), ("cancelled", Status.CANCELLED)]
)
def test_beams_own_stop_is_the_verdict(why: str, status: Status) -> None:
    _, verdict = decode(thread(), said("half"), ended=Exit(code=1, stopped_by=why))
    assert (verdict.status, verdict.session_id) == (status, ID)


# -- items -------------------------------------------------------------------------------------------------------------


def test_the_reply_is_what_was_said_after_the_last_call() -> None:
    command = item("command_execution", command="ls", aggregated_output="", exit_code=0, status="completed")
    _, verdict = decode(thread(), said("I look."), command, said("done"), completed())
    assert verdict.reply == "done"


def test_a_patch_is_a_call_and_each_file_of_it_a_change() -> None:
    changes = [{"path": "/w/a", "kind": "add"}, {"path": "/w/b", "kind": "delete"}]
    found, _ = decode(
        thread(),
        item("file_change", "started", changes=changes, status="in_progress"),
        item("file_change", changes=changes, status="completed"),
        completed(),
    )
    changed = [(event.path, event.kind) for event in found if isinstance(event, events.FileChanged)]
    assert changed == [("/w/a", "add"), ("/w/b", "delete")]
    found, _ = decode(thread(), item("file_change", changes=changes, status="failed"))
    assert not [event for event in found if isinstance(event, events.FileChanged)]


def test_a_failed_command_is_an_error_of_the_tool_and_not_of_the_turn() -> None:
    line = item("command_execution", command="x", aggregated_output="no\n", exit_code=3, status="failed")
    found, verdict = decode(thread(), line, said("it failed"), completed())
    returned = next(event for event in found if isinstance(event, events.ToolReturned))
    assert (returned.is_error, returned.output) == (True, "no\n[exit code 3]")
    assert verdict.status is Status.COMPLETED


def test_a_search_with_its_id_twice_is_read_with_the_last_one() -> None:
    raw = b'{"type":"item.%s","item":{"id":"item_0","type":"web_search","id":"ws_12","query":"q","action":{}}}'
    found, _ = decode(thread(), raw % b"started", raw % b"completed", completed())
    called, returned = found[1], found[2]
    assert isinstance(called, events.ToolCalled) and isinstance(returned, events.ToolReturned)
    assert called.call_id == returned.call_id
    assert called.call_id.endswith("ws_12")


def test_a_plan_is_told_whole_whenever_it_changes() -> None:
    steps = [{"text": "one", "completed": True}, {"text": "two", "completed": False}]
    found, _ = decode(thread(), *(item("todo_list", when, items=steps) for when in ("started", "updated", "completed")))
    plans = [event for event in found if isinstance(event, events.PlanUpdated)]
    assert [[(step.text, step.status) for step in plan.steps] for plan in plans] == [
        [("one", "completed"), ("two", "pending")]
    ] * 3


def test_a_warning_is_a_notice_even_before_the_turn_begins() -> None:
    found, verdict = decode(thread(), item("error", message="Model metadata not found"), said("x"), completed())
    assert [event.text for event in found if isinstance(event, events.Notice)] == ["Model metadata not found"]
    assert verdict.status is Status.COMPLETED


def test_what_nobody_knows_is_unknown_and_kept() -> None:
    for line, what in (
        ({"type": "new.thing"}, "new.thing"),
        (item("new_item"), "item/new_item"),
        (item("new_item", "started"), "item/new_item"),
        (item("new_item", "updated"), "item/new_item"),
        ({}, "no type"),
        (b"not json", "not JSON"),
    ):
        found, _ = decode(line)
        assert isinstance(found[0], events.Unknown)
        assert found[0].what == what
        assert found[0].raw is not UNSET


def test_a_schema_gives_structured_output_or_a_failure() -> None:
    of = turn(schema='{"type":"object"}')
    _, verdict = decode(thread(), said('{"a": 1}'), completed(), of=of)
    assert verdict.structured is not UNSET and json.loads(bytes(verdict.structured)) == {"a": 1}
    _, verdict = decode(thread(), said("no"), completed(), of=of)
    assert (verdict.status, verdict.structured) == (Status.FAILED, UNSET)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KINDS = ["thread.started", "turn.completed", "turn.failed", "error", "item.started", "item.updated", "item.completed"]
ITEMS = ["agent_message", "command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call", "x"]


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from(KINDS), st.sampled_from(ITEMS), st.dictionaries(st.text(), JSON), JSON)
def test_no_line_whatever_it_holds_breaks_the_decoder(
    kind: str, item_kind: str, fields: dict[str, Any], any: Any
) -> None:
    odd = {
        "type": kind,
        "item": {**fields, "type": item_kind, "changes": any, "result": any, "items": any},
        "usage": any,
    }
    found, verdict = decode({**fields, **odd}, of=turn(session_id=ID))
    for event in found:
        events.encode(event)
    assert verdict.status is not Status.UNKNOWN


@pytest.mark.parametrize("is_new", [True, False])
def test_a_turn_in_which_no_model_was_asked_was_stopped(*, is_new: bool) -> None:
    carried = Total(input_tokens=30, cached_tokens=20, output_tokens=5, reasoning_tokens=0)
    of = turn() if is_new else turn(session_id=ID, carried=carried)
    end = completed(0, 0, 0, 0) if is_new else completed(50, 20, 5, 0)
    _, found = decode(thread(), item("error", message="look out"), end, of=of)
    assert (found.status, found.class_, found.reply) == (Status.FAILED, Class.STOPPED, None)
    assert "without asking its model" in (found.reason or "")


def test_a_turn_with_an_item_or_with_tokens_asked_its_model() -> None:
    assert decode(thread(), said("All."), completed(0, 0, 0, 0))[1].status is Status.COMPLETED
    assert decode(thread(), completed())[1].status is Status.COMPLETED
