"""What agents said, as a part of another agent's prompt: every line of it begins with `| `, whatever it says.

So a line without that mark is beam's own or the person's, and no text can pass for one. Pure: text in, lines out.
"""

from __future__ import annotations

import unicodedata

MARK = "| "


def marked(line: str) -> str:
    """Return the line as one of a quote."""
    return f"{MARK}{line}".rstrip()


def quoted(text: str) -> str:
    """Return the text as lines of a quote."""
    return "\n".join(marked(clean(line)) for line in text.splitlines()) or marked("")


def clean(line: str) -> str:
    """Return the line without characters that could begin another line, hide a part of this one, or move the cursor of
    a screen."""
    return "".join(_shown(character) for character in line)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    kind = unicodedata.category(character)
    if character == "\t" or kind == "Zs":
        return " "
    return "" if kind == "Cf" else "\N{REPLACEMENT CHARACTER}"
