from __future__ import annotations

import json
from typing import Any

import pytest

from beam.proxy.wire import chat, sse
from beam.proxy.wire.values import Answer, Call, Error, Figures, ModelRequest, Reply

CALL = Call(id="c", name="bash", input={"command": "ls"})


def asked(*messages: object, **more: object) -> ModelRequest:
    return chat.asked({"model": "m", "messages": list(messages), **more}, 400)


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def reply(answer: Answer | None = None, *, text: str = "", thinking: str = "", calls: tuple[Call, ...] = ()) -> Reply:
    return Reply(text=text, thinking=thinking, calls=calls, answer=answer or Answer(), id="1")


def chunks(stream: list[tuple[bytes, bool]]) -> list[dict[str, Any]]:
    *events, last = [data for data, _ in stream]
    assert last == b"data: [DONE]\n\n"
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


def test_the_prompt_is_the_last_thing_a_person_said():
    parts = [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "two"}]

    found = asked(
        {"role": "system", "content": "s"},
        user("one"),
        {"role": "assistant", "content": "ok"},
        user(parts),
        stream=True,
        stream_options={"include_usage": True},
    )

    assert (found.prompt, found.turns, found.model, found.stream, found.usage) == ("two", 2, "m", True, True)


def test_the_results_at_the_end_are_asked_about():
    results = [
        {"role": "tool", "tool_call_id": "call_a", "content": "A"},
        {"role": "tool", "tool_call_id": "call_b", "content": [{"type": "text", "text": "B"}]},
    ]

    assert asked(user("go"), *results).call_ids == ("a", "b")
    assert asked(user("go"), *results).results == ("A", "B")
    assert asked(user("go"), *results, user("next")).call_ids == ()


@pytest.mark.parametrize("body", [{}, {"messages": 1}, {"messages": [1, {"role": "user"}]}])
def test_odd_bodies_ask_nothing(body: dict[str, Any]):
    assert chat.asked(body, 2) == ModelRequest(size=2)


def test_only_completions_are_a_route():
    assert chat.route("POST", "/v1/chat/completions") == "ask"
    assert chat.route("GET", "/v1/chat/completions") is None
    assert chat.route("POST", "/v1/completions") is None


def test_a_whole_reply_is_one_message_with_usage():
    usage = Figures(input_tokens=9, output_tokens=5, cache_read_input_tokens=3, reasoning_tokens=2)

    whole = json.loads(chat.whole(reply(Answer(usage=usage), text="hi", thinking="hm", calls=(CALL,)), asked()))

    (choice,) = whole["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert (choice["message"]["content"], choice["message"]["reasoning_content"]) == ("hi", "hm")
    assert choice["message"]["tool_calls"] == [
        {"id": "call_c", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
    ]
    assert whole["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }


def test_the_pieces_of_a_stream_add_up():
    calls = (CALL, Call(id="d", name="read", input={"path": "x" * 30}))
    found = chunks(chat.stream(reply(Answer(chunk=7), text="täxt " * 9, thinking="hm " * 9, calls=calls), asked()))

    deltas = [chunk["choices"][0]["delta"] for chunk in found]
    arguments = {0: "", 1: ""}
    for call in (call for delta in deltas for call in delta.get("tool_calls", [])):
        arguments[call["index"]] += call["function"]["arguments"]
    assert "".join(delta.get("content", "") for delta in deltas) == "täxt " * 9
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "hm " * 9
    assert [json.loads(text) for text in arguments.values()] == [call.input for call in calls]
    assert found[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_stream_ends_with_usage_only_where_that_was_asked():
    given = reply(Answer(usage=Figures(input_tokens=1, output_tokens=2)), text="hi")

    last = chunks(chat.stream(given, ModelRequest(usage=True)))[-1]

    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 3)
    assert not any("usage" in chunk for chunk in chunks(chat.stream(given, ModelRequest())))


@pytest.mark.parametrize(
    ("stop", "word"), [("end_turn", "stop"), ("max_tokens", "length"), ("refusal", "content_filter")]
)
def test_each_stop_has_its_word(stop: Any, word: str):
    assert json.loads(chat.whole(reply(Answer(stop=stop)), asked()))["choices"][0]["finish_reason"] == word


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (401, "authentication_error"), (500, "server_error")]
)
def test_an_error_has_the_type_of_its_status_also_in_a_stream(status: int, kind: str):
    error = {"message": "m", "type": kind, "param": None, "code": None}

    assert json.loads(chat.error(Error(status=status, message="m"), "r")) == {"error": error}
    assert json.loads(chat.stream_error(Error(status=status, message="m")).removeprefix(b"data: ")) == {"error": error}
    assert json.loads(chat.error(Error(type="odd", message="m"), "r"))["error"]["code"] == "odd"


def test_a_broken_event_is_no_json():
    with pytest.raises(ValueError, match=r"Unterminated|Expecting|Invalid control"):
        json.loads(sse.broken(chat.stream(reply(text="hello"), asked())[0][0]).split(b"data: ")[1])
