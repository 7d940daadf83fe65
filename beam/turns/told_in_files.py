"""Finds the tokens of a turn for a CLI that reports them only in the database of its sessions.

Only reads. If one of the turn's model calls has no figures, or calls of another message are among them, the tokens stay
unknown. Does not depend on how the turn was run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from msgspec import structs

from beam.agents import registry
from beam.agents.base import Verdict
from beam.agents.session_files import ModelCall, TellsCalls
from beam.foreign import database
from beam.foreign.places import places
from beam.foreign.unreadable import UnreadableError
from beam.model.outcome import Usage
from beam.model.policy import is_answer


def with_tokens(verdict: Verdict, adapter: str, environ: Mapping[str, str], *, since_ns: int) -> Verdict:
    """Return the verdict with the tokens of the turn that began at `since_ns`, if its CLI reports them only in its
    files."""
    if verdict.session_id is None or not is_answer(verdict.status) or verdict.usage.input_tokens is not None:
        return verdict
    calls = _model_calls(adapter, verdict.session_id, environ, since_ms=since_ns // 1_000_000)
    known = [call for call in calls if call is not None]
    if not known or len(known) < len(calls) or len({call.prompt for call in known}) > 1:
        return verdict
    usage = Usage()
    for call in known:
        usage = usage.plus(call.usage)
    cost = None
    if all(call.cost_usd is not None for call in known):
        cost = sum(call.cost_usd or 0.0 for call in known)
    return structs.replace(verdict, usage=usage, cost_usd=cost if verdict.cost_usd is None else verdict.cost_usd)


def _model_calls(adapter: str, session_id: str, environ: Mapping[str, str], *, since_ms: int) -> list[ModelCall | None]:
    """Return the model calls of the session since `since_ms`; None for each call without figures."""
    if adapter not in registry.WITH_SESSIONS:
        return []
    sessions = registry.sessions_of(adapter)
    if not isinstance(sessions, TellsCalls):
        return []
    found = []
    for place in places(environ, [adapter]):
        for path, _ in place.paths():
            with contextlib.suppress(UnreadableError):  # then the tokens stay unknown
                rows = database.rows(path, [sessions.calls], since_ms=since_ms, session=session_id)
                found += [sessions.call(row) for _, row in rows]
    return found
