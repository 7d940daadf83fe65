"""Searches for ways into protected folders: symbolic links in a work tree, and hard links.

Symbolic links matter on a system without Landlock; hard links are not covered by Landlock either. Each search is
limited, and changes nothing. Does not depend on what the folders are for.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from beam.process.confinement import is_within

MAX_ENTRIES = 20_000
MAX_SECONDS = 1.0
MAX_HARD_LINK_ENTRIES = 4_000  # a search of so many entries takes 10 ms
_CLOCK_CHECK_ENTRIES = 256  # the clock is checked once in so many entries


class LinkSearch(Struct, frozen=True, kw_only=True):
    """The result of a search for symbolic links in a work tree.

    `links` are the paths of the links that lead into a protected folder, or to a folder above one. `entries` is how
    many entries were visited. `skipped` are the folders that were not searched completely; their subfolders are not
    named.
    """

    links: tuple[str, ...] = ()
    entries: int = 0
    skipped: tuple[str, ...] = ()


def find_links_into(
    protected: Sequence[str],
    tree: str,
    *,
    entries: int = MAX_ENTRIES,
    seconds: float = MAX_SECONDS,
    now: Callable[[], float] = time.monotonic,
) -> LinkSearch:
    """Find the symbolic links below `tree` that lead to a protected path, even if that path does not exist yet.

    Visits at most `entries` entries within `seconds`, the folders nearest to `tree` first. Does not follow links to
    other folders. A link into /proc also counts, because it may lead another process to another place.
    """
    ends = [os.path.realpath(path) for path in protected]
    until = now() + seconds
    waiting, links, skipped, visited = deque([tree]), [], [], 0
    while waiting:
        if visited >= entries or (visited % _CLOCK_CHECK_ENTRIES == 0 and now() > until):
            break
        folder = waiting.popleft()
        try:
            for entry in _entries(folder):
                visited += 1
                if entry.is_symlink():
                    if _leads_into(entry.path, ends):
                        links.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                if visited >= entries or (visited % _CLOCK_CHECK_ENTRIES == 0 and now() > until):
                    waiting.appendleft(folder)
                    break
        except OSError:
            skipped.append(folder)
    return LinkSearch(links=tuple(links), entries=visited, skipped=(*skipped, *waiting))


def hard_linked_files(folders: Sequence[str], *, below: str, entries: int = MAX_HARD_LINK_ENTRIES) -> Iterator[str]:
    """Yield the files that have a second name somewhere (a hard link). Whoever can write to that name can change the
    file.

    Searches `folders` without their subfolders, and `below` at any depth. Visits at most `entries` entries in total.
    """
    waiting, visited = deque([*folders, below]), 0
    depth = len(folders)
    while waiting and visited < entries:
        depth -= 1
        try:
            for entry in _entries(waiting.popleft()):
                visited += 1
                if visited > entries:
                    return
                if entry.is_dir(follow_symlinks=False):
                    if depth < 0:
                        waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_nlink > 1:
                    yield entry.path
        except OSError:
            continue


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        yield from found


def _leads_into(link: str, ends: Sequence[str]) -> bool:
    target = os.path.realpath(link)
    if any(is_within(target, end) or is_within(end, target) for end in ends):
        return True
    step = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))  # noqa: PTH115, PTH118, PTH120
    return is_within(step, "/proc")  # it leads another process elsewhere
