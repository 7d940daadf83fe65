"""Messages: their identity, their names on disk, and fields that only their writer knows."""

from __future__ import annotations

import json
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UnsetType

from beam.base.errors import CorruptError, UsageError
from beam.model import message
from beam.model.message import (
    Message,
    OptionFields,
    Options,
    Payload,
    agent_of,
    check_name,
    decode,
    digest,
    encode,
    keyed_id,
    new_id,
    reply_id,
    with_fields,
)

PLAIN = {
    "v": 1,
    "id": "a-1",
    "timestamp": "2026-01-01T00:00:00Z",
    "from": "human",
    "to": "a",
    "payload": {"text": "hi"},
}


def raw(**changes: object) -> bytes:
    return json.dumps({**PLAIN, **changes}).encode()


def test_unknown_fields_survive_at_every_depth() -> None:
    message = decode(raw(color="red", payload={"text": "hi", "mood": 1}, options={"later": [1]}))
    again = msgspec.structs.replace(message, attempt=2, payload=Payload(text="ho"))
    plain = json.loads(encode(again))
    assert (plain["color"], plain["payload"], plain["options"]["later"]) == (
        "red",
        {"text": "ho", "mood": 1, "attach": []},
        [1],
    )
    assert plain["attempt"] == 2
    assert "original" not in plain


@pytest.mark.slow
@given(st.text(max_size=50), st.lists(st.text(min_size=1, max_size=5), max_size=2))
def test_a_message_is_the_same_after_its_file(text: str, attach: list[str]) -> None:
    message = Message(id="a-1", timestamp="t", sender="x", to="a", payload=Payload(text=text, attach=tuple(attach)))
    again = decode(encode(message))
    assert msgspec.structs.replace(again, original=msgspec.UNSET) == message
    assert encode(again) == encode(message)
    assert digest(again) == digest(message)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        raw(to="../x"),
        raw(id="../x"),
        raw(id=""),
        raw(attempt=0),
        raw(hops=-1),
        raw(revision=-1),
        raw(type="other"),
        raw(payload={}),
        raw(payload={"text": 5}),
    ],
)
def test_what_is_no_message_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptError, match="not a message"):
        decode(data)


def test_the_digest_tells_texts_and_options_apart_and_nothing_else() -> None:
    message = decode(raw())
    assert digest(message) == digest(decode(raw(attempt=2, hops=3, thread="x", timestamp="later")))
    assert digest(message) != digest(decode(raw(payload={"text": "ho"})))
    assert digest(message) != digest(msgspec.structs.replace(message, options=Options(model="m")))
    assert digest(message) != digest(decode(raw(**{"from": "other"})))


def test_ids_sort_by_time_and_name_their_agent() -> None:
    ids = [new_id("planner-b", ms * 1_000_000, b"\xff\xff\xff\xff") for ms in (0, 1, 31, 32, 10**9, 1_700_000_000_000)]
    assert ids == sorted(ids)
    assert {agent_of(each) for each in ids} == {"planner-b"}
    assert len({len(each) for each in ids}) == 1


def test_keys_and_replies_have_one_id_each() -> None:
    assert keyed_id("a", "k") == keyed_id("a", "k") != keyed_id("a", "l")
    assert reply_id("a", "b-1", 1) == reply_id("a", "b-1", 1) != reply_id("a", "b-1", 2)
    assert keyed_id("a", "\ud800").startswith("a-k")


@pytest.mark.parametrize("name", ["", "-a", "A", "a/b", "..", "a" * 65, "a\n", "a b", "ä"])
def test_a_bad_name_is_refused_before_a_path_is_built(name: str) -> None:
    with pytest.raises(UsageError, match="is not an agent's name"):
        check_name(name)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":' * 100_000,
        raw(color="red").replace(b'"red"', b"[" * 100_000 + b"]" * 100_000),
        raw(color="red").replace(b"red", b"\xff"),
        raw(attempt=10**18),
        raw(revision=2**64 - 1),
        raw(hops=9 * 10**400),
        raw(spent={"turns": 2**63}),
    ],
)
def test_monstrous_json_is_no_message(data: bytes) -> None:
    with pytest.raises(CorruptError, match="not a message"):
        decode(data)


def test_what_only_the_writer_knows_costs_no_memory_and_stays_as_it_was_on_one_line() -> None:
    message = decode(raw(payload={"text": "hi"}, more=[[], {}]).replace(b"[[], {}]", b"[1.50,\n {}]"))
    assert isinstance(message.original, bytes)
    data = encode(message)
    assert data.count(b"\n") == 1
    assert b"[1.50,{}]" in data


