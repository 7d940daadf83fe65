"""A chat's text: what stays of events, and what is shown while a turn runs. Pure."""

from __future__ import annotations

import msgspec
import pytest

from beam.cli.chatting.transcript import Style, Transcript, wrapped
from beam.model.events import (
    FileChanged,
    Notice,
    SessionLost,
    StatusChanged,
    Text,
    TextDelta,
    Thinking,
    ToolCalled,
    ToolReturned,
    UsageSeen,
)
from beam.model.outcome import Class, Outcome, Status, Usage

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
    assert shown.live(101.0, 80)[0] == "tw"
    assert shown.event(TextDelta(text="o\n"), 101.0) == ["two"]
    assert shown.event(Text(text="one\ntwo\nthree"), 101.0) == ["three"]
    assert shown.live(102.0, 80) == ["… 2s"]


def test_a_line_that_goes_on_for_megabytes_is_shown_at_its_end_and_printed_whole(shown: Transcript) -> None:
    size = 20_000
    for number in range(size):
        assert shown.event(TextDelta(text=f"{'x' * 994}{number:06}"), 101.0) == []
        if number % 100 == 0:
            assert len(shown.live(102.0, 80)) <= 7
    assert "".join(shown.live(102.0, 80)).count("019999") == 1
    (line,) = shown.event(TextDelta(text="end\nnext"), 103.0)
    assert (len(line), line.startswith("xxx"), line.endswith("019999end")) == (size * 1000 + 3, True, True)
    assert shown.live(104.0, 80)[0] == "next"


def test_a_text_that_was_not_streamed_is_printed_once(shown: Transcript) -> None:
    assert shown.event(Text(text="all\nof it"), 101.0) == ["all", "of it"]
    assert shown.outcome(outcome(reply="all\nof it\n")) == ["  turn 3"]


def test_a_reply_that_no_event_had_is_printed_at_the_end(shown: Transcript) -> None:
    lines = shown.outcome(outcome(reply="quiet\x1b[2J", duration_s=2.5, usage=Usage(output_tokens=1290), cost_usd=0.01))
    assert lines == ["quiet␛[2J", "  turn 3 · 2.5s · 1,290 tokens · $0.0100"]


def test_a_tool_is_shown_with_its_time_while_it_runs_and_is_a_line_when_it_returned(shown: Transcript) -> None:
    assert shown.event(called(command="pytest -q"), 101.0) == []
    shown.event(UsageSeen(usage=Usage(input_tokens=1200, output_tokens=90), cost_usd=0.0123), 101.0)
    assert shown.live(112.0, 80) == ["… 12s · bash pytest -q (11s) · 1,290 tokens · $0.0123"]
    assert shown.event(called("read", "2", path="x"), 112.0) == []
    assert "read x and 1 more ·" in shown.live(112.0, 80)[-1]
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
    assert shown.live(102.0, 80) == ["… 2s · thinking"]


def test_a_failure_says_why_and_what_to_do(shown: Transcript) -> None:
    (said, figures) = shown.outcome(
        outcome(status=Status.FAILED, class_=Class.AUTH, reason="no key", exit_code=1, turn=4)
    )
    assert said == "  ✗ a: failed (auth): no key; log in with the agent's own CLI, or set its key"
    assert figures == "  turn 4"


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "\x9b31m", "\r\x08gone", "\u202eright to left"])
def test_no_control_character_of_an_agent_is_left_in_any_line(shown: Transcript, text: str) -> None:
    lines = shown.event(TextDelta(text=f"{text}\n{text}"), 100.0)
    lines += shown.live(101.0, 80)
    lines += shown.event(called(name=f"n{text}", command=text), 101.0)
    lines += shown.live(101.0, 80)
    lines += shown.event(ToolReturned(call_id="1", output=text, is_error=True), 101.0)
    lines += shown.event(FileChanged(path=text), 101.0)
    lines += shown.event(Notice(text=text), 101.0)
    lines += shown.event(StatusChanged(state=text), 101.0)
    lines += shown.live(101.0, 80)
    lines += shown.outcome(outcome(status=Status.FAILED, exit_code=1, reason=text, reply=text, model=text))
    assert not any(set("".join(lines)) & set("\x1b\x07\x9b\r\x08\u202e"))


def test_a_long_line_that_is_still_written_is_shown_in_rows_of_the_terminal(shown: Transcript) -> None:
    shown.event(TextDelta(text="x" * 1000), 100.0)
    rows = shown.live(101.0, 40)
    assert len(rows) == 7
    assert all(len(row) < 40 for row in rows)
    assert wrapped("ab漢字c", 3) == ["ab", "漢", "字c"]
