"""Codex's dialogue mode: `codex app-server`, which speaks JSON lines in both directions, for one turn or for many."""

from __future__ import annotations

from beam.agents.base import Host, Launch, Turn
from beam.agents.codex.dialogue import rights
from beam.agents.codex.exec import BOUNDED_RETRIES, checked_session, folder_flags, temp_dir_env
from beam.agents.link import Link
from beam.agents.oneshot import checked_argument

__all__ = ["launch", "link"]


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a server for this turn and later turns with the same options. Raises UnsupportedError for an
    option that Codex can't apply."""
    rights.check_access(turn.access)
    if turn.model is not None:
        checked_argument("codex", "model", turn.model)
    if turn.session_id is not None:
        checked_session(turn.session_id)
    flags = (*BOUNDED_RETRIES, *folder_flags(turn), *rights.profile_flags(turn.access))
    argv = (host.executable or "codex", "app-server", *flags)
    return Launch(argv=argv, env=temp_dir_env(turn), retries=turn.settings.retries)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one server."""
    from beam.agents.codex.dialogue.conversation import CodexLink

    return CodexLink(turn)
