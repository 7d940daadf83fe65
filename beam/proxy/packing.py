"""Stores requests in little space: a part that was stored before is named, not repeated.

Each request of a conversation repeats everything before it. Therefore long parts are blobs, which are named by their
content, and a list that begins like a list of an earlier request names that request (`$after`). Does not depend on
files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from beam.base.digest import blake2b
from beam.base.errors import CorruptError

_LONG = 256  # bytes from which on a part is a blob
_LOOK_BACK = 8  # requests whose lists a new one may go on from
_DEEPEST = 64
_MARKS = frozenset({"$blob", "$after", "$is"})


def name_of(data: bytes, *, is_text: bool) -> str:
    """Return the name of a blob: 32 hexadecimal digits of its content's BLAKE2b; the name of a text is never that of a
    JSON value."""
    return blake2b(data, digest_size=16, person=b"text" if is_text else b"json").hexdigest()


def encode(value: Any) -> bytes:
    """Return a value as the JSON of a blob or a line."""
    return msgspec.json.encode(value)


class Packer:
    """Packs the requests of one recording, in order. `put` gets a blob's content, and whether it is plain text; it
    stores the blob and returns its name."""

    def __init__(self, put: Callable[[bytes, bool], str]) -> None:
        self._put = put
        self._lists: dict[str, list[tuple[int, list[bytes]]]] = {}

    def pack(self, number: int, body: Any) -> Any:
        """Return the stored form of a request's body."""
        if not isinstance(body, dict):
            return self._packed(body)
        return {
            name: self._list(number, name, value) if isinstance(value, list) else self._packed(value)
            for name, value in body.items()
        }

    def remember(self, number: int, body: Any) -> None:
        """Let the lists of later requests refer to those of a request that is already stored."""
        for name, value in body.items() if isinstance(body, dict) else ():
            if isinstance(value, list):
                self._remember(name, number, [encode(item) for item in value])

    def _remember(self, name: str, number: int, items: list[bytes]) -> None:
        known = self._lists.setdefault(name, [])
        known.append((number, items))
        del known[:-_LOOK_BACK]

    def _list(self, number: int, name: str, value: list[Any]) -> Any:
        items = [encode(item) for item in value]
        best, of = 0, 0
        for before, known in reversed(self._lists.get(name, ())):
            common = next((n for n, (a, b) in enumerate(zip(known, items, strict=False)) if a != b), None)
            common = min(len(known), len(items)) if common is None else common
            if common > best:
                best, of = common, before
        self._remember(name, number, items)
        rest = [self._packed(item) for item in value[best:]]
        return {"$after": of, "keep": best, "then": rest} if best else rest

    def _packed(self, value: Any) -> Any:
        if isinstance(value, str):
            if len(value) < _LONG:
                return value
            return {"$blob": self._put(value.encode("utf-8", "surrogatepass"), True)}
        if isinstance(value, list):
            packed: Any = [self._packed(item) for item in value]
        elif isinstance(value, dict):
            packed = {name: self._packed(item) for name, item in value.items()}
            if not _MARKS.isdisjoint(packed):
                packed = {"$is": packed}
        else:
            return value
        data = encode(packed)
        return packed if len(data) < _LONG else {"$blob": self._put(data, False)}


class Unpacker:
    """Unpacks the requests of one recording, in order. `get` returns a blob's content, and whether it is plain text.

    Raises CorruptError for what no Packer made.
    """

    def __init__(self, get: Callable[[str], tuple[bytes, bool]]) -> None:
        self._get = get
        self._bodies: dict[int, Any] = {}
        self._known: dict[str, Any] = {}

    def unpack(self, number: int, packed: Any) -> Any:
        """Return the body of this request."""
        body = packed
        if isinstance(packed, dict) and "$blob" not in packed:
            body = {name: self._field(name, value) for name, value in packed.items()}
        elif packed is not None:
            body = self._value(packed, 0)
        self._bodies[number] = body
        return body

    def _field(self, name: str, value: Any) -> Any:
        if not isinstance(value, dict) or "$after" not in value:
            return self._value(value, 0)
        before = self._bodies.get(value["$after"])
        kept, rest = before.get(name) if isinstance(before, dict) else None, value.get("then")
        keep = value.get("keep")
        if not isinstance(kept, list) or not isinstance(rest, list) or not isinstance(keep, int):
            raise CorruptError(f"its {name} goes on from a request that has none")
        return kept[:keep] + [self._value(item, 0) for item in rest]

    def _value(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise CorruptError("it is nested too deeply")
        if isinstance(value, list):
            return [self._value(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        blob = value.get("$blob")
        if isinstance(blob, str):
            if blob not in self._known:
                data, is_text = self._get(blob)
                text: Any = data.decode("utf-8", "surrogatepass") if is_text else _decode(data)
                self._known[blob] = text if is_text else self._value(text, depth + 1)
            return self._known[blob]
        plain = value.get("$is", value)
        fields: Mapping[str, Any] = plain if isinstance(plain, dict) else {}
        return {name: self._value(item, depth + 1) for name, item in fields.items()}


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CorruptError(f"a blob is not JSON: {error}") from error
