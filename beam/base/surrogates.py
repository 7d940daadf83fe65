"""Escapes bytes that are not UTF-8 in values whose text came from file names, so that JSON can hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs


def escape_surrogates(value: Any) -> Any:
    """Return the value with each lone surrogate in its texts replaced by six plain characters, such as `\\udcff`.

    Python represents a byte of a file name that is not UTF-8 by a lone surrogate.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Struct):
        return structs.replace(
            value, **{name: escape_surrogates(getattr(value, name)) for name in value.__struct_fields__}
        )
    if isinstance(value, tuple | list):
        return type(value)(escape_surrogates(item) for item in value)
    if isinstance(value, Mapping):
        return {escape_surrogates(key): escape_surrogates(item) for key, item in value.items()}
    return value
