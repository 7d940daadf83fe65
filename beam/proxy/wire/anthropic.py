"""The Anthropic Messages wire format: parses requests, and writes replies as one JSON object or as server-sent events.

The module is a dialect (`dialects.Dialect`): pure functions over bytes and values. Does not depend on sockets, files or
clocks.
"""

from __future__ import annotations

from typing import Any, Literal

from beam.model.outcome import Usage
from beam.proxy.wire.sse import count_in, dump, event, figures, items, model_request, person_text, pieces, tokens
from beam.proxy.wire.values import Error, ModelRequest, Reply, Stop

name = "anthropic"

_ENDS: dict[str, Stop] = {
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def route(method: str, path: str) -> Literal["ask", "count"] | None:
    """Return the kind of a request to this path (without its query); None if the request is not a model call."""
    if method != "POST":
        return None
    return {"/v1/messages": "ask", "/v1/messages/count_tokens": "count"}.get(path)  # type: ignore[return-value]


def asked(body: dict[str, Any], size: int, path: str = "") -> ModelRequest:
    """Return the content of a request with this body; `size` is the size of the body in bytes."""
    messages = items(body.get("messages"))
    prompts = [text for message in messages if (text := _prompt(message))]
    more = {"prompt": ""} if _is_task_notification(messages) else {}
    return model_request(body, size, prompts, _results(messages), **more)


def _prompt(message: dict[str, Any]) -> str:
    """Return the text that a person wrote in this message, without text that a CLI added; "" if the message has tool
    results."""
    if message.get("role") != "user":
        return ""
    content = message.get("content")
    blocks = [content] if isinstance(content, str) else [_text_of(block) for block in items(content)]
    if any(block.get("type") == "tool_result" for block in items(content)):
        return ""
    return "\n".join(text for block in blocks if (text := person_text(block)))


def _is_task_notification(messages: list[dict[str, Any]]) -> bool:
    """Return whether the messages since the last answer only tell the model that a background task ended."""
    begin = max((n + 1 for n, message in enumerate(messages) if message.get("role") == "assistant"), default=0)
    since = [message for message in messages[begin:] if message.get("role") == "user"]
    texts = [_text_of(block) for message in since for block in items(message.get("content"))]
    return any("<task-notification>" in text for text in texts) and not any(map(_prompt, since))


def _results(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return (call id, text) for each tool result in the last user message; [] if that message has none."""
    last: dict[str, Any] = next((message for message in reversed(messages) if message.get("role") == "user"), {})
    return [
        (str(block.get("tool_use_id", "")).removeprefix("toolu_"), _joined(block.get("content")))
        for block in items(last.get("content"))
        if block.get("type") == "tool_result"
    ]


def _joined(content: object) -> str:
    return (
        content if isinstance(content, str) else "\n".join(filter(None, (_text_of(block) for block in items(content))))
    )


def _text_of(block: dict[str, Any]) -> str:
    return str(block.get("text", "")) if block.get("type") == "text" else ""


# -- answers -----------------------------------------------------------------------------------------------------------


def whole(reply: Reply, asked: ModelRequest) -> bytes:
    """Return the reply as one JSON object."""
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": "ZmFrZQ=="})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    content += [
        {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.input} for call in reply.calls
    ]
    before, after = _usage(reply, asked)
    return dump(_message(reply, asked, content=content, stop=reply.stop, usage=before | after))


def stream(reply: Reply, asked: ModelRequest) -> list[tuple[bytes, bool]]:
    """Return the reply as server-sent events in order, each as (bytes, is_content). A script may delay the events that
    carry a piece of content."""
    before, after = _usage(reply, asked)
    start = _message(reply, asked, content=[], stop=None, usage=before | {"output_tokens": 1})
    events = [(_event("message_start", {"message": start}), False)]
    for index, (block, deltas) in enumerate(_blocks(reply)):
        events.append((_event("content_block_start", {"index": index, "content_block": block}), False))
        events += [(_event("content_block_delta", {"index": index, "delta": delta}), True) for delta in deltas]
        events.append((_event("content_block_stop", {"index": index}), False))
    delta = {"stop_reason": reply.stop, "stop_sequence": None}
    events.append((_event("message_delta", {"delta": delta, "usage": after}), False))
    events.append((_event("message_stop", {}), False))
    return events


def _blocks(reply: Reply) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return each content block as (the block at its start, its deltas)."""
    size = reply.answer.chunk
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(reply.thinking, size)]
        signature = {"type": "signature_delta", "signature": "ZmFrZQ=="}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]))
    if reply.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(reply.text, size)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call in reply.calls:
        deltas = [
            {"type": "input_json_delta", "partial_json": piece} for piece in pieces(dump(call.input).decode(), size)
        ]
        blocks.append(({"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": {}}, deltas))
    return blocks


def _message(
    reply: Reply, asked: ModelRequest, *, content: list[dict[str, Any]], stop: str | None, usage: dict[str, int]
) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _usage(reply: Reply, asked: ModelRequest) -> tuple[dict[str, int], dict[str, int]]:
    """Return the token counts for the beginning of a stream, and those for its end."""
    given = reply.answer.usage
    before, after, _ = figures(reply, asked)
    return {
        "input_tokens": before,
        "cache_creation_input_tokens": given.cache_creation_input_tokens or 0,
        "cache_read_input_tokens": given.cache_read_input_tokens or 0,
    }, {"output_tokens": after}


def count(asked: ModelRequest) -> bytes:
    """Return the answer to a request to count tokens."""
    return dump({"input_tokens": tokens(asked.size)})


def error(error: Error, request_id: str) -> bytes:
    """Return the body of an HTTP error."""
    return dump(_error(error) | {"request_id": request_id})


def stream_error(error: Error) -> bytes:
    """Return the event that reports an error in the middle of a stream."""
    return _event("error", _error(error))


def _error(error: Error) -> dict[str, Any]:
    kind = error.type or _TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    return event({"type": kind} | fields, kind)


def used(value: dict[str, Any]) -> Usage | None:
    """Return the token counts in a whole answer, or in one event of a stream; None if there are none."""
    message = value.get("message")
    given = (message if isinstance(message, dict) else value).get("usage")
    if not isinstance(given, dict):
        return None
    fresh, written = count_in(given, "input_tokens"), count_in(given, "cache_creation_input_tokens")
    return Usage(
        input_tokens=None if fresh is None else fresh + (written or 0),
        output_tokens=count_in(given, "output_tokens"),
        cached_tokens=count_in(given, "cache_read_input_tokens"),
        cache_write_tokens=written,
    )


def stopped(value: dict[str, Any]) -> Stop | None:
    """Return how the model ended, if a whole answer or an event of a stream says so; None if it does not. Every end but
    a limit and a refusal is `end_turn`."""
    delta = value.get("delta")
    told = (delta if isinstance(delta, dict) else value).get("stop_reason")
    return _ENDS.get(told, "end_turn") if isinstance(told, str) else None
