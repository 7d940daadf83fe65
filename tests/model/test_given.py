"""A message as an object: what counts of it, what is kept, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from beam.base.errors import UsageError
from beam.model.given import TYPES, GivenMessage, decode_given, unknown_fields
from beam.model.message import Message, Payload, SessionContext, decode, encode

TEXT = {"payload": {"text": "hi"}}
DEEP = f'{{"payload": {{"text": "hi"}}, "more": {"[" * 99_999}1{"]" * 99_999}}}'


def given_as(**fields: Any) -> GivenMessage:
    return decode_given(json.dumps({**TEXT, **fields}))


def test_what_a_sender_says_of_a_message_is_read() -> None:
    fields = {"to": "a", "from": "b", "type": "inject", "key": "k", "reply": "none", "replies": 2, "deadline": "d"}
    read = given_as(**fields, session_context={"session_id": "s", "turn_number": 3})
    assert read == GivenMessage(
        payload=Payload(text="hi"),
        session_context=SessionContext(session_id="s", turn_number=3),
        **{"sender" if name == "from" else name: value for name, value in fields.items()},
    )


@pytest.mark.parametrize(
    ("fields", "key"), [({}, None), ({"id": "t-1"}, "t-1"), ({"id": "t-1", "key": "k"}, "k"), ({"key": "k"}, "k")]
)
def test_its_id_is_its_key_unless_it_has_a_key(fields: dict[str, str], key: str | None) -> None:
    assert given_as(**fields).own_key == key


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "not a message: "),
        ("[1]", "not a message: "),
        ('"hi"', "not a message: "),
        ("{", "not a message: "),
        ('{"payload": {"text": "hi"}} x', "not a message: "),
        ('{"payload": "hi"}', "not a message: "),
        ('{"text": "hi"}', "required field `payload`"),
        ('{"payload": {}}', "required field `text`"),
        ('{"payload": {"text": 1}}', "$.payload.text"),
        ('{"payload": {"text": "hi"}, "from": 1}', "$.from"),
        (b'{"payload": {"text": "hi"}, "more": "\xff"}', "not a message: "),
        (DEEP, "not a message: "),
        ('{"payload": {"text": "hi"}, "options": {"access": "full"}}', "has `access`"),
        ('{"payload": {"text": "hi"}, "options": {"timeout": 0}}', "has `timeout`"),
        ('{"payload": {"text": "hi"}, "options": {"rules": {"allow": ["Bash"]}}}', "has `rules`"),
    ],
)
def test_what_is_no_message_or_says_what_the_command_says_is_refused(data: str | bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("$", "[$]")):
        decode_given(data)


@pytest.mark.parametrize("word", ["zork", "reply", "system", ""])
def test_an_unknown_type_is_refused_with_the_list(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        given_as(type=word)
    assert "the types are message, inject;" in caught.value.hint
    assert [given_as(type=each).type for each in TYPES] == list(TYPES)


def test_the_file_of_a_message_is_such_an_object() -> None:
    file = encode(Message(id="a-1", timestamp="t", sender="human", to="a", payload=Payload(text="hi")))
    assert decode_given(file).payload.text == "hi"
    assert json.loads(unknown_fields(file)) == {"payload": {}, "session_context": {}}


def test_fields_that_beam_does_not_know_survive_and_no_other_gets_past_it() -> None:
    own = {"only_by": "x", "at_most": "full", "actor": "x", "chain": ["a"], "spent": {"turns": 9}, "hops": 9, "v": 7}
    more = {"cost": 1.5, "deep": {"a": [None, "é"]}}
    data = json.dumps({**own, **more, "payload": {"text": "hi", **more}, "session_context": {"turn_number": 3, **more}})
    plain = Message(id="a-1", timestamp="t", sender="human", to="a", payload=Payload(text="hi"))
    written = encode(replace(plain, original=unknown_fields(data)))
    found = json.loads(written)
    for place in (found, found["payload"], found["session_context"]):
        assert {name: place[name] for name in more} == more
    assert replace(decode(written), original=UNSET) == plain
