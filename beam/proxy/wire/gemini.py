"""The Gemini wire format: parses requests, and writes replies as one JSON object or as server-sent events.

The module is a dialect (`dialects.Dialect`): pure functions over bytes and values. The path of a request names the
model and says whether to stream. Does not depend on sockets, files or clocks.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from beam.model.outcome import Usage
from beam.proxy.wire.sse import count_in, dump, event, figures, items, model_request, person_text, pieces, tokens
from beam.proxy.wire.values import Error, ModelRequest, Reply, Stop

name = "gemini"

_PATH = re.compile(r"/v1(?:beta|alpha)?/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)\Z")
_ENDS: dict[str, Stop] = {
    "MAX_TOKENS": "max_tokens",
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"), "refusal"),
}
_STOPS = {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}


def route(method: str, path: str) -> Literal["ask", "count"] | None:
    """Return the kind of a request to this path (without its query); None if the request is not a model call."""
    found = _PATH.match(path) if method == "POST" else None
    if found is None:
        return None
    return "count" if found[2] == "countTokens" else "ask"


def asked(body: dict[str, Any], size: int, path: str = "") -> ModelRequest:
    """Return the content of a request with this path and body; `size` is the size of the body in bytes."""
    found = _PATH.match(path)
    contents = items(body.get("contents"))
    prompts = [text for content in contents if (text := _prompt(content))]
    model, is_stream = found[1] if found else "", found is not None and found[2] == "streamGenerateContent"
    return model_request(body, size, prompts, _results(contents), model=model, stream=is_stream)


def _prompt(content: dict[str, Any]) -> str:
    if content.get("role", "user") != "user" or _function_responses(content):
        return ""
    texts = [str(part.get("text") or "") for part in items(content.get("parts")) if not part.get("thought")]
    return "\n".join(text for part in texts if (text := person_text(part)))


def _function_responses(content: dict[str, Any]) -> list[dict[str, Any]]:
    found = (part.get("functionResponse") for part in items(content.get("parts")))
    return [answer for answer in found if isinstance(answer, dict)]


def _results(contents: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return (call id, text) for each tool result in the last content; [] if it has none."""
    return [
        (str(answer.get("id", "")).removeprefix("call_"), _output(answer.get("response")))
        for answer in (_function_responses(contents[-1]) if contents else [])
    ]


def _output(response: object) -> str:
    """Return the text of a function's response: its `output` or `error` if that is a string, else the whole response as
    JSON."""
    if isinstance(response, dict):
        for key in ("output", "error"):
            if isinstance(response.get(key), str):
                return str(response[key])
    return dump(response).decode()


# -- answers -----------------------------------------------------------------------------------------------------------


def whole(reply: Reply, asked: ModelRequest) -> bytes:
    """Return the reply as one JSON object."""
    return dump(_response(reply, asked, _parts(reply, size=1 << 30), _STOPS[reply.stop]))


def stream(reply: Reply, asked: ModelRequest) -> list[tuple[bytes, bool]]:
    """Return the reply as server-sent events in order, each as (bytes, is_content). A script may delay the events that
    carry a piece of content."""
    events = [(event(_response(reply, asked, [], None)), False)]
    events += [(event(_response(reply, asked, [part], None)), True) for part in _parts(reply, reply.answer.chunk)]
    events.append((event(_response(reply, asked, [], _STOPS[reply.stop])), False))
    return events


def _parts(reply: Reply, size: int) -> list[dict[str, Any]]:
    return [
        *({"text": piece, "thought": True} for piece in pieces(reply.thinking, size)),
        *({"text": piece} for piece in pieces(reply.text, size)),
        *({"functionCall": {"id": f"call_{call.id}", "name": call.name, "args": call.input}} for call in reply.calls),
    ]


def _response(reply: Reply, asked: ModelRequest, parts: list[dict[str, Any]], stop: str | None) -> dict[str, Any]:
    before, after, thought = figures(reply, asked)
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if stop is not None:
        candidate["finishReason"] = stop
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": before,
            "candidatesTokenCount": max(0, after - thought),
            "thoughtsTokenCount": thought,
            "cachedContentTokenCount": reply.answer.usage.cache_read_input_tokens or 0,
            "totalTokenCount": before + after,
        },
        "modelVersion": asked.model,
        "responseId": reply.id,
    }


def count(asked: ModelRequest) -> bytes:
    """Return the answer to a request to count tokens."""
    return dump({"totalTokens": tokens(asked.size)})


def error(error: Error, request_id: str) -> bytes:
    """Return the body of an HTTP error."""
    return dump(_error(error))


def stream_error(error: Error) -> bytes:
    """Return the event that reports an error in the middle of a stream."""
    return event(_error(error))


def _error(error: Error) -> dict[str, Any]:
    status = error.type or _STATUSES.get(error.status, "INTERNAL" if error.status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": error.status, "message": error.message, "status": status}}


def used(value: dict[str, Any]) -> Usage | None:
    """Return the token counts in a whole answer, or in one event of a stream; None if there are none."""
    given = value.get("usageMetadata")
    if not isinstance(given, dict):
        return None
    whole, cached = count_in(given, "promptTokenCount"), count_in(given, "cachedContentTokenCount")
    thought, written = count_in(given, "thoughtsTokenCount"), count_in(given, "candidatesTokenCount")
    return Usage(
        input_tokens=None if whole is None else max(0, whole - (cached or 0)),
        output_tokens=None if written is None and thought is None else (written or 0) + (thought or 0),
        cached_tokens=cached,
        reasoning_tokens=thought,
    )


def stopped(value: dict[str, Any]) -> Stop | None:
    """Return how the model ended, if a whole answer or an event of a stream says so; None if it does not. Every end but
    a limit and a refusal is `end_turn`."""
    feedback = value.get("promptFeedback")
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        return "refusal"
    told = next((each["finishReason"] for each in items(value.get("candidates")) if each.get("finishReason")), None)
    return _ENDS.get(told, "end_turn") if isinstance(told, str) else None
