"""The Anthropic Messages wire format: what a request asks, and a reply's bytes, whole or as server-sent events.

Pure functions over bytes and values; a dialect (`server.Dialect`). Must not know: sockets, scripts' files, clocks.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from beam.testing.fake_model.player import Reply
from beam.testing.fake_model.script import Asked, Error

name = "anthropic"

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
_REMINDER = ("<system-reminder>", "</system-reminder>")
_OF_THE_CLI = (
    "[Request interrupted by user",
    "Output token limit hit. Resume directly",
    "[Your previous response had no visible output",
)


def route(method: str, path: str) -> Literal["ask", "count"] | None:
    """What a request to this path (without its query) is: one for an answer, one to count tokens, or none of ours."""
    if method != "POST":
        return None
    return {"/v1/messages": "ask", "/v1/messages/count_tokens": "count"}.get(path)  # type: ignore[return-value]


def asked(body: dict[str, Any], size: int) -> Asked:
    """What the request's body asks; `size` is its bytes."""
    messages = [message for message in _list(body.get("messages")) if isinstance(message, dict)]
    prompts = [text for message in messages if (text := _prompt(message))]
    results = _results(messages)
    return Asked(
        prompt=prompts[-1] if prompts else "",
        turns=len(prompts),
        model=str(body.get("model", "")),
        stream=body.get("stream") is True,
        call_ids=tuple(call_id for call_id, _ in results),
        results=tuple(text for _, text in results),
        size=size,
    )


def _prompt(message: dict[str, Any]) -> str:
    """What a person said in this message: no reminders, tool results or words that a CLI put there itself."""
    if message.get("role") != "user":
        return ""
    content = message.get("content")
    blocks = [content] if isinstance(content, str) else [_text_of(block) for block in _list(content)]
    if any(isinstance(block, dict) and block.get("type") == "tool_result" for block in _list(content)):
        return ""
    said = [_without_reminders(block) for block in blocks]
    return "\n".join(text for text in said if text and not text.startswith(_OF_THE_CLI))


def _without_reminders(text: str) -> str:
    """The text without the reminders that CLIs put before and after what a person said; what is between is verbatim."""
    start, end = _REMINDER
    while text.startswith(start) and end in text:
        text = text.partition(end)[2].lstrip()
    while text.rstrip().endswith(end) and start in text:
        text = text.rpartition(start)[0].rstrip()
    return text


def _results(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The (call id, text) of each tool result in the last user message; none where that is a prompt."""
    last: dict[str, Any] = next((message for message in reversed(messages) if message.get("role") == "user"), {})
    return [
        (str(block.get("tool_use_id", "")).removeprefix("toolu_"), _joined(block.get("content")))
        for block in _list(last.get("content"))
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]


def _joined(content: object) -> str:
    return (
        content if isinstance(content, str) else "\n".join(filter(None, (_text_of(block) for block in _list(content))))
    )


def _text_of(block: object) -> str:
    return str(block.get("text", "")) if isinstance(block, dict) and block.get("type") == "text" else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# -- answers -----------------------------------------------------------------------------------------------------------


def whole(reply: Reply, asked: Asked) -> bytes:
    """The reply as one JSON object."""
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": "ZmFrZQ=="})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    content += [
        {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.input} for call in reply.calls
    ]
    before, after = _usage(reply, asked)
    return _json(_message(reply, asked, content=content, stop=reply.stop, usage=before | after))


def stream(reply: Reply, asked: Asked) -> list[tuple[bytes, bool]]:
    """The reply as server-sent events in order; True marks a piece of content, which a script may delay."""
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
    """Each content block as it starts, and its deltas."""
    size = reply.answer.chunk
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(reply.thinking, size)]
        signature = {"type": "signature_delta", "signature": "ZmFrZQ=="}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]))
    if reply.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(reply.text, size)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call in reply.calls:
        pieces = _pieces(_json(call.input).decode(), size)
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        blocks.append(({"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": {}}, deltas))
    return blocks


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _message(
    reply: Reply, asked: Asked, *, content: list[dict[str, Any]], stop: str | None, usage: dict[str, int]
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


def _usage(reply: Reply, asked: Asked) -> tuple[dict[str, int], dict[str, int]]:
    """The figures that a stream tells first, and those that it tells last."""
    given = reply.answer.usage
    said = len(reply.thinking) + len(reply.text) + sum(len(_json(call.input)) for call in reply.calls)
    return {
        "input_tokens": tokens(asked.size) if given.input_tokens is None else given.input_tokens,
        "cache_creation_input_tokens": given.cache_creation_input_tokens or 0,
        "cache_read_input_tokens": given.cache_read_input_tokens or 0,
    }, {"output_tokens": tokens(said) if given.output_tokens is None else given.output_tokens}


def tokens(size: int) -> int:
    """An estimate: 4 bytes a token, at least 1."""
    return max(1, size // 4)


def count(asked: Asked) -> bytes:
    """The answer to a request to count tokens."""
    return _json({"input_tokens": tokens(asked.size)})


def error(error: Error, request_id: str) -> bytes:
    """The body of an HTTP error."""
    return _json(_error(error) | {"request_id": request_id})


def stream_error(error: Error) -> bytes:
    """The event of an error in the middle of a stream."""
    return _event("error", _error(error))


def broken(event: bytes) -> bytes:
    """This event with its JSON cut in half."""
    body = event.rstrip()
    return body[: (body.index(b"data: ") + len(body)) // 2] + b"\n\n"


def _error(error: Error) -> dict[str, Any]:
    kind = error.type or _TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + _json({"type": kind} | fields) + b"\n\n"


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
