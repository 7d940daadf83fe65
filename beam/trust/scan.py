"""Finds the files in a folder that an agent CLI obeys (its settings, hooks and instructions), each with a digest of its
content.

The files are untrusted: only regular files are opened, no call blocks, and a file that is too large has no digest. Does
not depend on any CLI, or on whether the folder is trusted.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from beam.base.digest import sha256
from beam.model.autoloaded import AutoloadedFile, Finding
from beam.model.message import Access

if TYPE_CHECKING:
    pass

MAX_FILES = 500  # of one declaration
MAX_BYTES = 16 << 20
DEEPEST = 12  # levels of nested directories
SHORT_BYTES = 16 << 10
_SHOWN_CHARS = 1_000  # characters of a value that are shown
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PIECE = 1 << 16
_AT_FDCWD, _BIRTH = -100, 0x800  # constants of statx


class ScannedFile(Struct, frozen=True):
    """A file that was found. `digest` is "" if the file is too large. `content` is the content of a short file, None
    for any other."""

    path: Path
    digest: str
    content: bytes | None = None

    @property
    def text(self) -> str | None:
        """Return the content as text; None if there is no content, or if it is not UTF-8."""
        try:
            return None if self.content is None else self.content.decode()
        except UnicodeDecodeError:
            return None


def find_obeyed(
    base: Path,
    cwd: Path,
    obeyed: Iterable[AutoloadedFile],
    *,
    access: Access,
    by: str,
    home: Path,
    ignoring: bool = True,
) -> list[Finding]:
    """Return a finding for each existing file in `obeyed` that the CLI called `by` obeys when it runs in `cwd` with
    this access. The finding's name is the file's path relative to `base`.

    `home` is the person's home directory. It is not searched, because only the person writes files there. `ignoring`:
    the CLI's switches for ignoring files can be used, so the files that they cover are marked as ignored.
    """
    above = list(parents(cwd, home=home))
    levels = {
        "here": above[:1] if above[:1] == [cwd] else [],
        "upward": above,
        "worktree": above[: _worktree_depth(above)],
    }
    found: dict[str, Finding] = {}
    for one in obeyed:
        if access not in one.at:
            continue
        ignored = ignoring and access in one.ignored
        for folder in levels[one.reach]:
            for seen in scan_files(folder, one.path):
                text = seen.text
                if one.says and text is not None and not any(word in text for word in one.says):
                    continue
                name = relative_name(seen.path, base)
                if name not in found or not ignored:
                    found[name] = Finding(name=name, digest=seen.digest, text=text, by=(by,), ignored=ignored)
    return list(found.values())


def parents(folder: Path, *, home: Path) -> Iterator[Path]:
    """Yield the folder and all folders above it, except the person's home directory."""
    return (each for each in (folder, *folder.parents) if each != home)


def _worktree_depth(above: list[Path]) -> int:
    """Return how many of these folders, counted from the first, belong to the same git work tree; 1 if there is no work
    tree."""
    return next((n for n, each in enumerate(above, 1) if os.path.lexists(each / ".git")), 1)


def relative_name(path: Path, base: Path) -> str:
    """Return the path from `base` as text that JSON can hold: bytes that are not UTF-8 become \\x escapes."""
    return os.fsencode(os.path.relpath(path, base)).decode(errors="backslashreplace")


def scan_files(folder: Path, relative: str, *, short: int = SHORT_BYTES) -> list[ScannedFile]:
    """Return the file at that path, or every file below it if it is a directory. Return an empty list if the path does
    not exist, and one file without a digest if the directory is too large.

    The digest of a file that is reached through links also covers the links. Only files of up to `short` bytes have
    their content.
    """
    path = folder
    links = ""
    for part in Path(relative).parts[:-1]:
        path /= part
        with contextlib.suppress(OSError):  # it is no link
            links += f"{os.readlink(path)}\0"  # noqa: PTH115 - as it stands there, not as a path
    top = folder / relative
    try:
        return list(_Search(short).visit(top, links))
    except _TooMuchError:
        return [ScannedFile(top, "")]


