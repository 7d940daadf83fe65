"""The session ids that beam gives Gemini, chosen so that Gemini's clean-up does not remove the sessions."""

from __future__ import annotations


def beam_session_id(fresh_session_id: str) -> str:
    """Return a session id, made from a UUID, that gemini's clean-up ignores.

    Resuming a session in a later minute leaves a stub beside its file. The next start of any session in the same folder
    takes the stub for a corrupted session and removes all files whose ids have the same first eight characters,
    including the real one. If those characters are not all letters and digits, it removes only the stub.
    """
    return f"{fresh_session_id[:7]}_{fresh_session_id[7:]}"


def is_beam_session_id(session_id: str) -> bool:
    """Return whether `beam_session_id` made the id."""
    return session_id[7:8] == "_"
