"""Checks: is the root usable, is every journal whole, is every agent's CLI here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from beam import events, home
from beam.agents import registry
from beam.api.look import agent_names, places
from beam.broker.world import World
from beam.errors import BeamError, CorruptError
from beam.store.journal import Lines, Segment, segments
from beam.turns.order import find_executable


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was looked at. `bad` makes doctor exit 13; `note` does not."""

    what: str
    result: Literal["ok", "note", "bad"]
    detail: str


def damage(journal: Path) -> list[str]:
    """Everything that is wrong in a journal, a line each: damaged lines that no notice covers, gaps in seq."""
    found: list[str] = []
    expected: int | None = None
    for name in segments(journal):
        path = journal / name
        try:
            segment = Segment.read(path)
        except CorruptError as error:
            found.append(error.message)
            found += _every_bad_line(path)
            expected = None
            continue
        except BeamError as error:
            found.append(error.message)
            continue
        for event in segment.events:
            if expected is not None and event.seq != expected:
                found.append(f"{path}: event {event.seq} stands where {expected} should")
            expected = event.seq + 1
    return found


def _every_bad_line(path: Path) -> list[str]:
    found = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[1:-1], 2):
        try:
            list(Lines(path).feed(line + b"\n", 0))
            events.decode(line)
        except CorruptError as error:
            found.append(f"{path}:{number}: {error.message}")
    return found


def checks(world: World) -> Iterator[Check]:
    """All checks of a root."""
    root = world.home.root
    if not world.home.exists():
        yield Check(what="root", result="note", detail=f"{root} does not exist yet; the first message makes it")
    else:
        kind = home.filesystem_of(root.resolve(), home.read_mountinfo())
        yield Check(what="root", result="ok", detail=f"{root} ({kind or 'unknown file system'})")
    for place in places(world):
        bad = damage(place.journal)
        name = f"journal {place.agent}" + (f" (once {place.lane})" if place.lane else "")
        yield Check(what=name, result="bad" if bad else "ok", detail=bad[0] if bad else "whole")
    for name in dict.fromkeys([*agent_names(world), *registry.ADAPTERS]):
        yield _agent(world, name)


def _agent(world: World, name: str) -> Check:
    what = f"agent {name}"
    declared = name in agent_names(world)
    try:
        resolved = world.resolve(name)
        adapter = registry.adapter(resolved.settings.adapter)
        if adapter.card.unverified:
            return Check(what=what, result="note", detail=f"unverified: {adapter.card.unverified}")
        executable = find_executable(adapter, resolved.settings, world.environ, world.base)
    except BeamError as error:
        missing = error.kind == "not_installed" and not declared
        detail = "; ".join(filter(None, (error.message, error.hint)))
        return Check(what=what, result="note" if missing or not declared else "bad", detail=detail)
    why = world.why_untrusted(resolved)
    if why is not None:
        return Check(what=what, result="note", detail=f"not trusted: {why}; beam trust")
    if not executable:
        return Check(what=what, result="ok", detail=adapter.card.summary)
    version = _version(executable, adapter.card.version_argv, world)
    tested = ", ".join(adapter.card.versions)
    known = not tested or not version or any(word in version for word in adapter.card.versions)
    newer = "" if known else f"; tested with {tested}"
    return Check(what=what, result="ok", detail=f"{executable} {version}{newer}".rstrip())


def _version(executable: str, argv: tuple[str, ...], world: World) -> str:
    if not argv:
        return ""
    try:
        ended = subprocess.run(
            [executable, *argv],
            capture_output=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
            env=dict(world.environ),
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"(does not say its version: {error})"
    return ended.stdout.strip().splitlines()[0] if ended.stdout.strip() else ""
