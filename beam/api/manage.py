"""Declares, changes and removes agents by command: writes the agent.json in an agent's directory."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from beam.agents import registry
from beam.api import settings_events
from beam.api.lock_wait import acquire_agent_lock, in_turn_error, lock_new_agent, wait_for_lock
from beam.base import files
from beam.base.clock import run_blocking
from beam.base.directory_tree import remove_tree
from beam.base.errors import BeamError, DiskError, NotFoundError, UnsupportedError, UsageError
from beam.broker.asking.follow import held_briefly
from beam.broker.inbox.context import RootContext
from beam.config import fields, file, source
from beam.config.fields import ENV_PREFIX
from beam.config.resolve import AGENT_JSON, encode_agent_json, parse_agent_json
from beam.model.message import base_of, check_name
from beam.model.outcome import Status
from beam.model.settings import AgentSettings
from beam.model.state import REMOVED_CODE
from beam.root import discovery
from beam.root.paths import REMOVED_PREFIX, AgentPaths
from beam.store.lock import Lock, short_lock, try_lock
from beam.trust import ledger

if TYPE_CHECKING:
    from beam.broker.holder.lease import AgentLease
    from beam.model.events import SessionImported

_COMMAND_LINE = source.Source("the command line")


def add_agent(context: RootContext, name: str, settings: AgentSettings, *, by: str = "human") -> Path:
    """Write the agent.json of a new agent and return its path."""
    paths = context.agent_paths(check_name(name))
    with _locked_settings(context, paths):
        if (paths.dir / AGENT_JSON).exists():
            raise UsageError(
                f"agent {name} is already declared", f"beam agent set {name} …, or beam agent rm {name}", subject=name
            )
        path = _write_agent_json(context, paths, settings)
    settings_events.record_changes(context, paths, settings_events.differences(AgentSettings(), settings), by=by)
    return path


def change_agent(context: RootContext, name: str, changes: Mapping[str, str | None], *, by: str = "human") -> Path:
    """Change an agent's agent.json and return its path. `changes` has the new values by key; None resets a setting. An
    agent that is declared in beam.yaml, or is only the name of an adapter, gets an agent.json."""
    return edit_settings(context, check_name(name), lambda own: _with_changes(own, changes), by=by)


def _with_changes(settings: AgentSettings, changes: Mapping[str, str | None]) -> AgentSettings:
    plain = {field: getattr(settings, field) for field in settings.__struct_fields__}
    default = AgentSettings()
    for key, value in changes.items():
        if key.startswith(ENV_PREFIX):
            plain["env"] = {**plain["env"], key.removeprefix(ENV_PREFIX): value or ""}
            if value is None:
                del plain["env"][key.removeprefix(ENV_PREFIX)]
            fields.settings_fields({"env": plain["env"]}, (), _COMMAND_LINE)
        else:
            plain[key] = getattr(default, key, None) if value is None else settings_of_flags({key: value})[key]
    return AgentSettings(**plain)


def own_settings(context: RootContext, name: str) -> AgentSettings:
    """Return the settings in an agent's own agent.json; default settings if it has none. Raises NotFoundError if there
    is no such agent."""
    context.config.resolve(name)
    path = context.agent_paths(name).dir / AGENT_JSON
    data = file.read_bytes(path)
    return parse_agent_json(data, path) if data is not None else AgentSettings()


def edit_settings(
    context: RootContext, name: str, edit: Callable[[AgentSettings], AgentSettings], *, by: str = "human"
) -> Path:
    """Replace the settings in an agent's agent.json by what `edit` returns for them, and return the path of the file.
    No other process writes the file meanwhile.

    Record in the agent's journal which settings changed, and in the trust store that beam wrote the file. Raises
    NotFoundError if there is no such agent, and the errors of `edit`.
    """
    context.config.resolve(name)
    paths = context.agent_paths(name)
    with _locked_settings(context, paths):
        before = own_settings(context, name)
        after = edit(before)
        path = _write_agent_json(context, paths, after)
    settings_events.record_changes(context, paths, settings_events.differences(before, after), by=by)
    return path


def adopt_session(context: RootContext, name: str, session: str, settings: AgentSettings, *, by: str) -> str:
    """Declare an agent whose first turn continues an existing session of its CLI. `session` is like `claude:ID`.

    Return what was done, as text. Raises UsageError for an invalid session, and if an agent of that name exists.
    """
    from beam.api.sessions import begin_in_session, parse_session

    adapter, session_id = parse_session(session)
    if settings.adapter not in ("", adapter):
        raise UsageError(f"the session is one of {adapter}, not of {settings.adapter}", "leave the adapter out")
    check_name(name)
    if "@" not in name:
        if name in context.config.names() or (context.agent_paths(name).dir / AGENT_JSON).exists():
            raise UsageError(f"there is already an agent {name} here", "give the agent another name", subject=name)
        settings = msgspec.structs.replace(settings, adapter=adapter)
    env = settings.env if "@" not in name else {**context.config.resolve(name).settings.env, **settings.env}
    paths = context.agent_paths(name)

    def declare() -> None:
        if settings != AgentSettings():
            with _locked_settings(context, paths):
                _write_agent_json(context, paths, settings)

    imported = begin_in_session(context, name, adapter, session_id, by=by, env=env, declare=declare)
    return f"the first turn of {name} continues in session {session_id} of {adapter}; {_history_text(imported, name)}"


def _history_text(imported: SessionImported, name: str) -> str:
    from beam.foreign.unreadable import left_out_text

    if imported.left_out is None:
        return f"no files of it were found, so beam log {name} begins here"
    least = "at least " if imported.is_cut else ""
    cut = f", without {least}{imported.left_out or 1} earlier ones" if imported.left_out or imported.is_cut else ""
    unread = f"; {left_out_text(imported.unread)}" if imported.unread else ""
    return f"{imported.events} events of it are in the journal{cut}: beam log {name}{unread}"


def fork_agent(context: RootContext, name: str, new: str, *, by: str, at: str | None = None) -> str:
    """Declare `new` with the settings of `name`; its first turn continues in a copy of that agent's session.

    The copy ends after the turn or message `at`; with None, it is complete. Return the session's id. Raises
    NotFoundError if the agent has no session, UnsupportedError if its CLI can't copy a session, UntrustedError if its
    settings need a trusted folder, UsageError if `new` exists already.
    """
    from beam.api.rewind import last_message_id
    from beam.broker.inbox import standing
    from beam.model import events
    from beam.store.journal import Journal
    from beam.store.segment import read_state
    from beam.turns.choice import face_of

    paths = context.agent_paths(check_name(new))
    settings = msgspec.structs.replace(context.config, variables={}).resolve(name).settings
    resolved = context.config.resolve(name)
    standing.check_trusted(context, resolved)
    card = registry.adapter(settings.adapter).card
    if not any(can.fork for can in card.faces.values()):
        raise UnsupportedError(
            f"{name} can't continue in a copy of its session: {settings.adapter} has no headless way to make one",
            f"beam agent add {new} {settings.adapter} starts with an empty one",
            subject=name,
        )
    state = read_state(context.agent_paths(name).journal)
    source = state.session or state.fork
    if source is None or source.adapter != settings.adapter:
        raise NotFoundError(f"{name} has no session yet", f"beam send {name} … starts one", subject=name)
    upto = None if at is None else last_message_id(context.agent_paths(name), source.session_id, at, settings.adapter)
    face_of(registry.adapter(settings.adapter), None)
    _check_unused(context, paths)
    lock = run_blocking(lock_new_agent(context, paths, by=by))
    with held_briefly(context, paths, lock), _locked_settings(context, paths):
        _check_unused(context, paths)  # another process may have made it meanwhile
        with contextlib.closing(Journal.open(paths.journal, new, context.clock, context.config.limits)) as journal:
            body = events.SessionForked(session_id=source.session_id, of=name, adapter=source.adapter, by=by)
            body = body if upto is None else msgspec.structs.replace(body, upto=upto)
            journal.append(body, sync=True)
        _write_agent_json(context, paths, settings)
    return source.session_id


def _check_unused(context: RootContext, paths: AgentPaths) -> None:
    """Raise UsageError if there is an agent of that name, or if one had a message."""
    from beam.store.segment import read_state

    state = read_state(paths.journal)
    if paths.agent in context.config.names() or state.turn or state.known:
        raise UsageError(
            f"there is already an agent {paths.agent} here", "give the copy another name", subject=paths.agent
        )


@contextlib.contextmanager
def _locked_settings(context: RootContext, paths: AgentPaths) -> Iterator[None]:
    """Lock the agent's agent.json against other writers, and its queue against new messages, while the caller's block
    runs. Create the agent's directories; remove them again if the block raises a BeamError and nothing is in them."""
    is_new = not paths.dir.exists()
    discovery.create(context.home, paths)
    discovery.remember_root(context.home, context.environ)
    with short_lock(paths.put_lock):
        try:
            yield
        except BeamError:
            # Another process may have used the directories meanwhile.
            is_used = (paths.dir / AGENT_JSON).exists() or paths.put_lock.stat().st_size
            if is_new and not is_used:
                files.remove(paths.put_lock)
                _remove_empty(paths.dir)
            raise


