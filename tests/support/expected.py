"""The command lines of the CLIs as they are checked in.

`BEAM_WRITE_EXPECTED=1` writes the files anew: read the difference before you keep it.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

_LONG = 400


def check(path: Path, text: str) -> None:
    """Check that the text equals the file's content."""
    if os.environ.get("BEAM_WRITE_EXPECTED"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def _plain(value: Any) -> Any:
    """A value that is no container, as JSON has it; bytes as text, or as base64 where they are none."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, type):
        return value.__name__
    return value.pattern if isinstance(value, re.Pattern) else value


def document(values: Mapping[str, object], *, depth: int = 1) -> str:
    """The values as one JSON object, with a line for each entry, down to that depth."""
    return _object(values, depth, "") + "\n"


def _object(values: Mapping[str, object], depth: int, indent: str) -> str:
    shown = [
        f"{indent} {json.dumps(key)}: {_object(value, depth - 1, indent + ' ')}"
        if depth > 1 and isinstance(value, dict) and value
        else f"{indent} {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in values.items()
    ]
    return "{\n" + ",\n".join(shown) + f"\n{indent}}}"


def told(value: Any) -> Any:
    """The value as JSON has it, of each struct only the fields that are not as they are by default."""
    if isinstance(value, Struct):
        fields = [(each.name, each.default) for each in msgspec.structs.fields(type(value))]
        return {name: told(own) for name, default in fields if (own := getattr(value, name)) != default}
    if isinstance(value, dict):
        return {str(key): told(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [told(each) for each in value]
    return _short(_plain(value))


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONG:
        return f"{value[:_LONG]}… ({len(value)})"
    return value
