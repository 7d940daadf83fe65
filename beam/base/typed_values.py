"""Converts JSON and plain values to typed values, safely in any number of threads, and text to text that a line, an
encoding or JSON can hold.

msgspec (0.22.0) inspects a type when it is first used, and crashes the process if two threads cause this at the same
time. So each type is first used here, under a lock. A decoder that a module makes while it is imported is safe as well.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

T = TypeVar("T")

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_lock = allocate_lock()


def decode(data: bytes | str, type_: type[T]) -> T:
    """Return the JSON document as a value of this type. Raises msgspec.MsgspecError, RecursionError."""
    value: T = _decoder(type_).decode(data)
    return value


def convert(value: object, type_: type[T], *, strict: bool = True) -> T:
    """Return a plain value (dict, list, text) as a value of this type. Without `strict`, a text may stand for a number
    or a boolean. Raises msgspec.ValidationError."""
    _decoder(type_)
    return msgspec.convert(value, type_, strict=strict)


def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    known = _decoders.get(type_)
    if known is None:
        with _lock:
            known = _decoders.setdefault(type_, msgspec.json.Decoder(type_))
    return known


def one_line(text: str, most: int) -> str:
    """Return the text on one line of at most `most` characters, with `…` at the end if it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def replace_surrogates(text: str) -> str:
    """Return the text with each lone surrogate replaced by U+FFFD, so that it can be encoded."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
