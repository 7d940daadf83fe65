"""The values that all wire formats share: the content of a request, and a reply that is not yet in a vendor's form.

Does not depend on any vendor's wire format, sockets or clocks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

FaultPoint = Literal["start", "middle"]
Stop = Literal["end_turn", "max_tokens", "refusal"]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]


class Tool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool call of the model. `input` is the tool's JSON object."""

    name: str
    input: dict[str, Any] = {}


class Error(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API error. `type` None means the usual type for the status. `retry_after`: seconds, sent as a header."""

    status: Annotated[int, Meta(ge=400, le=599)] = 500
    type: str | None = None
    message: str = "scripted error"
    retry_after: Seconds | None = None


class Figures(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Token counts that the answer reports. None: the count is estimated at 4 bytes per token (counts of cached tokens:
    0)."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None


class Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scripted answer of the model.

    `text` None: the answer repeats the prompt, but has no text if there are tool calls or a refusal; "" is an empty
    reply. `tools` are called in parallel; `then` is the answer to their results (None: it repeats the results).
    `chunk`: characters per streamed piece; `delay`: seconds before each piece. `at` says at which point of the answer
    `error`, `stall` (seconds, or true: without an end) and `drop` happen. `malformed`: a piece of JSON in the middle is
    broken.
    """

    text: str | None = None
    thinking: str | None = None
    tools: tuple[Tool, ...] = ()
    then: str | Answer | None = None
    stop: Stop = "end_turn"
    usage: Figures = Figures()
    chunk: Positive = 24
    delay: Seconds = 0.0
    error: Error | None = None
    stall: bool | Seconds = False
    drop: bool = False
    at: FaultPoint = "start"
    malformed: bool = False


class ModelRequest(Struct, frozen=True, kw_only=True):
    """The content of a request, independent of its wire format.

    `prompt` is the last text that a person wrote, unchanged; `turns` is the number of messages that a person wrote.
    `call_ids` are the ids of the tool calls whose results are at the end of the request, and `results` are the texts of
    these results. `size` is the request's size in bytes. `text_tools` are the tools that take text instead of JSON.
    `usage`: the request asks for token counts at the end of a stream; only some wire formats need this.
    """

    prompt: str = ""
    turns: int = 0
    model: str = ""
    stream: bool = False
    call_ids: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    size: int = 0
    text_tools: tuple[str, ...] = ()
    usage: bool = False


class Call(Struct, frozen=True, kw_only=True):
    """A tool call. The result of the tool refers to the call by its `id`."""

    id: str
    name: str
    input: dict[str, Any]


class Reply(Struct, frozen=True, kw_only=True):
    """An answer for one request, with templates filled in and ids assigned. The timing and the faults of the answer are
    in `answer`."""

    text: str
    thinking: str
    calls: tuple[Call, ...]
    answer: Answer
    id: str

    @property
    def stop(self) -> str:
        """Return the stop reason: end_turn, tool_use, max_tokens or refusal."""
        return "tool_use" if self.calls and self.answer.stop == "end_turn" else self.answer.stop