class _TooMuchError(Exception):
    """A file or directory is larger than beam reads."""


class _Search:
    """One search, with the number of files and bytes that it may still read."""

    def __init__(self, short: int) -> None:
        self._short = short
        self._files = MAX_FILES
        self._bytes = MAX_BYTES

    def visit(self, path: Path, links: str, depth: int = 0) -> Iterator[ScannedFile]:
        """Yield the file at this path, or all files below it if it is a directory. `links` has the targets of the links
        on the way to the path."""
        self._files -= 1
        if self._files < 0 or depth > DEEPEST:
            raise _TooMuchError
        try:
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                links += f"{os.readlink(path)}\0"  # noqa: PTH115
                found = path.stat()
            if stat.S_ISDIR(found.st_mode):
                with os.scandir(path) as entries:
                    names = sorted(entry.name for _, entry in zip(range(MAX_FILES + 1), entries, strict=False))
                for name in names:
                    yield from self.visit(path / name, links, depth + 1)
                return
            if stat.S_ISREG(found.st_mode):
                yield self._read(path, links)
                return
            kind = f"a special file {stat.S_IFMT(found.st_mode):o}"
        except (FileNotFoundError, NotADirectoryError):
            if not links:
                return
            kind = "a link to nothing"
        except OSError as error:
            kind = f"can't be read: {error.errno}"
        digest = sha256()
        digest.update(_links_prefix(links) + kind.encode())
        yield ScannedFile(path, digest.hexdigest())

    def _read(self, path: Path, links: str) -> ScannedFile:
        handle = os.open(path, _FLAGS | (0 if links else os.O_NOFOLLOW))
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(0, "it is another file now")
            if found.st_size > self._bytes:
                raise _TooMuchError
            digest = sha256()
            digest.update(_links_prefix(links))
            content = b""
            while piece := os.read(handle, _PIECE):
                self._bytes -= len(piece)
                if self._bytes < 0:
                    raise _TooMuchError
                digest.update(piece)
                content = content + piece if len(content) <= self._short else content
        finally:
            os.close(handle)
        return ScannedFile(path, digest.hexdigest(), content if len(content) <= self._short else None)


def _links_prefix(links: str) -> bytes:
    """Return the bytes that stand for these links at the beginning of a digest's input. No file's content can imitate
    them."""
    data = links.encode(errors="surrogateescape")
    return b"%d " % len(data) + data


def shorten(text: str) -> str:
    """Return the text as a person sees it. A long text is cut, and the number of the omitted characters is appended,
    because the person decides by this text."""
    return (
        text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… and {len(text) - _SHOWN_CHARS} more characters"
    )


def digest_of(text: str) -> str:
    """Return the digest (hex) of a text that does not come from a file."""
    digest = sha256()
    digest.update(text.encode(errors="surrogateescape"))
    return digest.hexdigest()


def birth_ns(path: Path, found: os.stat_result) -> int | None:
    """Return when the folder at this path was created, in nanoseconds since 1970; None if the system does not report
    it. `found` is the folder's status."""
    born: float | None = getattr(found, "st_birthtime", None)
    if born is not None:
        return int(born * 1_000_000_000)
    try:
        import ctypes

        buffer = ctypes.create_string_buffer(256)
        call = ctypes.CDLL(None).statx
        if call(_AT_FDCWD, os.fsencode(path), 0, _BIRTH, buffer) != 0:
            return None
    except (OSError, AttributeError, ImportError):
        return None
    flags = int.from_bytes(buffer.raw[:4], sys.byteorder)
    seconds = int.from_bytes(buffer.raw[80:88], sys.byteorder, signed=True)
    return seconds * 1_000_000_000 + int.from_bytes(buffer.raw[88:92], sys.byteorder) if flags & _BIRTH else None
