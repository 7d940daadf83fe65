"""A journal as the turns that a person reads."""

from __future__ import annotations

import msgspec
import pytest

from beam.model import events
from beam.model.outcome import Class, Status, Usage
from beam.model.transcript import Item, transcript

OWNER = events.Owner(pid=1, start_ticks=1)
T = "2026-03-01T10:00:0%d.000000Z"


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def queued(message: str, text: str) -> events.MessageQueued:
    return events.MessageQueued(message_id=message, sender="human", text=text)


def started(turn: int, message: str) -> events.TurnStarted:
    return events.TurnStarted(
        ts=T % turn, turn=turn, message_id=message, owner=OWNER, turn_key="k", adapter="claude", via="exec"
    )


def finished(turn: int, message: str, **more: object) -> events.TurnFinished:
    return events.TurnFinished(turn=turn, message_id=message, **{"status": Status.COMPLETED, **more})  # type: ignore[arg-type]


def test_a_turn_has_its_prompt_what_was_said_and_done_and_its_outcome() -> None:
    mine = {"turn": 1, "message_id": "m1"}
    (turn,) = transcript(
        "claude",
        [
            queued("m1", "Fix it."),
            started(1, "m1"),
            events.SessionStarted(session_id="s", model="opus", **mine),
            events.Thinking(text="Hm.", **mine),
            events.ToolCalled(call_id="c1", name="Bash", input=raw({"command": "make"}), **mine),
            events.Text(text="Done.", **mine),
            events.ToolReturned(call_id="c1", output="ok", **mine),
            finished(1, "m1", reply="Done.", usage=Usage(input_tokens=3), cost_usd=0.5, duration_s=2.0),
        ],
    ).turns
    assert (turn.number, turn.sender, turn.prompt, turn.adapter, turn.model) == (
        1,
        "human",
        "Fix it.",
        "claude",
        "opus",
    )
    assert (turn.status, turn.usage.input_tokens, turn.cost_usd, turn.duration_s) == ("completed", 3, 0.5, 2.0)
    assert turn.items == (
        Item(kind="thinking", ts="", text="Hm."),
        Item(kind="tool", ts="", name="Bash", input='{"command":"make"}', text="ok"),
        Item(kind="text", ts="", text="Done."),
    )


def test_a_tool_that_did_not_return_and_a_request_that_nobody_decided_are_open() -> None:
    mine = {"turn": 1, "message_id": "m1"}
    (turn,) = transcript(
        "a",
        [
            started(1, "m1"),
            events.ToolCalled(call_id="c1", name="Bash", **mine),
            events.ToolReturned(call_id="c1", unfinished=True, **mine),
            events.PermissionAsked(ask_id="q1", tool="Bash", **mine),
            events.PermissionAsked(ask_id="q2", tool="Edit", **mine),
            events.PermissionDecided(ask_id="q2", decision="deny", by="human", why="not now", **mine),
        ],
    ).turns
    assert [(item.kind, item.is_open, item.text) for item in turn.items] == [
        ("tool", True, ""),
        ("ask", True, ""),
        ("ask", False, "denied by human: not now"),
    ]
    assert turn.status is None


def test_two_sessions_with_the_same_number_of_a_turn_are_kept_apart() -> None:
    found = transcript(
        "a",
        [
            started(1, "m1"),
            started(1, "m2"),
            events.Text(text="of two", turn=1, message_id="m2"),
            events.Text(text="of one", turn=1, message_id="m1"),
            finished(1, "m2", status=Status.FAILED, class_=Class.CRASHED, reason="gone", exit_code=1),
        ],
    )
    assert [(turn.message_id, turn.items[0].text, turn.status) for turn in found.turns] == [
        ("m1", "of one", None),
        ("m2", "of two", "failed"),
    ]


