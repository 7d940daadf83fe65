"""Removes the last turns of a thread. Idempotent.

Codex removes a given turn and all later turns. So beam first looks for the turn after the last turn to keep, from the
newest turn backwards.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.agents.fields import Object, object_of, objects, string
from beam.agents.jsonrpc import PendingCalls, Reply
from beam.agents.link import Step

_TURNS_PER_PAGE, _MAX_PAGES = 100, 100


def revert(
    calls: PendingCalls, thread_id: str, last_turn_id: str, then: Callable[[str], list[Step]], until: float
) -> list[Step]:
    """Return the steps that make `last_turn_id` the last turn of the thread. `then` is called at the end with the
    reason of a failure ("" if there was none), and returns the next steps."""
    return [_read_page(calls, thread_id, last_turn_id, then, until, newer="", cursor=None, pages=0)]


def _read_page(
    calls: PendingCalls,
    thread_id: str,
    last_turn_id: str,
    then: Callable[[str], list[Step]],
    until: float,
    *,
    newer: str,
    cursor: object,
    pages: int,
) -> Step:
    """Return the step that reads a page of turns, the newest first. `newer` is the id of the oldest turn on the page
    before."""

    def read(reply: Reply) -> list[Step]:
        if reply.error:
            return then(reply.error)
        result, before = object_of(reply.result), newer
        for turn in objects(result, "data"):
            if string(turn, "id") == last_turn_id:
                return _remove_from(calls, thread_id, before, then, until)
            before = string(turn, "id")
        more = result.get("nextCursor")
        if not isinstance(more, str) or pages >= _MAX_PAGES:
            return then(f"the thread has no turn {last_turn_id[:80]} to go back to")
        return [_read_page(calls, thread_id, last_turn_id, then, until, newer=before, cursor=more, pages=pages + 1)]

    params: Object = {
        "threadId": thread_id,
        "limit": _TURNS_PER_PAGE,
        "sortDirection": "desc",
        "itemsView": "notLoaded",
    }
    if cursor is not None:
        params["cursor"] = cursor
    return calls.call("thread/turns/list", params, read, until)


def _remove_from(
    calls: PendingCalls, thread_id: str, before: str, then: Callable[[str], list[Step]], until: float
) -> list[Step]:
    if not before:
        return then("")  # it is the last turn already
    params: Object = {"threadId": thread_id, "beforeTurnId": before}
    return [calls.call("thread/revert", params, lambda reply: then(reply.error), until)]
