"""Where a setting was written, so that an error can name the file, the line and the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from beam.base.errors import ConfigError
from beam.base.near import nearest as near_word


class Source(Struct, frozen=True):
    """Where values come from, for errors: a file's or a variable's name, and the lines of its keys (from 1)."""

    name: str
    lines: Mapping[tuple[str, ...], int] = {}

    def error(self, keys: tuple[str, ...], what: str, hint: str = "") -> ConfigError:
        """Return the error about the value at `keys`."""
        line = next((self.lines[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in self.lines), None)
        position = self.name + (f", line {line}" if line else "") + (f": {'.'.join(keys)}" if keys else "")
        return ConfigError(f"{position}: {what}", hint, subject=self.name)


def mapping(value: object, at: tuple[str, ...], source: Source) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise source.error(at, f"expected keys and values, got {_kind(value)}")
    return value


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a single value"


def nearest(word: str, words: Collection[str]) -> str:
    closest = near_word(word, words)
    return f"did you mean {closest}?" if closest else f"there are: {', '.join(words)}"
