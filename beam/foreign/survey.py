"""Looks through the sessions of agent CLIs for what beam can't read, for `beam doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from beam.agents import registry
from beam.foreign.places import places
from beam.foreign.tail import Tail
from beam.foreign.unreadable import LeftOut

MAX_BYTES = 32 << 20  # of the files of one CLI, the newest first


class UnreadSessions(Struct, frozen=True, kw_only=True):
    """What beam can't read in the session files of one CLI. `counts` is the number of records by the reason, `files`
    the number of files that have them, and `path` is one of those files."""

    adapter: str
    files: int
    path: str
    counts: dict[str, int]


def unread_sessions(environ: Mapping[str, str], *, since_ns: int) -> Iterator[UnreadSessions]:
    """Yield what can't be read, for each CLI with such files. Files in which nothing was written since `since_ns` are
    left out, except those in a form that can't be read at all."""
    for adapter in registry.WITH_SESSIONS:
        left, found, paths = MAX_BYTES, LeftOut(), list[str]()
        for place in places(environ, [adapter]):
            for path, status in sorted(place.paths(), key=lambda one: -one[1].st_mtime_ns):
                tail = Tail(place, path, since_ms=since_ns // 1_000_000)
                if status.st_mtime_ns >= since_ns or place.shape(path) == "unknown":
                    left -= 0 if place.is_database else status.st_size
                    if left < 0 and place.shape(path) != "unknown":
                        continue
                    for _ in tail.read():
                        pass
                elif place.shape(path) == "compressed":
                    tail.session_of_file()
                if tail.left_out.counts:
                    paths.append(path)
                    found.update(tail.left_out.counts)
        if paths:
            yield UnreadSessions(adapter=adapter, files=len(paths), path=paths[0], counts=found.counts)
