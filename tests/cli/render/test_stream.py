"""One line an event, aligned, without bookkeeping; as JSON every event, whole."""

from __future__ import annotations

import io

import msgspec

from beam import events
from beam.cli.render.stream import Stream
from beam.outcome import Status

HEAD = {"seq": 1, "ts": "2026-01-02T03:04:05.000000Z", "agent": "a", "turn": 1, "message_id": "a-1"}


def lines(*bodies: events.Event) -> list[str]:
    out = io.StringIO()
    stream = Stream(out, as_json=False)
    for body in bodies:
        stream.event(events.stamp(body, **HEAD))  # type: ignore[arg-type]
    return out.getvalue().splitlines()


def test_a_text_is_flattened_and_its_control_characters_shown() -> None:
    assert lines(events.Text(text="one\n\x1b[2Jtwo")) == ["03:04:05 a        │ one ␛[2Jtwo"]


def test_bookkeeping_is_not_for_people() -> None:
    assert lines(events.PromptSent(bytes=3), events.TextDelta(text="x"), events.MessageClaimed(attempt=1)) == []


def test_a_tools_return_names_the_tool() -> None:
    shown = lines(
        events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(b'{"a":1}')),
        events.ToolReturned(call_id="1", output="done"),
        events.ToolReturned(call_id="2", output="x", is_error=True),
        events.ToolReturned(call_id="1", unfinished=True),
    )
    assert [line[18:] for line in shown] == [
        '⚙ Bash {"a":1}',
        "✓ Bash: done",
        "✗ tool: x",
        "✗ tool: the turn ended first",
    ]


def test_an_end_says_the_figures_that_are_known() -> None:
    shown = lines(
        events.TurnFinished(attempt=1, status=Status.COMPLETED, duration_s=2.0, cost_usd=0.5),
        events.TurnFinished(attempt=1, status=Status.UNKNOWN, reason="gone", exit_code=8),
    )
    assert [line[18:] for line in shown] == ["■ completed 2s $0.5000", "✗ unknown: gone"]


def test_a_line_in_a_pipe_has_a_bound() -> None:
    (line,) = lines(events.Text(text="x" * 10_000))
    assert len(line) <= 200


def test_names_line_up_once_a_longer_one_was_seen() -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=False)
    for agent in ("a", "a-long-name", "b"):
        stream.event(events.stamp(events.Text(text="t"), **{**HEAD, "agent": agent}))  # type: ignore[arg-type]
    positions = [line.index("│") for line in out.getvalue().splitlines()]
    assert positions[1] == positions[2]


def test_as_json_every_event_is_printed_as_it_is_in_the_journal() -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=True)
    event = events.stamp(events.PromptSent(bytes=3), **HEAD)  # type: ignore[arg-type]
    stream.event(event)
    assert out.getvalue() == events.encode(event).decode() + "\n"
