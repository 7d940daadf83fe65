"""The answers to what a person wanted of a process: done, failed, or not possible here."""

from __future__ import annotations

from collections.abc import Callable

from beam.agents.base import raw_json
from beam.agents.claude.dialogue.calls import Reply
from beam.agents.fields import Object
from beam.agents.link import Answered, Step


def passed_on(call_id: str, reply: Reply, show: Callable[[Object], object] = lambda result: None) -> list[Step]:
    """Return the process's own answer as the answer to the call; `show` selects what is shown of its result."""
    if reply.error:
        return [failed(call_id, reply.error, is_late=reply.is_late)]
    shown = show(reply.result)
    if isinstance(shown, str):
        return [failed(call_id, shown)]
    return [Answered(id=call_id, result=raw_json(shown))]


def failed(call_id: str, why: str, *, is_late: bool = False) -> Answered:
    """Return the answer for an attempt that failed; `is_late`: nobody knows whether it succeeded later."""
    return Answered(id=call_id, ok=False, code="unfinished" if is_late else "failed", message=why)


def refused(call_id: str, why: str) -> Answered:
    """Return the answer for what this process can't do, and for which nothing was changed."""
    return Answered(id=call_id, ok=False, code="unsupported", message=why)
