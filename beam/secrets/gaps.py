"""Removes gaps inside words: escape sequences such as colours, and the border where a program wraps a word over two
rows.

The result is the text without these gaps, with the original index of each character. A gap that moves the cursor ends a
word, and becomes `MOVE`. Pure. Does not depend on the search for secrets.
"""

import functools
import re
from bisect import bisect_right
from itertools import accumulate

from msgspec import Struct

BORDERS = "\u2502\u2503\u2506\u2507\u250a\u250b\u254e\u254f\u2551\u258c\u258f\u2590\u2595"  # │ ┃ ┆ ┇ ┊ ┋ ╎ ╏ ║ ▌ ▏ ▐ ▕

_SEQUENCE = (
    r"(?:(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,16}[@-~]"
    r"|\x1b\][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,16}[0-OQ-WYZ\\`-~])"
)
# A colour sequence in escaped form, as in a program's source.
_ESCAPED_COLOUR = r"(?:\\{1,8}(?:u00[19][bB]|x[19][bB]|033|e)\[[0-9;:]{0,64}m)"
_INVISIBLE = rf"(?:{_SEQUENCE}|{_ESCAPED_COLOUR})"
_HALF_SEQUENCE = (
    r"(?:(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,16}"
    r"|\x1b\][^\x07\x1b\x9c]{0,4096}\x1b?"
    r"|\x1b[ -/]{0,16}"
    r"|\\{1,8}(?:u(?:0(?:0(?:[19](?:[bB](?:\[[0-9;:]{0,64})?)?)?)?)?|x(?:[19](?:[bB](?:\[[0-9;:]{0,64})?)?)?"
    r"|0(?:3(?:3(?:\[[0-9;:]{0,64})?)?)?|e(?:\[[0-9;:]{0,64})?)?)\Z"
)
_BLANKS = rf"(?:[ \t]|{_INVISIBLE}){{0,512}}"
# The blanks beside a border. A row is wrapped where it is full, so there are few of them.
_PADDING = rf"(?:{_INVISIBLE}{{0,32}}[ \t]){{0,3}}{_INVISIBLE}{{0,32}}"
_BREAK = rf"{_PADDING}[{BORDERS}]{_BLANKS}\r?\n{_BLANKS}[{BORDERS}]{_PADDING}"
_OPEN_BREAK = (
    rf"{_PADDING}(?:[{BORDERS}]{_BLANKS}(?:\r\Z|\r?\n{_BLANKS}(?:[{BORDERS}]{_PADDING})?)?)?\Z"  # later text decides
)
_BREAK_CORE = rf"[{BORDERS}]{_BLANKS}\r?\n{_BLANKS}[{BORDERS}]"  # a gap between two rows, without its padding
_OPEN_BREAK_CORE = rf"[{BORDERS}]{_BLANKS}(?:\r|\r?\n{_BLANKS})?\Z"
_WITHOUT_CURSOR_MOVE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,256}[mKhl]|\x1b\][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)|\x1b[()][0-Z]|\x1b[=>]|\x1b\\"
)
MOVE = "\0"
_ESCAPED_SIGN = r"\\(?:u00[19][bB]|x[19][bB]|033|e)\["
_BLANK = " \t"
_HALF_WRITTEN = 80  # characters that a match of `_ESCAPED_COLOUR` may have
_HALF_CHARACTERS = 5000  # at the end of a text: only there is a half sequence looked for
_MAX_PADDING = 3


class Folded(Struct, frozen=True):
    """A text without its gaps.

    `text` consists of runs, the pieces between the gaps. `starts` are the indexes of the runs in `text`, and
    `original_starts` their indexes in the original. `end` is the number of characters of the original that were
    processed. The characters after `end` may be half an escape sequence, and are left for later.
    """

    text: str
    starts: list[int]
    original_starts: list[int]
    end: int

    def origin(self, index: int) -> int:
        """Return the index in the original of the character at `index`, which is after the gap before it.

        For the index after the last character, return the end of the processed original.
        """
        if index >= len(self.text):
            return self.end
        run = bisect_right(self.starts, index) - 1
        return self.original_starts[run] + index - self.starts[run]

    def origin_end(self, index: int) -> int:
        """Return the index in the original after the character at `index - 1`. The gap between that character and the
        one at `index` begins there."""
        return self.origin(index - 1) + 1 if index > 0 else 0

    def is_behind_gap(self, index: int) -> bool:
        """Return whether a gap is directly before the character at `index`."""
        return self.origin(index) > self.origin_end(index)