def _write_agent_json(context: RootContext, paths: AgentPaths, settings: AgentSettings) -> Path:
    """Write the agent.json; the caller has locked it."""
    data = encode_agent_json(settings)
    path = paths.dir / AGENT_JSON
    before = file.read_bytes(path)
    files.replace(path, data)
    try:
        context.config.resolve(paths.agent)
    except BeamError:
        if before is None:
            files.remove(path)
        else:
            files.replace(path, before)
        raise
    ledger.remember_file(path, hashlib.sha256(data).hexdigest(), context.environ)
    return path


def _remove_empty(folder: Path) -> None:
    """Remove this folder and the folders in it, the innermost first, if they are empty."""
    for each in (*sorted(folder.rglob("*"), reverse=True), folder):
        with contextlib.suppress(OSError):
            each.rmdir()


def remove_agent(context: RootContext, name: str, *, purge: bool, by: str = "human") -> str:
    """Remove the agent.json, and with `purge` all of the agent's files. Return what was done, as text.

    With `purge`, senders that wait for an answer get a failure. Raises NotFoundError if there is nothing to remove,
    UnfinishedError while a process holds the agent.
    """
    paths = context.agent_paths(check_name(name))
    path = paths.dir / AGENT_JSON
    if not path.exists() and not (purge and paths.dir.is_dir()):
        known = name in context.config.names()
        hint = (
            "it is declared in beam.yaml; take it out there" if known else "beam agent list says where it is declared"
        )
        raise NotFoundError(f"{name} was not added by `beam agent add`, so it can't be removed", hint, subject=name)
    if not purge:
        data = file.read_bytes(path)
        with held_briefly(context, paths, run_blocking(acquire_agent_lock(context, paths, by=by))):
            files.remove(path)
        with contextlib.suppress(BeamError):  # a broken file is gone all the same
            before = parse_agent_json(data or b"{}", path)
            settings_events.record_changes(context, paths, settings_events.differences(before, AgentSettings()), by=by)
        sessions = _remaining_sessions_text(context, name)
        return f"{name} is not declared any more; its queue and journal stay in {paths.dir}{sessions}"
    run_blocking(acquire_agent_lock(context, paths, by=by)).release()  # so that a broker leaves the agent for a moment
    with contextlib.ExitStack() as held:
        leases = [_acquire_lease(context, each, held) for each in (paths, *paths.lanes())]
        waited = sum(_give_up_messages(lease) for lease in leases if lease is not None)
        away = paths.dir.with_name(f"{REMOVED_PREFIX}{name}")
        with files.disk_action("remove", paths.dir):
            remove_tree(away, ignore_errors=True)  # left by a purge that was killed
            paths.dir.rename(away)  # so that a sender finds no queue, rather than half of one
            remove_tree(away)
        for turns in (context.home.turns_of(paths), *context.home.turns.glob(f"{name}.*")):
            remove_tree(turns, ignore_errors=True)
        files.remove(context.home.search)  # the search index has texts of these journals
    waiting_note = f"; {waited} waited, and senders that wait for an answer are told" if waited else ""
    return f"{name} and all its messages and events are gone{waiting_note}{_remaining_sessions_text(context, name)}"


