"""Packs requests into little space: a part that was stored before is replaced by a reference to it.

Each request of a conversation repeats all earlier messages. Therefore long parts are stored as blobs, which are named
by a digest of their content, and a list that begins like a list of an earlier request refers to that request
(`$after`). Does not depend on files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from beam.base.digest import blake2b
from beam.base.errors import CorruptError

_SHORTEST_BLOB = 256  # bytes: a part of this size or more becomes a blob
_LOOK_BACK = 8  # earlier requests whose lists a new request may refer to
_MAX_DEPTH = 64
_MARKS = frozenset({"$blob", "$after", "$is"})


def blob_name(data: bytes, *, is_text: bool) -> str:
    """Return the name of a blob: the BLAKE2b digest of its content as 32 hexadecimal digits. A text and a JSON value
    always have different names."""
    return blake2b(data, digest_size=16, person=b"text" if is_text else b"json").hexdigest()


def encode(value: Any) -> bytes:
    """Return a value as JSON, in the form in which blobs and lines are stored."""
    return msgspec.json.encode(value)


class Packer:
    """Packs the requests of one recording, in order. `put` is called with each blob's content and whether it is plain
    text; it must store the blob and return its name."""

    def __init__(self, put: Callable[[bytes, bool], str]) -> None:
        self._put = put
        self._lists: dict[str, list[tuple[int, list[bytes]]]] = {}

    def pack(self, number: int, body: Any) -> Any:
        """Return the stored form of a request's body."""
        if not isinstance(body, dict):
            return self._pack_value(body)
        return {
            name: self._pack_list(number, name, value) if isinstance(value, list) else self._pack_value(value)
            for name, value in body.items()
        }

    def remember(self, number: int, body: Any) -> None:
        """Let later requests refer to the lists of a request that is already stored."""
        for name, value in body.items() if isinstance(body, dict) else ():
            if isinstance(value, list):
                self._remember(name, number, [encode(item) for item in value])

    def _remember(self, name: str, number: int, items: list[bytes]) -> None:
        known = self._lists.setdefault(name, [])
        known.append((number, items))
        del known[:-_LOOK_BACK]

    def _pack_list(self, number: int, name: str, value: list[Any]) -> Any:
        items = [encode(item) for item in value]
        best, after = 0, 0
        for before, known in reversed(self._lists.get(name, ())):
            common = next((n for n, (a, b) in enumerate(zip(known, items, strict=False)) if a != b), None)
            common = min(len(known), len(items)) if common is None else common
            if common > best:
                best, after = common, before
        self._remember(name, number, items)
        rest = [self._pack_value(item) for item in value[best:]]
        return {"$after": after, "keep": best, "then": rest} if best else rest

    def _pack_value(self, value: Any) -> Any:
        if isinstance(value, str):
            if len(value) < _SHORTEST_BLOB:
                return value
            return {"$blob": self._put(value.encode("utf-8", "surrogatepass"), True)}
        if isinstance(value, list):
            packed: Any = [self._pack_value(item) for item in value]
        elif isinstance(value, dict):
            packed = {name: self._pack_value(item) for name, item in value.items()}
            if not _MARKS.isdisjoint(packed):
                packed = {"$is": packed}
        else:
            return value
        data = encode(packed)
        return packed if len(data) < _SHORTEST_BLOB else {"$blob": self._put(data, False)}


class Unpacker:
    """Unpacks the requests of one recording, in order. `get` is called with a blob's name and must return its content,
    and whether it is plain text.

    Raises CorruptError for data that no Packer can have made.
    """

    def __init__(self, get: Callable[[str], tuple[bytes, bool]]) -> None:
        self._get = get
        self._bodies: dict[int, Any] = {}
        self._known: dict[str, Any] = {}

    def unpack(self, number: int, packed: Any) -> Any:
        """Return the body of the request with this number. The requests before it must already be unpacked."""
        body = packed
        if isinstance(packed, dict) and "$blob" not in packed:
            body = {name: self._unpack_field(name, value) for name, value in packed.items()}
        elif packed is not None:
            body = self._unpack_value(packed, 0)
        self._bodies[number] = body
        return body

    def _unpack_field(self, name: str, value: Any) -> Any:
        if not isinstance(value, dict) or "$after" not in value:
            return self._unpack_value(value, 0)
        before = self._bodies.get(value["$after"])
        kept, rest = before.get(name) if isinstance(before, dict) else None, value.get("then")
        keep = value.get("keep")
        if not isinstance(kept, list) or not isinstance(rest, list) or not isinstance(keep, int):
            raise CorruptError(f"its {name} goes on from a request that has none")
        return kept[:keep] + [self._unpack_value(item, 0) for item in rest]

    def _unpack_value(self, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise CorruptError("it is nested too deeply")
        if isinstance(value, list):
            return [self._unpack_value(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        blob = value.get("$blob")
        if isinstance(blob, str):
            if blob not in self._known:
                data, is_text = self._get(blob)
                text: Any = data.decode("utf-8", "surrogatepass") if is_text else _decode(data)
                self._known[blob] = text if is_text else self._unpack_value(text, depth + 1)
            return self._known[blob]
        plain = value.get("$is", value)
        fields: Mapping[str, Any] = plain if isinstance(plain, dict) else {}
        return {name: self._unpack_value(item, depth + 1) for name, item in fields.items()}


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CorruptError(f"a blob is not JSON: {error}") from error
