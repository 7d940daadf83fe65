"""A chat's text: what stays of events, and what is shown while a turn runs. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from beam.cli.chatting.transcript import Style, Transcript, wrap_to_rows
from beam.model.events import (
    FileChanged,
    ImageSeen,
    Notice,
    PermissionDecided,
    PlanStep,
    PlanUpdated,
    SessionLost,
    StatusChanged,
    Text,
    TextDelta,
    Thinking,
    ToolCalled,
    ToolReturned,
    UsageSeen,
)
from beam.model.outcome import Class, Outcome, Status, Unfinished, Usage

PLAIN = Style(is_colourful=False)


@pytest.fixture
def shown() -> Transcript:
    transcript = Transcript(PLAIN)
    transcript.begin(100.0)
    return transcript


def outcome(**more: object) -> Outcome:
    fields: dict[str, object] = {"status": Status.COMPLETED, "turn": 3, "attempt": 1, "message_id": "m-1", "agent": "a"}
    return Outcome(**{**fields, **more})  # type: ignore[arg-type]


def called(name: str = "bash", call_id: str = "1", **given: object) -> ToolCalled:
    return ToolCalled(call_id=call_id, name=name, input=msgspec.Raw(msgspec.json.encode(given)))


def test_whole_lines_of_a_stream_stay_and_the_last_one_is_shown_until_it_ends(shown: Transcript) -> None:
    assert shown.event(TextDelta(text="one\ntw"), 100.5) == ["one"]
    assert shown.live_rows(101.0, 80)[0] == "tw"
    assert shown.event(TextDelta(text="o\n"), 101.0) == ["two"]
    assert shown.event(Text(text="one\ntwo\nthree"), 101.0) == ["three"]
    assert shown.live_rows(102.0, 80) == ["… 2s"]


@pytest.mark.slow
def test_a_line_that_goes_on_for_megabytes_is_shown_at_its_end_and_printed_whole(shown: Transcript) -> None:
    size = 20_000
    for number in range(size):
        assert shown.event(TextDelta(text=f"{'x' * 994}{number:06}"), 101.0) == []
        if number % 100 == 0:
            assert len(shown.live_rows(102.0, 80)) <= 7
    assert "".join(shown.live_rows(102.0, 80)).count("019999") == 1
    (line,) = shown.event(TextDelta(text="end\nnext"), 103.0)
    assert (len(line), line.startswith("xxx"), line.endswith("019999end")) == (size * 1000 + 3, True, True)
    assert shown.live_rows(104.0, 80)[0] == "next"


def test_a_text_that_was_not_streamed_is_printed_once(shown: Transcript) -> None:
    assert shown.event(Text(text="all\nof it"), 101.0) == ["all", "of it"]
    assert shown.outcome(outcome(reply="all\nof it\n")) == ["  turn 3"]


def test_a_reply_that_no_event_had_is_printed_at_the_end(shown: Transcript) -> None:
    lines = shown.outcome(outcome(reply="quiet\x1b[2J", duration_s=2.5, usage=Usage(output_tokens=1290), cost_usd=0.01))
    assert lines == ["quiet␛[2J", "  turn 3 · 2.5s · 1,290 tokens · $0.0100"]


def test_a_tool_is_shown_with_its_time_while_it_runs_and_is_a_line_when_it_returned(shown: Transcript) -> None:
    assert shown.event(called(command="pytest -q"), 101.0) == []
    shown.event(UsageSeen(usage=Usage(input_tokens=1200, output_tokens=90), cost_usd=0.0123), 101.0)
    assert shown.live_rows(112.0, 80) == ["… 12s · bash pytest -q (11s) · 1,290 tokens · $0.0123"]
    assert shown.event(called("read", "2", path="x"), 112.0) == []
    assert "read x and 1 more ·" in shown.live_rows(112.0, 80)[-1]
    assert shown.event(ToolReturned(call_id="1", output="no\nway", is_error=True), 113.0) == [
        "  ⚙ bash pytest -q (12s)",
        "  ✗ no way",
    ]
    assert shown.event(ToolReturned(call_id="unknown"), 113.0) == []
    assert shown.outcome(outcome())[0] == "  ⚙ read x (it did not return)"


def test_what_else_happens_is_one_line_and_ends_the_line_before(shown: Transcript) -> None:
    shown.event(TextDelta(text="I look"), 100.0)
    assert shown.event(FileChanged(path="a.py", kind="add"), 101.0) == ["I look", "  ✎ add a.py"]
    assert shown.event(SessionLost(session_id="s"), 101.0) == ["  ! its session no longer exists; starting a new one"]
    assert shown.event(StatusChanged(state="retrying", attempt=1, of=3, delay_s=2.0, detail="busy"), 101.0) == [
        "  … retrying 1 of 3 in 2.0 s (busy)"
    ]
    assert shown.event(Notice(text="to the model", code="synthetic"), 101.0) == []
    shown.event(Thinking(text="hm"), 101.0)
    assert shown.live_rows(102.0, 80) == ["… 2s · thinking"]


def test_a_failure_says_why_and_what_to_do(shown: Transcript) -> None:
    (said, figures) = shown.outcome(
        outcome(status=Status.FAILED, class_=Class.AUTH, reason="no key", exit_code=1, turn=4)
    )
    assert said == "  ✗ a: failed (auth): no key; log in with the agent's own CLI, or set its key"
    assert figures == "  turn 4"


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "\x9b31m", "\r\x08gone", "\u202eright to left"])
def test_no_control_character_of_an_agent_is_left_in_any_line(shown: Transcript, text: str) -> None:
    lines = shown.event(TextDelta(text=f"{text}\n{text}"), 100.0)
    lines += shown.live_rows(101.0, 80)
    lines += shown.event(called(name=f"n{text}", command=text), 101.0)
    lines += shown.live_rows(101.0, 80)
    lines += shown.event(ToolReturned(call_id="1", output=text, is_error=True), 101.0)
    lines += shown.event(FileChanged(path=text), 101.0)
    lines += shown.event(Notice(text=text), 101.0)
    lines += shown.event(StatusChanged(state=text), 101.0)
    lines += shown.live_rows(101.0, 80)
    lines += shown.outcome(outcome(status=Status.FAILED, exit_code=1, reason=text, reply=text, model=text))
    assert not any(set("".join(lines)) & set("\x1b\x07\x9b\r\x08\u202e"))


def test_a_long_line_that_is_still_written_is_shown_in_rows_of_the_terminal(shown: Transcript) -> None:
    shown.event(TextDelta(text="x" * 1000), 100.0)
    rows = shown.live_rows(101.0, 40)
    assert len(rows) == 7
    assert all(len(row) < 40 for row in rows)
    assert wrap_to_rows("ab漢字c", 3) == ["ab", "漢", "字c"]


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (PlanUpdated(steps=(PlanStep(text="a", status="completed"), PlanStep(text="b", status="in_progress"))),
         ["  ☐ plan 1/2 b"]),
        (PlanUpdated(steps=(PlanStep(text="a"),)), ["  ☐ plan 0/1"]),
        (ImageSeen(media_type="image/png", path="a.png"), ["  image png a.png"]),
        (StatusChanged(state="mode", detail="plan"), ["  mode plan"]),
        (StatusChanged(state="retrying", attempt=2, of=3, class_=Class.OVERLOADED, detail="x"),
         ["  … retrying 2 of 3 (overloaded)"]),
        (PermissionDecided(ask_id="1", decision="allow", by="ann"), ["  allowed by ann"]),
        (PermissionDecided(ask_id="1", decision="deny", by="rule", why="no"), ["  denied by rule: no"]),
        (PermissionDecided(ask_id="1", decision="cancelled"), ["  request withdrawn"]),
        (PermissionDecided(ask_id="1", decision="cancelled", why="late"), ["  request withdrawn: late"]),
        (Notice(text="be\ncareful"), ["  ! be careful"]),
        (TextDelta(text="one\n", parent="c"), []),
        (Text(text="one", parent="c"), []),
        (Thinking(text="hm"), []),
    ],
)  # fmt: skip
def test_what_happens_in_a_turn_is_reported_aside(shown: Transcript, event: Any, lines: list[str]) -> None:
    shown.event(TextDelta(text="half"), 100.0)
    said = shown.event(event, 101.0)
    assert said == (["half", *lines] if lines else [])


@pytest.mark.parametrize("state", ["idle", "running", "requesting", "access", "hook", "compacted", "mode"])
def test_a_state_that_says_nothing_ends_the_one_before(shown: Transcript, state: str) -> None:
    shown.event(StatusChanged(state="compacting"), 100.0)
    assert shown.live_rows(101.0, 80) == ["… 1s · compacting"]
    shown.event(StatusChanged(state=state), 101.0)
    assert shown.live_rows(101.0, 80) == ["… 1s"]
    shown.event(Thinking(text="x"), 101.0)
    shown.event(TextDelta(text="a"), 101.0)
    assert shown.live_rows(101.4, 80) == ["a", "… 1s"]


def test_tokens_and_cost_are_those_that_were_seen_last(shown: Transcript) -> None:
    shown.event(UsageSeen(usage=Usage(input_tokens=0), cost_usd=None), 100.0)
    assert shown.live_rows(100.2, 80) == ["… "]
    shown.event(UsageSeen(usage=Usage(cache_write_tokens=5)), 100.0)
    assert shown.live_rows(100.2, 80) == ["… "]
    assert shown.live_rows(100.5, 80) == shown.live_rows(100.2, 80)
    assert shown.live_rows(100.6, 80) == ["… 1s"]


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, ["  turn 3"]),
        ({"turn": None}, ["  no turn"]),
        ({"reply": "said", "status": Status.FAILED, "exit_code": 1}, ["  ✗ a: failed [m-1]", "  turn 3"]),
        ({"status": Status.CANCELLED, "exit_code": 9}, ["  cancelled", "  turn 3"]),
        ({"status": Status.CANCELLED, "exit_code": 9, "reason": "by\nann"}, ["  by ann", "  turn 3"]),
        ({"unfinished": (Unfinished(tool="Bash"),)},
         ["  ! unfinished when its turn ended: Bash (running)", "  turn 3"]),
        ({"duration_s": 2.04, "model": "m", "cost_usd": 0.5, "usage": Usage(cached_tokens=0)},
         ["  turn 3 · 2s · 0 tokens · $0.5000 · m"]),
        ({"model": "gpt-6-sol", "usage": Usage(input_tokens=10_000, output_tokens=2_000)},
         ["  turn 3 · 12,000 tokens · $0.0400 · gpt-6-sol"]),
        ({"reply": "one\n\ntwo\n"}, ["one", "", "two", "  turn 3"]),
        ({"reply": " \n"}, ["  turn 3"]),
    ],
)  # fmt: skip
def test_a_turn_ends_with_what_it_left_and_its_figures(
    shown: Transcript, more: dict[str, Any], lines: list[str]
) -> None:
    assert shown.outcome(outcome(**more)) == lines
    assert shown.live_rows(500.0, 80) == []


def test_marks_are_escape_sequences_only_where_there_are_colours() -> None:
    bright = Style(is_colourful=True)
    assert (bright.dim("x"), bright.bold("x"), bright.red("x")) == (
        "\x1b[2mx\x1b[0m",
        "\x1b[1mx\x1b[0m",
        "\x1b[31mx\x1b[0m",
    )
    assert (PLAIN.dim("x"), PLAIN.bold("x"), PLAIN.red("x")) == ("x", "x", "x")


def test_a_turn_begins_with_nothing_of_the_one_before(shown: Transcript) -> None:
    shown.event(Text(text="same"), 100.0)
    shown.event(TextDelta(text="half"), 100.0)
    shown.event(called("read"), 100.0)
    shown.event(UsageSeen(usage=Usage(input_tokens=5), cost_usd=1.0), 100.0)
    shown.event(Thinking(text="x"), 100.0)
    shown.begin(200.0)
    assert shown.live_rows(200.0, 80) == ["… "]
    assert shown.outcome(outcome(reply="same")) == ["same", "  turn 3"]
