"""The OpenAI Responses wire format: parses requests, and writes replies as one JSON object or as server-sent events.

The module is a dialect (`dialects.Dialect`): pure functions over bytes and values. Does not depend on sockets, files or
clocks.
"""

from __future__ import annotations

from typing import Any, Literal

from beam.model.outcome import Usage
from beam.proxy.wire import chat
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

name = "responses"

_ENDS: dict[str, Stop] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
_CODES = {400: "invalid_prompt", 429: "rate_limit_exceeded", 529: "server_is_overloaded"}
_INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


def route(method: str, path: str) -> Literal["ask", "count"] | None:
    """Return the kind of a request to this path (without its query); None if the request is not a model call."""
    if method != "POST":
        return None
    return {"/v1/responses": "ask", "/v1/responses/input_tokens": "count"}.get(path)  # type: ignore[return-value]


def asked(body: dict[str, Any], size: int, path: str = "") -> ModelRequest:
    """Return the content of a request with this body; `size` is the size of the body in bytes."""
    given = body.get("input")
    sent = [{"role": "user", "content": given}] if isinstance(given, str) else items(given)
    said = [item for item in sent if item.get("type", "message") == "message"]
    prompts = [text for item in said if (text := openai_prompt(item))]
    custom = tuple(str(tool.get("name")) for tool in _tools([body, *sent]) if tool.get("type") == "custom")
    return model_request(body, size, prompts, _results(sent), text_tools=custom)


