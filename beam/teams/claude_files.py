"""Reads and writes single files of Claude Code. Only regular files are accepted, and symbolic links are not followed.

Claude Code writes some files in place. A file that was read half-written is therefore read again.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from beam.base import files
from beam.base.errors import CorruptError

_LARGEST = 16 * 1024 * 1024
_HALF_TRIES, _HALF_S = 5, 0.02

T = TypeVar("T")


def check_directory(path: str) -> None:
    """Raise CorruptError if the path is a symbolic link, is not a directory, or belongs to another user. A missing path
    is accepted."""
    try:
        found = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise CorruptError(f"{path} is no directory of yours; beam writes nothing there", subject=path)


def names(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - names
    except OSError:
        return []


def read(path: str) -> bytes | None:
    """Return the file's content; None if the file is missing. Raises DiskError for anything but a regular file."""
    try:
        return files.read(Path(path), _LARGEST)
    except FileNotFoundError:
        return None


def read_parsed(path: str, parse: Callable[[bytes], T | None]) -> T | None:
    """Return the result of `parse` for the file's content. Return None if the file is missing, or if `parse` returned
    None in each of several tries."""
    for _ in range(_HALF_TRIES):
        data = read(path)
        if data is None:
            return None
        value = parse(data)
        if value is not None:
            return value
        time.sleep(_HALF_S)
    return None


def inbox_messages(path: str) -> list[Any]:
    """Return the messages of an inbox file. Return [] if it has none, also if it stays unreadable: as in Claude Code,
    the next write then takes its place."""
    return read_parsed(path, _list_in) or []


def _list_in(data: bytes) -> list[Any] | None:
    """Return the JSON list at the beginning of the bytes. As in Claude Code, bytes that are not UTF-8 are replaced.
    Bytes after the list may be the rest of an old content."""
    try:
        value = json.loads(data)
    except RecursionError:
        return None
    except ValueError:
        text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
        try:
            value = json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def write_new(path: str, value: object) -> None:
    write(path, json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace"))


def write(path: str, data: bytes) -> None:
    folder, _, name = path.rpartition("/")
    with files.disk_action("write", Path(path)):
        handle = files.open_directory(Path(folder), follow=False)
        try:
            files.write_at(handle, name, data)
            os.chmod(name, 0o644, dir_fd=handle)
        finally:
            os.close(handle)


def replace(path: str, value: object) -> None:
    temporary = f"{path}.tmp.{secrets.token_hex(4)}"
    write_new(temporary, value)
    with files.disk_action("write", Path(path)):
        os.replace(temporary, path)  # noqa: PTH105 - texts
