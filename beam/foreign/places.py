"""Finds the files in which the agent CLIs keep their sessions. Each CLI has one place, some also an archive.

Does not depend on the content of a session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from beam.agents import registry
from beam.agents.session_files import SessionReader, Sessions
from beam.foreign.compressed import SUFFIX
from beam.root.paths import user_home

_XDG = {"XDG_DATA_HOME": ".local/share", "XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state"}
RUNNING = "CWD"  # the folder of a CLI that keeps its sessions where it runs
_DATABASE_TAILS = ("-wal", "-journal")
Shape = Literal["lines", "compressed", "document", "database", "unknown"]


class SessionPlace(Struct, frozen=True):
    """The session files of one CLI below `folder`. `pattern` matches their paths relative to the folder, `alike` also
    those of sessions that beam can't read; `depth` is the maximum number of subfolders in such a path."""

    adapter: str
    sessions: Sessions
    folder: str
    pattern: re.Pattern[str]
    alike: re.Pattern[str]
    depth: int

    @property
    def is_database(self) -> bool:
        """Return whether the CLI keeps its sessions in a database."""
        return self.sessions.files.shape == "database"

    def shape(self, path: str) -> Shape:
        """Return the form of this session file."""
        if not self.pattern.fullmatch(self.below(path)):
            return "unknown"
        shape = self.sessions.files.shape
        if shape == "lines" and path.endswith(SUFFIX):
            return "compressed"
        return "document" if shape == "lines" and path.endswith(".json") else shape

    def fits(self, path: str) -> bool:
        """Return whether the path is that of a session file of this place."""
        return path.startswith(self.folder + "/") and self.alike.fullmatch(self.below(path)) is not None

    def below(self, path: str) -> str:
        """Return the path relative to the folder."""
        return path[len(self.folder) + 1 :]

    def reader(self, path: str) -> SessionReader:
        """Return a new reader for that file. The reader gets the path relative to the folder or, for a CLI that keeps
        its sessions in its working folder, the whole path."""
        return self.sessions.reader(path if self.sessions.files.folder == RUNNING else self.below(path))

    def paths(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield (path, status) for each session file: a regular file of this user. A file that a newer form of itself
        lies beside is left out. Does not follow symbolic links."""
        yield from self._walk(self.folder, self.depth)

    def _walk(self, folder: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError:
            return
        names = {entry.name for entry in found}
        for entry in found:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if depth:
                        yield from self._walk(entry.path, depth - 1)
                elif newer_name(entry.name) in names:
                    continue
                elif entry.is_file(follow_symlinks=False) and self.alike.fullmatch(self.below(entry.path)):
                    status = entry.stat(follow_symlinks=False)
                    if status.st_uid == os.geteuid():
                        yield entry.path, status
            except OSError:
                continue


def place(adapter: str, sessions: Sessions, folder: str) -> SessionPlace:
    """Return the place of the CLI's session files below this folder."""
    pattern = sessions.files.name
    alike = f"{pattern}|{sessions.files.like}" if sessions.files.like else pattern
    depth = re.sub(r"\[[^\]]*\]", "", alike).count("/")
    return SessionPlace(adapter, sessions, folder, re.compile(pattern, re.DOTALL), re.compile(alike, re.DOTALL), depth)


def places(environ: Mapping[str, str], only: Sequence[str] = ()) -> list[SessionPlace]:
    """Return the places of the CLIs in `only` (default: all CLIs), a CLI's archive before its place. A CLI that keeps
    its sessions in its working folder has no fixed place and is left out."""
    found = []
    for name in only or registry.WITH_SESSIONS:
        sessions = registry.sessions_of(name)
        if sessions.files.folder != RUNNING:
            if sessions.files.archive:
                found.append(place(name, sessions, _folder(sessions, environ, sessions.files.archive)))
            found.append(place(name, sessions, _folder(sessions, environ)))
    return found


def newer_name(name: str) -> str:
    """Return the name of the file that replaces this one where both are there, "" if none does: lines replace the
    document that they were made from, and the compressed lines that they were unfolded from."""
    if name.endswith(SUFFIX):
        return name.removesuffix(SUFFIX)
    return f"{name}l" if name.endswith(".json") else ""


def session_path(path: str) -> str:
    """Return the path of the database if the path is that of a file that SQLite keeps beside it (-wal, -journal).
    Return any other path unchanged."""
    for tail in _DATABASE_TAILS:
        path = path.removesuffix(tail)
    return path


def _folder(sessions: Sessions, environ: Mapping[str, str], below: str | None = None) -> str:
    files = sessions.files
    moved = environ.get(files.moved_by, "") if files.moved_by else ""
    first, _, rest = files.folder.partition("/")
    if moved:
        base = os.path.abspath(moved)  # noqa: PTH100 - a text
    elif first == "HOME":
        base = f"{user_home(environ)}/{rest}".rstrip("/")
    else:
        base = f"{environ.get(first) or f'{user_home(environ)}/{_XDG[first]}'}/{rest}"
    return f"{base}/{files.below if below is None else below}".rstrip("/")
