"""The scripted adapter: how it launches its program, and what it makes of the program's frames."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.agents import scripted
from beam.agents.base import Exit, Host, Turn, Verdict
from beam.agents.scripted import exec as headless
from beam.agents.scripted.frames import decoder as decoder_of
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Denial, Status, Usage
from beam.model.settings import AgentSettings

HOST = Host(python="/usr/bin/python3")
PROGRAM = ("/usr/bin/python3", "-P", "-m", "beam.testing.scripted")


def turn(script: str | None = None, **fields: Any) -> Turn:
    settings = AgentSettings(adapter="scripted", script=script, system=fields.pop("system", None))
    return Turn(**{"text": "hi", "message_id": "s-1", "agent": "s", "settings": settings, **fields})


def decoded(*frames: dict[str, Any] | bytes, exit: Exit | None = None) -> tuple[list[Event], Verdict]:
    decoder = decoder_of(turn())
    lines = [frame if isinstance(frame, bytes) else json.dumps(frame).encode() for frame in frames]
    bodies = [body for line in lines for body in decoder.line(line)]
    last, verdict = decoder.end(exit or Exit(code=0))
    return [*bodies, *last], verdict


INIT = {"frame": "init", "session_id": "s1", "resumed": False, "turn": 1, "model": "tiny", "version": "1"}


@pytest.mark.parametrize(
    ("made", "arguments"),
    [
        (turn(), ("demo", "--agent", "s")),
        (turn("a/b.yaml"), ("a/b.yaml", "--agent", "s")),
        (turn(fresh_session_id="f1"), ("demo", "--session-id", "f1", "--agent", "s")),
        (turn(fresh_session_id="f1", session_id="s1"), ("demo", "--resume", "s1", "--agent", "s")),
        (
            turn(model="big", sender="me", once=True),
            ("demo", "--model", "big", "--agent", "s", "--from", "me", "--once"),
        ),
    ],
)
def test_it_launches_its_program_with_the_turn_in_its_arguments(made: Turn, arguments: tuple[str, ...]) -> None:
    launch = headless.launch(made, HOST)
    assert launch.argv == (*PROGRAM, *arguments)
    assert launch.stdin == b"hi"


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (INIT, events.SessionStarted(session_id="s1", model="tiny", version="1")),
        ({**INIT, "resumed": True}, events.SessionStarted(resumed=True, session_id="s1", model="tiny", version="1")),
        ({"frame": "text", "text": "hi"}, events.Text(text="hi")),
        ({"frame": "thinking", "text": "hm"}, events.Thinking(text="hm")),
        (
            {"frame": "tool_call", "id": "c", "name": "ls", "input": {"a": 1}},
            events.ToolCalled(call_id="c", name="ls", input=msgspec.Raw(b'{"a":1}')),
        ),
        ({"frame": "tool_progress", "id": "c", "text": "50 %"}, events.ToolProgress(call_id="c", text="50 %")),
        (
            {"frame": "tool_result", "id": "c", "output": "no", "is_error": True},
            events.ToolReturned(call_id="c", output="no", is_error=True),
        ),
        (
            {"frame": "plan", "steps": [{"text": "a", "status": "completed"}, {"text": "b"}]},
            events.PlanUpdated(steps=(events.PlanStep(text="a", status="completed"), events.PlanStep(text="b"))),
        ),
        ({"frame": "file", "path": "a.py", "kind": "add"}, events.FileChanged(path="a.py", kind="add")),
        (
            {"frame": "status", "state": "retrying", "attempt": 1, "of": 3, "delay_s": 0.5, "class": "overloaded"},
            events.StatusChanged(state="retrying", attempt=1, of=3, delay_s=0.5, class_=Class.OVERLOADED),
        ),
        (
            {"frame": "usage", "usage": {"input_tokens": 3}, "cost_usd": 0.1},
            events.UsageSeen(usage=Usage(input_tokens=3), cost_usd=0.1),
        ),
        ({"frame": "dance"}, events.Unknown(what="dance")),
        ({"frame": "text"}, events.Unknown(what="text")),
        ({"frame": 7}, events.Unknown(what="record")),
    ],
)
def test_each_frame_becomes_its_event_and_keeps_its_line(frame: dict[str, Any], expected: Event) -> None:
    bodies, _ = decoded(frame)
    assert bodies == [msgspec.structs.replace(expected, raw=json.dumps(frame))]


def test_a_delta_is_a_delta_and_a_blank_line_nothing() -> None:
    assert decoded(b"", {"frame": "delta", "text": "h"}, b" ")[0] == [events.TextDelta(text="h")]


def test_garbage_is_kept_as_unknown() -> None:
    bodies, _ = decoded(b"noise \xff", b"[1]")
    assert bodies == [
        events.Unknown(what="not JSON", raw="noise \ufffd"),
        events.Unknown(what="not JSON", raw="[1]"),
    ]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"status": "completed", "reply": "ok"}, Verdict(status=Status.COMPLETED, reply="ok")),
        (
            {"status": "failed", "class": "auth", "reason": "no key"},
            Verdict(status=Status.FAILED, class_=Class.AUTH, reason="no key"),
        ),
        ({"status": "refused", "reason": "no", "reply": ""}, Verdict(status=Status.REFUSED, reason="no", reply="")),
        ({"status": "truncated", "reply": "ha"}, Verdict(status=Status.TRUNCATED, reply="ha")),
        (
            {"status": "denied", "denials": [{"tool": "rm", "input": {"a": 1}}]},
            Verdict(status=Status.DENIED, denials=(Denial(tool="rm", input=msgspec.Raw(b'{"a":1}')),)),
        ),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_the_verdict_is_the_result_frame_whatever_the_exit_code(
    result: dict[str, Any], expected: Verdict, code: int
) -> None:
    _, verdict = decoded(INIT, {"frame": "result", **result}, exit=Exit(code=code))
    assert verdict == msgspec.structs.replace(expected, session_id="s1", session="new", model="tiny")


def test_a_process_that_dies_without_a_result_crashed_in_its_session() -> None:
    exit = Exit(signal="SIGKILL", stderr_tail="ouch\n")
    _, verdict = decoded(INIT, {"frame": "usage", "usage": {"output_tokens": 2}}, exit=exit)
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)
    assert verdict.reason == "the scripted agent was ended by SIGKILL before it answered: ouch"
    assert (verdict.session_id, verdict.usage.output_tokens) == ("s1", 2)


def test_a_result_of_no_known_status_is_no_result() -> None:
    bodies, verdict = decoded(INIT, {"frame": "result", "status": "splendid"})
    assert isinstance(bodies[-1], events.Unknown)
    assert verdict.class_ is Class.CRASHED


def test_a_session_that_is_gone_is_lost() -> None:
    bodies, verdict = decoded({"frame": "lost", "session_id": "old"}, exit=Exit(code=1))
    assert [type(body) for body in bodies] == [events.SessionLost]
    assert (verdict.status, verdict.session) == (Status.FAILED, "lost")
    assert verdict.reason == "the scripted agent has no session old"


words = st.text(alphabet='a0"\\\ud800\u00e9', max_size=3)
frames = st.dictionaries(
    st.sampled_from(["frame", "text", "id", "name", "input", "steps", "status", "usage", "session_id", "denials"]),
    st.sampled_from(["init", "text", "tool_call", "plan", "usage", "result", "lost", "completed"])
    | words
    | st.integers()
    | st.lists(words, max_size=2)
    | st.none(),
    max_size=4,
)


@pytest.mark.slow
@given(lines=st.lists(st.binary(max_size=20) | frames.map(lambda value: json.dumps(value).encode()), max_size=3))
def test_no_output_raises_and_every_event_can_be_written(lines: list[bytes]) -> None:
    bodies, verdict = decoded(*lines)
    for body in bodies:
        events.decode(events.encode(body))
    msgspec.json.encode(verdict)


def test_deeply_nested_frames_do_not_raise() -> None:
    line = b'{"frame": "tool_call", "id": "1", "name": "x", "input": ' + b"[" * 990 + b"]" * 990 + b"}"
    assert len(decoded(line, b"[" * 100_000)[0]) == 2


def test_a_scripted_agent_of_a_folder_needs_trust_for_its_scripts_run_programs() -> None:
    assert scripted.card.runs_code
    assert scripted.card.faces["exec"].access == ()