def fold(text: str, *, is_all: bool = True, is_framed: bool = False) -> Folded | None:
    """Return the text without its gaps; None if it has no gaps.

    `is_all`: no more text follows. Otherwise half an escape sequence at the end is left out, and an end that may become
    a gap between two rows counts as a gap. `is_framed`: an earlier text had a border.
    """
    if not is_framed and text.isascii() and "\x1b" not in text and "\\" not in text:
        return None
    frame = 0 if is_framed else first_border(text)
    end = len(text) if is_all else _end_of_whole(text)
    folded = _fold(text[:end], frame, is_all=is_all)
    if not is_all and frame is not None:
        shown = folded.text.rstrip(_BLANK)
        if len(folded.text) - len(shown) <= _MAX_PADDING:
            folded = Folded(shown, folded.starts, folded.original_starts, end)
    return folded if len(folded.text) < len(text) else None  # a gap is longer than its mark


def first_border(text: str) -> int | None:
    """Return the index after the first border in the text; None if there is no border. The text from this index on
    counts as framed."""
    found = None if text.isascii() else _compiled(f"[{BORDERS}]").search(text)
    return found.end() if found else None


@functools.lru_cache(512)
def _moves_cursor(gap: str) -> bool:
    """Return whether the gap moves the cursor, or may do so."""
    return "\x1b" in _WITHOUT_CURSOR_MOVE.sub("", gap) or "\x9b" in _WITHOUT_CURSOR_MOVE.sub("", gap)


def _fold(text: str, frame: int | None, *, is_all: bool) -> Folded:
    inside = len(text) if frame is None else min(frame, len(text))
    parts, more = _parts(text[:inside], ""), _parts(text[inside:], _breaks(text[inside:], is_all=is_all))
    parts[-1:] = [parts[-1] + more[0], *more[1:]]
    original_starts = list(accumulate(map(len, parts), initial=0))[:-1]
    pieces = [part if n % 2 == 0 else MOVE if _moves_cursor(part) else "" for n, part in enumerate(parts)]
    return Folded("".join(pieces), list(accumulate(map(len, pieces), initial=0))[:-1], original_starts, len(text))


def _breaks(text: str, *, is_all: bool) -> str:
    """Return the pattern of the gaps between rows in this text; "" if it has no such gaps."""
    if is_all:
        return _BREAK if _compiled(_BREAK_CORE).search(text) else ""
    return rf"{_BREAK}|{_OPEN_BREAK}" if _compiled(rf"{_BREAK_CORE}|{_OPEN_BREAK_CORE}").search(text) else ""


def _parts(text: str, breaks: str) -> list[str]:
    """Return the pieces of the text and the gaps between them, in turn; the first and the last are pieces."""
    has_sequences = "\x1b" in text or "\x9b" in text or _compiled(_ESCAPED_SIGN).search(text)
    expression = "|".join(filter(None, (breaks, rf"{_INVISIBLE}+" if has_sequences else "")))
    return _compiled(f"({expression})").split(text) if expression else [text]


def _end_of_whole(text: str) -> int:
    """Return the index of the half escape sequence at the end of the text; the length of the text if there is none."""
    at = text.rfind("\\", -_HALF_WRITTEN)
    if (
        "\x1b" in text
        or (at >= 0 and _compiled(_HALF_SEQUENCE).match(text, at))
        or (not text.isascii() and "\x9b" in text)
    ):
        for found in _compiled(rf"{_SEQUENCE}|({_HALF_SEQUENCE})").finditer(text, max(0, len(text) - _HALF_CHARACTERS)):
            if found[1]:
                return found.start()
    return len(text)


def sequences(text: str) -> str:
    """Return the escape sequences of the text, joined. They are kept because they also colour the text after them."""
    return "".join(_compiled(_SEQUENCE).findall(text))


@functools.cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression)
