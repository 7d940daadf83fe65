"""Quotes the texts of agents in the prompt of another agent: every line of a quote begins with `| `, whatever its text
is.

So a line without that mark is by beam or by the person, and no quoted text can pass for such a line. Pure: text in,
lines out.
"""

from __future__ import annotations

import unicodedata

MARK = "| "


def marked(line: str) -> str:
    """Return the line with the mark of a quote before it."""
    return f"{MARK}{line}".rstrip()


def quoted(text: str) -> str:
    """Return the text with the mark of a quote before each line."""
    return "\n".join(marked(clean(line)) for line in text.splitlines()) or marked("")


def clean(line: str) -> str:
    """Return the line without characters that could begin another line, hide a part of this one, or move the cursor of
    a screen."""
    return "".join(_safe_character(character) for character in line)


def _safe_character(character: str) -> str:
    if character.isprintable():
        return character
    kind = unicodedata.category(character)
    if character == "\t" or kind == "Zs":
        return " "
    return "" if kind == "Cf" else "\N{REPLACEMENT CHARACTER}"
