"""Functions that several dialects share: JSON, server-sent events, token counts, and how to tell a person's text from
text that a CLI added."""

from __future__ import annotations

import json
import re
from typing import Any

from beam.model.outcome import Usage
from beam.proxy.wire.values import ModelRequest, Reply

_CLI_BLOCK = re.compile(  # blocks that CLIs put before and after what a person said
    r"<(system-reminder|environment_context|user_instructions|session_context|environment_details|INSTRUCTIONS)>"
)
_CLI_MESSAGES = (  # whole messages that a CLI sends in the role of a person
    "[Request interrupted by user",
    "Output token limit hit. Resume directly",
    "The connection dropped mid-response. Resume directly",
    "[Your previous response had no visible output",
    "Please continue from where you left off.",  # Copilot, after an answer that was cut off or empty
    "Your previous response was cut off because it reached",  # Cline
    "Your previous response was discarded because it reached",  # Vibe
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<image name=[Image #",
    "</image>",
)


def dump(value: object) -> bytes:
    """Return the value as compact JSON, ASCII only."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def event(value: object, kind: str = "") -> bytes:
    """Return one server-sent event with the JSON `value` as its data. `kind` is the name of the event; "" means no
    name."""
    head = f"event: {kind}\n".encode() if kind else b""
    return head + b"data: " + dump(value) + b"\n\n"


def broken(event: bytes) -> bytes:
    """Return this event with its JSON cut in half."""
    body = event.rstrip()
    return body[: (body.index(b"data: ") + len(body)) // 2] + b"\n\n"


def pieces(text: str, size: int) -> list[str]:
    """Return the text in parts of `size` characters."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def tokens(size: int) -> int:
    """Return an estimate of the tokens in `size` bytes: 4 bytes per token, at least 1 token."""
    return max(1, size // 4)


def figures(reply: Reply, asked: ModelRequest) -> tuple[int, int, int]:
    """Return three token counts: of the request, of the reply, and of the thinking in the reply. Each is taken from the
    script or, if the script has none, estimated."""
    given = reply.answer.usage
    size = len(reply.thinking) + len(reply.text) + sum(len(dump(call.input)) for call in reply.calls)
    thought = tokens(len(reply.thinking)) if reply.thinking else 0
    return (
        tokens(asked.size) if given.input_tokens is None else given.input_tokens,
        tokens(size) if given.output_tokens is None else given.output_tokens,
        thought if given.reasoning_tokens is None else given.reasoning_tokens,
    )


def person_text(text: str) -> str:
    """Return the part of this text that a person wrote, unchanged; "" if a CLI wrote the text."""
    while (found := _CLI_BLOCK.match(text)) and f"</{found[1]}>" in text:
        text = text.partition(f"</{found[1]}>")[2].lstrip()
    while (name := _closing_block(text)) and f"<{name}>" in text:
        text = text.rpartition(f"<{name}>")[0].rstrip()
    return "" if text.startswith(_CLI_MESSAGES) else text


def _closing_block(text: str) -> str:
    """Return the tag of the CLI's own block (`_CLI_BLOCK`) at the end of the text; "" if the text ends otherwise."""
    end = text.rstrip().rpartition("</")[2]
    return end[:-1] if end.endswith(">") and _CLI_BLOCK.fullmatch(f"<{end}") else ""


def items(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; [] if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def model_request(
    body: dict[str, Any], size: int, prompts: list[str], results: list[tuple[str, str]], **more: Any
) -> ModelRequest:
    """Return the content of a request. `prompts` are the texts that a person wrote, and `results` are the (call id,
    text) of the tool results at its end. `more` are the other fields, also in place of those from the body."""
    given: dict[str, Any] = {
        "prompt": prompts[-1] if prompts else "",
        "model": str(body.get("model", "")),
        "stream": body.get("stream") is True,
    }
    call_ids, texts = (tuple(each) for each in zip(*results, strict=True)) if results else ((), ())
    return ModelRequest(**given | more, turns=len(prompts), call_ids=call_ids, results=texts, size=size)


def openai_prompt(message: dict[str, Any]) -> str:
    """Return the text that a person wrote in this message of one of OpenAI's formats; "" if there is none."""
    if message.get("role") != "user":
        return ""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [str(part.get("text") or "") for part in items(content)]
    return "\n".join(text for part in texts if (text := person_text(part)))


def join_texts(content: object) -> str:
    """Return the text of a message's content: the content itself if it is a string, else the texts of its parts, joined
    by line breaks."""
    if isinstance(content, str):
        return content
    return "\n".join(text for part in items(content) if isinstance(text := part.get("text"), str) and text)


def count_in(given: dict[str, Any], name: str) -> int | None:
    """Return the non-negative integer in the field `name`; None if there is none."""
    value = given.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def openai_figures(given: dict[str, Any], before: str, after: str) -> Usage:
    """Return the token counts in OpenAI's usage object `given`. Its input count includes cached tokens; the returned
    one does not. `before` and `after` are the names of its fields for input and output tokens."""
    whole, cached = count_in(given, before), count_in(_token_details(given, before), "cached_tokens")
    return Usage(
        input_tokens=None if whole is None else max(0, whole - (cached or 0)),
        output_tokens=count_in(given, after),
        cached_tokens=cached,
        reasoning_tokens=count_in(_token_details(given, after), "reasoning_tokens"),
    )


def _token_details(given: dict[str, Any], name: str) -> dict[str, Any]:
    found = given.get(f"{name}_details")
    return found if isinstance(found, dict) else {}
