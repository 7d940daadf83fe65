"""Makes the answers to a person's requests to a process: done, failed, or not possible in this process."""

from __future__ import annotations

from collections.abc import Callable

from beam.agents.base import raw_json
from beam.agents.claude.dialogue.calls import Reply
from beam.agents.fields import Object
from beam.agents.link import Answered, Step


def answer_from_reply(call_id: str, reply: Reply, show: Callable[[Object], object] = lambda result: None) -> list[Step]:
    """Return the process's own reply as the answer to the call. `show` converts the reply's result for display."""
    if reply.error:
        return [failed_answer(call_id, reply.error, is_late=reply.is_late)]
    shown = show(reply.result)
    if isinstance(shown, str):
        return [failed_answer(call_id, shown)]
    return [Answered(id=call_id, result=raw_json(shown))]


def failed_answer(call_id: str, why: str, *, is_late: bool = False) -> Answered:
    """Return the answer for an attempt that failed. `is_late`: nobody knows whether the attempt succeeded later."""
    return Answered(id=call_id, ok=False, code="unfinished" if is_late else "failed", message=why)


def refused_answer(call_id: str, why: str) -> Answered:
    """Return the answer to a request that this process can't carry out. Nothing was changed."""
    return Answered(id=call_id, ok=False, code="unsupported", message=why)
