"""The frames of `codex app-server`: types with the fields that beam reads, and functions for the frames that beam
writes.

A frame is one line of JSON without "jsonrpc": a notification has a method, a request a method and an id, an answer an
id alone. Does not depend on the meaning of a frame.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from beam.agents.jsonrpc import Envelope, Writer
from beam.agents.typed import Count, reader


class Item(Struct, frozen=True, rename="camel"):
    """One item of a turn. A field that a kind of item does not have is at its default."""

    id: str = ""
    type: str = ""
    status: str = ""
    text: str = ""
    client_id: Any = None
    command: str = ""
    aggregated_output: Any = None
    exit_code: Any = None
    changes: Any = None
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    error: Any = None
    content_items: Any = None
    success: Any = None
    query: str = ""
    action: Any = None
    summary: Any = None
    path: str = ""
    saved_path: Any = None
    prompt: Any = None
    receiver_thread_ids: Any = None
    agents_states: Any = None
    kind: str = ""
    agent_thread_id: str = ""
    agent_path: str = ""


class Failure(Struct, frozen=True, rename="camel"):
    """The reason why a turn failed or is retried."""

    message: str = ""
    codex_error_info: Any = None
    additional_details: Any = None


class Turn(Struct, frozen=True):
    """The state of one turn, as Codex reports it."""

    id: str = ""
    status: str = ""
    error: Failure | None = None


class Tokens(Struct, frozen=True, rename="camel"):
    """The tokens that the whole thread, or its last model call, has used. A figure that is missing is None."""

    input_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None
    output_tokens: Count | None = None
    reasoning_output_tokens: Count | None = None


NO_TOKENS, NO_ITEM, NO_TURN, NO_FAILURE = Tokens(), Item(), Turn(), Failure()


class Usage(Struct, frozen=True, rename="camel"):
    """The figures of a thread: `total` is for the whole thread so far, `last` for its last model call."""

    total: Tokens = NO_TOKENS
    last: Tokens = NO_TOKENS
    model_context_window: Count | None = None


NO_USAGE = Usage()


class Params(Struct, frozen=True, rename="camel"):
    """The parameters of a notification. A field that this kind of notification does not have is at its default."""

    thread_id: str = ""
    turn_id: str = ""
    item_id: str = ""
    delta: str = ""
    item: Item = NO_ITEM
    turn: Turn = NO_TURN
    token_usage: Usage = NO_USAGE
    error: Failure = NO_FAILURE
    will_retry: bool = False
    request_id: Any = None
    message: str = ""
    plan: Any = None
    thread_settings: Any = None
    status: Any = None
    run: Any = None


NO_PARAMS = Params()


class Frame(Envelope, frozen=True):
    """One line of Codex's app-server protocol."""

    params: Params = NO_PARAMS


read = reader(Frame)
_writer = Writer({})
request, notification, answer, refusal = _writer.request, _writer.notification, _writer.answer, _writer.refusal
