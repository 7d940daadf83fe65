"""Who speaks through the outbox of a turn: known from the turn, never from what a request says."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from beam.model.message import Access, Message, SessionContext
from beam.model.rule_lists import RuleLists


class Sender(Struct, frozen=True, kw_only=True):
    """The agent in its turn. `at_most`: the most access that a message of it may be run with; None: what the receiver's
    settings say. `rules` are those of its turn, which bind the receiver, too. `folder`: files below it may be
    attached."""

    agent: str
    message: Message
    turn_key: str
    at_most: Access | None
    context: SessionContext
    folder: Path
    rules: RuleLists | None = None

    @property
    def chain(self) -> tuple[str, ...]:
        """Return the agents whose turns wait for what this one does."""
        return (*self.message.chain, self.agent)
