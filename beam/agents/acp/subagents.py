"""What subagents say in a turn: pieces of text and of thought, each with the id of the call that began its subagent.

They are no part of the answer. Does not depend on the turn.
"""

from __future__ import annotations

from beam.agents.fields import object_of, string
from beam.model import events
from beam.model.events import Event

WORDS = ("agent_message_chunk", "agent_thought_chunk")


def parent_in(meta: object) -> str | None:
    """Return the call that began the subagent which an update is about; None for the agent itself."""
    found = object_of(meta)
    return string(object_of(found.get("claudeCode")), "parentToolUseId") or string(found, "parentToolUseId") or None


class Subagents:
    """The unfinished texts of a turn's subagents, by the calls that began them."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, list[str]]] = {}

    def said(self, parent: str, kind: str, text: str) -> list[Event]:
        """Return the events of one more piece."""
        if not text:
            return []
        before, pieces = self._open.get(parent, (kind, []))
        ended = self.end(parent) if before != kind else []
        if ended or not pieces:
            self._open[parent] = (kind, pieces := [])
        pieces.append(text)
        return [*ended, events.TextDelta(text=text, parent=parent)] if kind == WORDS[0] else ended

    def end(self, parent: str) -> list[Event]:
        """Return the finished text of one subagent."""
        kind, pieces = self._open.pop(parent, ("", []))
        if not pieces:
            return []
        of = events.Text if kind == WORDS[0] else events.Thinking
        return [of(text="".join(pieces), parent=parent)]

    def end_all(self) -> list[Event]:
        """Return the finished texts of all."""
        return [event for parent in list(self._open) for event in self.end(parent)]
