"""Reads the open asks (permission requests) of agents from their journals, and sends decisions to the processes that
hold the agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Raw, Struct

from beam.api.find import all_paths
from beam.base.clock import Steps
from beam.base.errors import BeamError, NotFoundError, UsageError
from beam.broker.asking.requests import request
from beam.broker.inbox.context import RootContext
from beam.model.events import PermissionAsked
from beam.model.state import State
from beam.root.paths import AgentPaths
from beam.store.segment import read_state

SHORTEST_ENDING = 4  # characters; a shorter ending of an id is refused


class AskLine(Struct, frozen=True, kw_only=True):
    """One open ask: a line of `beam asks`. `input` is the JSON value that the tool would get (null: not known),
    `description` is the agent's text about the ask; `suggestions` has other possible answers, in the format of the
    agent's CLI. `asked` and `expires` are RFC 3339; at `expires` the ask is denied."""

    v: int = 1
    id: str
    agent: str
    tool: str
    input: Raw = Raw(b"null")
    description: str = ""
    suggestions: Raw = Raw(b"[]")
    call_id: str | None = None
    message_id: str | None = None
    turn: int | None = None
    asked: str = ""
    expires: str | None = None


def open_asks(context: RootContext, agents: list[str] | None = None) -> list[AskLine]:
    """Return the open asks of these agents (None: of all agents), oldest first."""
    return sorted((line for _, line in _open_with_paths(context, agents)), key=lambda line: (line.asked, line.id))


def asks_in_state(state: State) -> list[AskLine]:
    """Return the open asks in an agent's state; an empty list if the agent's holder died, because then no process waits
    for a decision."""
    from beam.process import tree

    turn = state.open_turn
    if turn is None or not turn.asks or turn.finished or tree.is_alive(turn.owner) is False:
        return []
    return [ask_line(asked) for asked in turn.asks.values()]


def ask_line(asked: PermissionAsked) -> AskLine:
    """Return the `beam asks` line for an ask."""
    return AskLine(
        id=asked.ask_id,
        agent=asked.agent,
        tool=asked.tool,
        input=asked.input,
        description=asked.description,
        suggestions=asked.suggestions,
        call_id=asked.call_id,
        message_id=asked.message_id,
        turn=asked.turn,
        asked=asked.ts,
        expires=asked.expires,
    )


def _open_with_paths(context: RootContext, agents: list[str] | None) -> Iterator[tuple[AgentPaths, AskLine]]:
    for paths in all_paths(context, agents):
        try:
            lines = asks_in_state(read_state(paths.journal))
        except BeamError:
            continue  # a damaged journal is for `beam doctor`; the others' asks can still be decided
        for line in lines:
            yield paths, line


def find_ask(context: RootContext, ask_id: str) -> tuple[AgentPaths, str]:
    """Find an open ask by its id or any unique ending of at least four characters; return its agent's paths and its
    whole id.

    Raises NotFoundError if no such ask is open, UsageError for an ending that is ambiguous or too short.
    """
    every = list(_open_with_paths(context, None))
    if len(ask_id) < SHORTEST_ENDING:
        raise UsageError(
            f"{ask_id!r} is too short to name an ask",
            f"give at least {SHORTEST_ENDING} characters of its end; {_named(every)}",
            subject=ask_id,
        )
    found = [(paths, line.id) for paths, line in every if line.id.endswith(ask_id)]
    exact = [pair for pair in found if pair[1] == ask_id]
    if not found:
        raise NotFoundError(
            f"no ask {ask_id} is open: it was decided or cancelled, or never existed", _named(every), subject=ask_id
        )
    if len(found) > 1 and not exact:
        names = ", ".join(sorted(known for _, known in found)[:4])
        raise UsageError(
            f"{ask_id} matches {len(found)} asks: {names}", "give more characters of its end", subject=ask_id
        )
    return (exact or found)[0]


def _named(found: list[tuple[AgentPaths, AskLine]]) -> str:
    """Return a text with the ids of the open asks, of a few at most."""
    if not found:
        return "none is open"
    names = ", ".join(f"{line.id} ({line.agent})" for _, line in found[:4])
    return f"open: {names}{', …' if len(found) > 4 else ''}"


def decide(
    context: RootContext,
    ask_id: str,
    verb: Literal["approve", "amend", "deny"],
    *,
    by: str,
    message: str | None = None,
    always: bool = False,
    stop: bool = False,
) -> Steps[str]:
    """Send a decision about an ask to the agent's holder, and return the holder's answer.

    Raises the errors of `find_ask`, and the error with which the holder refuses the decision.
    """
    paths, whole = find_ask(context, ask_id)
    return (yield from request(context, paths, verb, whole, by=by, text=message, always=always, stop=stop))
