"""Finds the differences between two requests: field by field, line by line.

Whole bodies are never compared as texts: two changed ids, one near the beginning and one near the end, would look like
a change of everything between them. Does not depend on files, sockets or any CLI.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from msgspec import Struct

from beam.proxy.canonical import Canonical

_SHOWN_CHARACTERS = 120
_TOOL_RESULT = re.compile(r"tool_result|function_call_output|custom_tool_call_output|functionResponse|\"tool\"")


class Difference(Struct, frozen=True, kw_only=True):
    """One field in which a request differs from the recorded request. `recorded` and `got` show the first lines that
    differ (null: the request does not have the field); `characters` is the number of characters that differ."""

    path: str
    recorded: str | None
    got: str | None
    characters: int


def differences(recorded: Canonical, got: Canonical) -> list[Difference]:
    """Return the fields that differ, in the order of the recorded request. Fields that exist only in the new request
    are last."""
    before, after = recorded.fields, got.fields
    found = []
    for path in dict.fromkeys((*before, *after)):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        found.append(_difference(path, old, new))
    return found


def _difference(path: str, old: str | None, new: str | None) -> Difference:
    if old is None or new is None:
        shown = (old or new or "")[:_SHOWN_CHARACTERS]
        return Difference(
            path=path,
            recorded=None if old is None else shown,
            got=None if new is None else shown,
            characters=len(old or new or ""),
        )
    old_lines, new_lines = old.split("\n"), new.split("\n")
    characters, first = 0, None
    blocks = SequenceMatcher(None, old_lines, new_lines, autojunk=False) if len(old_lines) < 2000 else None
    codes = blocks.get_opcodes() if blocks else [("replace", 0, len(old_lines), 0, len(new_lines))]
    for kind, i1, i2, j1, j2 in codes:
        if kind == "equal":
            continue
        one, other = "\n".join(old_lines[i1:i2]), "\n".join(new_lines[j1:j2])
        start, size = _changed_range(one, other)
        characters += size
        if first is None:
            begin = max(0, start - 30)
            first = one[begin : begin + _SHOWN_CHARACTERS], other[begin : begin + _SHOWN_CHARACTERS]
    shown_old, shown_new = first or ("", "")
    return Difference(path=path, recorded=shown_old, got=shown_new, characters=characters)


def _changed_range(one: str, other: str) -> tuple[int, int]:
    """Return the index at which two texts begin to differ, and the number of characters from there to their common
    ending."""
    most = min(len(one), len(other))
    start = next((n for n in range(most) if one[n] != other[n]), most)
    end = next((n for n in range(most - start) if one[-1 - n] != other[-1 - n]), most - start)
    return start, max(len(one), len(other)) - start - end


def is_in_tool_result(difference: Difference, got: Canonical) -> bool:
    """Return whether the field is part of a tool's result in the request `got`."""
    value = got.value
    for step in re.findall(r"[^.\[\]]+|\[\d+\]", difference.path):
        if isinstance(value, dict):
            kind = value.get("type")
            if value.get("role") == "tool" or (isinstance(kind, str) and _TOOL_RESULT.search(kind)):
                return True
            if step in ("functionResponse", "toolUseResult"):
                return True
            value = value.get(step)
        elif isinstance(value, list) and step[0] == "[":
            number = int(step[1:-1])
            value = value[number] if number < len(value) else None
        if value is None:
            return False
    return False
