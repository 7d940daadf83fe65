from __future__ import annotations

import json
from typing import Any

import pytest

from beam.proxy.wire import responses, sse
from beam.proxy.wire.values import Answer, Call, Error, Figures, ModelRequest, Reply

CALL = Call(id="c", name="exec_command", input={"cmd": "ls"})
ENVIRONMENT = "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"


def user(*texts: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "role": "user", "content": content}


def output(call_id: str, text: object, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": text}


def asked(*sent: object, **more: object) -> ModelRequest:
    return responses.asked({"model": "m", "input": list(sent), "stream": True, **more}, 400)


def reply(answer: Answer | None = None, *, text: str = "", thinking: str = "", calls: tuple[Call, ...] = ()) -> Reply:
    return Reply(text=text, thinking=thinking, calls=calls, answer=answer or Answer(), id="1")


def events(stream: list[tuple[bytes, bool]]) -> list[dict[str, Any]]:
    found = []
    for data, _ in stream:
        head, line, *rest = data.decode("ascii").split("\n")
        assert rest == ["", ""]
        event = json.loads(line.removeprefix("data: "))
        assert head == f"event: {event['type']}"
        found.append(event)
    return found


def test_prompts_are_what_persons_said_and_not_what_codex_put_there():
    developer = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be good"}]}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}

    found = asked(developer, user(ENVIRONMENT), user("one\n"), said, user("<turn_aborted>\nby you"), user("two"))

    assert (found.prompt, found.turns, found.model, found.stream, found.size) == ("two", 2, "m", True, 400)
    assert asked(user(ENVIRONMENT), user("one\n")).prompt == "one\n"


def test_an_input_may_be_a_text():
    assert responses.asked({"input": "hi"}, 9).prompt == "hi"


def test_the_results_at_the_end_are_asked_about():
    found = asked(
        user("go"),
        {"type": "function_call", "call_id": "call_a"},
        {"type": "custom_tool_call", "call_id": "call_b"},
        output("call_a", "A"),
        output("call_b", [{"type": "input_text", "text": "b1"}, {"text": "b2"}], "custom_tool_call_output"),
    )

    assert (found.call_ids, found.results) == (("a", "b"), ("A", "b1\nb2"))
    assert asked(user("go"), output("call_a", "A"), user("next")).call_ids == ()


def test_tools_that_take_text_are_found_wherever_they_are_offered():
    custom = {"type": "custom", "name": "apply_patch"}
    inner = {"type": "custom", "name": "exec"}
    offered = {"type": "additional_tools", "tools": [{"type": "namespace", "name": "functions", "tools": [inner]}]}

    found = asked(offered, tools=[custom, {"type": "function", "name": "other"}])

    assert found.text_tools == ("apply_patch", "exec")


@pytest.mark.parametrize(
    "body", [{}, {"input": None}, {"input": [1, {"role": "user"}, {"role": "user", "content": [1]}]}]
)
def test_odd_bodies_ask_nothing(body: dict[str, Any]):
    assert responses.asked(body, 2) == ModelRequest(size=2)


def test_only_responses_and_their_counting_are_routes():
    assert responses.route("POST", "/v1/responses") == "ask"
    assert responses.route("POST", "/v1/responses/input_tokens") == "count"
    assert responses.route("GET", "/v1/responses") is None
    assert json.loads(responses.count(ModelRequest(size=80)))["input_tokens"] == 20


def test_a_whole_reply_has_its_items_in_order_and_usage():
    usage = Figures(input_tokens=9, output_tokens=5, cache_read_input_tokens=3, reasoning_tokens=2)

    whole = json.loads(responses.whole(reply(Answer(usage=usage), text="hi", thinking="hm", calls=(CALL,)), asked()))

    assert [item["type"] for item in whole["output"]] == ["reasoning", "message", "function_call"]
    assert (whole["output"][2]["call_id"], whole["output"][2]["arguments"]) == ("call_c", '{"cmd":"ls"}')
    assert whole["status"] == "completed"
    assert whole["usage"] == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 3},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 14,
    }


def test_a_tool_that_takes_text_gets_text():
    call = Call(id="c", name="apply_patch", input={"input": "*** Begin Patch"})
    whole = json.loads(responses.whole(reply(calls=(call,)), ModelRequest(text_tools=("apply_patch",))))

    assert (whole["output"][0]["type"], whole["output"][0]["input"]) == ("custom_tool_call", "*** Begin Patch")


def test_a_tool_of_a_namespace_is_called_with_it() -> None:
    call = Call(id="1", name="multi_agent_v1.spawn_agent", input={"message": "look"})
    whole = json.loads(responses.whole(reply(calls=(call,)), ModelRequest()))
    assert (whole["output"][0]["namespace"], whole["output"][0]["name"]) == ("multi_agent_v1", "spawn_agent")
    plain = json.loads(responses.whole(reply(calls=(Call(id="1", name="shell", input={}),)), ModelRequest()))
    assert "namespace" not in plain["output"][0]


def test_the_pieces_of_a_stream_add_up_and_its_last_event_has_the_whole_reply():
    given = reply(Answer(chunk=7), text="täxt " * 20, thinking="thoughts " * 5, calls=(CALL,))

    found = events(responses.stream(given, asked()))
    whole = json.loads(responses.whole(given, asked()))

    def pieces(kind: str) -> str:
        return "".join(event["delta"] for event in found if event["type"] == f"response.{kind}.delta")

    assert pieces("output_text") == given.text
    assert pieces("reasoning_summary_text") == given.thinking
    assert pieces("function_call_arguments") == '{"cmd":"ls"}'
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert found[0]["type"] == "response.created"
    assert found[-1] == {"type": "response.completed", "sequence_number": len(found) - 1, "response": whole}
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    assert done == whole["output"]


def test_text_for_a_tool_is_streamed_too():
    call = Call(id="c", name="apply_patch", input={"input": "*** Begin Patch"})
    found = events(responses.stream(reply(Answer(chunk=4), calls=(call,)), ModelRequest(text_tools=("apply_patch",))))

    deltas = [event["delta"] for event in found if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == "*** Begin Patch"


@pytest.mark.parametrize(
    ("answer", "why"),
    [(Answer(stop="max_tokens"), "max_output_tokens"), (Answer(stop="refusal"), "content_filter")],
)
def test_an_answer_that_is_cut_off_or_refused_is_incomplete_with_the_reason(answer: Answer, why: str):
    last = events(responses.stream(reply(answer, text="half"), asked()))[-1]

    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": why}


def test_errors_are_those_of_the_api_and_in_a_stream_a_failed_response():
    assert json.loads(responses.error(Error(status=401, message="no"), "r"))["error"]["message"] == "no"
    event = events([(responses.stream_error(Error(type="context_length_exceeded", message="m")), False)])[0]

    assert event["type"] == "response.failed"
    assert event["response"]["error"] == {"code": "context_length_exceeded", "message": "m"}


def test_a_broken_event_is_no_json():
    event = responses.stream(reply(text="hello"), asked())[0][0]

    with pytest.raises(ValueError, match=r"Unterminated|Expecting|Invalid control"):
        json.loads(sse.broken(event).split(b"data: ")[1])
