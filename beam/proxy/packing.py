"""Packs requests into little space: a part that was stored before is replaced by a reference to it.

Each request of a conversation repeats all earlier messages. Therefore long parts are stored as blobs, which are named
by a digest of their content, and a list that begins like a list of an earlier request refers to that request
(`$after`). Does not depend on files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from beam.base.digest import blake2b
from beam.base.errors import CorruptError

_SHORTEST_BLOB = 256  # bytes: a part of this size or more becomes a blob
_LOOK_BACK = 8  # earlier requests whose lists a new request may refer to
_MAX_DEPTH = 64
_MAX_STEPS = 2 * _MAX_DEPTH  # each part may be a blob
# Of all requests of a recording together: a thousand calls with a hundred thousand tokens each have half of that.
_MAX_ITEMS = 4_000_000
_MAX_CHARACTERS = 1 << 30
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


class _Size(NamedTuple):
    """How much a value is when all its references are replaced: its parts, the characters of its texts and names, and
    how deep it is nested."""

    items: int = 1
    characters: int = 0
    depth: int = 0


class Unpacker:
    """Unpacks the requests of one recording, in order. `get` is called with a blob's name and must return its content,
    and whether it is plain text.

    A few blobs that name each other can unfold to any size, although in memory they are shared, and whoever compares
    the requests walks all of it. Therefore the sizes of all requests are added up. Raises CorruptError for data that no
    Packer can have made, and for more than a recording may unfold to.
    """

    def __init__(self, get: Callable[[str], tuple[bytes, bool]]) -> None:
        self._get = get
        self._lists: dict[tuple[int, str], tuple[list[Any], list[_Size]]] = {}
        self._known: dict[str, tuple[Any, _Size]] = {}
        self._items = self._characters = 0

    def unpack(self, number: int, packed: Any) -> Any:
        """Return the body of the request with this number. The requests before it must already be unpacked."""
        if not isinstance(packed, dict) or "$blob" in packed:
            body, size = self._unpack_value(packed, 0)
            self._add(size)
            return body
        body = {}
        for name, value in packed.items():
            body[name], size = self._unpack_field(number, name, value)
            self._add(size)
        return body

    def _add(self, size: _Size) -> None:
        self._items += size.items
        self._characters += size.characters
        self._check(_Size(self._items, self._characters))

    @staticmethod
    def _check(size: _Size) -> None:
        if size.items > _MAX_ITEMS or size.characters > _MAX_CHARACTERS:
            raise CorruptError("its requests unfold to more than a recording may hold")
        if size.depth > _MAX_DEPTH:
            raise CorruptError("it is nested too deeply")

    def _unpack_field(self, number: int, name: str, value: Any) -> tuple[Any, _Size]:
        kept: list[Any] = []
        sizes: list[_Size] = []
        rest: Any = value
        if isinstance(value, dict) and "$after" in value:
            before, rest, keep = value["$after"], value.get("then"), value.get("keep")
            known = self._lists.get((before, name)) if isinstance(before, int) else None
            if known is None or not isinstance(rest, list) or not isinstance(keep, int):
                raise CorruptError(f"its {name} goes on from a request that has none")
            kept, sizes = known[0][:keep], known[1][:keep]
        if not isinstance(rest, list):
            return self._unpack_value(rest, 0)
        found = [self._unpack_value(item, 1) for item in rest]
        items, sizes = kept + [item for item, _ in found], sizes + [size for _, size in found]
        self._lists[number, name] = items, sizes
        return items, self._size_of(sizes)

    def _size_of(self, sizes: Sequence[_Size], characters: int = 0) -> _Size:
        """Return the size of a list or an object with parts of these sizes."""
        size = _Size(
            1 + sum(size.items for size in sizes),
            characters + sum(size.characters for size in sizes),
            1 + max((size.depth for size in sizes), default=0),
        )
        self._check(size)
        return size

    def _unpack_value(self, value: Any, depth: int) -> tuple[Any, _Size]:
        if depth > _MAX_STEPS:
            raise CorruptError("it is nested too deeply")
        if isinstance(value, str):
            return value, _Size(characters=len(value))
        if isinstance(value, list):
            found = [self._unpack_value(item, depth + 1) for item in value]
            return [item for item, _ in found], self._size_of([size for _, size in found])
        if not isinstance(value, dict):
            return value, _Size()
        blob = value.get("$blob")
        if isinstance(blob, str):
            if blob not in self._known:
                self._known[blob] = self._unpack_blob(blob, depth)
            return self._known[blob]
        plain = value.get("$is", value)
        fields: Mapping[str, Any] = plain if isinstance(plain, dict) else {}
        unpacked = {name: self._unpack_value(item, depth + 1) for name, item in fields.items()}
        size = self._size_of([size for _, size in unpacked.values()], sum(map(len, unpacked)))
        return {name: item for name, (item, _) in unpacked.items()}, size

    def _unpack_blob(self, name: str, depth: int) -> tuple[Any, _Size]:
        data, is_text = self._get(name)
        if is_text:
            text = data.decode("utf-8", "surrogatepass")
            return text, _Size(characters=len(text))
        return self._unpack_value(_decode(data), depth + 1)


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CorruptError(f"a blob is not JSON: {error}") from error
