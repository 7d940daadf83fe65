"""Blanks secrets in text, in text that comes in pieces, and in events.

A secret becomes `[redacted:<kind>]`; doing it twice changes nothing more. What secrets look like is in `secret_kinds`.
Must not know: journals, files, adapters.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from beam.secret_kinds import KINDS, ROWS, Row

__all__ = ["KINDS", "Stream", "maybe", "redact", "redact_event", "redact_json"]

S = TypeVar("S", bound=Struct)
_Hit = tuple[int, re.Match[str] | None]  # where a row's prefix is, and the match there; None: more text will tell

_CONTEXT = 2  # characters before a prefix that decide whether it begins a word
_ESCAPES = frozenset(("\\n", "\\r", "\\t", "\\b", "\\f"))
_HALVES = frozenset(row.prefix[:n] for row in ROWS if not row.any_case for n in range(1, len(row.prefix)))
_HALVES_ANY_CASE = frozenset(row.prefix[:n] for row in ROWS if row.any_case for n in range(1, len(row.prefix)))
_LONGEST_HALF = max(len(row.prefix) for row in ROWS) - 1


def redact(text: str) -> tuple[str, int]:
    """The text with its secrets blanked, and how many there were. The same object where there are none."""
    lowered = _lowered(text)
    if not any(row.prefix in (lowered if row.any_case else text) for row in ROWS):
        return text, 0
    scan = _Scan(text, 0, is_all=True)
    blanked = "".join(scan.pieces())
    return (blanked, scan.count) if scan.count else (text, 0)


def _lowered(text: str) -> str:
    """Lower case, each character in its place (one letter of Unicode becomes two when lowered)."""
    return text.lower() if text.isascii() else text.replace("\u0130", "I").lower()


class _Scan:
    """One pass over a text from `start`; what lies before only tells whether a word begins there.

    Unless the text `is_all` there is, the pass stops where more text could change what is found. Afterwards `position`
    is where it stopped, `count` the secrets blanked, and `is_behind_secret` whether it stopped right behind one.
    """

    def __init__(self, text: str, start: int, *, is_all: bool, is_behind_secret: bool = False) -> None:
        self.text = text
        self.lowered = _lowered(text)
        self.is_all = is_all
        self.position = start
        self.count = 0
        self.is_behind_secret = is_behind_secret

    def pieces(self) -> Iterator[str]:
        """The text with secrets blanked, in pieces."""
        halves = [] if self.is_all else self.half_prefixes()
        hits = {n: hit for n, row in enumerate(ROWS) if (hit := self.next_hit(row))}
        while True:
            stop = next((start for start in halves if start >= self.position), len(self.text))
            n = min(hits, key=lambda n: (hits[n][0], hits[n][1] is not None, n), default=None)
            start, match = hits[n] if n is not None else (len(self.text), None)
            if n is None or match is None or start >= stop:
                stop = min(start, stop)
                self.is_behind_secret &= stop == self.position
                yield self.text[self.position : stop]
                self.position = stop
                return
            yield self.text[self.position : start]
            yield f"{match[1] if match.re.groups else ''}[redacted:{ROWS[n].kind}]"
            self.position, self.is_behind_secret = match.end(), True
            self.count += 1
            self.renew(hits)

    def renew(self, hits: dict[int, _Hit]) -> None:
        """Brings the hits up to the new position; a word begins behind every secret."""
        for n, row in enumerate(ROWS):
            if n in hits and hits[n][0] < self.position:
                hit = self.next_hit(row)
            elif row.at_word_start and self.text.startswith(row.prefix, self.position):
                hit = self.hit_at(row, self.position) or hits.get(n)
            else:
                continue
            if hit:
                hits[n] = hit
            else:
                hits.pop(n, None)

    def next_hit(self, row: Row) -> _Hit | None:
        text = self.lowered if row.any_case else self.text
        start = text.find(row.prefix, self.position)
        while start >= 0:
            hit = self.hit_at(row, start)
            if hit:
                return hit
            start = text.find(row.prefix, start + 1)
        return None

    def hit_at(self, row: Row, start: int) -> _Hit | None:
        if row.at_word_start and not self.begins_word(start):
            return None
        if not self.is_all and row.opens(self.text, start):
            return start, None
        match = row.match(self.text, start)
        return (start, match) if match else None

    def begins_word(self, start: int) -> bool:
        if start == 0 or (self.is_behind_secret and start == self.position):
            return True
        before = self.text[start - 1]
        return not (before.isascii() and before.isalnum()) or self.text[max(0, start - 2) : start] in _ESCAPES

    def half_prefixes(self) -> list[int]:
        """Where the tail of the text may be the beginning of a prefix, the leftmost first."""
        size = len(self.text)
        return [
            start
            for start in range(max(self.position, size - _LONGEST_HALF), size)
            if self.text[start:] in _HALVES or self.lowered[start:] in _HALVES_ANY_CASE
        ]


class Stream:
    """Redacts text that comes in pieces: what `feed` and `end` return adds up to `redact` of the whole.

    Holds back only a tail that may be the beginning of a secret; of a private key at most 16 KiB. `count` is the number
    of secrets blanked so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._context = ""
        self._held = ""
        self._is_behind_secret = False

    def feed(self, text: str) -> str:
        """What can be shown now."""
        return self._scan(text, is_all=False)

    def end(self) -> str:
        """The rest; afterwards the stream begins anew, its count going on."""
        rest = self._scan("", is_all=True)
        self._context, self._held, self._is_behind_secret = "", "", False
        return rest

    def _scan(self, text: str, *, is_all: bool) -> str:
        text = self._context + self._held + text
        scan = _Scan(text, len(self._context), is_all=is_all, is_behind_secret=self._is_behind_secret)
        shown = "".join(scan.pieces())
        self.count += scan.count
        self._context = text[max(0, scan.position - _CONTEXT) : scan.position]
        self._held = text[scan.position :]
        self._is_behind_secret = scan.is_behind_secret
        return shown