def test_what_no_turn_has_stands_between_turns_once_for_all_of_it() -> None:
    found = transcript(
        "a",
        [
            events.Notice(text="one", ts=T % 0),
            events.Notice(text="two"),
            started(1, "m1"),
            finished(1, "m1"),
            events.MessageDead(message_id="m2", reason="hops"),
        ],
    )
    assert [(turn.number, [item.text for item in turn.items]) for turn in found.turns] == [
        (None, ["one", "two"]),
        (1, []),
        (None, ["dead letter: hops"]),
    ]


def test_a_prompt_of_a_session_that_beam_did_not_start_begins_a_turn_without_a_number() -> None:
    (turn,) = transcript("a", [events.SessionPrompted(text="hello"), events.Text(text="hi")]).turns
    assert (turn.number, turn.prompt, [item.text for item in turn.items]) == (None, "hello", ["hi"])


def test_an_imported_session_keeps_its_times_and_what_comes_after_it_is_no_part_of_its_last_prompt() -> None:
    past = "2025-01-01T08:00:00.000000Z"
    found = transcript(
        "a",
        [
            events.SessionPrompted(text="hello", ts=T % 0, imported=past),
            events.Text(text="hi", ts=T % 0, imported=past),
            events.SessionIdle(usage=Usage(output_tokens=2), imported=past),
            events.SessionImported(session_id="s", adapter="claude", events=3),
            events.Notice(text="later"),
            started(1, "m1"),
        ],
    )
    first, between, _ = found.turns
    assert (first.begin, first.items[0].ts, first.usage.output_tokens) == (past, past, 2)
    assert [item.text for item in between.items] == ["later"]


def whole(*said: events.Event) -> list[dict[str, object]]:
    """The items of a turn with these events, without fields at their defaults."""
    mine = {"turn": 1, "message_id": "m1", "ts": "t"}
    (turn,) = transcript("a", [started(1, "m1"), *(msgspec.structs.replace(one, **mine) for one in said)]).turns  # type: ignore[list-item]
    defaults = msgspec.structs.asdict(Item(kind=""))
    return [
        {name: value for name, value in msgspec.structs.asdict(item).items() if value != defaults[name]}
        for item in turn.items
    ]


@pytest.mark.parametrize(
    "name",
    [
        "text",
        "thinking",
        "tool",
        "tool that fails",
        "file",
        "image",
        "image without a size",
        "plan",
        "ask denied",
        "ask allowed",
        "ask cancelled",
        "notice",
    ],
)
def test_each_thing_that_is_said_is_an_item(name: str) -> None:
    half = msgspec.Raw(b'{"command": "ls \xff"}')
    asked = events.PermissionAsked(ask_id="q", tool="Bash", input=half)
    called = events.ToolCalled(call_id="c", name="Bash", input=half, parent="p")
    said: dict[str, tuple[events.Event, ...]] = {
        "text": (events.Text(text="hi", parent="p"),),
        "thinking": (events.Thinking(text="hm", parent="p"),),
        "tool": (called, events.ToolReturned(call_id="c", output="ok")),
        "tool that fails": (called, events.ToolReturned(call_id="c", output="no", is_error=True)),
        "file": (events.FileChanged(path="/p/x", kind="add"),),
        "image": (events.ImageSeen(media_type="image/png", bytes=5, path="images/1.png", parent="p"),),
        "image without a size": (events.ImageSeen(media_type="image/png", at="/x.png", unkept="too large"),),
        "plan": (
            events.PlanUpdated(
                steps=tuple(
                    events.PlanStep(text=status, status=status)  # type: ignore[arg-type]
                    for status in ("completed", "in_progress", "pending")
                )
            ),
        ),
        "ask denied": (asked, events.PermissionDecided(ask_id="q", decision="deny", by="human")),
        "ask allowed": (asked, events.PermissionDecided(ask_id="q", decision="allow", by="rule", why="Bash(ls)")),
        "ask cancelled": (asked, events.PermissionDecided(ask_id="q", decision="cancelled")),
        "notice": (events.Notice(text="note", code="x"),),
    }
    assert whole(*said[name]) == _ITEMS[name]


