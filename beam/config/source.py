"""The place where a setting was written, so that an error can name the file, the line and the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from beam.base.errors import ConfigError
from beam.base.near import nearest as near_word


class Source(Struct, frozen=True):
    """The place where values were written, for errors: the name of a file or variable, and the line of each key (from
    1).

    With `columns` (from 1) an error begins like that of a compiler, `FILE:LINE:COLUMN:`, which editors and CI systems
    understand.
    """

    name: str
    lines: Mapping[tuple[str, ...], int] = {}
    columns: Mapping[tuple[str, ...], int] | None = None

    def error(self, keys: tuple[str, ...], what: str, hint: str = "") -> ConfigError:
        """Return an error about the value at `keys`, the path of keys from the top."""
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

    def error_at(self, line: int, column: int, what: str, hint: str = "") -> ConfigError:
        """Return an error about the text at that line and column."""
        position = f"{self.name}, line {line}" if self.columns is None else f"{self.name}:{line}:{column}"
        return ConfigError(f"{position}: {what}", hint, subject=self.name)


def as_mapping(value: object, at: tuple[str, ...], source: Source) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise source.error(at, f"expected keys and values, got {_kind(value)}")
    return value


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a single value"


def nearest_or_all_hint(word: str, words: Collection[str]) -> str:
    """Return a hint that suggests the most similar of the words; if none is similar, the hint lists all words."""
    return nearest_hint(word, words) or f"there are: {', '.join(words)}"


def nearest_hint(word: str, words: Collection[str]) -> str:
    """Return a hint that suggests the most similar of the words; "" if none is similar."""
    closest = near_word(word, words)
    return f"did you mean {closest}?" if closest else ""