def test_option_fields_are_the_fields_of_options_with_their_types() -> None:
    hints = get_type_hints(Options)
    wanted = {name: get_args(hint)[0] if UnsetType in get_args(hint) else hint for name, hint in hints.items()}
    texts = {"timeout": float | str | None, "keep": float | str}  # of durations
    assert get_type_hints(OptionFields) == wanted | texts
    assert OptionFields.__required_keys__ == frozenset()


def test_fields_go_over_options() -> None:
    assert with_fields(None, {}) == Options()
    options = Options(model="opus", new=True)
    assert with_fields(options, {}) is options
    assert with_fields(options, {"new": False, "timeout": 3}) == Options(model="opus", timeout=3.0)
    assert with_fields(options, {"model": None, "no_circuit": True}) == Options(new=True, no_circuit=True)


def test_a_name_that_is_no_field_is_named_with_the_nearest() -> None:
    def refused(name: str) -> str:
        with pytest.raises(TypeError) as error:
            with_fields(None, {name: 1}, known=("attach",))  # type: ignore[misc]
        return str(error.value)

    assert refused("budget") == "unexpected keyword argument 'budget'; did you mean 'budget_usd'?"
    assert refused("atach") == "unexpected keyword argument 'atach'; did you mean 'attach'?"
    assert refused("zzz").endswith(f"; the options are {', '.join(Options.__struct_fields__)}")


@pytest.mark.parametrize("fields", [{"access": "all"}, {"new": "yes"}, {"timeout": True}, {"require": None}])
def test_a_value_of_the_wrong_type_is_refused(fields: Any) -> None:
    with pytest.raises(UsageError, match=rf"at `\$\.{next(iter(fields))}`"):
        with_fields(None, fields)


def test_ids_follow_from_what_they_are_of() -> None:
    assert [
        new_id("a", 1_700_000_000_000_000_000, b"\0\1\2\3x"),
        new_id("a", 0, b"\xff\xff\xff\xff"),
        message.keyed_id("a", "key \ud800"),
        message.reply_id("a", "b-1", 2),
        message.sent_id("a", "turn", "x"),
    ] == ["a-1hf7yat000020g3", "a-000000000zzzzzz", "a-kzx9f24e0eyd1h2", "a-r1qvtsmd7wnx3kr", "a-sg9jzavzz51xesy"]
    assert (message.agent_of("a-b-1"), message.agent_of("x")) == ("a-b", "")
    assert (message.base_of("claude@review"), message.base_of("claude")) == ("claude", "claude")


@pytest.mark.parametrize(
    ("word", "access"), [(None, None), ("read", "read"), ("full", "full"), ("edit", "edit"), ("later", "read")]
)
def test_an_access_that_is_unknown_is_read(word: str | None, access: str | None) -> None:
    assert message.access_word(word) == access


@pytest.mark.parametrize("name", ["a", "A9._-", "x" * 128])
def test_an_id_of_a_session_is_one(name: str) -> None:
    assert message.check_session_id(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a..b", "x" * 129, "a/b", "a b", "a\n"])
def test_what_is_no_id_of_a_session_is_named(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        message.check_session_id(name)
    hint = "an id is up to 128 letters, digits, _, . and -, and begins with a letter or a digit"
    said = (caught.value.message, caught.value.hint, caught.value.subject)
    assert said == (f"{name[:80]!r} is not the id of a session", hint, name[:80])


@pytest.mark.parametrize(
    ("name", "what", "said"),
    [
        ("-a", "agent", "'-a' is not an agent's name"),
        ("x" * 90 + "!", "lane", f"'{'x' * 80}' is not a lane's name"),
        ("a@b", "lane", "'a@b' is not a lane's name"),
        ("A", "role", "'A' is not a role's name"),
    ],
)
def test_a_name_that_is_none_is_named_with_what_it_was_to_be(name: str, what: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        message.check_name(name, what)
    assert (caught.value.message, caught.value.subject) == (said, name[:80])
    assert caught.value.hint == message.NAME_RULE
    assert [message.check_name("a@b"), message.check_name("a-b", "lane")] == ["a@b", "a-b"]


@pytest.mark.parametrize("given", ["1m30s", 90, 90.0])
def test_a_duration_may_be_a_text_in_options_of_both_forms(given: Any) -> None:
    assert with_fields(None, {"timeout": given, "keep": given}) == Options(timeout=90.0, keep=90.0)
    assert with_fields(Options(timeout=given), {}).timeout == 90.0
    with pytest.raises(UsageError, match="is not a duration"):
        with_fields(None, {"timeout": "soon"})