def test_an_outcome_is_in_its_turn_whole() -> None:
    done = finished(
        1,
        "m1",
        status=Status.FAILED,
        class_=Class.CRASHED,
        reason="boom",
        reply="half",
        exit_code=1,
        usage=Usage(input_tokens=3),
        cost_usd=0.5,
        duration_s=2.0,
        model="haiku",
    )
    found = transcript("a", [queued("m1", "Fix it."), started(1, "m1"), done])
    assert (found.v, found.agent) == (1, "a")
    assert [msgspec.structs.asdict(turn) for turn in found.turns] == [
        {
            "number": 1,
            "message_id": "m1",
            "begin": "2026-03-01T10:00:01.000000Z",
            "sender": "human",
            "prompt": "Fix it.",
            "adapter": "claude",
            "via": "exec",
            "model": "haiku",
            "items": (),
            "status": "failed",
            "class_": "crashed",
            "reason": "boom",
            "reply": "half",
            "exit_code": 1,
            "usage": Usage(
                input_tokens=3,
                output_tokens=None,
                cached_tokens=None,
                reasoning_tokens=None,
                cache_write_tokens=None,
                calls=None,
            ),
            "cost_usd": 0.5,
            "duration_s": 2.0,
        }
    ]
    said = transcript(
        "a", [events.SessionPrompted(text="hello", ts="t"), events.SessionIdle(model="opus", duration_s=3.0)]
    )
    assert [msgspec.structs.asdict(turn) for turn in said.turns] == [
        {
            "number": None,
            "message_id": None,
            "begin": "t",
            "sender": "human",
            "prompt": "hello",
            "adapter": "",
            "via": "",
            "model": "opus",
            "items": (),
            "status": None,
            "class_": None,
            "reason": None,
            "reply": None,
            "exit_code": 0,
            "usage": Usage(
                input_tokens=None,
                output_tokens=None,
                cached_tokens=None,
                reasoning_tokens=None,
                cache_write_tokens=None,
                calls=None,
            ),
            "cost_usd": None,
            "duration_s": 3.0,
        }
    ]


def test_a_dead_letter_says_why_in_detail() -> None:
    dead = events.MessageDead(message_id="m", reason="failed", detail="boom", ts="t")
    (between,) = transcript("a", [dead]).turns
    assert between.items == (Item(kind="note", ts="t", text="dead letter: boom", is_error=True),)


_ITEMS = {
    "text": [{"kind": "text", "ts": "t", "text": "hi", "parent": "p"}],
    "thinking": [{"kind": "thinking", "ts": "t", "text": "hm", "parent": "p"}],
    "tool": [{"kind": "tool", "ts": "t", "text": "ok", "name": "Bash", "input": '{"command": "ls �"}', "parent": "p"}],
    "tool that fails": [
        {
            "kind": "tool",
            "ts": "t",
            "text": "no",
            "name": "Bash",
            "input": '{"command": "ls �"}',
            "is_error": True,
            "parent": "p",
        }
    ],
    "file": [{"kind": "file", "ts": "t", "text": "/p/x", "name": "add"}],
    "image": [{"kind": "file", "ts": "t", "text": "image/png 5 bytes images/1.png", "name": "image", "parent": "p"}],
    "image without a size": [{"kind": "file", "ts": "t", "text": "image/png /x.png", "name": "image"}],
    "plan": [{"kind": "plan", "ts": "t", "text": "[x] completed\n[…] in_progress\n[ ] pending"}],
    "ask denied": [
        {"kind": "ask", "ts": "t", "text": "denied by human", "name": "Bash", "input": '{"command": "ls �"}'}
    ],
    "ask allowed": [
        {"kind": "ask", "ts": "t", "text": "allowed by rule: Bash(ls)", "name": "Bash", "input": '{"command": "ls �"}'}
    ],
    "ask cancelled": [{"kind": "ask", "ts": "t", "text": "cancelled", "name": "Bash", "input": '{"command": "ls �"}'}],
    "notice": [{"kind": "note", "ts": "t", "text": "note"}],
}
