"""Removes secrets from text, from text that comes in pieces, and from events.

A secret becomes `[redacted:<kind>]`; redacting is idempotent. The forms of secrets are in `kinds`. Does not depend on
journals, files or adapters.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from beam.secrets import kinds
from beam.secrets.kinds import KINDS, SECRET_FORMS, WIDEST, SecretForm

__all__ = [
    "KINDS",
    "Stream",
    "find_secrets",
    "half_prefix_at_end",
    "is_open",
    "may_contain_secret",
    "redact",
    "redact_beginning",
    "redact_event",
    "redact_json",
    "redact_pieces",
]

S = TypeVar("S", bound=Struct)
_Hit = tuple[
    int, re.Match[str] | None
]  # the index of a form's prefix, and the match there; None: undecided until more text comes

_MAX_HELD = 8 * WIDEST  # characters, including invisible ones
_CONTEXT = 2  # characters before a prefix that decide whether it begins a word
_ESCAPES = frozenset(("\\n", "\\r", "\\t", "\\b", "\\f"))
_HALF_PREFIXES = frozenset(
    row.prefix[:n] for row in SECRET_FORMS if not row.any_case for n in range(1, len(row.prefix))
)
_HALF_PREFIXES_ANY_CASE = frozenset(
    row.prefix[:n] for row in SECRET_FORMS if row.any_case for n in range(1, len(row.prefix))
)
_PREFIXES = [(n, row.prefix) for n, row in enumerate(SECRET_FORMS) if not row.any_case]
_PREFIXES_ANY_CASE = [(n, row.prefix) for n, row in enumerate(SECRET_FORMS) if row.any_case]
_LONG = 8192  # characters: in a longer text a pattern finds prefixes faster than one search for each, by far
_RARE = "_.:JKz-kyAbo"  # signs of prefixes, beginning with the rarest in the texts of agents
_LONGEST_HALF = max(len(row.prefix) for row in SECRET_FORMS) - 1


def redact(text: str) -> tuple[str, int]:
    """Return the text with each secret replaced, and the number of secrets. If there are none, the same text object is
    returned."""
    scan = _Scan(text, is_all=True)
    if not scan.prefixes:
        return text, 0
    blanked = "".join(scan.pieces())
    return (blanked, scan.count) if scan.count else (text, 0)


def find_secrets(text: str) -> list[tuple[int, int, str]]:
    """Return (start, end, kind) of each secret in the text. A part that stays visible, such as a name before the
    secret, is not included."""
    scan = _Scan(text, is_all=True)
    if scan.prefixes:
        for _ in scan.pieces():
            pass
    return scan.spans


def redact_pieces(pieces: Sequence[str], *, out: int = 0) -> list[str]:
    """Return the pieces of one text without its secrets.

    A secret over several pieces is replaced in the piece in which it begins, and removed from the others. The first
    `out` characters of the text were already shown, so they stay unchanged.
    """
    whole = "".join(pieces)
    found, blanked, at = find_secrets(whole), list[str](), 0
    for piece in pieces:
        end, seen, shown = at + len(piece), at, ""
        for start, stop, kind in found:
            if stop > at and start < end and stop > out:
                mark = max(start, out)
                shown += whole[seen : max(mark, at)] + (f"[redacted:{kind}]" if at <= mark < end else "")
                seen = min(stop, end)
        blanked.append(shown + whole[seen:end])
        at = end
    return blanked


def redact_beginning(text: str, length: int) -> str:
    """Return the first `length` characters of the text without secrets, and without the beginning of a secret that ends
    after them."""
    return redact_pieces((text[:length], text[length : length + WIDEST]))[0]


def is_open(text: str) -> bool:
    """Return whether a secret that begins in the text could continue after the end of the text."""
    scan = _Scan(text, is_all=False)
    for _ in scan.pieces():
        pass
    return scan.is_open


def half_prefix_at_end(text: str) -> str:
    """Return the end of the text that may be the beginning of a secret's prefix; "" if there is none."""
    scan = _Scan(text[-_LONGEST_HALF:], is_all=False)
    return next((scan.text[start:] for start in scan.half_prefixes()), "")


def _lowered(text: str) -> str:
    """Return the text in lower case, with each character at the same index. (The letter U+0130 becomes two characters
    in lower case, so it is replaced by one.)"""
    return text.lower() if text.isascii() else text.replace("\u0130", "I").lower()


