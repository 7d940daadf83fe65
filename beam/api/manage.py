"""Agents declared by command: agent.json in the agent's directory."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from beam import config_file, files, home, roots, trust
from beam.broker.world import World
from beam.config import AGENT_JSON, encode_agent_json, parse_agent_json
from beam.errors import BeamError, NotFoundError, UnfinishedError, UsageError
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
    if state.blocked is None or state.open_turn is None:
        raise UsageError(f"{name} is not blocked", "beam status", subject=name)
    lock = try_lock(place.lock)
    if lock is None:
        raise UnfinishedError(f"{name} is in a turn", "wait for it, or interrupt it", subject=name)
    with lock:
        journal = Journal.open(place.journal, name, world.clock, world.limits)
        try:
            text = f"a person said that no process of turn {state.open_turn.turn} is left"
            journal.append(events.Notice(code="unblocked", text=text), turn=state.open_turn.turn, sync=True)
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
    elif key == "mailbox":
        value = text.lower() in ("1", "true", "yes", "on")
    elif key == "budget_usd":
        with contextlib.suppress(ValueError):
            value = float(text)
    return config_file.settings_fields({key: value}, (), config_file.Source("the command line"))[key]
