"""Where a setting was written, so that an error can name the file, the line and the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from beam.base.errors import ConfigError
from beam.base.near import nearest as near_word


class Source(Struct, frozen=True):
    """Where values come from, for errors: a file's or a variable's name, and the lines of its keys (from 1).

    With `columns` (from 1) an error begins like a compiler's, `FILE:LINE:COLUMN:`, which editors and CI systems read.
    """

    name: str
    lines: Mapping[tuple[str, ...], int] = {}
    columns: Mapping[tuple[str, ...], int] | None = None

    def error(self, keys: tuple[str, ...], what: str, hint: str = "") -> ConfigError:
        """Return the error about the value at `keys`."""
        known = next((keys[:n] for n in range(len(keys), 0, -1) if keys[:n] in self.lines), None)
        line = self.lines[known] if known is not None else None
        if self.columns is not None:
            column = self.columns.get(known, 1) if known is not None else 1
            position = f"{self.name}:{line or 1}:{column}"
        else:
            position = self.name + (f", line {line}" if line else "")
        return ConfigError(
            f"{position}: {'.'.join(keys)}: {what}" if keys else f"{position}: {what}", hint, subject=self.name
        )

    def at(self, line: int, column: int, what: str, hint: str = "") -> ConfigError:
        """Return the error about what begins at that line and column."""
        position = f"{self.name}, line {line}" if self.columns is None else f"{self.name}:{line}:{column}"
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
    """Return a hint: the nearest of the words, or all of them."""
    return nearest_alone(word, words) or f"there are: {', '.join(words)}"


def nearest_alone(word: str, words: Collection[str]) -> str:
    """Return a hint that names the nearest of the words; "" if none is near."""
    closest = near_word(word, words)
    return f"did you mean {closest}?" if closest else ""
