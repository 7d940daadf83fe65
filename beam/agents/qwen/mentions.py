"""Tells how headless Qwen Code changes a prompt: it takes words with @ for file names.

No flag prevents this. A backslash prevents it, but would reach the model too. Each such word gets a space before it,
blanks between two of them are removed, and the file's content is added if the file exists.
"""

from __future__ import annotations

import re

_MENTION = re.compile(r"(?<!\\)@(?:\\[\s\S]|\.(?=[^\s])|[^,\s;!?()\[\]{}.\\])*")
_ESCAPED_CHARACTER = re.compile(r"\\([ \t()\[\]{};|*?$`'\"#&<>!~])")


def change_notice(text: str) -> str:
    """Return the notice for a prompt that qwen changes before it reaches the model; "" for any other prompt."""
    if "@" not in text or text_as_received(text) == text.strip():
        return ""
    words = ", ".join(dict.fromkeys(word[:40] for word in _MENTION.findall(text)))
    return f"qwen takes words with @ for files, and changes the blanks around them: {words[:200]}"


def text_as_received(text: str) -> str:
    """Return the text that the model receives if none of the files exists."""
    made, position = "", 0
    for found in _MENTION.finditer(text):
        before = text[position : found.start()]
        made += before if before.strip() else ""
        made += " " if made and not made.endswith(" ") else ""
        made += _ESCAPED_CHARACTER.sub(r"\1", found[0])
        position = found.end()
    rest = text[position:]
    return (made + (rest if rest.strip() else "")).strip()
