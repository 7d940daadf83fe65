"""Which ids Gemini's sessions have, so that Gemini does not remove them."""

from __future__ import annotations


def own_id(fresh_session_id: str) -> str:
    """A session id that gemini's cleaning up leaves alone, made of a UUID.

    Resuming a session in a later minute leaves a stub beside its file, and the next start of any session in the same
    folder takes that for a corrupted one: it removes all files with the same first eight characters of the id, the real
    one too. Where those are not all letters and digits it removes the stub alone.
    """
    return f"{fresh_session_id[:7]}_{fresh_session_id[7:]}"


def is_own_id(session_id: str) -> bool:
    """Whether it is an id that `own_id` made."""
    return session_id[7:8] == "_"