def _tools(holders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools that these objects offer (the body and its input items), including tools in name spaces at any
    depth."""
    found: list[dict[str, Any]] = []
    for holder in holders:
        tools = items(holder.get("tools"))
        found += tools + _tools(tools)
    return found


def _results(sent: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return (call id, text) for each tool result at the end of the input; [] if another item comes last."""
    found = []
    for item in reversed(sent):
        if str(item.get("type", "")).endswith("_call_output"):
            found.append((str(item.get("call_id", "")).removeprefix("call_"), join_texts(item.get("output"))))
        elif item.get("role") not in ("developer", "system"):
            break
    return found[::-1]


# -- answers -----------------------------------------------------------------------------------------------------------


def whole(reply: Reply, asked: ModelRequest) -> bytes:
    """Return the reply as one JSON object."""
    return dump(_response(reply, asked, _output(reply, asked)))


def stream(reply: Reply, asked: ModelRequest) -> list[tuple[bytes, bool]]:
    """Return the reply as server-sent events in order, each as (bytes, is_content). A script may delay the events that
    carry a piece of content."""
    written = _Events()
    written.add("response.created", response=_response(reply, asked, None))
    output = _output(reply, asked)
    for index, item in enumerate(output):
        place = {"item_id": item["id"], "output_index": index}
        written.add("response.output_item.added", output_index=index, item=_announced_item(item))
        _deltas(written, item, place, reply.answer.chunk)
        written.add("response.output_item.done", output_index=index, item=item)
    done = _response(reply, asked, output)
    written.add(f"response.{done['status']}", response=done)
    return written.events


class _Events:
    """Collects the events of one stream, and numbers them."""

    def __init__(self) -> None:
        self.events: list[tuple[bytes, bool]] = []

    def add(self, kind: str, **fields: Any) -> None:
        value = {"type": kind, "sequence_number": len(self.events), **fields}
        self.events.append((event(value, kind), kind.endswith(".delta")))


def _deltas(written: _Events, item: dict[str, Any], place: dict[str, Any], size: int) -> None:
    if item["type"] == "reasoning":
        text, place = item["summary"][0]["text"], place | {"summary_index": 0}
        written.add("response.reasoning_summary_part.added", **place, part={"type": "summary_text", "text": ""})
        for piece in pieces(text, size):
            written.add("response.reasoning_summary_text.delta", **place, delta=piece)
        written.add("response.reasoning_summary_text.done", **place, text=text)
        written.add("response.reasoning_summary_part.done", **place, part=item["summary"][0])
    elif item["type"] == "message":
        part, place = item["content"][0], place | {"content_index": 0}
        written.add("response.content_part.added", **place, part=part | {"text": ""})
        for piece in pieces(part["text"], size):
            written.add("response.output_text.delta", **place, delta=piece)
        written.add("response.output_text.done", **place, text=part["text"])
        written.add("response.content_part.done", **place, part=part)
    else:
        field = "arguments" if item["type"] == "function_call" else "input"
        kind = "function_call_arguments" if field == "arguments" else "custom_tool_call_input"
        for piece in pieces(item[field], size):
            written.add(f"response.{kind}.delta", **place, delta=piece)
        written.add(f"response.{kind}.done", **place, **{field: item[field]})


def _announced_item(item: dict[str, Any]) -> dict[str, Any]:
    """Return the output item as a stream first announces it: in progress, and without its content."""
    empty = {"summary": [], "content": [], "arguments": "", "input": ""}
    return item | {key: value for key, value in empty.items() if key in item} | {"status": "in_progress"}


def _output(reply: Reply, asked: ModelRequest) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        output.append(
            {"type": "reasoning", "id": f"rs_{reply.id}", "summary": summary, "encrypted_content": "ZmFrZQ=="}
        )
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        output.append(
            {
                "type": "message",
                "id": f"msg_{reply.id}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    for call in reply.calls:
        space, _, name = call.name.rpartition(".")
        head = {"call_id": f"call_{call.id}", "name": name, "status": "completed"}
        head |= {"namespace": space} if space else {}
        if call.name in asked.text_tools:
            text = str(next(iter(call.input.values()), ""))
            output.append({"type": "custom_tool_call", "id": f"ctc_{call.id}", **head, "input": text})
        else:
            arguments = dump(call.input).decode()
            output.append({"type": "function_call", "id": f"fc_{call.id}", **head, "arguments": arguments})
    return output


def _response(reply: Reply, asked: ModelRequest, output: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Return the finished response with this `output` or, if `output` is None, the response at its beginning."""
    why = _INCOMPLETE.get(reply.stop) if output is not None else None
    status = "in_progress" if output is None else "incomplete" if why else "completed"
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": chat.CREATED,
        "status": status,
        "model": asked.model,
        "output": output or [],
        "error": None,
        "incomplete_details": {"reason": why} if why else None,
        "usage": None if output is None else _usage(reply, asked),
    }


def _usage(reply: Reply, asked: ModelRequest) -> dict[str, Any]:
    before, after, thought = figures(reply, asked)
    return {
        "input_tokens": before,
        "input_tokens_details": {"cached_tokens": reply.answer.usage.cache_read_input_tokens or 0},
        "output_tokens": after,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": before + after,
    }


def count(asked: ModelRequest) -> bytes:
    """Return the answer to a request to count tokens."""
    return dump({"object": "response.input_tokens", "input_tokens": tokens(asked.size)})


def error(error: Error, request_id: str) -> bytes:
    """Return the body of an HTTP error."""
    return chat.error(error, request_id)


def stream_error(error: Error) -> bytes:
    """Return the event that reports an error in the middle of a stream: the response failed."""
    code = error.type or _CODES.get(error.status, "server_error")
    response = {"status": "failed", "error": {"code": code, "message": error.message}, "output": []}
    return event({"type": "response.failed", "response": response}, "response.failed")


def used(value: dict[str, Any]) -> Usage | None:
    """Return the token counts in a whole answer, or in one event of a stream; None if there are none."""
    response = value.get("response")
    given = (response if isinstance(response, dict) else value).get("usage")
    return openai_figures(given, "input_tokens", "output_tokens") if isinstance(given, dict) else None


def stopped(value: dict[str, Any]) -> Stop | None:
    """Return how the model ended, if a whole answer or an event of a stream says so; None if it does not. Every end but
    a limit and a refusal is `end_turn`."""
    found = value.get("response")
    response = found if isinstance(found, dict) else value
    if response.get("status") not in ("completed", "incomplete"):
        return None
    parts = [part for item in items(response.get("output")) for part in items(item.get("content"))]
    if any(part.get("type") == "refusal" for part in parts):
        return "refusal"
    details = response.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    return _ENDS.get(why, "end_turn") if isinstance(why, str) else "end_turn"
