"""Text output for people. No control character of an agent reaches a terminal; a pipe gets the exact text."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable
from typing import TextIO

import msgspec

from beam import blanked, escape_surrogates
from beam.cli.streams import is_terminal

# C0 except newline and tab, DEL, C1, and characters that change the direction of text.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\u206a-\u206f]")
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")


def escape_controls(text: str) -> str:
    """Return the text with every control character replaced by a visible sign such as `␛`. Line breaks and tabs
    stay."""
    return _UNSAFE.sub(_visible_sign, text.replace("\r\n", "\n"))


def _visible_sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return f"<U+{code:04X}>"


def safe(text: str, stream: TextIO) -> str:
    """Return the text with control characters replaced if the stream is a terminal; otherwise return the text
    unchanged."""
    return escape_controls(text) if is_terminal(stream) else text


def one_line(text: str, width: int) -> str:
    """Return the text on one line of at most `width` columns, with `…` at the end if it was cut."""
    return truncate(collapse_to_line(text), width)


def collapse_to_line(text: str) -> str:
    """Return the text on one line. Runs of white space become one space, and control characters become visible
    signs."""
    return " ".join(escape_controls(text).split())


def fold(text: str) -> str:
    """Return the text on one line, with `⏎` in place of line breaks."""
    lines = (" ".join(line.split()) for line in escape_controls(text).splitlines())
    return " ⏎ ".join(filter(None, lines))


def truncate(text: str, width: int) -> str:
    """Return as much of a line as fits into `width` columns, with `…` at the end if something is missing."""
    if display_width(text) <= width:
        return text
    if text.isascii():
        return text[: max(0, width - 1)] + "…"
    end, used = 0, 1
    while end < len(text) and used + _char_width(text[end]) <= width:
        used += _char_width(text[end])
        end += 1
    return text[:end] + "…"


def display_width(text: str) -> int:
    """Return how many columns of a terminal a line takes at most."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if char.isascii():
        return 1
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_ASCII_SIGNS = str.maketrans(
    {
        **dict(
            zip(
                "…→←↩–—─\u2018\u2019“”•│⏎",
                ("...", "->", "<-", "<-", "-", "-", "-", "'", "'", '"', '"', "*", "|", "\\n"),
                strict=True,
            )
        ),
        **{chr(0x2400 + code): f"^{chr(code + 64)}" for code in range(32)},
        "\u2421": "^?",
    }
)


def ascii_only(text: str) -> str:
    """Return the text in ASCII. Known signs become similar ASCII signs, and all other characters become escapes
    (`\\xe9`)."""
    return text if text.isascii() else text.translate(_ASCII_SIGNS).encode("ascii", "backslashreplace").decode()


def confirm(question: str) -> bool:
    """Print the question to stderr, and return whether the person at the terminal says yes."""
    write(sys.stderr, escape_controls(f"{question} [y/N] "))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def write(stream: TextIO, text: str, *, verbatim: bool = False) -> None:
    """Write a text to the stream, without the secrets in it. Characters that the stream's encoding lacks are replaced
    as in `ascii_only`, or by `?`. `verbatim`: secrets stay, for a text that has none left, or that somebody must get
    whole."""
    if not verbatim:
        text = blanked(text)
    if is_ascii(stream):
        text = ascii_only(text)
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "replace").decode(encoding))


def is_ascii(stream: TextIO) -> bool:
    """Return whether the stream's encoding is ASCII."""
    return (getattr(stream, "encoding", None) or "").lower() in ("ascii", "us-ascii", "ansi_x3.4-1968", "646")


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def write_line(text: str, *, verbatim: bool = False) -> None:
    """Write one line of the result to stdout, as `write` does."""
    write(sys.stdout, text + "\n", verbatim=verbatim)


def write_json(value: object) -> None:
    """Write a value to stdout as one JSON object on one line."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:  # it contains a path that is not UTF-8
        data = msgspec.json.encode(escape_surrogates(value))
    write_line(safe_json(data.decode(), sys.stdout))


def write_json_lines(values: Iterable[object]) -> None:
    """Write each value to stdout as one JSON object on a line of its own."""
    for value in values:
        write_json(value)


def safe_json(text: str, stream: TextIO) -> str:
    """Return the JSON text with those characters escaped that must not be written to this stream. The JSON value stays
    the same.

    For a terminal, control characters that JSON itself does not escape (DEL, C1) are escaped. If the stream's encoding
    is ASCII, all characters beyond ASCII are escaped.
    """
    if is_ascii(stream) and not text.isascii():
        text = _BEYOND_ASCII.sub(_json_escape, text)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) if is_terminal(stream) else text
