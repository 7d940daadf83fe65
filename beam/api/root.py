"""Lists this user's roots, reports the problems of a root, and removes a root."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from beam.base import files
from beam.base.directory_tree import remove_tree
from beam.base.errors import BeamError, DiskError, NotFoundError, UnfinishedError, UsageError
from beam.root import discovery
from beam.root.paths import ROOT_DIRS, AgentPaths, RootPaths
from beam.store.lock import try_lock

_NAMES = (*ROOT_DIRS, discovery.PROJECT_JSON, ".gitignore", "broker.json", "broker.lock", "broker.log", "broker.log.1")


class RootLine(Struct, frozen=True, kw_only=True):
    """One root: its path, its project folder, whether that folder exists, its agents, and the number of waiting
    messages."""

    root: str
    project: str
    exists: bool
    agents: tuple[str, ...]
    waiting: int


def path_text(path: Path) -> str:
    """Return a path as text that JSON and a terminal can hold: bytes that are not UTF-8 become \\x escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def root_lines(environ: Mapping[str, str]) -> list[RootLine]:
    """Return a line for each root of this user, sorted by path."""
    return [_line(home) for home in discovery.known_roots(environ)]


def _line(home: RootPaths) -> RootLine:
    names = tuple(home.agents())
    all_paths = [paths for name in names for paths in (home.agent(name), *home.agent(name).lanes())]
    return RootLine(
        root=path_text(home.root),
        project=path_text(home.project),
        exists=os.path.isdir(home.project),  # noqa: PTH112 - Path.is_dir raises where it may not look
        agents=names,
        waiting=sum(len(files.names(paths.queue / "new")) for paths in all_paths),
    )


def false_root(home: RootPaths) -> Path | None:
    """Return the directory in the project folder that looks like a root of beam; None if there is none. It came with
    the folder: beam keeps no state there."""
    found = home.project / discovery.FALSE_ROOT_NAME
    is_one = found != home.root and not os.path.islink(found) and os.path.isdir(found / "agents")  # noqa: PTH112, PTH114
    return found if is_one else None


def is_replaced(home: RootPaths) -> bool:
    """Return whether the project folder was replaced by another one after the root was made. (A changed device number
    alone does not count.)"""
    known = discovery.read_project(home.root)
    with contextlib.suppress(DiskError):
        return known is not None and known.inode != discovery.project_of(home.project).inode
    return False


def notes(home: RootPaths, environ: Mapping[str, str], *, thorough: bool = False) -> Iterator[str]:
    """Yield notes for a person about this root, one sentence each. With `thorough`, yield also notes about conditions
    that may be intended."""
    where = discovery.exposing_folder(home, environ)
    if where is not None:
        yield (
            f"the root {path_text(home.root)} lies in {path_text(where)}, where agents may write: "
            "what its queues hold gets access read at the most"
        )
    false = false_root(home)
    if false is not None:
        yield f"{path_text(false)} is not read: the state of this folder is in {path_text(home.root)}"
    if thorough or (not home.exists() and discovery.is_in_state_dir(home.root, environ)):
        for other in discovery.roots_of_same_folder(home, environ):
            yield (
                f"this folder was known as {path_text(other.project)}, with the root {path_text(other.root)}; "
                "to go on with that: beam doctor --adopt"
            )
    if thorough and is_replaced(home):
        yield (
            f"{path_text(home.project)} is not the folder for which {path_text(home.root)} was made; "
            "to keep using that root: beam doctor --adopt"
        )


def remove(path: Path, environ: Mapping[str, str], *, sure: bool) -> str:
    """Remove the root at that path, with everything that beam put into it.

    Return what was done, as text. Raises NotFoundError if it is not a root of this user, UnfinishedError if a process
    holds an agent, UsageError if messages wait and `sure` is false.
    """
    path = Path(os.path.normpath(path))
    home = next((each for each in discovery.known_roots(environ) if each.root == path), None)
    if home is None and discovery.is_in_state_dir(path, environ) and path.is_dir():
        home = RootPaths(path, path)  # the root does not say to which folder it belongs
    if home is None:
        raise NotFoundError(f"{path_text(path)} is not one of your roots", "beam root list", subject=path_text(path))
    waiting = _line(home).waiting
    if waiting and not sure:
        raise UsageError(
            f"{waiting} messages wait in {path_text(path)}", "to remove them too: --yes", subject=path_text(path)
        )
    with contextlib.ExitStack() as held:
        hold_agents(home, [home.agent(name) for name in home.agents()], held)
        return remove_contents(home)


def hold_agents(home: RootPaths, all_paths: list[AgentPaths], held: contextlib.ExitStack) -> None:
    """Acquire the locks of these agents, of their lanes, and of the root's broker, until the exit stack `held` is
    closed. Raises UnfinishedError if another process has one of them."""
    if (home.root / "broker.lock").exists():
        _acquire(home.root / "broker.lock", "a broker serves", home, held, "beam broker stop")
    for paths in all_paths:
        files.make_directory(paths.lock.parent)
        for each in (paths, *paths.lanes()):
            _acquire(each.lock, f"{paths.agent} is held in", home, held, "stop its broker, or wait for its turn to end")


def _acquire(path: Path, what: str, home: RootPaths, held: contextlib.ExitStack, hint: str) -> None:
    lock = try_lock(path)
    if lock is None:
        raise UnfinishedError(f"{what} {path_text(home.root)}", hint, subject=path_text(home.root))
    held.enter_context(lock)


def remove_contents(home: RootPaths) -> str:
    """Remove what beam put into the root, and the root itself if nothing else is in it. Return what was done, as
    text."""

    for path in (*(home.root / name for name in _NAMES), home.turns):
        with files.disk_action("remove", path), contextlib.suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                remove_tree(path)
            else:
                path.unlink()
    with files.disk_action("look at", home.root):
        is_empty = not any(home.root.iterdir())
        if is_empty:
            home.root.rmdir()
    return f"removed {path_text(home.root)}" + ("" if is_empty else "; what else is in it stays")


def check(home: RootPaths, environ: Mapping[str, str]) -> list[str]:
    """Return all notes about a root for `beam doctor`. If something can't be read, return only that error's message."""
    try:
        return list(notes(home, environ, thorough=True))
    except BeamError as error:
        return [error.message]
