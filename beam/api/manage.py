"""Agents declared by command: agent.json in the agent's directory."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from beam import config_file, files, home, roots, trust
from beam.agents import registry
from beam.broker.world import World
from beam.config import AGENT_JSON, encode_agent_json, parse_agent_json
from beam.errors import BeamError, NotFoundError, UnfinishedError, UnsupportedError, UntrustedError, UsageError
from beam.home import Place
from beam.message import check_name
from beam.settings import AgentSettings
from beam.store.lock import try_lock


def add(world: World, name: str, settings: AgentSettings) -> Path:
    """Writes the agent.json of a new agent."""
    place = world.place(check_name(name))
    if (place.dir / AGENT_JSON).exists():
        raise UsageError(
            f"agent {name} is declared already", f"beam agent set {name} …, or beam agent rm {name}", subject=name
        )
    return _write(world, place, settings)


def change(world: World, name: str, changes: Mapping[str, str | None]) -> Path:
    """Changes an agent's agent.json; an agent of beam.yaml or an adapter's name gets one."""
    place = world.place(check_name(name))
    world.resolve(name)
    path = place.dir / AGENT_JSON
    settings = parse_agent_json(files.read(path), path) if path.exists() else AgentSettings()
    plain = {field: getattr(settings, field) for field in settings.__struct_fields__}
    default = AgentSettings()
    for key, value in changes.items():
        plain[key] = getattr(default, key, None) if value is None else parsed(key, value)
    return _write(world, place, AgentSettings(**plain))


def fork(world: World, name: str, new: str, *, by: str) -> str:
    """Declares `new`, with the settings of `name`, whose first turn goes on in a copy of that agent's session.

    The session's id. Raises NotFoundError where the agent has no session, UnsupportedError where it can't copy one,
    UntrustedError where its own settings may not count yet, UsageError where `new` is there already.
    """
    from beam import events
    from beam.store.journal import Journal, read_state
    from beam.turns.order import face_of

    place = world.place(check_name(new))
    settings = msgspec.structs.replace(world.config, variables={}).resolve(name).settings
    resolved = world.resolve(name)
    why = world.why_untrusted(resolved)
    if why is not None:
        raise UntrustedError(why, f"look at it, then: beam trust {world.base}", subject=str(world.base))
    card = registry.adapter(settings.adapter).card
    if not any(can.fork for can in card.faces.values()):
        raise UnsupportedError(
            f"{name} can't go on in a copy of its session: {settings.adapter} has no headless way to make one",
            f"beam agent add {new} {settings.adapter} begins with an empty one",
            subject=name,
        )
    state = read_state(world.place(name).journal)
    source = state.session or state.fork
    if source is None or source.adapter != settings.adapter:
        raise NotFoundError(f"{name} has no session yet", f"beam send {name} … starts one", subject=name)
    face_of(registry.adapter(settings.adapter), None)
    before = read_state(place.journal)
    if new in world.config.names() or before.turn or before.known:
        raise UsageError(f"there is an agent {new} here already", "give the copy another name", subject=new)
    home.create(world.home, place)
    lock = try_lock(place.lock)
    if lock is None:
        raise UnfinishedError(f"somebody else makes {new} now", "give the copy another name", subject=new)
    with lock:
        journal = Journal.open(place.journal, new, world.clock, world.limits)
        try:
            body = events.SessionForked(session_id=source.session_id, of=name, adapter=source.adapter, by=by)
            journal.append(body, sync=True)
        finally:
            journal.close()
        _write(world, place, settings)
    return source.session_id


def _write(world: World, place: Place, settings: AgentSettings) -> Path:
    is_new = not place.dir.exists()
    home.create(world.home, place)
    roots.remember(world.home, world.environ)
    data = encode_agent_json(settings)
    path = place.dir / AGENT_JSON
    before = files.read(path) if path.exists() else None
    files.replace(path, data)
    try:
        world.resolve(place.agent)
    except BeamError:
        if before is None:
            files.remove(path)
        else:
            files.replace(path, before)
        if is_new:
            _remove_empty(place.dir)
        raise
    trust.remember(path, hashlib.sha256(data).hexdigest(), world.environ)
    return path


def _remove_empty(folder: Path) -> None:
    """The folder and those in it are gone, but what holds a file stays."""
    for each in (*sorted(folder.rglob("*"), reverse=True), folder):
        with contextlib.suppress(OSError):
            each.rmdir()


def remove(world: World, name: str, *, purge: bool) -> str:
    """Takes the agent.json away, and with `purge` all of the agent's files. Raises UnfinishedError while it is held."""
    place = world.place(check_name(name))
    path = place.dir / AGENT_JSON
    if not path.exists() and not (purge and place.dir.is_dir()):
        known = name in world.config.names()
        hint = "it is declared in beam.yaml; take it out there" if known else "beam agent list"
        raise NotFoundError(f"agent {name} was not added by command", hint, subject=name)
    lock = try_lock(place.lock)
    if lock is None:
        raise UnfinishedError(f"{name} is in a turn", "wait for it, or interrupt it", subject=name)
    with lock:
        if path.exists():
            files.remove(path)
        if not purge:
            return f"{name} is not declared any more; its queue and journal stay in {place.dir}"
        with files.disk("remove", place.dir):
            shutil.rmtree(place.dir)
        return f"{name} and all its messages and events are gone"


def unblock(world: World, name: str) -> str:
    """A person says that no process of the agent's last turn is left; what was said, in words.

    Raises UsageError if the agent is not blocked, UnfinishedError while it is held.
    """
    from beam import events
    from beam.store.journal import Journal, read_state

    place = world.place(check_name(name))
    state = read_state(place.journal)
    turn = state.open_turn or state.kept
    if state.blocked is None or turn is None:
        raise UsageError(f"{name} is not blocked", "beam status", subject=name)
    lock = try_lock(place.lock)
    if lock is None:
        raise UnfinishedError(f"{name} is in a turn", "wait for it, or interrupt it", subject=name)
    with lock:
        journal = Journal.open(place.journal, name, world.clock, world.limits)
        try:
            text = f"a person said that no process of turn {turn.turn} is left"
            journal.append(events.Notice(code="unblocked", text=text), turn=turn.turn, sync=True)
        finally:
            journal.close()
    return text


def parsed(key: str, text: str) -> object:
    """The value of one setting, from the text of a flag. Raises ConfigError with the nearest key."""
    value: object = text
    if key == "command":
        value = shlex.split(text)
    elif key in ("max_turns", "retries") and text.isdigit():
        value = int(text)
    elif key in ("mailbox", "record"):
        value = text.lower() in ("1", "true", "yes", "on")
    elif key == "budget_usd":
        with contextlib.suppress(ValueError):
            value = float(text)
    return config_file.settings_fields({key: value}, (), config_file.Source("the command line"))[key]
