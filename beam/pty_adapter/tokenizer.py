"""Splits a terminal's bytes into complete units: runs of text, control characters, escape sequences.

Incomplete sequences and characters are handled here, so the screen never sees one. The input is untrusted: no input can
raise an error, hang, or make the tokenizer keep more than `KEPT_CHARACTERS`. Does not depend on the meaning of a
sequence.
"""

from __future__ import annotations

import codecs
import re

from msgspec import Struct

KEPT_CHARACTERS = 64 * 1024  # of one control string; a longer one is dropped, and none that matters here is longer
SKIPPED_CHARACTERS = 16 * 1024 * 1024  # a string without an end after so many is given up; a picture may be long

_USUAL_CSI = r"\[[0-?]{0,256}[@-~]"  # half of all units, so it is tried first
_CSI = r"\[[\x00-\x17\x19\x1c-\x1f0-?]{0,256}[\x00-\x17\x19\x1c-\x1f -/]{0,16}"
_PLAIN = r"(?![\[\]PX^_])[ -/]{0,16}"
_OSC = r"\][^\x07\x18\x1a\x1b\x9c]*"
_OTHER_STRING = r"[PX^_][^\x18\x1a\x1b\x9c]*"
_TOKEN = re.compile(
    rf"\x1b{_USUAL_CSI}"
    r"|[^\x00-\x1f\x7f-\x9f]+"
    rf"|\x1b{_CSI}[@-~]"
    rf"|\x1b{_OSC}(?:\x07|\x1b\\|\x9c|(?=[\x18\x1a]|\x1b[^\\]))"
    rf"|\x1b{_OTHER_STRING}(?:\x1b\\|\x9c|(?=[\x18\x1a]|\x1b[^\\]))"
    rf"|\x1b{_PLAIN}[0-~]"
    r"|[\x00-\x1a\x1c-\x1f\x7f-\x9f]"
    rf"|\x1b(?:{_OSC}\x1b?|{_OTHER_STRING}\x1b?|{_CSI}|{_PLAIN})"  # cut off by the end of the data, or malformed
)
_UNFINISHED = re.compile(rf"\x1b(?:{_CSI}|{_OSC}\x1b?|{_OTHER_STRING}\x1b?|{_PLAIN})\Z")
_STRING_END = {"]": re.compile(r"[\x07\x18\x1a\x1b\x9c]")} | dict.fromkeys("PX^_", re.compile(r"[\x18\x1a\x1b\x9c]"))
_CONTROLS = re.compile(r"[\x00-\x1a\x1c-\x1f]")


class Sequence(Struct, frozen=True):
    """A parsed escape sequence. `kind` is `[` (CSI), `]` (OSC), `P`, `X`, `^`, `_` (other control strings) or "" for
    any other sequence.

    For CSI, `prefix` is one of `<=>?` or "", `middle` has the intermediate characters, and `final` is the character
    that names the function. For OSC and other control strings, `parameters` has the content, without the terminator.
    """

    kind: str
    parameters: str = ""
    prefix: str = ""
    middle: str = ""
    final: str = ""


class Tokenizer:
    """Splits its input into units. The units do not depend on how the input is divided into pieces, except that a run
    of text may be divided."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._string: str | None = None  # the kind of the control string that we are in
        self._pieces: list[str] = []
        self._length = 0

    def feed(self, data: bytes) -> list[str]:
        """Return the units that are complete now. A unit that begins with ESC is a whole escape sequence, which `read`
        can parse."""
        text = self._decoder.decode(data)
        if self._held:
            text, self._held = self._held + text, ""
        done: list[str] = []
        if self._string is not None:
            text = self._continue_string(text, done)
        found: list[str] = _TOKEN.findall(text)
        if found and found[-1][0] == "\x1b":
            self._keep_incomplete(found)
        return done + found if done else found

    def _keep_incomplete(self, found: list[str]) -> None:
        """Remove the last unit from `found` and keep it for the next call, if it is incomplete."""
        last = found[-1]
        if not is_unfinished(last):
            return
        found.pop()
        if last[1:2] and last[1] in "]PX^_":
            if last[-1] == "\x1b":  # its terminator may be cut in two
                last, self._held = last[:-1], "\x1b"
            self._open_string(last)
        else:
            self._held = last

    def _open_string(self, text: str) -> None:
        self._string, self._pieces, self._length = text[1], [], 0
        self._add_piece(text)

    def _add_piece(self, piece: str) -> None:
        self._length += len(piece)
        if self._length <= KEPT_CHARACTERS:
            self._pieces.append(piece)
        else:
            self._pieces.clear()

    def _continue_string(self, text: str, done: list[str]) -> str:
        """Continue a control string with this text. If the string ends in it, add the string to `done`. Return the text
        after its end."""
        assert self._string is not None
        end = _STRING_END[self._string].search(text)
        if end is None:
            self._add_piece(text)
            if self._length > SKIPPED_CHARACTERS:
                self._string = None
            return ""
        at = end.start()
        if text[at] == "\x1b" and at + 1 == len(text):
            self._add_piece(text[:at])
            self._held = "\x1b"
            return ""
        self._add_piece(text[:at])
        after = at if text[at] in "\x18\x1a\x1b" else at + 1
        if text.startswith("\x1b\\", at):
            after = at + 2
        if self._length <= KEPT_CHARACTERS:
            done.append("".join(self._pieces) + "\x1b\\")
        self._string, self._pieces = None, []
        return text[after:]


def read(token: str) -> Sequence:
    """Return the parsed form of a unit that begins with ESC. A malformed unit gives a sequence without a final
    character."""
    kind = token[1:2]
    if kind == "[":
        body = _CONTROLS.sub("", token[2:])
        if not body or not "@" <= body[-1] <= "~":
            return Sequence("[")
        prefix = body[0] if body[0] in "<=>?" else ""
        content = body[len(prefix) : -1]
        parameters = content.rstrip(" !\"#$%&'()*+,-./")
        return Sequence("[", parameters, prefix, content[len(parameters) :], body[-1])
    if kind and kind in "]PX^_":
        if len(token) > KEPT_CHARACTERS:
            return Sequence(kind)
        content = token[2:]
        for terminator in ("\x1b\\", "\x9c", "\x07"):
            if content.endswith(terminator) and (kind == "]" or terminator != "\x07"):
                return Sequence(kind, content[: -len(terminator)])
        return Sequence(kind, content)
    return Sequence("", middle=token[1:-1], final=token[-1]) if len(token) > 1 else Sequence("")


def is_unfinished(token: str) -> bool:
    """Return whether this unit is an escape sequence without its end. A character behind it may be taken for a part of
    it."""
    return _UNFINISHED.match(token) is not None


def controls(token: str) -> str:
    """Return the control characters inside a CSI sequence. A terminal carries them out before the sequence."""
    return "".join(_CONTROLS.findall(token))
