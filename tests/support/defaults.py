"""What stands for a field that a value does not have, for the tables of each package's tests."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection
from enum import Enum
from typing import Any, get_args

import msgspec


def structs_in(package: str, *, besides: Collection[type] = ()) -> list[type[msgspec.Struct]]:
    """Return the package's own structs with a field that need not be there, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    for each in pkgutil.iter_modules(importlib.import_module(package).__path__):
        module = importlib.import_module(f"{package}.{each.name}")
        for name, kind in vars(module).items():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__:
                found[f"{each.name}.{name}"] = kind
    return [
        kind
        for _, kind in sorted(found.items())
        if kind not in besides and any(not field.required for field in msgspec.structs.fields(kind))
    ]


def smallest(kind: Any) -> Any:
    """Return a value of the type, of nothing but what it must have; None for a type that is no class."""
    if words := get_args(kind):
        return words[0] if isinstance(words[0], str) else None
    if not isinstance(kind, type):
        return None
    if issubclass(kind, msgspec.Struct):
        return kind(**{each.name: smallest(each.type) for each in msgspec.structs.fields(kind) if each.required})
    try:
        return next(iter(kind)) if issubclass(kind, Enum) else kind()
    except TypeError:
        return None


def given(kind: type[msgspec.Struct], besides: Collection[str] = ()) -> dict[str, Any]:
    """Return what each field that need not be there stands for, by its name in a file."""
    fields = [each for each in msgspec.structs.fields(kind) if each.name not in besides]
    value = smallest(kind)
    return {each.encode_name: _shown(getattr(value, each.name)) for each in fields if not each.required}


def _shown(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {each.encode_name: _shown(getattr(value, each.name)) for each in msgspec.structs.fields(value)}
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    if isinstance(value, tuple):
        return tuple(map(_shown, value))
    if isinstance(value, Enum):
        return str(value.value)
    return "UNSET" if value is msgspec.UNSET else value
