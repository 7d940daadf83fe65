"""Reads plain YAML, which most settings files are, without PyYAML: its import takes 12 ms of CPU.

Plain are keys and values in ASCII, blocks of keys, and single words, numbers, quoted text without escapes, `[a, b]` and
`{a: b}` on one line. All else is PyYAML's, and so is every mistake.
"""

from __future__ import annotations

import re

_MOST = 1 << 14, 16  # bytes; how deep values may be nested: within what `yaml_bounds` allows
_PLAIN = bytes((10, *range(32, 127)))
_LINE = re.compile(r"( *)([A-Za-z_][\w@-]{0,63}):(?: +([^ #].*)| *)?", re.ASCII)
_SCALAR = re.compile(
    r"""(?P<word>(?:--?|\.\.?/)?[A-Za-z_/][\w/-]*(?:\.[\w/-]+)*)|(?P<number>0|[1-9]\d{0,8})(?![\w.:/-])|"""
    r"""(?P<lasts>[1-9]\d{0,8}(?:ms|[smhd]))(?![\w.:/-])|"(?P<double>[^"\\]*)"|'(?P<single>[^']*)'""",
    re.ASCII,
)
_KEY = re.compile(r"([A-Za-z_][\w@-]{0,63}): +", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_ODD = frozenset(("yes", "no", "on", "off", "true", "false", "null"))  # in some spelling no text


class _NotPlain(Exception):
    """The file is PyYAML's to read."""


def read(data: bytes) -> tuple[dict[str, object], dict[tuple[str, ...], int]] | None:
    """Return the values and the line of each key and item, as `parse_yaml` does; None if this is no plain YAML."""
    if len(data) > _MOST[0] or data.translate(None, _PLAIN):
        return None
    try:
        return _Reader().block(data.decode("ascii").split("\n"))
    except _NotPlain:
        return None


class _Reader:
    """Reads one file."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, ...], int] = {}
        self.number = 0
        self.line = ""

    def block(self, rows: list[str]) -> tuple[dict[str, object], dict[tuple[str, ...], int]]:
        top: dict[str, object] = {}
        open_blocks: list[tuple[int, dict[str, object], tuple[str, ...]]] = [(0, top, ())]
        expected: tuple[dict[str, object], str, tuple[str, ...]] | None = None  # the key whose block may follow
        for self.number, row in enumerate(rows, 1):
            self.line = row.rstrip(" ")
            if not self.line or self.line.lstrip(" ").startswith("#"):
                continue
            found = _LINE.match(self.line)
            if found is None:
                raise _NotPlain
            indent, key = len(found[1]), found[2]
            if expected is not None and indent > open_blocks[-1][0]:
                block: dict[str, object] = {}
                expected[0][expected[1]] = block
                open_blocks.append((indent, block, expected[2]))
            while indent < open_blocks[-1][0]:
                open_blocks.pop()
            if indent != open_blocks[-1][0]:
                raise _NotPlain
            _, block, at = open_blocks[-1]
            here = self.key(block, at, key)
            block[key] = None
            if found[3] is None:
                self.end(found.end())
                expected = block, key, here
                continue
            expected = None
            block[key], end = self.value(found.start(3), here)
            self.end(end)
        if not top:
            raise _NotPlain
        return top, self.lines

    def key(self, block: dict[str, object], at: tuple[str, ...], key: str) -> tuple[str, ...]:
        if key in block or len(at) > _MOST[1]:
            raise _NotPlain
        self.lines[(*at, key)] = self.number
        return (*at, key)

    def end(self, position: int) -> None:
        """Raise unless nothing but a comment follows."""
        rest = self.line[position:]
        if (rest and not rest.lstrip(" ").startswith("#")) or rest.startswith("#"):
            raise _NotPlain

    def value(self, position: int, at: tuple[str, ...]) -> tuple[object, int]:
        first = self.line[position : position + 1]
        if len(at) > _MOST[1]:
            raise _NotPlain
        if first == "[":
            return self.items(position + 1, at)
        if first == "{":
            return self.pairs(position + 1, at)
        found = _SCALAR.match(self.line, position)
        if found is None:
            raise _NotPlain
        text = found[found.lastgroup or 0]
        if found.lastgroup == "number":
            return (text if at[-2:-1] == ("env",) else int(text)), found.end()
        if found.lastgroup == "word" and text.lower() in _ODD:
            if text not in _BOOLEANS:
                raise _NotPlain
            return (text if at[-2:-1] == ("env",) else _BOOLEANS[text]), found.end()
        return text, found.end()

    def items(self, position: int, at: tuple[str, ...]) -> tuple[list[object], int]:
        found: list[object] = []
        while True:
            position = self.skip(position)
            if not found and self.line[position : position + 1] == "]":
                return found, position + 1
            here = (*at, str(len(found)))
            self.lines[here] = self.number
            value, position = self.value(position, here)
            found.append(value)
            position = self.skip(position)
            if self.line[position : position + 1] == "]":
                return found, position + 1
            position = self.comma(position)

    def pairs(self, position: int, at: tuple[str, ...]) -> tuple[dict[str, object], int]:
        found: dict[str, object] = {}
        while True:
            position = self.skip(position)
            if not found and self.line[position : position + 1] == "}":
                return found, position + 1
            key = _KEY.match(self.line, position)
            if key is None:
                raise _NotPlain
            here = self.key(found, at, key[1])
            found[key[1]], position = self.value(key.end(), here)
            position = self.skip(position)
            if self.line[position : position + 1] == "}":
                return found, position + 1
            position = self.comma(position)

    def skip(self, position: int) -> int:
        while self.line[position : position + 1] == " ":
            position += 1
        return position

    def comma(self, position: int) -> int:
        if self.line[position : position + 2] != ", ":
            raise _NotPlain
        return position + 2