@cache
def _any_prefix(*, any_case: bool = False) -> re.Pattern[str]:
    """Return the pattern that finds a prefix of a form, in a text in lower case if `any_case`."""
    return re.compile(_any_of([prefix for _, prefix in (_PREFIXES_ANY_CASE if any_case else _PREFIXES)]))


def _any_of(prefixes: Sequence[str]) -> str:
    """Return the pattern of any of these texts. It begins with the rarest sign of each text, because the search passes
    over all other signs quickly."""
    by_sign: dict[str, list[str]] = {}
    for prefix in prefixes:
        sign = min(prefix, key=lambda each: _RARE.find(each) % 99)
        before, _, after = prefix.partition(sign)
        by_sign.setdefault(sign, []).append(f"(?<={re.escape(before + sign)}){re.escape(after)}")
    return "|".join(f"{re.escape(sign)}(?:{'|'.join(found)})" for sign, found in by_sign.items())


class _Scan:
    """One search for secrets in a text. `context` comes before the text, and only tells whether a word begins at the
    start of the text.

    The search ignores invisible parts of the text, and leaves them where they were. Unless `is_all`, the search stops
    at the first index at which later text could change the result. After the search, `position` is the index where it
    stopped, `rest` the text from there on, and `count` the number of secrets. `is_new_word`: a word begins at
    `position`, whatever comes before. `is_open`: a secret may continue in later text.
    """

    def __init__(
        self, text: str, *, context: str = "", is_all: bool, is_new_word: bool = False, is_framed: bool = False
    ) -> None:
        self.original = text
        self.folded = kinds.fold(text, is_all=is_all, is_framed=is_framed)
        self.text = context + (text if self.folded is None else self.folded.text)
        self.lowered = _lowered(self.text)
        self.is_all = is_all
        self.is_open = False
        self.position = self._first = len(context)
        self.count = 0
        self.spans: list[tuple[int, int, str]] = []
        self.is_new_word = is_new_word
        self._shown = 0  # how much of the original has been returned

    @cached_property
    def prefixes(self) -> list[int]:
        """Return the indexes of the forms whose prefix is in the text. Most texts have none, and cost no more than this
        check."""
        text, lowered = self.text, self.lowered
        if len(text) > _LONG and not (_any_prefix().search(text) or _any_prefix(any_case=True).search(lowered)):
            return []
        found = [n for n, prefix in _PREFIXES if prefix in text]
        return found + [n for n, prefix in _PREFIXES_ANY_CASE if prefix in lowered]

    @property
    def rest(self) -> str:
        """Return the part of the original that `pieces` has not yielded yet."""
        return self.original[self._shown :]

    @property
    def yielded(self) -> str:
        """Return the part of the original that `pieces` has yielded, with its secrets."""
        return self.original[: self._shown]

    @property
    def context(self) -> str:
        """Return the text directly before `position`, from which a later search tells whether a word begins there."""
        return self.text[max(0, self.position - _CONTEXT) : self.position]

    def pieces(self) -> Iterator[str]:
        """Yield the text without its secrets, in pieces."""
        halves = [] if self.is_all else self.half_prefixes()
        hits = {n: hit for n in self.prefixes if (hit := self.next_hit(SECRET_FORMS[n]))}
        while True:
            stop = next((start for start in halves if start >= self.position), len(self.text))
            n = min(hits, key=lambda n: (hits[n][0], hits[n][1] is not None, n), default=None)
            start, match = hits[n] if n is not None else (len(self.text), None)
            if n is None or match is None or start >= stop:
                stop = min(start, stop)
                self.is_open = any(match is None for _, match in hits.values())
                self.is_new_word = (self.is_new_word and stop == self.position) or self.is_behind_gap(stop)
                yield self.show(stop)
                self.position = stop
                return
            yield self.show(start)
            yield from self.replace_secret(match, SECRET_FORMS[n].kind)
            self.position, self.is_new_word = match.end(), True
            self.count += 1
            self.update_hits(hits)

    def show(self, until: int) -> str:
        """Return the next part of the original, up to the index `until` of the text, with the invisible text before
        that index."""
        at = until - self._first
        end = at if self.folded is None else self.folded.origin(at)
        shown, self._shown = self.original[self._shown : end], end
        return shown

    def replace_secret(self, match: re.Match[str], kind: str) -> Iterator[str]:
        """Yield the text before the secret, with a name that stays visible. Then yield the mark in the secret's place,
        and the escape sequences inside the secret, because they also colour later text."""
        start = match.end(1) if match.re.groups else match.start()
        yield self.show(start)
        end = match.end() - self._first
        end = end if self.folded is None else self.folded.origin_end(end)
        self.spans.append((self._shown, end, kind))
        yield f"[redacted:{kind}]"
        if self.folded is not None:
            yield kinds.sequences(self.original[self._shown : end])
        self._shown = end

    def is_behind_gap(self, position: int) -> bool:
        return self.folded is not None and self.folded.is_behind_gap(position - self._first)

    def update_hits(self, hits: dict[int, _Hit]) -> None:
        """Update the hits to the new position; a word begins after every secret."""
        for n, row in enumerate(SECRET_FORMS):
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

    def next_hit(self, row: SecretForm) -> _Hit | None:
        text = self.lowered if row.any_case else self.text
        start = text.find(row.prefix, self.position)
        while start >= 0:
            after = start + 1
            if not row.at_word_start or self.begins_word(start):
                hit = self.hit_at(row, start)
                if hit:
                    return hit
                after = row.next_start(self.text, start)
            start = text.find(row.prefix, after)
        return None

    def hit_at(self, row: SecretForm, start: int) -> _Hit | None:
        if row.at_word_start and not self.begins_word(start):
            return None
        if not self.is_all and row.may_continue(self.text, start):
            return start, None
        match = row.match(self.text, start)
        return (start, match) if match else None

    def begins_word(self, start: int) -> bool:
        if start == 0 or (self.is_new_word and start == self.position) or self.is_behind_gap(start):
            return True
        before = self.text[start - 1]
        return not (before.isascii() and before.isalnum()) or self.text[max(0, start - 2) : start] in _ESCAPES

    def half_prefixes(self) -> list[int]:
        """Return the indexes at which the end of the text may be the beginning of a prefix, in ascending order."""
        size = len(self.text)
        return [
            start
            for start in range(max(self.position, size - _LONGEST_HALF), size)
            if self.text[start:] in _HALF_PREFIXES or self.lowered[start:] in _HALF_PREFIXES_ANY_CASE
        ]