def _remaining_sessions_text(context: RootContext, name: str) -> str:
    beside = [other for other in context.home.agents() if other != name and base_of(other) == name]
    if not beside:
        return ""
    settings = "" if context.is_agent(name) else f", and run no more without {name}"
    return f"; its sessions stay{settings}: {', '.join(beside)} (beam agent rm --purge)"


def _acquire_lease(context: RootContext, paths: AgentPaths, held: contextlib.ExitStack) -> AgentLease | None:
    """Acquire the agent's lease until the exit stack `held` is closed. Return None if the files are too damaged for a
    lease; in that case only the agent's lock is acquired."""
    from beam.broker.holder.lease import AgentLease

    try:
        lease = wait_for_lock(lambda: AgentLease.acquire(context, paths))
    except DiskError:
        held.enter_context(_lock_or_raise(paths))
        return None
    if lease is None:
        raise in_turn_error(paths)
    held.callback(lease.close)
    return lease


def _lock_or_raise(paths: AgentPaths) -> Lock:
    lock = wait_for_lock(lambda: try_lock(paths.lock))
    if lock is None:
        raise in_turn_error(paths)
    return lock


def vouched_digest(context: RootContext, paths: AgentPaths, data: bytes) -> str | None:
    """Return the digest of an agent.json's bytes if a person is known to have written them; else None."""
    digest = hashlib.sha256(data).hexdigest()
    return digest if ledger.is_remembered(paths.dir / AGENT_JSON, digest, context.environ) else None


