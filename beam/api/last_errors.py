"""Reads the last failures of a root's turns and messages from the newest segments of its journals."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from beam.api.find import all_paths
from beam.base.errors import BeamError
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.model.outcome import Outcome
from beam.root.paths import AgentPaths
from beam.store.segment import Segment, segments

_SEGMENTS = 2  # the newest of each journal; reading more would take too long
_LONGEST_REASON = 200  # characters of a reason


class LastError(Struct, frozen=True, kw_only=True):
    """One outcome with a failure; `at` is its time (RFC 3339)."""

    at: str
    outcome: Outcome

    @property
    def text(self) -> str:
        """Return the failure as one line: time, status, reason, and the message's id."""
        outcome = self.outcome
        status = f"{outcome.status} ({outcome.class_})" if outcome.class_ else str(outcome.status)
        reason = " ".join((outcome.reason or "").split())
        short = reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
        detail = f": {short}" if short else ""
        return f"{self.at[:10]} {self.at[11:19]} UTC {status}{detail} [{outcome.message_id}]"


def last_errors(context: RootContext, limit: int) -> list[LastError]:
    """Return the last failures of all agents, the newest first: at most `limit`, and at most one for each message."""
    found = [error for paths in all_paths(context) for error in _errors(paths)]
    by_message = {error.outcome.message_id: error for error in sorted(found, key=lambda error: error.at)}
    return sorted(by_message.values(), key=lambda error: error.at, reverse=True)[:limit]


def _errors(paths: AgentPaths) -> Iterator[LastError]:
    """Yield the failures in the newest segments of a journal. An unreadable journal is skipped, because another check
    reports it."""
    finished = set()
    try:
        for name in segments(paths.journal)[-_SEGMENTS:]:
            for event in Segment.read(paths.journal / name).events:
                attempt = (event.message_id, getattr(event, "attempt", 1))
                if isinstance(event, events.TurnFinished):
                    finished.add(attempt)
                elif not isinstance(event, events.MessageDead) or attempt in finished:
                    continue  # the outcome of the turn itself says more
                outcome = events.outcome_of(event)
                if outcome.exit_code:
                    yield LastError(at=event.ts, outcome=outcome)
    except (BeamError, OSError):
        return
