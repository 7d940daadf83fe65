"""Journal lines: liberal to read, strict to write."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, get_args

import msgspec
import pytest
from msgspec import structs

from beam.base.errors import CorruptError
from beam.model import events
from beam.model.outcome import Class, Outcome, Status


def test_unknown_fields_are_ignored() -> None:
    event = events.decode(b'{"type":"text","seq":3,"text":"hi","later":{"a":1}}')
    assert isinstance(event, events.Text)
    assert (event.seq, event.text) == (3, "hi")


def test_an_unknown_type_is_kept_whole() -> None:
    line = b'{"type":"tea.made","seq":4,"ts":"t","agent":"a","turn":1,"message_id":"a-1","sugar":2}'
    event = events.decode(line)
    assert isinstance(event, events.Unknown)
    assert (event.what, event.seq, event.turn, event.message_id) == ("tea.made", 4, 1, "a-1")
    assert event.raw == line.decode()


def test_a_bad_field_of_a_known_type_is_an_error_that_names_it() -> None:
    with pytest.raises(CorruptError, match=r"bad text event, seq 7: .*\$\.text"):
        events.decode(b'{"type":"text","seq":7,"text":5}')


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"5", b'{"seq":1}', b"\xff", b'{"type":5}', b'{"type":"text","text":"\xff"}']
)
def test_what_is_no_event_is_corrupt(line: bytes) -> None:
    with pytest.raises(CorruptError):
        events.decode(line)


def concrete(kind: type[events.Event]) -> set[type[events.Event]]:
    """All subclasses that are an event type of their own; a name with `_` only shares fields."""
    below = kind.__subclasses__()
    named = {cls for cls in below if not cls.__name__.startswith("_") and cls.__module__ == events.__name__}
    return named.union(*(concrete(cls) for cls in below))


def test_every_event_class_is_in_the_union() -> None:
    """A class that the union lacks would be written by its name and read back as `Unknown`."""
    classes, union = concrete(events.Event), set(events.AnyEvent.__args__)
    assert sorted(cls.__name__ for cls in classes ^ union) == []
    assert len(classes) > 50


@pytest.mark.parametrize(
    "kind", sorted(concrete(events.Event), key=lambda cls: cls.__name__), ids=lambda cls: cls.__name__
)
def test_every_event_class_has_a_tag_of_its_own_and_reads_back_as_itself(kind: type[events.Event]) -> None:
    tag = kind.__struct_config__.tag
    assert isinstance(tag, str)
    assert events.types()[tag] is kind
    event = _smallest(kind)
    assert events.decode(events.encode(event)) == event


def _smallest(kind: Any) -> Any:
    """A value of the type, of nothing but what it must have."""
    if words := get_args(kind):
        return words[0]
    if issubclass(kind, msgspec.Struct):
        return kind(**{each.name: _smallest(each.type) for each in msgspec.structs.fields(kind) if each.required})
    return next(iter(kind)) if issubclass(kind, Enum) else kind()


@pytest.mark.parametrize("tag", list(events.types()))
def test_every_type_begins_with_its_tag_and_has_the_header(tag: str) -> None:
    kind = events.types()[tag]
    assert kind.__struct_fields__[:6] == ("v", "seq", "ts", "agent", "turn", "message_id")
    assert kind.__doc__


def test_a_stamped_event_keeps_its_body() -> None:
    event = structs.replace(events.Text(text="hi"), seq=2, ts="t", agent="a", turn=1, message_id="a-1")
    assert json.loads(events.encode(event)) == {
        "type": "text",
        "v": 1,
        "seq": 2,
        "ts": "t",
        "agent": "a",
        "turn": 1,
        "message_id": "a-1",
        "text": "hi",
        "parent": None,
    }


def test_the_outcome_of_a_finished_turn_is_all_that_the_event_says() -> None:
    event = events.TurnFinished(
        agent="a", turn=3, message_id="a-1", attempt=2, status=Status.FAILED, class_=Class.AUTH, reason="no key",
        cost_usd=0.5, exit_code=1, structured=msgspec.Raw(b"[1]"),
    )  # fmt: skip
    outcome = events.outcome_of(event)
    assert isinstance(outcome, Outcome)
    assert (outcome.message_id, outcome.turn, outcome.attempt, outcome.class_, outcome.reason) == (
        "a-1",
        3,
        2,
        "auth",
        "no key",
    )
    assert (outcome.cost_usd, outcome.exit_code, outcome.structured) == (0.5, 1, msgspec.Raw(b"[1]"))


def test_the_outcome_of_a_dead_letter_has_an_exit_code_and_a_sentence() -> None:
    dead = events.MessageDead(
        message_id="a-1", agent="a", reason="dropped", detail="dropped by ann", status=Status.CANCELLED
    )
    outcome = events.outcome_of(dead)
    assert (outcome.status, outcome.exit_code, outcome.reason, outcome.turn) == ("cancelled", 9, "dropped by ann", None)


def line_of(**fields: object) -> bytes:
    return (
        json.dumps({"v": 1, "seq": 1, "ts": "", "agent": "a", "type": "text", "text": "x", **fields}).encode() + b"\n"
    )


def test_whole_lines_of_known_events_are_decoded_together() -> None:
    lines = [line_of(text="one"), line_of(text="two\n\u2028"), line_of(type="notice")]
    assert events.decode_lines(b"".join(lines)) == [events.decode(line) for line in lines]


@pytest.mark.parametrize(
    "odd",
    [
        line_of(type="from.the.future"),
        line_of(text=5),
        b"\n",
        b"~\n",
        b"\0\0\n",
        line_of()[:-1],
        line_of()[:20] + b"\n",
        line_of()[:-1] + line_of(),
        line_of().replace(b', "text"', b',\n"text"'),
    ],
    ids=["unknown type", "bad field", "empty", "tilde", "zeros", "no end", "torn", "two in a line", "over two lines"],
)
def test_anything_else_is_left_to_be_looked_at_line_by_line(odd: bytes) -> None:
    assert events.decode_lines(line_of() + odd) is None
    assert events.decode_lines(odd + line_of()) is None
