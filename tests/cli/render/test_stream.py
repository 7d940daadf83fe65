"""One line an event, aligned, without bookkeeping; as JSON every event, whole."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from beam.base.errors import NotFoundError
from beam.cli.render.days import Days
from beam.cli.render.stream import EventLine, Stream, short_id
from beam.cli.render.text import display_width
from beam.model import events
from beam.model.outcome import Status, Usage

AT = "2026-01-02T03:04:05.000000Z"
HEAD = {"seq": 1, "ts": AT, "agent": "a", "turn": 1, "message_id": "a-1"}


def lines(*bodies: events.Event) -> list[str]:
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    for body in bodies:
        stream.event(structs.replace(body, **HEAD))  # type: ignore[arg-type]
    return out.getvalue().splitlines()


def test_a_text_is_folded_with_a_sign_for_its_line_breaks_and_its_control_characters_shown() -> None:
    assert lines(events.Text(text="one \n\n\x1b[2J two\n")) == ["03:04:05 a        │ one ⏎ ␛[2J two"]
    call = events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(b'"ls\\nps"'))
    (line,) = lines(call, events.ToolReturned(call_id="1", output="a\r\nb"))
    assert line == "03:04:05 a        ✓ Bash ls ⏎ ps → a ⏎ b"


def test_bookkeeping_is_not_for_people() -> None:
    assert lines(events.PromptSent(bytes=3), events.TextDelta(text="x"), events.MessageClaimed(attempt=1)) == []


def test_a_line_in_a_pipe_has_a_bound_and_ends_with_the_id_that_shows_it_whole() -> None:
    (line,) = lines(events.Text(text="x" * 10_000))
    assert len(line) == 200 and line.endswith(f"x… {short_id(structs.replace(events.Text(text=''), **HEAD))}")  # type: ignore[arg-type]


def test_a_line_that_fits_has_no_id() -> None:
    (line,) = lines(events.Text(text="x" * 180))
    assert len(line) == 200 and line.endswith("x")


def test_a_long_call_leaves_room_for_its_result() -> None:
    call = events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(b'"' + b"c" * 900 + b'"'))
    (line,) = lines(call, events.ToolReturned(call_id="1", output="o" * 900))
    assert len(line) == 200 and "c… → o" in line and line.count("o") > 70


def test_wide_characters_take_two_columns() -> None:
    (line,) = lines(events.Text(text="日" * 500))
    assert display_width(line) in (199, 200)


@pytest.mark.parametrize("given", [{"plain": True}, {"encoding": "ascii"}])
def test_without_utf_8_every_line_is_ascii_and_no_longer_than_others(given: dict[str, Any]) -> None:
    data = io.BytesIO()
    out = io.TextIOWrapper(data, encoding=given.pop("encoding", "utf-8"))
    stream = Stream(out, as_json=False, days=Days(AT), **given)
    for text in ("é → …", "\x1b[2J\x7f日", "日" * 300, "x" * 300):
        stream.event(structs.replace(events.Text(text=text), **HEAD))  # type: ignore[arg-type]
    stream.event(structs.replace(events.ToolReturned(call_id="1", output="x" * 300), **HEAD))  # type: ignore[arg-type]
    out.flush()
    found = data.getvalue().decode("ascii").splitlines()
    assert found[0].endswith("| \\xe9 -> ...") and found[1].endswith("| ^[[2J^?\\u65e5")
    assert {len(line) for line in found[2:]} <= {198, 199, 200} and "x... " in found[3]


def test_a_failure_is_one_line_with_the_id_to_retry() -> None:
    failed = events.TurnFinished(status=Status.FAILED, reason="it ended", exit_code=1)
    dead = events.MessageDead(status=Status.FAILED, reason="failed")
    assert lines(failed, dead) == ["03:04:05 a        ✗ failed: it ended [a-1]"]
    assert lines(dead) == ["03:04:05 a        † dead letter a-1: failed"]


def test_what_the_cli_said_of_a_failure_is_in_the_line_of_the_failure() -> None:
    said = events.Notice(text="quota  exceeded", code="api_error", raw="{}")
    other = events.Notice(text="blocked by a filter", code="error", raw="{}")
    usage = events.UsageSeen(usage=Usage(output_tokens=1))
    failed = events.TurnFinished(status=Status.FAILED, reason="429: quota exceeded", exit_code=1)
    assert lines(said, usage, said, failed) == ["03:04:05 a        ✗ failed: 429: quota exceeded [a-1]"]
    assert lines(said, other, failed) == ["03:04:05 a        ✗ failed: 429: quota exceeded [a-1]"]
    refused = events.TurnFinished(status=Status.REFUSED, reason="the model refused", exit_code=6)
    assert lines(other, refused) == [
        "03:04:05 a        ✗ refused: the model refused [a-1]; its CLI said: blocked by a filter"
    ]


def test_what_a_cli_says_and_no_failure_repeats_is_printed_in_its_place() -> None:
    said = events.Notice(text="be careful", code="warning", raw="{}")
    done = events.TurnFinished(status=Status.COMPLETED)
    assert [line.split()[2:4] for line in lines(said, events.Text(text="hi"), done)] == [
        ["!", "be"],
        ["│", "hi"],
        ["■", "completed"],
    ]
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    stream.event(structs.replace(said, **HEAD))  # type: ignore[arg-type]
    stream.tick("2026-01-02T03:04:05.500000Z")
    assert out.getvalue() == ""
    stream.tick("2026-01-02T03:04:06.100000Z")
    stream.end()
    assert out.getvalue().count("be careful") == 1


def test_a_tools_error_is_told_once() -> None:
    said = events.Notice(text="not permitted", code="", raw="{}")
    call = events.ToolCalled(call_id="1", name="Bash")
    returned = events.ToolReturned(call_id="1", output="Error: not permitted", is_error=True)
    assert lines(call, said, returned) == ["03:04:05 a        ✗ Bash → Error: not permitted"]


def test_internal_events_are_for_those_who_ask() -> None:
    internal = (
        events.StatusChanged(state="idle", detail="by history"),
        events.ControlDone(control_id="1", verb="release", message="released"),
        events.Notice(text="You MUST answer", code="synthetic", raw="{}"),
        events.AgentExited(code=0),
    )
    assert lines(*internal) == []
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT), verbose=True)
    for body in internal:
        stream.event(structs.replace(body, **HEAD))  # type: ignore[arg-type]
    assert [line.split(" ", 2)[2].strip() for line in out.getvalue().splitlines()] == [
        "… idle by history",
        "· release: released",
        "! You MUST answer",
        "· process ended: code 0",
    ]


def test_a_refused_request_and_what_stops_a_queue_are_for_everybody() -> None:
    told = lines(
        events.ControlDone(control_id="1", verb="pause", ok=False, message="no"),
        events.QueuePaused(by="ann"),
        events.CircuitOpened(until="2026-01-02T03:05:00.000000Z", failures=5),
    )
    assert [line[18:] for line in told] == [
        "! pause refused: no",
        "· paused by ann: nothing is taken from its queue",
        "! failed 5 times in a row: nothing is sent to it until 03:05:00",
    ]


def test_a_once_session_is_named_by_the_end_of_its_id() -> None:
    out = io.StringIO()
    event = structs.replace(events.Text(text="t"), **HEAD)  # type: ignore[arg-type]
    Stream(out, as_json=False, days=Days(AT)).batch([EventLine(event, lane="1m865k7j9z1qaz4")])
    assert out.getvalue() == "03:04:05 a:1qaz4  │ t\n"
    assert EventLine(event, lane="1m865k7j9z1qaz4").qualified_event.agent == "a:1m865k7j9z1qaz4", (
        "a cursor needs the whole"
    )


def test_that_a_cli_does_not_tell_something_is_no_line_and_any_other_refusal_is_one() -> None:
    lack = events.ControlDone(
        control_id="c", verb="query", ok=False, code="unsupported", message="a does not report 'x'"
    )
    assert lines(lack) == []
    (failed,) = lines(events.ControlDone(control_id="c", verb="query", ok=False, code="failed", message="it is gone"))
    assert "! query refused: it is gone" in failed
    (steered,) = lines(events.ControlDone(control_id="c", verb="steer", ok=False, code="unsupported", message="no"))
    assert "! steer refused: no" in steered


def test_a_turn_that_runs_for_long_is_told_of_at_one_two_four_minutes_with_what_it_used() -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    begun = events.TurnStarted(owner=events.Owner(pid=1, start_ticks=1), turn_key="k", adapter="codex", via="exec")
    stream.event(structs.replace(begun, **HEAD))  # type: ignore[arg-type]
    stream.event(structs.replace(events.SessionStarted(session_id="s", model="gpt-6-sol"), **HEAD))  # type: ignore[arg-type]
    used = Usage(input_tokens=10_000, output_tokens=2_000)
    stream.event(structs.replace(events.UsageSeen(usage=used), **HEAD))  # type: ignore[arg-type]
    call = events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(b'{"command":"make"}'))
    stream.event(structs.replace(call, **{**HEAD, "ts": "2026-01-02T03:05:00.000000Z"}))  # type: ignore[arg-type]
    for minute, second in ((4, 50), (5, 10), (5, 30), (7, 10)):
        stream.tick(f"2026-01-02T03:{minute:02}:{second}.000000Z")
    told = [line for line in out.getvalue().splitlines() if "…" in line]
    assert told == [
        "03:05:10 a        … turn 1 runs for 1m05s, 12,000 tokens, ~$0.0400: Bash make for 10s",
        "03:07:10 a        … turn 1 runs for 3m05s, 12,000 tokens, ~$0.0400: Bash make for 2m10s",
    ]
    stream.event(structs.replace(events.TurnFinished(status=Status.COMPLETED), **HEAD))  # type: ignore[arg-type]
    before = out.getvalue()
    stream.tick("2026-01-02T04:00:00.000000Z")
    assert out.getvalue() == before


def test_a_turn_that_runs_when_the_watching_begins_is_reported() -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    begun = events.TurnStarted(owner=events.Owner(pid=1, start_ticks=1), turn_key="k", adapter="codex", via="exec")
    call = events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(b'{"command":"make"}'))
    stream.print_running_turn(
        [EventLine(structs.replace(body, **HEAD)) for body in (begun, call)],  # type: ignore[type-var]
        "2026-01-02T03:04:35.000000Z",
    )
    assert out.getvalue() == "03:04:35 a        ▶ turn 1 runs for 30s: Bash make for 30s\n"


def test_conversations_between_agents_are_numbered() -> None:
    def mail(sender: str, to: str) -> events.AnyEvent:
        return events.MailSent(team="t", mail_id="m", sender=sender, to=to, text="hi", agent=f"{sender}@t", ts="")

    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    for sender, to in (("amy", "bob"), ("bob", "cid"), ("bob", "amy")):
        stream.event(mail(sender, to))
    stream.event(events.MessageQueued(sender="planner", text="x", thread="th", agent="bob"))
    stream.event(events.MessageQueued(sender="human", text="x", thread="other", agent="bob"))
    marks = [line.split()[1] for line in out.getvalue().splitlines()]
    assert marks == ["→1", "→2", "→1", "←3", "←"]


def test_a_turns_end_has_its_time_and_cost_and_a_members_idling_how_long_it_worked() -> None:
    assert lines(events.TurnFinished(status=Status.COMPLETED, duration_s=2.5, cost_usd=0.01))[0].endswith(
        "■ completed 2.5s $0.0100"
    )
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    stream.event(events.MemberWorking(team="t", member="a", agent="a@t", ts="2026-01-02T03:04:05.000000Z"))
    stream.event(events.MemberIdle(team="t", member="a", agent="a@t", ts="2026-01-02T03:04:08.000000Z"))
    assert out.getvalue().splitlines()[1].endswith("■ idle (3s)")
    (row,) = lines(events.MemberIdle(team="t", member="a", task_id="3", task_status="blocked", summary="no key"))
    assert row.endswith("■ idle (task 3 blocked) no key")


def test_what_a_members_turn_used_is_reported_with_its_last_words_or_alone() -> None:
    def used(cost: float | None, tokens: int) -> events.AnyEvent:
        usage = Usage(input_tokens=tokens, output_tokens=1)
        unpriced = () if cost is not None else ("claude-next",)
        fields = {"ts": "2026-01-02T03:04:05.000000Z", "agent": "a@t", "usage": usage, "cost_usd": cost}
        return events.MemberUsed(team="t", member="a", unpriced=unpriced, **fields)  # type: ignore[arg-type]

    said = events.Text(text="done", ts="2026-01-02T03:04:05.000000Z", agent="a@t")
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    stream.batch([EventLine(said), EventLine(used(0.25, 3400))])
    stream.batch([EventLine(used(None, 99))])
    assert out.getvalue().splitlines() == [
        "03:04:05 a@t      │ done (3.4k tokens, $0.2500)",
        "03:04:05 a@t      · used 100 tokens, no price for claude-next",
    ]


def test_no_escape_sequence_works_beside_the_text_either() -> None:
    at, who = "2026-01-01T10:00:00.000000Z\x1b[2J", "bob\x1b]0;owned\x07@t"
    said = events.Text(text="done", ts=at, agent=who)
    used = events.MemberUsed(team="t", member="bob", usage=Usage(), unpriced=("\x1b[2Jm",), ts=at, agent=who)
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    stream.batch([EventLine(said), EventLine(used)])
    stream.print_event_in_full([EventLine(said)], short_id(said))
    assert out.getvalue().count("\n") == 2 and "no price for ␛[2Jm" in out.getvalue()
    assert not [char for char in out.getvalue() if char != "\n" and char < " "]


def test_an_event_is_found_by_its_id_and_printed_whole() -> None:
    call = structs.replace(events.ToolCalled(call_id="1", name="T", input=msgspec.Raw(b'{"a":1}')), **HEAD)  # type: ignore[arg-type]
    result = structs.replace(events.ToolReturned(call_id="1", output="one\ntwo\x1b" + "x" * 300), **HEAD)  # type: ignore[arg-type]
    out = io.StringIO()
    assert (
        Stream(out, as_json=False, days=Days(AT)).print_event_in_full(
            [EventLine(call), EventLine(result)], short_id(result).upper()
        )
        == 0
    )
    assert out.getvalue() == '03:04:05 a ✓ T {"a":1}\none\ntwo␛' + "x" * 300 + "\n"
    with pytest.raises(NotFoundError):
        Stream(out, as_json=False, days=Days(AT)).print_event_in_full([EventLine(call)], "zzzzz")


def test_of_several_roots_a_line_has_the_folder_and_json_the_root() -> None:
    event = structs.replace(events.Text(text="t"), **HEAD)  # type: ignore[arg-type]
    line = EventLine(event, Path("/state/shop-1f"), Path("/home/me/shop"))
    out = io.StringIO()
    Stream(out, as_json=False, days=Days(AT)).batch([line])
    assert out.getvalue() == "03:04:05 shop/a   │ t\n"
    out = io.StringIO()
    Stream(out, as_json=True).batch([line])
    found = msgspec.json.decode(out.getvalue())
    assert (found["agent"], found["root"], found["project"]) == ("a", "/state/shop-1f", "/home/me/shop")


def test_names_that_come_together_line_up() -> None:
    out = io.StringIO()
    found = [
        EventLine(structs.replace(events.Text(text="t"), **{**HEAD, "agent": name})) for name in ("a", "a-long-name")
    ]  # type: ignore[arg-type]
    Stream(out, as_json=False, days=Days(AT)).batch(found)
    assert len({line.index("│") for line in out.getvalue().splitlines()}) == 1


def test_a_session_made_team_is_named_by_four_letters() -> None:
    out = io.StringIO()
    Stream(out, as_json=False, days=Days(AT)).event(events.Text(text="t", ts=AT, agent="bob@session-2a65d3be"))
    assert " bob@2a65 " in out.getvalue()


def test_names_line_up_once_a_longer_one_was_seen() -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(AT))
    for agent in ("a", "a-long-name", "b"):
        stream.event(structs.replace(events.Text(text="t"), **{**HEAD, "agent": agent}))  # type: ignore[arg-type]
    positions = [line.index("│") for line in out.getvalue().splitlines()]
    assert positions[1] == positions[2]


def test_as_json_every_event_is_printed_as_it_is_in_the_journal() -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=True)
    event = structs.replace(events.PromptSent(bytes=3), **HEAD)  # type: ignore[arg-type]
    stream.event(event)
    assert out.getvalue() == events.encode(event).decode() + "\n"
