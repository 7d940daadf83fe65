"""The sender of the requests in a turn's outbox. It is taken from the turn, never from a request."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from beam.model.message import Access, Message, SessionContext
from beam.model.rule_lists import RuleLists


class Sender(Struct, frozen=True, kw_only=True):
    """An agent in its turn. `at_most`: the highest access for turns that its messages cause; None: as the receiver's
    settings say. `rules` are those of its turn, which also bind the receiver. `folder`: files below it may be
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
        """Return the agents whose turns wait for this turn."""
        return (*self.message.chain, self.agent)
