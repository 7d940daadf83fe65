"""The OpenAI Chat Completions wire format: parses requests, and writes replies as one JSON object or as server-sent
events.

The module is a dialect (`dialects.Dialect`): pure functions over bytes and values. Does not depend on sockets, files or
clocks.
"""

from __future__ import annotations

from typing import Any, Literal

from beam.model.outcome import Usage
from beam.proxy.wire.sse import (
    dump,
    event,
    figures,
    items,
    join_texts,
    model_request,
    openai_figures,
    openai_prompt,
    pieces,
    tokens,
)
from beam.proxy.wire.values import Error, ModelRequest, Reply, Stop

name = "chat"
CREATED = 1_700_000_000  # seconds since 1970: one moment for all answers
MODELS = dump(
    {"object": "list", "data": [{"id": "scripted", "object": "model", "created": CREATED, "owned_by": "beam"}]}
)
_ENDS: dict[str, Stop] = {"length": "max_tokens", "max_tokens": "max_tokens", "content_filter": "refusal"}
_STOPS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def route(method: str, path: str) -> Literal["ask", "count"] | None:
    """Return the kind of a request to this path (without its query); None if the request is not a model call."""
    return "ask" if method == "POST" and path in ("/v1/chat/completions", "/chat/completions") else None


def asked(body: dict[str, Any], size: int, path: str = "") -> ModelRequest:
    """Return the content of a request with this body; `size` is the size of the body in bytes."""
    messages = items(body.get("messages"))
    prompts = [text for message in messages if (text := openai_prompt(message))]
    options = body.get("stream_options")
    usage = isinstance(options, dict) and options.get("include_usage") is True
    return model_request(body, size, prompts, _results(messages), usage=usage)


def _results(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return (call id, text) for each tool result at the end of the messages; [] if another message comes last."""
    found = []
    for message in reversed(messages):
        if message.get("role") == "tool":
            call_id = str(message.get("tool_call_id", "")).removeprefix("call_")
            found.append((call_id, join_texts(message.get("content"))))
        elif message.get("role") not in ("developer", "system"):
            break
    return found[::-1]


# -- answers -----------------------------------------------------------------------------------------------------------


def whole(reply: Reply, asked: ModelRequest) -> bytes:
    """Return the reply as one JSON object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [_call(call.id, call.name, dump(call.input).decode()) for call in reply.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _STOPS[reply.stop]}
    head = _head(reply, asked, "chat.completion")
    return dump(head | {"choices": [choice], "usage": _usage(reply, asked)})


def stream(reply: Reply, asked: ModelRequest) -> list[tuple[bytes, bool]]:
    """Return the reply as server-sent events in order, each as (bytes, is_content). A script may delay the events that
    carry a piece of content."""
    head = _head(reply, asked, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], stop: str | None = None) -> bytes:
        return event(head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}]})

    size = reply.answer.chunk
    events = [(chunk({"role": "assistant", "content": ""}), False)]
    events += [(chunk({"reasoning_content": piece}), True) for piece in pieces(reply.thinking, size)]
    events += [(chunk({"content": piece}), True) for piece in pieces(reply.text, size)]
    for index, call in enumerate(reply.calls):
        first = {"index": index, **_call(call.id, call.name, "")}
        events.append((chunk({"tool_calls": [first]}), False))
        for piece in pieces(dump(call.input).decode(), size):
            events.append((chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), True))
    events.append((chunk({}, _STOPS[reply.stop]), False))
    if asked.usage:
        events.append((event(head | {"choices": [], "usage": _usage(reply, asked)}), False))
    events.append((b"data: [DONE]\n\n", False))
    return events


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{call_id}", "type": "function", "function": {"name": name, "arguments": arguments}}


def _head(reply: Reply, asked: ModelRequest, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": CREATED, "model": asked.model}


def _usage(reply: Reply, asked: ModelRequest) -> dict[str, Any]:
    before, after, thought = figures(reply, asked)
    return {
        "prompt_tokens": before,
        "completion_tokens": after,
        "total_tokens": before + after,
        "prompt_tokens_details": {"cached_tokens": reply.answer.usage.cache_read_input_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def count(asked: ModelRequest) -> bytes:
    """Return an estimated token count. This API has no request to count tokens, but each dialect must have this
    function."""
    return dump({"input_tokens": tokens(asked.size)})


def error(error: Error, request_id: str) -> bytes:
    """Return the body of an HTTP error."""
    return dump(_error(error))


def stream_error(error: Error) -> bytes:
    """Return the event that reports an error in the middle of a stream."""
    return event(_error(error))


def _error(error: Error) -> dict[str, Any]:
    usual = _TYPES.get(error.status, "server_error" if error.status >= 500 else "invalid_request_error")
    kind = error.type or usual
    return {"error": {"message": error.message, "type": kind, "param": None, "code": error.type}}


def used(value: dict[str, Any]) -> Usage | None:
    """Return the token counts in a whole answer, or in one event of a stream; None if there are none."""
    given = value.get("usage")
    return openai_figures(given, "prompt_tokens", "completion_tokens") if isinstance(given, dict) else None


def stopped(value: dict[str, Any]) -> Stop | None:
    """Return how the model ended, if a whole answer or an event of a stream says so; None if it does not. Every end but
    a limit and a refusal is `end_turn`."""
    told = next((each["finish_reason"] for each in items(value.get("choices")) if each.get("finish_reason")), None)
    return _ENDS.get(told, "end_turn") if isinstance(told, str) else None
