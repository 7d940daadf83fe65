"""The frames of the Agent Client Protocol: types with the fields that beam reads, and functions for the frames that
beam writes (`agents/jsonrpc.py`); and what an error says: its text, its class, and whether the session is lost."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from beam.agents.failures import class_of, unwrap_api_message
from beam.agents.fields import Object, integer, obj, string
from beam.agents.jsonrpc import Envelope, Writer
from beam.agents.oneshot import Failure
from beam.agents.typed import Count, reader
from beam.model.outcome import Class

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


_DETAIL_KEYS = ("details", "message", "error", "reason")


def failure_of(error: Object) -> Failure:
    """Return a JSON-RPC error as a failure."""
    reason, code = error_text(error), integer(error, "code")
    said = f"{reason} {string(error, 'message')}"  # with all that the API answered
    if code == AUTH_REQUIRED:
        return Failure(Class.AUTH, reason)
    status = code if code is not None and 400 <= code < 600 else None
    return Failure(class_of(status, said), reason, status)


def error_text(error: Object) -> str:
    """Return the error's message and details as one text."""
    message, data = unwrap_api_message(string(error, "message")), obj(error, "data")
    more = next((string(data, key) for key in _DETAIL_KEYS if string(data, key)), "") or string(error, "data")
    if more in message:
        return message or "it gave no reason"
    return more if message in ("", "Internal error") or message in more else f"{message}: {more}"


def is_session_lost(error: Object, words: tuple[str, ...]) -> bool:
    """Return whether an error proves that the session does not exist: by its code, or because its text contains one
    of `words`."""
    text = error_text(error)
    return integer(error, "code") == NOT_FOUND or any(word in text for word in words)
