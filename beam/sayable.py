"""Values whose text came from the names of files, which need be no UTF-8: made sayable, so that JSON can hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs


def sayable(value: Any) -> Any:
    """The value with `\\udcff` written out for each lone surrogate, Python's word for a byte that is no UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Struct):
        return structs.replace(value, **{name: sayable(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, tuple | list):
        return type(value)(sayable(item) for item in value)
    if isinstance(value, Mapping):
        return {sayable(key): sayable(item) for key, item in value.items()}
    return value