def _give_up_messages(lease: AgentLease) -> int:
    """Move all waiting messages to the dead letters, so that waiting senders get a reply. Return the number of
    messages.

    A message that can't be recorded is skipped.
    """
    from beam.broker.inbox import closing
    from beam.model import events

    log = lease.log
    name = log.paths.agent
    if any(log.queue.first(box) for box in ("cur", "new")):  # for those who wait until the agent is idle
        log.record(events.Notice(code=REMOVED_CODE, text=f"{name} is removed with all its messages"))
    count = 0
    for box in ("cur", "new"):
        for entry in log.queue.entries(box):
            count += 1
            with contextlib.suppress(BeamError):
                message = lease.waiting.read(entry)
                if box == "cur" and log.has_lent_message():
                    lease.waiting.take_back(entry, "removal of its mailbox")
                elif message is not None:
                    closing.dead_letter(
                        log,
                        entry,
                        message,
                        closing.DROPPED,
                        f"{name} was removed with all its messages",
                        status=Status.CANCELLED,
                        tell=message.sender != name,
                    )
    return count


def unblock_agent(context: RootContext, name: str) -> str:
    """Record a person's statement that no process of the agent's last turn is left.

    Return what was done, as text. Raises UsageError if the agent is not blocked, UnfinishedError while a process holds
    the agent.
    """
    from beam.model import events
    from beam.store.journal import Journal

    paths = context.agent_paths(check_name(name))
    _blocked_turn(paths)
    with held_briefly(context, paths, _lock_or_raise(paths)):
        turn = _blocked_turn(paths)
        with contextlib.closing(Journal.open(paths.journal, name, context.clock, context.config.limits)) as journal:
            text = f"a person said that no process of turn {turn} is left"
            journal.append(events.Notice(code="unblocked", text=text), turn=turn, sync=True)
    return text


def _blocked_turn(paths: AgentPaths) -> int:
    """Return the number of the turn that blocks the agent. Raises UsageError if the agent is not blocked."""
    from beam.store.segment import read_state

    state = read_state(paths.journal)
    turn = state.open_turn or state.kept
    if state.blocked is None or turn is None:
        raise UsageError(f"{paths.agent} is not blocked", "beam status", subject=paths.agent)
    return turn.turn


def settings_of_flags(given: Mapping[str, str]) -> dict[str, object]:
    """Return settings by key from the texts of command-line flags; `env.NAME` sets one variable.

    Raises ConfigError; for an unknown key it names the most similar one.
    """
    return fields.settings_from_text(given, _COMMAND_LINE)
