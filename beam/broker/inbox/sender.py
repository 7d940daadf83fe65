"""The sender of the requests in a turn's outbox. The sender is taken from the turn, never from a request."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from beam.model.message import Access, Message, RuleLists, SessionContext


class Sender(Struct, frozen=True, kw_only=True):
    """An agent in its turn, as the sender of messages. `at_most` is the highest access level for turns that its
    messages cause; with None, only the receiver's settings limit them. `rules` are the rules of the sender's turn,
    which also bind the receiver. Only files below `folder` may be attached."""

    agent: str
    message: Message
    turn_key: str
    at_most: Access | None
    context: SessionContext
    folder: Path
    rules: RuleLists | None = None

    @property
    def chain(self) -> tuple[str, ...]:
        """Return the agents whose turns would wait for a message that this agent sends: those that wait for this turn,
        and this agent."""
        return (*self.message.chain, self.agent)
