"""The real key goes into a request in place of the turn's, and comes back in no answer."""

from __future__ import annotations

import itertools
from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.proxy import real_key

KEY = "sk-real-1"


def headers(**values: str) -> Message[str, str]:
    made: Message[str, str] = Message()
    for name, value in values.items():
        made[name.replace("_", "-")] = value
    return made


@pytest.mark.parametrize(
    ("path", "sent", "is_given"),
    [
        ("/v1", {"x_api_key": "turn"}, True),
        ("/v1", {"Authorization": "Bearer turn"}, True),
        ("/v1", {"x_goog_api_key": " turn "}, True),
        ("/v1?key=turn", {}, True),
        ("/v1?key=other", {}, False),
        ("/v1?token=turn", {}, False),
        ("/v1", {"x_api_key": "turn2"}, False),
        ("/v1", {"x_other": "turn"}, False),
        ("/v1", {}, False),
    ],
)
def test_the_turns_key_is_found_wherever_an_api_takes_one(path: str, sent: dict[str, str], is_given: bool) -> None:
    assert real_key.has_turn_key("turn", path, headers(**sent)) is is_given


def test_the_real_key_replaces_the_turns_and_no_other_credential_goes_on() -> None:
    sent = headers(Authorization="Bearer turn", x_api_key="turn", Cookie="a=b", Proxy_Authorization="x", Accept="*/*")
    assert real_key.headers_with(KEY, sent) == {
        "Authorization": f"Bearer {KEY}",
        "x-api-key": KEY,
        "Accept": "*/*",
    }
    assert real_key.headers_with(None, sent) == dict(sent.items())


@pytest.mark.parametrize(
    ("path", "with_key"),
    [
        ("/v1/x?a=1&key=turn&b=", f"/v1/x?a=1&key={KEY}&b="),
        ("/v1/x?a=%20", "/v1/x?a=%20"),
        ("/v1/x", "/v1/x"),
    ],
)
def test_a_key_in_the_query_is_replaced_and_nothing_else_of_it(path: str, with_key: str) -> None:
    assert real_key.path_with(KEY, path) == with_key
    assert real_key.path_with(None, path) == path


@pytest.mark.slow
@given(before=st.binary(max_size=20), after=st.binary(max_size=20), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_a_key_that_an_answer_quotes_in_any_pieces_is_taken_out(before: bytes, after: bytes, cuts: list[int]) -> None:
    data = before + KEY.encode() + after
    at = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[begin:end] for begin, end in itertools.pairwise(at)]
    sent = b"".join(real_key.pieces_without(KEY, iter(pieces)))
    assert sent == data.replace(KEY.encode(), b"[redacted:key]")


def test_a_key_in_a_header_of_an_answer_is_taken_out() -> None:
    assert real_key.headers_without(KEY, {"x": f"a {KEY}"}) == {"x": "a [redacted:key]"}
    assert real_key.headers_without(None, {"x": f"a {KEY}"}) == {"x": f"a {KEY}"}
