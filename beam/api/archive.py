"""Puts an agent away and brings it back, or gives it another name. All that it has stays with it.

Each takes the agent's lock, and the lock that orders publications for the moment in which it acts: a message is either
there before, and what was wanted is refused, or its sender is refused.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator

from beam.api.find import places, queue_of
from beam.api.manage import is_vouched_for, lock_of
from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import BeamError, NotFoundError, UnfinishedError, UsageError
from beam.base.faults import crash_point
from beam.base.steps import Steps
from beam.broker.context import RootContext
from beam.config.file import read_bytes
from beam.config.resolve import AGENT_JSON, parse_agent_json
from beam.model import events
from beam.model.message import base_of, check_name
from beam.root.paths import AgentPaths
from beam.store import control, lanes
from beam.store.journal import Journal
from beam.store.lock import short_lock
from beam.store.segment import read_state
from beam.trust import ledger


def archive(context: RootContext, name: str, *, by: str) -> Steps[str]:
    """Archive the agent, so that it takes no messages and is listed no more. Return what was done, in words.

    Raises UnfinishedError while a turn of it runs or messages wait for it, NotFoundError.
    """
    place = _existing(context, name)
    with (yield from lock_of(context, place, by=by)), _locked_while_idle(context, place):
        if place.archived.exists():
            return f"{name} is archived already"
        crash_point("archive.before")
        files.replace(place.archived, rfc3339(context.clock.now_ns()).encode() + b"\n")
        crash_point("archive.done")
    return f"{name} is archived; to bring it back: beam agent archive --restore {name}"


def restore(context: RootContext, name: str, *, by: str) -> Steps[str]:
    """Restore an archived agent. Return what was done, in words. Raises NotFoundError."""
    place = _existing(context, name)
    if not place.archived.exists():
        raise NotFoundError(f"{name} is not archived", "beam agent sessions", subject=name)
    with (yield from lock_of(context, place, by=by)):
        crash_point("restore.before")
        files.remove(place.archived)
        files.sync_directory(place.dir)
        crash_point("restore.done")
    return f"{name} takes messages again"


def rename(context: RootContext, name: str, new: str, *, by: str) -> Steps[str]:
    """Give the agent another name. Return what was done, as text.

    Raises UnfinishedError while a turn runs or something waits for it or is due to it, UsageError where the name is
    taken, or would give it other settings, NotFoundError.
    """
    place, target = _existing(context, name), context.place(check_name(new))
    _check_new_name(context, place, target)
    lock = yield from lock_of(context, target, by=by)
    with lock, (yield from lock_of(context, place, by=by)), _locked_while_idle(context, place):
        if target.dir.exists():
            raise _is_taken(new)
        own = read_bytes(place.dir / AGENT_JSON)
        if own is not None and (digest := is_vouched_for(context, place, own)) is not None:
            ledger.remember(target.dir / AGENT_JSON, digest, context.environ)
        crash_point("rename.before")
        files.move(place.dir, target.dir)
        crash_point("rename.moved")
        journal = Journal.open(target.journal, new, context.clock, context.limits)
        try:
            journal.append(events.Notice(code="renamed", text=f"{name} is called {new} from here on"), sync=True)
        finally:
            journal.close()
        crash_point("rename.recorded")
        shutil.rmtree(context.home.turns_of(place), ignore_errors=True)
    return f"{name} is called {new} now"


def _check_new_name(context: RootContext, place: AgentPaths, target: AgentPaths) -> None:
    name, new = place.agent, target.agent
    if target.dir.exists() or new in context.config.names() or (new == base_of(new) and context.is_agent(new)):
        raise _is_taken(new)
    said = [file.path for origin, file in context.config.files if name in file.agents]
    if said:
        raise UsageError(f"{name} has settings in {said[0]}", "rename it there, and then its files", subject=name)
    if "@" in name or "@" in new:
        if "@" not in name or "@" not in new or base_of(name) != base_of(new):
            raise UsageError(
                f"{name} can't become {new}: a session keeps its agent",
                f"beam agent rename {name} {base_of(name)}@NAME" if "@" in name else "give it a plain name",
                subject=new,
            )
        return
    path = place.dir / AGENT_JSON
    data = read_bytes(path)
    own = parse_agent_json(data, path) if data is not None else None
    if own is None or not (own.adapter or own.command or own.script or own.mailbox):
        raise UsageError(
            f"{name} is built in, and keeps its name",
            f"beam agent add {new} {name} declares another agent of its kind",
            subject=name,
        )
    beside = names_beside(context, name)
    if beside:
        raise UsageError(f"{name} has sessions: {', '.join(beside)}", "rename or remove them first", subject=name)


def _is_taken(name: str) -> UsageError:
    return UsageError(f"there is already an agent {name} here", "choose another name", subject=name)


def _existing(context: RootContext, name: str) -> AgentPaths:
    place = context.place(check_name(name))
    if name not in context.home.agents():
        raise NotFoundError(f"{name} has no files here", "beam agent sessions; beam agent list", subject=name)
    return place


@contextlib.contextmanager
def _locked_while_idle(context: RootContext, place: AgentPaths) -> Iterator[None]:
    """Lock the agent's queue against new messages while nothing of it is under way. Raises UnfinishedError."""
    with short_lock(place.put_lock):
        why = _why_busy(context, place)
        if why is not None:
            raise UnfinishedError(
                f"{place.agent} {why}",
                f"wait for it: beam wait --agent {place.agent} --until idle",
                subject=place.agent,
            )
        yield


def _why_busy(context: RootContext, place: AgentPaths) -> str | None:
    state = read_state(place.journal)
    if state.blocked is not None or state.kept is not None or not state.is_over():
        return "has an unfinished turn"
    queue = queue_of(place)
    if any(queue.entries(box) for box in ("new", "cur")) or control.waiting(place.control):
        return "has messages that wait"
    if lanes.entered(place):
        return "has --once messages that are not over"
    for other in places(context):
        for box in ("new", "cur"):
            for entry in queue_of(other).entries(box):
                try:
                    message = queue_of(other).read(entry)
                except (FileNotFoundError, BeamError):
                    continue  # whoever runs it says what is wrong
                if message.sender == place.agent and message.reply == "queue":
                    return f"is owed an answer to {message.id} by {other.agent}"
    return None


def names_beside(context: RootContext, name: str) -> list[str]:
    """Return the named sessions of an agent that have files here."""
    return [other for other in context.home.agents() if other != name and base_of(other) == name]
