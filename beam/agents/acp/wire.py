"""The frames of the Agent Client Protocol: types with the fields that beam reads, and functions for the frames that
beam writes (`agents/jsonrpc.py`).

A frame is one line of JSON-RPC 2.0. Does not depend on the meaning of a frame.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from beam.agents.jsonrpc import Envelope, Writer
from beam.agents.typed import Count, reader

AUTH_REQUIRED, NOT_FOUND = -32000, -32002


class Update(Struct, frozen=True, rename="camel"):
    """An update about a session. A field that this kind of update does not have is at its default."""

    session_update: str = ""
    message_id: Any = None
    content: Any = None
    tool_call_id: str = ""
    title: Any = None
    kind: Any = None
    status: Any = None
    raw_input: Any = None
    raw_output: Any = None
    locations: Any = None
    entries: Any = None
    available_commands: Any = None
    current_mode_id: str = ""
    config_options: Any = None
    used: Count | None = None
    size: Count | None = None
    cost: Any = None
    meta: Any = field(name="_meta", default=None)


NO_UPDATE = Update()


class Params(Struct, frozen=True, rename="camel"):
    """The parameters of a notification."""

    session_id: str = ""
    update: Update = NO_UPDATE


NO_PARAMS = Params()


class Frame(Envelope, frozen=True):
    """One line from an agent."""

    params: Params = NO_PARAMS


read = reader(Frame)
_writer = Writer({"jsonrpc": "2.0"})
request, notification, answer, refusal = _writer.request, _writer.notification, _writer.answer, _writer.refusal
