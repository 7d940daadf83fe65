"""What an agent's error says: its words, its class, and whether it is the end of a session.

Does not depend on what was asked for.
"""

from __future__ import annotations

from beam.agents.acp.wire import AUTH_REQUIRED, NOT_FOUND
from beam.agents.failures import class_of
from beam.agents.fields import Object, integer, obj, string
from beam.agents.oneshot import Failure
from beam.model.outcome import Class

_DETAILS = ("details", "message", "error", "reason")


def failure_of(error: Object) -> Failure:
    """Return the failure that an error of JSON-RPC is."""
    reason, code = words_of(error), integer(error, "code")
    if code == AUTH_REQUIRED:
        return Failure(Class.AUTH, reason)
    status = code if code is not None and 400 <= code < 600 else None
    return Failure(class_of(status, reason), reason, status)


def words_of(error: Object) -> str:
    """Return all that an error says, as one sentence."""
    message, data = string(error, "message"), obj(error, "data")
    more = next((string(data, key) for key in _DETAILS if string(data, key)), "") or string(error, "data")
    if more in message:
        return message or "it gave no reason"
    return more if message in ("", "Internal error") or message in more else f"{message}: {more}"


def is_lost(error: Object, words: tuple[str, ...]) -> bool:
    """Return whether an error proves that there is no such session: by its code, or by these words."""
    text = words_of(error)
    return integer(error, "code") == NOT_FOUND or any(word in text for word in words)
