"""Takes an agent's session back to an earlier turn: its conversation, the files that it changed, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET, Struct

from beam.agents import registry
from beam.base.clock import Steps
from beam.base.errors import NotFoundError, UnsupportedError, UsageError
from beam.model import events
from beam.model.outcome import Point
from beam.store.reader import Reader
from beam.store.segment import read_state

if TYPE_CHECKING:
    from beam.broker.inbox.context import RootContext
    from beam.root.paths import AgentPaths

RewindScope = Literal["conversation", "files", "both"]
SCOPES: tuple[RewindScope, ...] = ("conversation", "files", "both")


class RewindResult(Struct, frozen=True, kw_only=True):
    """The result of going back. `to` is the new last turn, and `turns` are the turns after it, which are taken back.
    `conversation`: the conversation is taken back. `files` are the files that the agent's CLI restores, null if no
    files are to be restored."""

    agent: str
    session_id: str
    to: int
    turns: tuple[int, ...]
    conversation: bool
    files: tuple[str, ...] | None = None
    lines_added: int | None = None
    lines_removed: int | None = None
    dry_run: bool = False


class _PastTurn(Struct, frozen=True):
    """One turn of the session."""

    turn: int
    message_id: str
    point: Point


def rewind(
    context: RootContext, paths: AgentPaths, to: str | None, what: str, *, dry_run: bool, by: str
) -> Steps[RewindResult]:
    """Take back all turns of the session after the turn `to` (None: only the last turn). `what` says whether that
    applies to the conversation, to the files, or to both. Return what was taken back.

    Files are restored first; if the agent's CLI can't do that, nothing changes. Raises NotFoundError for a turn that is
    not in the session, UnsupportedError, UnfinishedError while a turn runs.
    """
    from beam.broker.asking.requests import request

    if what not in SCOPES:
        raise UsageError(f"{what!r} can't be taken back", f"one of: {', '.join(SCOPES)}", subject=what)
    session = read_state(paths.journal).session
    if session is None:
        raise NotFoundError(f"{paths.agent} has no session", f"beam send {paths.agent} … starts one")
    past = _past_turns(paths, session.session_id)
    at = _turn_index(paths, past, to)
    kept, dropped = past[at], past[at + 1 :]
    upto = _last_message_of(kept, paths, session.adapter)
    found = RewindResult(
        agent=paths.agent,
        session_id=session.session_id,
        to=kept.turn,
        turns=tuple(each.turn for each in dropped),
        conversation=what != "files",
        dry_run=dry_run,
    )
    if what != "conversation":
        found = yield from _rewind_files(context, paths, found, dropped, by=by)
    if what != "files" and not dry_run:
        back = msgspec.json.encode({"upto": upto, "to": kept.turn}).decode()
        yield from request(context, paths, "rewind", session.session_id, by=by, text=back)
    return found


def last_message_id(paths: AgentPaths, session_id: str, at: str, adapter: str) -> str:
    """Return the CLI's own id of the last message in a turn of that session. `at` is the turn's number, or the id of
    its message.

    Raises NotFoundError if there is no such turn, UnsupportedError if the CLI did not report the id.
    """
    past = _past_turns(paths, session_id)
    return _last_message_of(past[_turn_index(paths, past, at)], paths, adapter)


def _rewind_files(
    context: RootContext, paths: AgentPaths, found: RewindResult, dropped: list[_PastTurn], *, by: str
) -> Steps[RewindResult]:
    from beam.api import live

    begins = dropped[0].point.begins if dropped else None
    if not dropped:
        return msgspec.structs.replace(found, files=())
    if begins is None:
        raise UnsupportedError(
            f"nobody knows which files turn {dropped[0].turn} of {paths.agent} began with",
            "turns in dialogue mode report this: beam send --via dialogue",
            subject=paths.agent,
        )
    given = {"to": begins, "dry_run": True}
    would = yield from live.run_action(context, paths, "rewind.files", given, by=by)
    if not found.dry_run:
        yield from live.run_action(context, paths, "rewind.files", {**given, "dry_run": False}, by=by)
    told = would if isinstance(would, Mapping) else {}
    return msgspec.structs.replace(
        found,
        files=tuple(str(path) for path in told.get("files") or ()),
        lines_added=told.get("lines_added"),
        lines_removed=told.get("lines_removed"),
    )


def _past_turns(paths: AgentPaths, session_id: str) -> list[_PastTurn]:
    """Return the turns of the session that were not taken back, oldest first, as far back as the journal goes."""
    found: list[_PastTurn] = []
    reader = Reader(paths.journal)
    while lines := reader.poll():
        for event in lines:
            if isinstance(event, events.SessionRewound) and event.session_id == session_id:
                found = [each for each in found if event.to is not None and each.turn <= event.to]
            elif isinstance(event, events.TurnFinished) and event.session_id == session_id and event.turn is not None:
                point = Point() if event.point is UNSET else event.point
                found.append(_PastTurn(event.turn, event.message_id or "", point))
    return found


def _turn_index(paths: AgentPaths, past: list[_PastTurn], to: str | None) -> int:
    """Return the index of the turn `to` in `past`; None stands for the last turn but one. Raises NotFoundError."""
    if to is None:
        if len(past) > 1:
            return len(past) - 2
        raise NotFoundError(
            f"{paths.agent} has no turn to go back to in its session",
            f"beam agent reset {paths.agent} starts a new one",
        )
    for index, each in enumerate(past):
        if to in (str(each.turn), each.message_id):
            return index
    turns = ", ".join(str(each.turn) for each in past[-10:]) or "none"
    raise NotFoundError(
        f"{to[:120]!r} is no turn of {paths.agent}'s session", f"its last turns are: {turns}", subject=to[:120]
    )


def _last_message_of(turn: _PastTurn, paths: AgentPaths, adapter: str) -> str:
    can = any(face.rewind for face in registry.adapter(adapter).card.faces.values())
    if turn.point.ends is None or not can:
        why = "did not report where that turn ends" if can else "can't go back to an earlier turn"
        raise UnsupportedError(
            f"{adapter} {why}, so nothing changes",
            "turns in dialogue mode report this: beam send --via dialogue" if can else "beam agent list --matrix",
            subject=paths.agent,
        )
    return turn.point.ends
