"""A cache of the parsed settings files, in the root. Without it, importing a YAML parser would take a fifth of the CPU
time of a short command.

An entry is used only for exactly the same bytes; in any other case the file is parsed again. Does not depend on the
meaning of a setting, or on whether agents can write in the root. If agents can write there, the caller must not use the
cache.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from beam.base import files, typed_values
from beam.base.digest import sha256
from beam.base.errors import BeamError
from beam.base.version import __version__

PARSED_JSON = "parsed.json"
_FORMAT = f"1 {__version__}"  # of the cache; another version of beam may read YAML in another way
_MAX_BYTES = 1 << 20

KeyLines = dict[tuple[str, ...], int]


class _ParsedFile(Struct, frozen=True):
    """The content of one file as plain values, and the line of each key."""

    values: Any
    lines: list[tuple[tuple[str, ...], int]]


class _CacheFile(Struct, frozen=True):
    v: str
    files: dict[str, _ParsedFile]  # by the SHA-256 of their bytes, hex


class ParsedFiles:
    """The settings files that one command reads. Their parsed content is cached in `root`. If `root` is None, nothing
    is cached."""

    def __init__(self, root: Path | None = None) -> None:
        self._path = None if root is None else root / PARSED_JSON
        self._before = self._load()
        self._now: dict[str, _ParsedFile] = {}

    def parse(self, data: bytes, path: Path) -> tuple[object, KeyLines]:
        """Return the content of a YAML file as plain values, and the line of each key. Raises ConfigError."""
        key = sha256(data).hexdigest()
        found = self._before.get(key)
        if found is None:
            from beam.config.yaml_lines import parse_yaml

            values, lines = parse_yaml(data, path)
            found = _ParsedFile(values, list(lines.items()))
        self._now[key] = found
        return found.values, dict(found.lines)

    def remember(self) -> None:
        """Write the content that this command parsed to the cache, if the cache does not have it yet and the root
        exists."""
        if self._path is None or self._now.keys() == self._before.keys() or not self._path.parent.is_dir():
            return
        kept = {key: each for key, each in self._now.items() if key in self._before or _may_be_cached(each)}
        data = msgspec.json.encode(_CacheFile(_FORMAT, kept))
        if kept.keys() == self._before.keys() or len(data) > _MAX_BYTES:
            return
        from threading import get_ident

        temporary = self._path.with_name(f".{PARSED_JSON}.{os.getpid()}-{get_ident()}.tmp")
        with contextlib.suppress(OSError, BeamError):  # the next command parses again, that is all
            handle = files.open_to_write(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                files.write_all(handle, data)
            finally:
                os.close(handle)
            temporary.rename(self._path)

    def _load(self) -> dict[str, _ParsedFile]:
        if self._path is None:
            return {}
        try:
            found = typed_values.decode(files.read(self._path, _MAX_BYTES), _CacheFile)
        except (OSError, BeamError, ValueError, RecursionError):
            return {}
        return found.files if found.v == _FORMAT else {}


def _may_be_cached(parsed: _ParsedFile) -> bool:
    """Return whether the values may be cached. JSON must reproduce them exactly (it does not for dates and infinities),
    and none may be a secret or the value of an environment variable."""
    from beam.secrets.redact import redact

    if any("env" in at or "env_profiles" in at for at, _ in parsed.lines):
        return False
    try:
        data = msgspec.json.encode(parsed.values)
        is_same = repr(msgspec.json.decode(data)) == repr(parsed.values)
    except (ValueError, TypeError, RecursionError):
        return False
    return is_same and not redact(data.decode())[1]
