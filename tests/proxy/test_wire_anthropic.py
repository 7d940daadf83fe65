from __future__ import annotations

import json
from typing import Any

import pytest

from beam.proxy.wire import anthropic, sse
from beam.proxy.wire.values import Answer, Call, Error, Figures, ModelRequest, Reply

REMINDER = "<system-reminder>\nnot the person\n</system-reminder>\n"


def user(*content: object) -> dict[str, Any]:
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    return {"role": "user", "content": blocks}


def result(call_id: str, content: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def asked(*messages: object, **more: object) -> ModelRequest:
    return anthropic.asked({"model": "m", "messages": list(messages), **more}, 400)


def reply(answer: Answer | None = None, *, text: str = "", thinking: str = "", calls: tuple[Call, ...] = ()) -> Reply:
    return Reply(text=text, thinking=thinking, calls=calls, answer=answer or Answer(), id="1")


def test_reminders_around_the_prompt_are_no_part_of_it():
    assert asked(user(REMINDER, "hi there\n")).prompt == "hi there\n"
    assert asked({"role": "user", "content": REMINDER + REMINDER + "hi"}).prompt == "hi"
    assert asked({"role": "user", "content": "hi\n" + REMINDER}).prompt == "hi"


def test_what_a_person_wrote_is_kept_verbatim():
    text = "  a <system-reminder> b </system-reminder> c\n\n"

    assert asked({"role": "user", "content": text}).prompt == text


def test_turns_counts_what_persons_said_and_nothing_else():
    found = asked(
        user(REMINDER, "one"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_a", "name": "T", "input": {}}]},
        user(result("toolu_a", "out"), "a note of the CLI's"),
        {"role": "assistant", "content": "ok"},
        user(REMINDER),
        user("[Request interrupted by user]"),
        user("[Request interrupted by user for tool use]", "two"),
        {"role": "assistant", "content": ""},
        user("Output token limit hit. Resume directly, please"),
        {"role": "system", "content": "more"},
    )

    assert (found.prompt, found.turns) == ("two", 2)


def test_the_results_that_the_last_message_brings_are_found_behind_a_system_message():
    parts = [{"type": "text", "text": "b1"}, {"type": "image"}, {"type": "text", "text": "b2"}]

    found = asked(
        user("go"), user(result("toolu_a", "A"), result("toolu_b", parts)), {"role": "system", "content": "more"}
    )

    assert found.call_ids == ("a", "b")
    assert found.results == ("A", "b1\nb2")


def test_results_of_earlier_messages_are_not_asked_about():
    assert asked(user("go"), user(result("toolu_a", "A")), user("next")).call_ids == ()


@pytest.mark.parametrize(
    "body", [{}, {"messages": None}, {"messages": [1, {"role": "user"}, {"role": "user", "content": [1]}]}]
)
def test_odd_bodies_ask_nothing(body: dict[str, Any]):
    assert anthropic.asked(body, 2) == ModelRequest(size=2)


def test_only_messages_and_their_counting_are_routes():
    routes = [anthropic.route("POST", "/v1/messages"), anthropic.route("POST", "/v1/messages/count_tokens")]

    assert routes == ["ask", "count"]
    assert anthropic.route("GET", "/v1/messages") is None
    assert anthropic.route("POST", "/v1/responses") is None


def test_a_whole_reply_has_its_blocks_in_order_and_usage():
    call = Call(id="c", name="Bash", input={"command": "ls"})
    usage = Figures(input_tokens=1, output_tokens=2, cache_read_input_tokens=3, cache_creation_input_tokens=4)

    message = json.loads(anthropic.whole(reply(Answer(usage=usage), text="hi", thinking="hm", calls=(call,)), asked()))

    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert message["content"][2] == {"type": "tool_use", "id": "toolu_c", "name": "Bash", "input": {"command": "ls"}}
    assert message["stop_reason"] == "tool_use"
    assert message["usage"] == {
        "input_tokens": 1,
        "cache_creation_input_tokens": 4,
        "cache_read_input_tokens": 3,
        "output_tokens": 2,
    }


def events(stream: list[tuple[bytes, bool]]) -> list[dict[str, Any]]:
    found = []
    for data, _ in stream:
        head, line, *rest = data.decode("ascii").split("\n")
        assert rest == ["", ""]
        event = json.loads(line.removeprefix("data: "))
        assert head == f"event: {event['type']}"
        found.append(event)
    return found


def test_a_stream_has_the_events_of_a_message_in_their_order():
    call = Call(id="c", name="T", input={"k": "v"})

    stream = events(anthropic.stream(reply(text="hi", thinking="hm", calls=(call,)), asked()))

    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert [event["type"] for event in stream] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        *block,
        *block,
        "message_delta",
        "message_stop",
    ]
    assert [event["index"] for event in stream if event["type"] == "content_block_start"] == [0, 1, 2]
    assert stream[0]["message"]["content"] == []
    assert stream[0]["message"]["stop_reason"] is None
    assert stream[-2]["delta"]["stop_reason"] == "tool_use"


def test_the_pieces_of_a_stream_add_up_to_what_the_whole_reply_says():
    call = Call(id="c", name="T", input={"k": "ünïcode \ud83d " * 5})
    given = reply(Answer(chunk=7), text="täxt " * 20, thinking="thoughts " * 5, calls=(call,))

    deltas = [event["delta"] for event in events(anthropic.stream(given, asked())) if "delta" in event]
    whole = json.loads(anthropic.whole(given, asked()))

    assert "".join(delta.get("thinking", "") for delta in deltas) == whole["content"][0]["thinking"]
    assert "".join(delta.get("text", "") for delta in deltas) == whole["content"][1]["text"]
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == whole["content"][2]["input"]
    assert max(len(delta.get("text", "")) for delta in deltas) == 7


def test_an_empty_reply_has_no_blocks():
    assert [event["type"] for event in events(anthropic.stream(reply(), asked()))] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]


def test_figures_that_nobody_gave_are_estimated_at_four_bytes_a_token():
    usage = json.loads(anthropic.whole(reply(text="x" * 40), asked()))["usage"]

    assert (usage["input_tokens"], usage["output_tokens"]) == (100, 10)
    assert json.loads(anthropic.count(ModelRequest(size=80))) == {"input_tokens": 20}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
        (418, "invalid_request_error"),
        (503, "api_error"),
    ],
)
def test_an_error_has_the_type_of_its_status(status: int, kind: str):
    assert json.loads(anthropic.error(Error(status=status, message="m"), "req_1")) == {
        "type": "error",
        "error": {"type": kind, "message": "m"},
        "request_id": "req_1",
    }


def test_an_error_may_name_its_type_and_come_in_a_stream():
    event = anthropic.stream_error(Error(type="odd_error", message="m"))

    assert events([(event, False)]) == [{"type": "error", "error": {"type": "odd_error", "message": "m"}}]


def test_a_broken_event_is_still_an_event_but_no_json():
    broken = sse.broken(anthropic.stream(reply(text="hello"), asked())[2][0])

    assert broken.startswith(b"event: content_block_delta\ndata: {")
    assert broken.endswith(b"\n\n")
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(broken.split(b"data: ")[1])
