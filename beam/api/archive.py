"""Archives an agent, restores it, or renames it. No file of the agent is lost.

Each operation holds the agent's lock. To archive or rename an agent, beam also locks the agent's queue for a moment.
Messages that were put into the queue before make the operation fail; later messages are refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from beam.api.find import all_paths, queue_of
from beam.api.lock_wait import acquire_agent_lock
from beam.api.manage import vouched_digest
from beam.base import files
from beam.base.clock import Steps, rfc3339
from beam.base.directory_tree import remove_tree
from beam.base.errors import BeamError, NotFoundError, UnfinishedError, UsageError
from beam.base.faults import crash_point
from beam.broker.inbox.context import RootContext
from beam.config.file import read_bytes
from beam.config.resolve import AGENT_JSON, parse_agent_json
from beam.model import events
from beam.model.message import base_of, check_name
from beam.root.paths import AgentPaths
from beam.store import control, lanes
from beam.store.journal import Journal
from beam.store.lock import is_held, short_lock
from beam.store.segment import read_state
from beam.trust import ledger


def archive(context: RootContext, name: str, *, by: str) -> Steps[str]:
    """Archive the agent, so that it takes no messages and is not listed. Return what was done, as text.

    Raises UnfinishedError if the agent has a running turn or waiting messages, NotFoundError if it has no files.
    """
    paths = _existing_paths(context, name)
    with (yield from acquire_agent_lock(context, paths, by=by)), _locked_while_idle(context, paths):
        if paths.archived.exists():
            return f"{name} is archived already"
        crash_point("archive.before")
        files.replace(paths.archived, rfc3339(context.clock.now_ns()).encode() + b"\n")
        crash_point("archive.done")
    return f"{name} is archived; to bring it back: beam agent archive --restore {name}"


def restore(context: RootContext, name: str, *, by: str) -> Steps[str]:
    """Restore an archived agent. Return what was done, as text. Raises NotFoundError if the agent is not archived."""
    paths = _existing_paths(context, name)
    if not paths.archived.exists():
        raise NotFoundError(f"{name} is not archived", "beam agent sessions", subject=name)
    with (yield from acquire_agent_lock(context, paths, by=by)):
        crash_point("restore.before")
        files.remove(paths.archived)
        files.sync_directory(paths.dir)
        crash_point("restore.done")
    return f"{name} takes messages again"


def rename(context: RootContext, name: str, new: str, *, by: str) -> Steps[str]:
    """Give the agent another name. Return what was done, as text.

    Raises UnfinishedError if the agent has a running turn, a waiting message, or an answer to come; UsageError if the
    new name is taken or would change the agent's settings; NotFoundError if the agent has no files.
    """
    paths, target = _existing_paths(context, name), context.agent_paths(check_name(new))
    _check_new_name(context, paths, target)
    lock = yield from acquire_agent_lock(context, target, by=by)
    with lock, (yield from acquire_agent_lock(context, paths, by=by)), _locked_while_idle(context, paths):
        if target.dir.exists():
            raise _name_taken_error(new)
        own = read_bytes(paths.dir / AGENT_JSON)
        if own is not None and (digest := vouched_digest(context, paths, own)) is not None:
            ledger.remember_file(target.dir / AGENT_JSON, digest, context.environ)
        crash_point("rename.before")
        files.move(paths.dir, target.dir)
        crash_point("rename.moved")
        with contextlib.closing(Journal.open(target.journal, new, context.clock, context.config.limits)) as journal:
            journal.append(events.Notice(code="renamed", text=f"{name} is called {new} from here on"), sync=True)
        crash_point("rename.recorded")
        remove_tree(context.home.turns_of(paths), ignore_errors=True)
    return f"{name} is called {new} now"


def _check_new_name(context: RootContext, paths: AgentPaths, target: AgentPaths) -> None:
    name, new = paths.agent, target.agent
    if target.dir.exists() or new in context.config.names() or (new == base_of(new) and context.is_agent(new)):
        raise _name_taken_error(new)
    declaring_files = [file.path for origin, file in context.config.files if name in file.agents]
    if declaring_files:
        raise UsageError(
            f"{name} has settings in {declaring_files[0]}", "rename it there, and then its files", subject=name
        )
    if "@" in name or "@" in new:
        if "@" not in name or "@" not in new or base_of(name) != base_of(new):
            raise UsageError(
                f"{name} can't become {new}: a session keeps its agent",
                f"beam agent rename {name} {base_of(name)}@NAME" if "@" in name else "give it a plain name",
                subject=new,
            )
        return
    path = paths.dir / AGENT_JSON
    data = read_bytes(path)
    own = parse_agent_json(data, path) if data is not None else None
    if own is None or not (own.adapter or own.command or own.script):
        raise UsageError(
            f"{name} is built in, and keeps its name",
            f"beam agent add {new} {name} declares another agent of its kind",
            subject=name,
        )
    beside = session_names(context, name)
    if beside:
        raise UsageError(f"{name} has sessions: {', '.join(beside)}", "rename or remove them first", subject=name)


def _name_taken_error(name: str) -> UsageError:
    return UsageError(f"there is already an agent {name} here", "choose another name", subject=name)


def _existing_paths(context: RootContext, name: str) -> AgentPaths:
    paths = context.agent_paths(check_name(name))
    if name not in context.home.agents():
        raise NotFoundError(f"{name} has no files here", "beam agent sessions; beam agent list", subject=name)
    return paths


@contextlib.contextmanager
def _locked_while_idle(context: RootContext, paths: AgentPaths) -> Iterator[None]:
    """Lock the agent's queue against new messages while the caller's block runs. Raises UnfinishedError if the agent is
    not idle."""
    with short_lock(paths.put_lock):
        why = _why_busy(context, paths)
        if why is not None:
            raise UnfinishedError(
                f"{paths.agent} {why}",
                f"wait for it: beam wait --agent {paths.agent} --until idle",
                subject=paths.agent,
            )
        yield


def _why_busy(context: RootContext, paths: AgentPaths) -> str | None:
    state = read_state(paths.journal)
    if state.blocked is not None or state.kept is not None or state.open_turn is not None:
        return "has an unfinished turn"
    queue = queue_of(paths)
    if any(queue.entries(box) for box in ("new", "cur")) or control.waiting_names(paths.control):
        return "has messages that wait"
    if not state.is_over():
        return "has an unfinished turn"
    if any(lanes.has_work_left(lane) or is_held(lane.lock) for lane in lanes.indexed_lanes(paths)):
        return "has --once messages that are not over"
    for other in all_paths(context):
        for box in ("new", "cur"):
            for entry in queue_of(other).entries(box):
                try:
                    message = queue_of(other).read(entry)
                except (FileNotFoundError, BeamError):
                    continue  # whoever runs it says what is wrong
                if message.sender == paths.agent and message.reply == "queue":
                    return f"is owed an answer to {message.id} by {other.agent}"
    return None


def session_names(context: RootContext, name: str) -> list[str]:
    """Return the names of those named sessions of the agent (`NAME@SESSION`) that have files here."""
    return [other for other in context.home.agents() if other != name and base_of(other) == name]