class Stream:
    """Redacts a text that comes in pieces. The joined results of `feed` and `end` are `redact` of the whole text.

    Holds back only an end of the text that may be the beginning of a secret; for a private key at most 16 KiB. `count`
    is the number of secrets removed so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._context = ""
        self._held = ""
        self._is_new_word = False
        self._is_framed = False

    def feed(self, text: str) -> str:
        """Add a piece of the text, and return the redacted text that can be shown now."""
        return self._scan(text, is_all=False)

    def end(self) -> str:
        """Return the rest of the redacted text. Afterwards the stream takes a new text, and continues its count."""
        rest = self._scan("", is_all=True)
        self._context, self._held, self._is_new_word, self._is_framed = "", "", False, False
        return rest

    def _scan(self, text: str, *, is_all: bool) -> str:
        held = self._held + text
        is_all = is_all or len(held) > _MAX_HELD
        context, new, framed = self._context, self._is_new_word, self._is_framed
        scan = _Scan(held, context=context, is_all=is_all, is_new_word=new, is_framed=framed)
        shown = "".join(scan.pieces())
        self.count += scan.count
        self._context, self._held, self._is_new_word = scan.context, scan.rest, scan.is_new_word
        self._is_framed = framed or kinds.first_border(scan.yielded) is not None
        return shown


# -- events ------------------------------------------------------------------------------------------------------------

# Prefixes that are frequent in ordinary text -> the least that a secret with this prefix matches.
_COMMON_PREFIXES = {
    b"sk-": rb"sk-[A-Za-z0-9_-]{16}",
    b"://": rb"://[^\s/\"\\]{0,2000}@",
    b"bearer": rb"bearer(?:\s|\\)",
}
_PREFIX_BYTES = tuple(
    {row.prefix.encode() for row in SECRET_FORMS if not row.any_case and not row.prefix.startswith("sk-")}
    - {*_COMMON_PREFIXES}
)
_PREFIX_BYTES_ANY_CASE = tuple({row.prefix.encode() for row in SECRET_FORMS if row.any_case} - {*_COMMON_PREFIXES})
# JSON escapes of ordinary characters, of borders and of colour sequences. They can hide a prefix or split it, and so
# can the bytes of `_HIDING_BYTES`.
_HIDING_ESCAPE = re.compile(rb"\\(?:u(?:00(?:[2-7]|[19]b)|25)|x[19]b\[|033\[|e\[|/)")
_HIDING_BYTES = tuple({sign.encode()[:2] for sign in (*kinds.BORDERS, "\x9b")})


def may_contain_secret(data: bytes) -> bool:
    """Return whether UTF-8 text or JSON may contain a secret. The check is cheap, and False is certain."""
    lowered = data.lower()
    if len(data) > _LONG:
        if _any_prefix_bytes().search(data) or _any_prefix_bytes(any_case=True).search(lowered):
            return True
    else:
        for prefix in _PREFIX_BYTES:  # plain loops: each line of a journal passes here, and any() takes thrice as long
            if prefix in data:
                return True
        for prefix in _PREFIX_BYTES_ANY_CASE:
            if prefix in lowered:
                return True
    for prefix, looks in _COMMON_PREFIXES.items():
        if prefix in lowered and re.search(looks, lowered, re.IGNORECASE):
            return True
    if b"\x1b" in data or (not data.isascii() and any(sign in data for sign in _HIDING_BYTES)):
        return True
    return _HIDING_ESCAPE.search(lowered) is not None


@cache
def _any_prefix_bytes(*, any_case: bool = False) -> re.Pattern[bytes]:
    """Return the pattern that finds one of `_PREFIX_BYTES` or, in a text in lower case, of `_PREFIX_BYTES_ANY_CASE`."""
    prefixes = _PREFIX_BYTES_ANY_CASE if any_case else _PREFIX_BYTES
    return re.compile(_any_of([prefix.decode() for prefix in prefixes]).encode())


def redact_event(event: S, encoded: bytes | None = None) -> tuple[S, int]:
    """Return the event with each secret replaced, and the number of secrets. If there are none, the same event object
    is returned.

    JSON values stay valid JSON. `encoded` is the event's JSON, if the caller has it already. A secret that is also in
    the CLI's own line (`raw`) counts once.
    """
    long = {
        name: value
        for name in event.__struct_fields__
        if isinstance(value := getattr(event, name), str) and len(value) > _VERY_LONG
    }
    looked: Struct = event
    if known := [name for name, text in long.items() if _key_of(text) in _harmless]:
        looked, encoded = msgspec.structs.replace(event, **dict.fromkeys(known, "")), None
    try:
        may = may_contain_secret(msgspec.json.encode(looked) if encoded is None else encoded)
    except UnicodeEncodeError:  # a lone surrogate: no JSON, but perhaps a secret
        may = True
    found, count = _redact_struct(event) if may else (event, 0)
    if not count:
        for text in long.values():
            _harmless[_key_of(text)] = None
        while len(_harmless) > _REMEMBERED:
            _harmless.pop(next(iter(_harmless)), None)
    return found, count


# Long texts without secrets that were looked at last: the text of a turn comes as a delta, as a text and as the reply.
_harmless: dict[tuple[int, int], None] = {}
_VERY_LONG = 64 * 1024  # characters
_REMEMBERED = 16


def _key_of(text: str) -> tuple[int, int]:
    return len(text), hash(text)


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
    """Return a field's value, or a JSON document, with its strings redacted, and the number of secrets. If there are
    none, the same object is returned."""
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
    """Return a JSON document without its secrets, including secrets with JSON escapes, and the number of secrets. The
    result is still a JSON document.

    Text that is not JSON is redacted as text, and so is JSON that is nested too deeply to be walked.
    """
    import json

    try:
        document = json.loads(text)
        blanked, count = _redact_any(document)
        document_text = _to_json(blanked) if count else text
    except (ValueError, RecursionError):
        return redact(text)
    across, found = redact(document_text)  # a name and its value, like {"SecretAccessKey": "…"}
    if not found or not _is_json(across):
        return document_text, count
    return across, count + found


def _to_json(value: object) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates stay escapes
        return json.dumps(value, separators=(",", ":"))
    return text


def _is_json(text: str) -> bool:
    import json

    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
