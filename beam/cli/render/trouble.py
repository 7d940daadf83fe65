"""Holds back the notices in which an agent's CLI reports problems, until the agent's next event or for a second. If
that event is the failure of the turn, the line about the failure contains the last notice. Otherwise the notices are
printed before the event."""

from __future__ import annotations

from msgspec import UNSET

from beam import AnyEvent, events
from beam.cli.render.calls import seconds_between
from beam.cli.render.event_text import is_internal
from beam.cli.render.text import collapse_to_line

_HOLD_S = 1.0
_BOOKKEEPING = (
    events.UsageSeen,
    events.TextDelta,
    events.AgentStarted,
    events.AgentExited,
    events.ToolProgress,
    events.MessageDead,
)


class HeldNotices:
    """The held-back notices of each agent."""

    def __init__(self) -> None:
        self._notices: dict[str, list[events.Notice]] = {}

    def hold_back(self, event: AnyEvent) -> bool:
        """Hold the event back if it is a notice that an agent's CLI gave during a turn. Return whether the event was
        held back."""
        if not isinstance(event, events.Notice) or event.raw is UNSET or event.turn is None:
            return False
        notices = self._notices.setdefault(event.agent, [])
        if not any(_repeats(each.text, event.text) for each in notices):
            notices.append(event)
        return True

    def due_before(self, event: AnyEvent) -> list[events.Notice]:
        """Return the notices to print before this event, without those that the event repeats."""
        if isinstance(event, (*_BOOKKEEPING, events.Notice)) or is_internal(event):
            return []
        notices = self._notices.pop(event.agent, [])
        if isinstance(event, events.ToolReturned) and event.is_error:
            return [each for each in notices if not _repeats(event.output, each.text)]
        if isinstance(event, events.TurnFinished) and event.exit_code:
            self._notices[event.agent] = notices
            return []
        return notices

    def last_notice(self, event: events.TurnFinished) -> str:
        """Return the CLI's last notice before this failure; "" if there is none, or if the failure's reason contains a
        notice already."""
        notices = self._notices.pop(event.agent, []) if event.exit_code else []
        if not notices or any(_repeats(event.reason or "", each.text) for each in notices):
            return ""
        return notices[-1].text

    def due(self, now: str) -> list[events.Notice]:
        """Remove and return the notices that have been held back for at least a second at the time `now` (RFC 3339)."""
        due_now = [each for notices in self._notices.values() for each in notices if _is_old(each, now)]
        self._notices = {
            agent: [each for each in notices if not _is_old(each, now)] for agent, notices in self._notices.items()
        }
        return due_now

    def due_at_end(self) -> list[events.Notice]:
        """Remove and return all held-back notices."""
        due_now = [each for notices in self._notices.values() for each in notices]
        self._notices.clear()
        return due_now


def _is_old(notice: events.Notice, now: str) -> bool:
    return (seconds_between(notice.ts, now) or 0.0) >= _HOLD_S


def _repeats(text: str, other: str) -> bool:
    """Return whether one of these texts contains the other, ignoring white space."""
    one, two = collapse_to_line(text), collapse_to_line(other)
    return bool(one and two) and (one in two or two in one)
