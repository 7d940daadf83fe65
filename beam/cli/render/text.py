"""Text on its way to a person: control characters of agents never reach a terminal; a pipe gets the exact text."""

from __future__ import annotations

import re
import sys
from typing import TextIO

import msgspec

from beam.cli.context import is_terminal

# C0 but newline and tab, DEL, C1, and what turns the direction of text around.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]")


def visible(text: str) -> str:
    """The text with every control character shown instead of obeyed (`␛`), line breaks and tabs kept."""
    return _UNSAFE.sub(_shown, text.replace("\r\n", "\n"))


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return f"<U+{code:04X}>"


def safe(text: str, stream: TextIO) -> str:
    """The text as that stream may get it."""
    return visible(text) if is_terminal(stream) else text


def one_line(text: str, width: int) -> str:
    """The text on one line of at most that many characters, `…` where it was cut."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= width else flat[: max(0, width - 1)] + "…"


def write(stream: TextIO, text: str) -> None:
    """Writes text that may hold anything: what the stream's encoding can't say becomes `?`."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "replace").decode(encoding))


def write_line(text: str) -> None:
    """Writes a line of the result to stdout."""
    write(sys.stdout, text + "\n")


def write_json(value: object) -> None:
    """Writes a value to stdout as one JSON object on one line."""
    write_line(safe_json(msgspec.json.encode(value).decode(), sys.stdout))


def safe_json(text: str, stream: TextIO) -> str:
    """JSON as that stream may get it: on a terminal what JSON leaves bare (DEL, C1) is escaped, and stays the same value."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) if is_terminal(stream) else text
