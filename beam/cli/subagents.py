"""Selects the lines of a journal that are about subagents: their prompts, actions, texts and results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from beam import NotFoundError, UsageError, events

if TYPE_CHECKING:
    from beam.cli.render.stream import EventLine

ALL = "all"
_MAX_IDS = 10


def subagent_lines(agent: str, found: Iterable[EventLine], wanted: str) -> list[EventLine]:
    """Return the lines about all subagents if `wanted` is `all`. Otherwise return the lines about the one subagent
    whose id is `wanted` or begins with `wanted`, and about the subagents that it started.

    The id of a subagent is the id of the tool call that started it. Raises NotFoundError if no subagent has such an id,
    UsageError if several have.
    """
    lines = list(found)
    known = dict.fromkeys(parent for line in lines if (parent := _parent(line)))
    if not known:
        raise NotFoundError(
            f"no subagent of {agent} said anything that is in its journal",
            "docs/history.md says which CLIs tell what their subagents do",
            subject=agent,
        )
    fitting = [one for one in known if one == wanted] or [one for one in known if one.startswith(wanted)]
    if wanted != ALL and len(fitting) != 1:
        ids = ", ".join(list(known)[-_MAX_IDS:])
        if fitting:
            raise UsageError(f"{wanted[:80]!r} names {len(fitting)} subagents of {agent}", ids, subject=wanted[:80])
        raise NotFoundError(f"{agent} has no subagent {wanted[:80]!r}", f"there are {ids}", subject=wanted[:80])
    chosen = set(known if wanted == ALL else fitting)
    for line in lines:
        if isinstance(line.event, events.ToolCalled) and line.event.parent in chosen and line.event.call_id in known:
            chosen.add(line.event.call_id)
    return [line for line in lines if _parent(line) in chosen or getattr(line.event, "call_id", None) in chosen]


def _parent(line: EventLine) -> str | None:
    parent: str | None = getattr(line.event, "parent", None)
    return parent