# -- events ------------------------------------------------------------------------------------------------------------

# Prefixes that ordinary text is full of, with what must follow at least.
_COMMON = {b"sk-": rb"sk-[A-Za-z0-9_-]{16}", b"://": rb"://[^\s/\"\\]{0,2000}@", b"bearer": rb"bearer(?:\s|\\)"}
_PREFIXES = tuple({row.prefix.encode() for row in ROWS if not row.any_case and not row.prefix.startswith("sk-")})
_PREFIXES_ANY_CASE = tuple({row.prefix.encode() for row in ROWS if row.any_case})
_HIDDEN = re.compile(rb"\\u00[2-7]|\\/")  # JSON escapes of ordinary characters: any prefix may be behind them


def maybe(data: bytes) -> bool:
    """Whether UTF-8 text or JSON may hold a secret: False is certain, and cheap."""
    if any(prefix in data for prefix in _PREFIXES if prefix not in _COMMON):
        return True
    lowered = data.lower()
    if any(prefix in lowered for prefix in _PREFIXES_ANY_CASE if prefix not in _COMMON):
        return True
    if any(prefix in lowered and re.search(looks, lowered, re.IGNORECASE) for prefix, looks in _COMMON.items()):
        return True
    return _HIDDEN.search(data) is not None


def redact_event(event: S, encoded: bytes | None = None) -> tuple[S, int]:
    """The event with every secret in it blanked, and how many there were; the same object where there are none.

    JSON values stay valid JSON. `encoded` is the event's JSON, if the caller has it already. A secret that the CLI's
    own line (`raw`) repeats counts once.
    """
    try:
        if not maybe(msgspec.json.encode(event) if encoded is None else encoded):
            return event, 0
    except UnicodeEncodeError:  # a lone surrogate: no JSON, but perhaps a secret
        pass
    return _redact_struct(event)


def _redact_struct(value: S) -> tuple[S, int]:
    changes: dict[str, object] = {}
    count = repeated = 0
    for name in value.__struct_fields__:
        before: object = getattr(value, name)
        if name == "raw" and isinstance(before, str):
            line, repeated = redact_json(before)
            if repeated:
                changes[name] = line
            continue
        after, found = _redact_any(before)
        count += found
        if found:
            changes[name] = after
    return (msgspec.structs.replace(value, **changes), max(count, repeated)) if changes else (value, 0)


def _redact_any(value: object) -> tuple[object, int]:
    """A field's value, or a JSON document, with its strings blanked; the same object where nothing was found."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Raw):
        text = bytes(value).decode(errors="replace")
        blanked, count = redact_json(text)
        return (Raw(blanked.encode()), count) if count else (value, 0)
    if isinstance(value, Struct):
        return _redact_struct(value)
    if isinstance(value, (tuple, list)):
        items = [_redact_any(item) for item in value]
        count = sum(found for _, found in items)
        return (type(value)(item for item, _ in items), count) if count else (value, 0)
    if isinstance(value, Mapping):
        pairs = [(_redact_any(key), _redact_any(item)) for key, item in value.items()]
        count = sum(found for pair in pairs for _, found in pair)
        return ({key: item for (key, _), (item, _) in pairs}, count) if count else (value, 0)
    return value, 0


def redact_json(text: str) -> tuple[str, int]:
    """A JSON document with its secrets blanked, also those behind JSON escapes; it stays a document.

    Text that is no JSON is redacted as text.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text)
    blanked, count = _redact_any(document)
    document_text = _to_json(blanked) if count else text
    across, found = redact(document_text)  # a name and its value, like {"SecretAccessKey": "…"}
    if not found or not _is_json(across):
        return document_text, count
    return across, count + found


def _to_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates stay escapes
        return json.dumps(value, separators=(",", ":"))
    return text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
