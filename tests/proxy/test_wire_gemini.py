from __future__ import annotations

import json
from typing import Any

import pytest

from beam.proxy.wire import gemini, sse
from beam.proxy.wire.values import Answer, Call, Error, Figures, ModelRequest, Reply

STREAM = "/v1beta/models/gemini-x:streamGenerateContent"
CALL = Call(id="c", name="read_file", input={"path": "a"})
CONTEXT = "<session_context>\nToday is\n</session_context>"


def user(*parts: object) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def answer(call_id: str, response: object) -> dict[str, Any]:
    return {"functionResponse": {"id": call_id, "name": "f", "response": response}}


def asked(*contents: object, path: str = STREAM) -> ModelRequest:
    return gemini.asked({"contents": list(contents)}, 400, path)


def reply(given: Answer | None = None, *, text: str = "", thinking: str = "", calls: tuple[Call, ...] = ()) -> Reply:
    return Reply(text=text, thinking=thinking, calls=calls, answer=given or Answer(), id="1")


def events(stream: list[tuple[bytes, bool]]) -> list[dict[str, Any]]:
    return [json.loads(data.removeprefix(b"data: ")) for data, _ in stream]


def test_the_prompt_is_what_the_person_said_beside_the_clis_context():
    found = asked(user(CONTEXT, "one"), {"role": "model", "parts": [{"text": "ok"}]}, user("two"))

    assert (found.prompt, found.turns, found.model, found.stream) == ("two", 2, "gemini-x", True)
    assert asked(user(CONTEXT, "one")).prompt == "one"


def test_the_path_says_the_model_and_whether_to_stream():
    found = gemini.asked({}, 4, "/v1beta/models/gemini-y:generateContent")

    assert found == ModelRequest(model="gemini-y", size=4)


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("POST", STREAM, "ask"),
        ("POST", "/v1beta/models/m:generateContent", "ask"),
        ("POST", "/v1/models/m:countTokens", "count"),
        ("GET", STREAM, None),
        ("POST", "/v1beta/models/m:embedContent", None),
        ("POST", "/v1/models", None),
    ],
)
def test_only_generating_and_counting_are_routes(method: str, path: str, route: str | None):
    assert gemini.route(method, path) == route


def test_the_results_of_the_last_content_are_asked_about():
    found = asked(user("go"), user(answer("call_a", {"output": "A"}), answer("call_b", {"error": "B"})))

    assert (found.call_ids, found.results, found.turns) == (("a", "b"), ("A", "B"), 1)
    assert asked(user(answer("call_a", {"n": 1}))).results == ('{"n":1}',)
    assert asked(user(answer("call_a", {})), user("next")).call_ids == ()


@pytest.mark.parametrize("body", [{}, {"contents": 1}, {"contents": [1, {"role": "user"}, {"parts": [1]}]}])
def test_odd_bodies_ask_nothing(body: dict[str, Any]):
    assert gemini.asked(body, 2) == ModelRequest(size=2)


def test_a_whole_reply_has_its_parts_in_order_and_usage():
    usage = Figures(input_tokens=9, output_tokens=5, cache_read_input_tokens=3, reasoning_tokens=2)

    whole = json.loads(gemini.whole(reply(Answer(usage=usage), text="hi", thinking="hm", calls=(CALL,)), asked()))

    (candidate,) = whole["candidates"]
    assert candidate["content"]["parts"] == [
        {"text": "hm", "thought": True},
        {"text": "hi"},
        {"functionCall": {"id": "call_c", "name": "read_file", "args": {"path": "a"}}},
    ]
    assert candidate["finishReason"] == "STOP"
    assert whole["usageMetadata"] == {
        "promptTokenCount": 9,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "cachedContentTokenCount": 3,
        "totalTokenCount": 14,
    }


def test_the_pieces_of_a_stream_add_up_and_only_the_last_event_has_the_reason_of_its_end():
    found = events(gemini.stream(reply(Answer(chunk=7), text="täxt " * 9, thinking="hm " * 9, calls=(CALL,)), asked()))

    parts = [part for event in found for part in event["candidates"][0]["content"]["parts"]]
    assert "".join(part["text"] for part in parts if part.get("thought")) == "hm " * 9
    assert "".join(part["text"] for part in parts if "text" in part and not part.get("thought")) == "täxt " * 9
    assert [part["functionCall"]["name"] for part in parts if "functionCall" in part] == ["read_file"]
    assert [event["candidates"][0].get("finishReason") for event in found] == [None] * (len(found) - 1) + ["STOP"]


@pytest.mark.parametrize(("stop", "word"), [("max_tokens", "MAX_TOKENS"), ("refusal", "SAFETY")])
def test_each_stop_has_its_word(stop: Any, word: str):
    assert events(gemini.stream(reply(Answer(stop=stop)), asked()))[-1]["candidates"][0]["finishReason"] == word


def test_tokens_are_counted():
    assert json.loads(gemini.count(ModelRequest(size=80))) == {"totalTokens": 20}


@pytest.mark.parametrize(
    ("status", "word"), [(400, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (500, "INTERNAL")]
)
def test_an_error_has_the_word_of_its_status_also_in_a_stream(status: int, word: str):
    expected = {"error": {"code": status, "message": "m", "status": word}}

    assert json.loads(gemini.error(Error(status=status, message="m"), "r")) == expected
    assert events([(gemini.stream_error(Error(status=status, message="m")), False)]) == [expected]


def test_a_broken_event_is_no_json():
    with pytest.raises(ValueError, match=r"Unterminated|Expecting|Invalid control"):
        json.loads(sse.broken(gemini.stream(reply(text="hello"), asked())[0][0]).split(b"data: ")[1])
