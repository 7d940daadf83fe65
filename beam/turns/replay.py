"""Replays a recorded turn in place of a turn of the agent: records its events again, and returns its verdict.

No program runs. Does not depend on where recordings are, or on which one fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import UNSET, Struct

from beam.model import events
from beam.model.events import Event, TurnFinished
from beam.model.outcome import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam.model.message import Message

NOTICE_CODE = "replayed"
REPLAYED_EVENTS = (
    events.SessionStarted,
    events.TextDelta,
    events.Text,
    events.Thinking,
    events.ToolCalled,
    events.ToolProgress,
    events.ToolReturned,
    events.FileChanged,
    events.ImageSeen,
    events.PlanUpdated,
    events.UsageSeen,
    events.ContextUsed,
    events.StatusChanged,
)


class RecordedTurn(Struct, frozen=True, kw_only=True):
    """A turn as it was recorded. `fit` says how well it fits the message: `exact` (the same prompt), `minor`, `major`
    (another prompt). `where` says in words where the recording is from."""

    events: tuple[Event, ...]
    finished: TurnFinished
    fit: str = "exact"
    where: str = ""


class Recordings(Protocol):
    """Recorded turns, which are used up one by one."""

    @property
    def needs_agents(self) -> bool:
        """Return whether turns may be run by the agents themselves, so that their CLIs have to be there."""

    def take(self, message: Message) -> RecordedTurn | None:
        """Return the recorded turn that answers the message; None if the agent itself must run the turn.

        Raises NotFoundError if no recorded turn fits.
        """


def replay_turn(turn: RecordedTurn, record: Callable[[Event], Event]) -> Verdict:
    """Record the events of a recorded turn once more, and return its verdict."""
    text = f"{turn.fit}: answered from {turn.where}; the agent did not run, and no tool was run again"
    record(events.Notice(code=NOTICE_CODE, text=text))
    record(events.PromptSent(bytes=0))
    for event in turn.events:
        if isinstance(event, REPLAYED_EVENTS):
            record(as_new(event))
    finished = turn.finished
    fields = {name: getattr(finished, name) for name in Verdict.__struct_fields__ if hasattr(finished, name)}
    return Verdict(**{**fields, "denials": finished.denials or (), "lossy": UNSET})


def as_new(event: Event) -> Event:
    """Return the recorded event as one that happens now: nothing in its header is the recording's. An image's event has
    no path, because the file belongs to another agent."""
    event = msgspec.structs.replace(event, v=events.VERSION, imported=UNSET)
    return msgspec.structs.replace(event, path="") if isinstance(event, events.ImageSeen) else event


def without_raw_line(event: Event) -> Event:
    """Return the event without the CLI's own line, which a recording does not need."""
    return msgspec.structs.replace(event, raw=UNSET) if hasattr(event, "raw") else event
