"""Escapes agents' texts for a report, so that no character can end the format around the text or control the reader's
terminal."""

from __future__ import annotations

import re

# C0 except newline and tab, DEL, C1, characters that change the direction of text, and characters that XML forbids.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\u206a-\u206f\ud800-\udfff\ufffe\uffff]"
)


def plain(text: str) -> str:
    """Return the text with a visible sign (such as `␛`) in place of each control character and each character that
    changes the direction of text. Line breaks and tabs stay."""
    return _UNSAFE.sub(_visible_sign, text.replace("\r\n", "\n"))


def _visible_sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def cut(text: str, most: int) -> str:
    """Return the text shortened to about `most` characters: its beginning and its end, with a note between them."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n… {len(text) - most} characters are left out …\n{text[-(most // 2) :]}"
