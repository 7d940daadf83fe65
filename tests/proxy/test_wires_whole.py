"""Each wire format to the byte: answers, streams, counts, errors and figures are compared with files.

BEAM_WRITE_WIRES=1 writes the files anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from beam.proxy import private
from beam.proxy.budget import AnswerMeter
from beam.proxy.private import Blanker
from beam.proxy.tape import ExchangeRecorder
from beam.proxy.wire import dialects
from beam.proxy.wire.dialects import DIALECTS, Dialect
from beam.proxy.wire.sse import broken
from beam.proxy.wire.values import Answer, Call, Error, Figures, ModelRequest, Reply

WIRES = Path(__file__).with_name("wires")
SECRET = "sk-ant-api03-" + "A1b2C3d4" * 6
TOOL = Call(id="call_1", name="Bash", input={"command": "ls"})
PATCH = Call(id="call_2", name="apply_patch", input={"input": "*** Begin"})
FIGURES = Figures(
    input_tokens=100,
    output_tokens=20,
    cache_read_input_tokens=30,
    cache_creation_input_tokens=40,
    reasoning_tokens=5,
)


def reply(text: str = "", thinking: str = "", calls: tuple[Call, ...] = (), **answer: Any) -> Reply:
    return Reply(text=text, thinking=thinking, calls=calls, answer=Answer(**answer), id="id1")


REPLIES = {
    "a text": reply("hello"),
    "a text in pieces": reply("hello world", chunk=4),
    "thinking and a text": reply("hello", "let me see"),
    "two tools": reply("", calls=(TOOL, PATCH)),
    "a text and a tool": reply("first", calls=(TOOL,)),
    "an answer that was cut off": reply("hel", stop="max_tokens"),
    "a refusal": reply("", stop="refusal"),
    "nothing": reply(""),
    "figures": reply("hello", "let me see", usage=FIGURES),
    "a few figures": reply("hello", usage=Figures(output_tokens=9)),
}
ASKED = {
    "": ModelRequest(model="a-model", size=400),
    " with figures and text tools": ModelRequest(
        model="a-model", size=400, stream=True, usage=True, text_tools=("apply_patch",)
    ),
}
ERRORS = [Error(status=status, message="no") for status in (400, 401, 402, 403, 404, 413, 422, 429, 500, 503, 504, 529)]


def lines(dialect: Dialect) -> Iterator[str]:
    """All that a dialect writes, and what it reads of that."""
    for name, each in REPLIES.items():
        for how, asked in ASKED.items():
            yield f"== {name}{how}"
            whole = dialect.whole(each, asked)
            yield whole.decode()
            for event, is_piece in dialect.stream(each, asked):
                yield f"{'piece' if is_piece else 'event'} {event.decode()!r}"
            yield f"used {dialect.used(json.loads(whole))}"
    first, _ = next(iter(dialect.stream(REPLIES["a text"], ASKED[""])))
    yield f"broken {broken(first)!r}"
    yield f"count {dialect.count(ModelRequest(size=400)).decode()}"
    for error in (*ERRORS, Error(status=500, type="own_type", message="mine")):
        yield f"error {error.status} {dialect.error(error, 'req_1').decode()}"
    yield f"error in a stream {dialect.stream_error(ERRORS[-1])!r}"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_what_a_wire_format_writes_is_as_it_was(dialect: Dialect) -> None:
    path = WIRES / f"{dialect.name}.txt"
    found = "\n".join(lines(dialect)) + "\n"
    if os.environ.get("BEAM_WRITE_WIRES"):
        WIRES.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize(
    ("method", "path", "name", "kind"),
    [
        ("POST", "/v1/messages", "anthropic", "ask"),
        ("POST", "/v1/messages/count_tokens", "anthropic", "count"),
        ("POST", "/v1/responses", "responses", "ask"),
        ("POST", "/v1/responses/input_tokens", "responses", "count"),
        ("POST", "/v1/chat/completions", "chat", "ask"),
        ("POST", "/v1beta/models/gemini-2.5-pro:generateContent", "gemini", "ask"),
        ("POST", "/v1alpha/models/g:streamGenerateContent", "gemini", "ask"),
        ("POST", "/v1/models/g:countTokens", "gemini", "count"),
        ("POST", "/v1/models/g:embedContent", "anthropic", None),
        ("GET", "/v1/messages", "anthropic", None),
        ("GET", "/v1/responses", "anthropic", None),
        ("GET", "/v1/chat/completions", "anthropic", None),
        ("GET", "/v1beta/models/g:generateContent", "anthropic", None),
        ("POST", "/v1/messages/", "anthropic", None),
    ],
)
def test_a_path_says_whose_wire_format_it_is(method: str, path: str, name: str, kind: str | None) -> None:
    dialect, found = dialects.dialect_of(method, path)
    assert (dialect.name, found) == (name, kind)


@pytest.mark.parametrize(
    ("path", "usual"),
    [
        ("/v1/messages", "/v1/messages"),
        ("/proxy/v1/messages", "/v1/messages"),
        ("/proxy/v1/messages/count_tokens", "/v1/messages/count_tokens"),
        ("/codex/responses", "/v1/responses"),
        ("/x/chat/completions", "/v1/chat/completions"),
        ("/x/v1beta/models/g:generateContent", "/v1beta/models/g:generateContent"),
        ("/x/y", "/x/y"),
    ],
)
def test_a_path_behind_a_prefix_is_known(path: str, usual: str) -> None:
    assert dialects.usual_path(path) == usual


def test_a_dialect_is_found_by_its_name() -> None:
    assert [dialects.by_name(name).name for name in ("anthropic", "responses", "chat", "gemini", "other")] == [
        "anthropic", "responses", "chat", "gemini", "anthropic",
    ]  # fmt: skip


# -- what may be stored ------------------------------------------------------------------------------------------------


def event(value: Any) -> bytes:
    return b"event: x\ndata: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def delta(index: int, text: str, **more: Any) -> bytes:
    return event({"type": "content_block_delta", "index": index, "delta": {"text": text}, **more})


def test_a_secret_over_several_events_is_blanked_where_it_begins() -> None:
    events = [delta(0, "key: " + SECRET[:20]), delta(0, SECRET[20:40]), delta(0, SECRET[40:] + " end"), delta(1, "x")]
    assert Blanker().without_split_secrets(events) == [
        delta(0, "key: [redacted:anthropic-key]"),
        delta(0, ""),
        delta(0, " end"),
        delta(1, "x"),
    ]


def test_pieces_of_two_texts_are_no_secret_together() -> None:
    for more in ({"output_index": 1}, {"item_id": "i"}, {"content_index": 1}, {"summary_index": 1}):
        events = [delta(0, "key: " + SECRET[:15]), delta(0, SECRET[15:], **more)]
        assert Blanker().without_split_secrets(events) is None
    assert Blanker().without_split_secrets([delta(0, "key: " + SECRET[:15]), delta(1, SECRET[15:])]) is None
    assert Blanker().without_split_secrets([delta(0, "nothing")]) is None


def test_the_requests_own_credentials_are_blanked_wherever_they_lie() -> None:
    blanker = Blanker(["my-very-own-token-1", "my-very-own-token-1"])
    assert blanker.without_split_secrets([delta(0, "a my-very-own-"), delta(0, "token-1 b")]) == [
        delta(0, "a [redacted:credential] b"),
        delta(0, ""),
    ]
    assert blanker.text("x my-very-own-token-1 y") == "x [redacted:credential] y"
    body = b'{"id":"my-very-own-token-1","a":"\\u006dy-very-own-token-1"}'
    assert blanker.body(body) == b'{"id":"[redacted:credential]","a":"[redacted:credential]"}'
    assert Blanker().body(body) == body
    assert blanker.body(b"plain my-very-own-token-1 \xff") == b"plain [redacted:credential] \xff"
    assert blanker.event(event({"a": "my-very-own-token-1"})) == event({"a": "[redacted:credential]"})
    assert blanker.event(b": my-very-own-token-1\n\n") == b": [redacted:credential]\n\n"


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ({"id": SECRET}, True),
        ({"signature": SECRET}, True),
        ({"text": SECRET}, False),
        ({"input": {"id": SECRET}}, False),
        ({"args": {"call_id": SECRET}}, False),
        ({"arguments": {"data": SECRET}}, False),
        ({"data": SECRET}, False),
        ({"data": SECRET, "media_type": "image/png"}, True),
        ({"data": SECRET, "type": "base64"}, True),
        ({"data": SECRET, "type": "redacted_thinking"}, True),
        ({"functionResponse": {"id": SECRET}}, True),
        ({"functionResponse": {"response": {"id": SECRET}}}, False),
        ({"function_response": {"response": {"id": SECRET}}}, False),
        ({"id": [SECRET]}, True),
        ({"id": [{"text": SECRET}]}, False),
    ],
)
def test_ids_and_signatures_stay_whole_but_not_what_a_tool_gets(value: Any, is_kept: bool) -> None:
    data = json.dumps(value).encode()
    found = json.dumps(Blanker().value(value, data))
    assert (SECRET in found, "[redacted:anthropic-key]" in found) == (is_kept, not is_kept)


def test_half_a_character_becomes_one_that_can_be_stored() -> None:
    data = b'{"a":"x\\ud83d","id":"\\udc00"}'
    assert Blanker().value(json.loads(data), data) == {"a": "x\ufffd", "id": "\ufffd"}


def test_credentials_are_found_in_headers_cookies_and_the_query() -> None:
    headers = {
        "Authorization": "Bearer abcdefghijklmnop",
        "X-Api-Key": "short",
        "Cookie": "a=qrstuvwxyzabcdef; b=1",
        "User-Agent": "a very long user agent",
    }
    assert private.credentials(headers, "/x?key=ghijklmnopqrstuv&alt=aaaaaaaaaaaaaaaaaaaa") == (
        "abcdefghijklmnop",
        "qrstuvwxyzabcdef",
        "ghijklmnopqrstuv",
    )
    kept = {**headers, "Accept": "a", "Content-Type": "b", "Host": "h"}
    assert private.request_headers(kept, Blanker()) == {
        "accept": "a",
        "content-type": "b",
        "user-agent": "a very long user agent",
    }
    assert private.answer_headers({"Content-Type": "b", "Set-Cookie": "c", "Retry-After": "1"}, Blanker()) == {
        "content-type": "b",
        "retry-after": "1",
    }
    assert private.stored_path("/x?key=k&alt=sse&beta=", Blanker()) == "/x?alt=sse&beta="
    assert private.stored_path("/x?key=k", Blanker()) == "/x"


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b'data: {"a":1}\n\n', (b"data: ", {"a": 1}, b"\n\n")),
        (b'data:{"a":1}\r\n\r\n', (b"data:", {"a": 1}, b"\r\n\r\n")),
        (b'event: x\ndata: {"a":1}\n\n', (b"event: x\ndata: ", {"a": 1}, b"\n\n")),
        (b"data: [DONE]\n\n", (b"data: [DONE]\n\n", None, b"")),
        (b": ping\n\n", (b": ping\n\n", None, b"")),
    ],
)
def test_an_event_is_split_around_its_json(data: bytes, parts: tuple[bytes, Any, bytes]) -> None:
    assert private.split_event(data) == parts


def test_an_answer_without_settings_is_the_echo() -> None:
    assert (Answer().chunk, Answer().delay, Answer().stall, Answer().drop, Answer().malformed, Answer().at) == (
        24, 0.0, False, False, False, "start",
    )  # fmt: skip
    assert (Error().status, Error().message, Error().retry_after) == (500, "scripted error", None)
    empty = ModelRequest()
    assert (empty.prompt, empty.turns, empty.model, empty.stream, empty.size, empty.usage) == (
        "",
        0,
        "",
        False,
        0,
        False,
    )
    assert [reply(calls=(TOOL,)).stop, reply().stop, reply(calls=(TOOL,), stop="refusal").stop] == [
        "tool_use", "end_turn", "refusal",
    ]  # fmt: skip


def test_strings_of_a_value_are_mapped_but_not_ids_where_nothing_else_is_asked() -> None:
    value = {"id": "a", "text": "b", "more": [1, None, {"call_id": "c", "x": "d"}]}
    assert private.map_strings(value, lambda text: text.upper()) == {
        "ID": "a",
        "TEXT": "B",
        "MORE": [1, None, {"CALL_ID": "c", "X": "D"}],
    }


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_how_the_model_ended_is_read_from_a_whole_answer_and_from_a_stream(dialect: Dialect, name: str) -> None:
    each, asked = REPLIES[name], ASKED[""]
    ended = each.answer.stop
    assert dialect.stopped(json.loads(dialect.whole(each, asked))) == ended
    tape, meter = ExchangeRecorder(None, cast(Any, None), cast(Any, None)), AnswerMeter(400)
    tape.begin("sse", dialect, meter)
    for data, _ in dialect.stream(each, asked):
        tape.add(data)
    tape.flush()
    assert meter.stop == ended


@pytest.mark.parametrize(
    ("format", "value", "stop"),
    [
        ("anthropic", {"stop_reason": "model_context_window_exceeded"}, "max_tokens"),
        ("anthropic", {"type": "message_start", "message": {"stop_reason": None}}, None),
        ("anthropic", {"stop_reason": ["refusal"]}, None),
        ("chat", {"choices": [{"finish_reason": None}]}, None),
        ("chat", {"choices": [{"finish_reason": {"a": 1}}]}, None),
        ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}, "refusal"),
        ("gemini", {"candidates": [{"finishReason": "RECITATION"}]}, "refusal"),
        ("gemini", {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}, "end_turn"),
        ("responses", {"response": {"status": "in_progress"}}, None),
        (
            "responses",
            {"status": "completed", "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]},
            "refusal",
        ),
    ],
)
def test_only_a_limit_and_a_refusal_are_told_from_a_good_end(format: str, value: Any, stop: str | None) -> None:
    assert dialects.by_name(format).stopped(value) == stop
