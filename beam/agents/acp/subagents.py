"""The texts and thoughts of subagents in a turn. They come in pieces, each with the id of the call that began the
subagent.

They are not part of the answer. Does not depend on the turn.
"""

from __future__ import annotations

from beam.agents.fields import object_of, string
from beam.model import events
from beam.model.events import Event

TEXT_UPDATES = ("agent_message_chunk", "agent_thought_chunk")


def parent_in(meta: object) -> str | None:
    """Return the id of the call that began the subagent to which an update belongs; None if the update is about the
    agent itself. `meta` is the `_meta` of the update."""
    found = object_of(meta)
    return string(object_of(found.get("claudeCode")), "parentToolUseId") or string(found, "parentToolUseId") or None


class Subagents:
    """The unfinished texts of a turn's subagents, by the ids of the calls that began the subagents."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, list[str]]] = {}

    def add_piece(self, parent: str, kind: str, text: str) -> list[Event]:
        """Record one more piece of a subagent's text or thought, and return the events."""
        if not text:
            return []
        before, pieces = self._open.get(parent, (kind, []))
        ended = self.end(parent) if before != kind else []
        if ended or not pieces:
            self._open[parent] = (kind, pieces := [])
        pieces.append(text)
        return [*ended, events.TextDelta(text=text, parent=parent)] if kind == TEXT_UPDATES[0] else ended

    def end(self, parent: str) -> list[Event]:
        """End the current text of one subagent, and return its event."""
        kind, pieces = self._open.pop(parent, ("", []))
        if not pieces:
            return []
        of = events.Text if kind == TEXT_UPDATES[0] else events.Thinking
        return [of(text="".join(pieces), parent=parent)]

    def end_all(self) -> list[Event]:
        """End the current texts of all subagents, and return their events."""
        return [event for parent in list(self._open) for event in self.end(parent)]
