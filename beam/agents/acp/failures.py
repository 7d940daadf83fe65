"""Reads an agent's error: its text, its class, and whether the session is lost.

Does not depend on the request that failed.
"""

from __future__ import annotations

from beam.agents.acp.wire import AUTH_REQUIRED, NOT_FOUND
from beam.agents.failures import class_of, unwrap_api_message
from beam.agents.fields import Object, integer, obj, string
from beam.agents.oneshot import Failure
from beam.model.outcome import Class

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
