"""The frames of the Agent Client Protocol: types with the fields that beam reads, and functions for the frames that
beam writes.

A frame is one line of JSON-RPC 2.0. Does not depend on the meaning of a frame.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from beam.agents.base import raw_json
from beam.agents.fields import Object
from beam.agents.link import Send
from beam.agents.typed import Count, reader

Id = int | str
METHOD_NOT_FOUND, AUTH_REQUIRED, NOT_FOUND = -32601, -32000, -32002


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


class Frame(Struct, frozen=True):
    """One line from an agent."""

    id: Id | None = None
    method: str = ""
    params: Params = NO_PARAMS
    result: Any = None
    error: Any = None


read = reader(Frame)


def request(number: int, method: str, params: Object) -> Send:
    """Return a request from beam to the agent."""
    return _send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notification(method: str, params: Object) -> Send:
    """Return a notification from beam to the agent."""
    return _send({"jsonrpc": "2.0", "method": method, "params": params})


def answer(number: Id, result: Object) -> Send:
    """Return the answer to a request from the agent."""
    return _send({"jsonrpc": "2.0", "id": number, "result": result})


def refusal(number: object, message: str) -> Send:
    """Return the refusal of a request from the agent."""
    error = {"code": METHOD_NOT_FOUND, "message": message}
    return _send({"jsonrpc": "2.0", "id": number, "error": error})


def key_of(number: Id) -> str:
    """Return a request's id as a unique text: 1 and "1" are different ids."""
    return msgspec.json.encode(number).decode()


def _send(frame: Object) -> Send:
    return Send(bytes(raw_json(frame)) + b"\n")
