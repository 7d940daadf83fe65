"""Whole results beside the tests: what is checked in is what comes out.

`BEAM_WRITE_EXPECTED=1` writes the files anew: read the difference before you keep it.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from beam.agents.link import Say, Send, Step
from beam.model import events
from beam.model.events import Event

_HEADERS = ("v", "seq", "agent", "turn", "message_id")
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


def lines(values: Iterable[object]) -> str:
    """The values as JSON Lines."""
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


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


def of_event(event: Event, *, without: Iterable[str] = _HEADERS) -> dict[str, Any]:
    """The event without what the journal adds. Of `raw`, which is a whole line of the CLI, only how it begins."""
    fields: dict[str, Any] = json.loads(events.encode(event))
    for header in without:
        fields.pop(header, None)
    if isinstance(raw := fields.get("raw"), str):
        fields["raw"] = f"{raw[:30]}… ({len(raw)})"
    return {key: _short(value) for key, value in fields.items()}


def of_step(step: Step) -> dict[str, Any]:
    """The step of a link, under its name: a sent frame as JSON, an event as in `of_event`."""
    name = type(step).__name__
    if isinstance(step, Say):
        return {name: of_event(step.event, without=(*_HEADERS, "ts"))}
    if isinstance(step, Send):
        return {name: {key: _short(value) for key, value in json.loads(step.data).items()}}
    return {name: told(step)}


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
