"""Types for the lines of `codex exec`, with only the fields that beam reads.

Does not depend on events.
"""

from typing import Any

from msgspec import Struct

from beam.agents.typed import Count, reader


class Tokens(Struct, frozen=True):
    """The tokens that the whole thread has used so far. A figure that is missing is None."""

    input_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None
    output_tokens: Count | None = None
    reasoning_output_tokens: Count | None = None


class Item(Struct, frozen=True):
    """One item that Codex reports. A field that a kind of item does not have is at its default."""

    id: str = ""
    type: str = ""
    text: str = ""
    message: str = ""
    status: str = ""
    command: str = ""
    aggregated_output: str = ""
    exit_code: Count | None = None
    server: str = ""
    tool: str = ""
    query: str = ""
    arguments: Any = None
    action: Any = None
    prompt: Any = None
    result: Any = None
    error: Any = None
    items: Any = None
    changes: Any = None
    agents_states: Any = None
    receiver_thread_ids: Any = None


class Error(Struct, frozen=True):
    """The reason why a turn failed."""

    message: str = ""


NO_TOKENS, NO_ITEM, NO_ERROR = Tokens(), Item(), Error()


class Line(Struct, frozen=True):
    """One line of the output of `codex exec`."""

    type: str = ""
    thread_id: str = ""
    message: str = ""
    usage: Tokens = NO_TOKENS
    item: Item = NO_ITEM
    error: Error = NO_ERROR


read = reader(Line)
