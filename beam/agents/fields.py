"""Reads typed fields of a JSON object that a CLI wrote, and writes JSON values as text that a person reads. A field
that is missing or has another type gets a default."""

from __future__ import annotations

import json
from typing import Any

Object = dict[str, Any]
LEAST_INTEGER, MAX_INTEGER = -(2**63) + 1, 2**63 - 1
_INFINITE = float("inf")


def string(value: Object, key: str) -> str:
    """Return the field if it is a string, else ""."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def obj(value: Object, key: str) -> Object:
    """Return the field if it is an object, else an empty one."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def object_of(value: object) -> Object:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: Object, key: str) -> list[Object]:
    """Return the objects in a list field."""
    found = value.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def objects_of(value: object) -> list[Object]:
    """Return the objects in a value that should be a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def message_text(value: Object) -> str:
    """Return the text of a message, whose `content` is a text or a list of parts."""
    content = value.get("content")
    return content if isinstance(content, str) else "".join(string(part, "text") for part in objects(value, "content"))


def strings(value: Object, key: str) -> tuple[str, ...]:
    """Return the strings in a list field."""
    return strings_of(value.get(key))


def strings_of(value: object) -> tuple[str, ...]:
    """Return the strings in a value that should be a list."""
    return tuple([item for item in value if isinstance(item, str)]) if isinstance(value, list) else ()


def integer(value: Object, key: str) -> int | None:
    """Return the field if it is a whole number from `LEAST_INTEGER` to `MAX_INTEGER`, which fits into 64 bits; else
    None."""
    found = value.get(key)
    return found if type(found) is int and LEAST_INTEGER <= found <= MAX_INTEGER else None


def number(value: Object, key: str) -> float | None:
    """Return the field if it is a finite number, else None."""
    found = value.get(key)
    if type(found) is int and LEAST_INTEGER <= found <= MAX_INTEGER:
        return float(found)
    return found if type(found) is float and abs(found) < _INFINITE else None


def json_text(value: object) -> str:
    """Return the value as JSON, or a note if it is nested too deeply to be written."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "[nested too deeply]"
