"""What headless Qwen Code makes of a prompt with @ in it, which it takes for the names of files.

No switch keeps it off, and only a backslash, which would reach the model too. Each such word gets a space before it,
blanks between two of them go, and the file, if the folder has it, is added.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"(?<!\\)@(?:\\[\s\S]|\.(?=[^\s])|[^,\s;!?()\[\]{}.\\])*")
_ESCAPED = re.compile(r"\\([ \t()\[\]{};|*?$`'\"#&<>!~])")


def changed(text: str) -> str:
    """What is said of a prompt that does not reach the model as it is; "" of one that does."""
    if "@" not in text or sent(text) == text.strip():
        return ""
    words = ", ".join(dict.fromkeys(word[:40] for word in _WORD.findall(text)))
    return f"qwen takes words with @ for files, and changes the blanks around them: {words[:200]}"


def sent(text: str) -> str:
    """What the model is sent where no such file is there."""
    made, position = "", 0
    for found in _WORD.finditer(text):
        before = text[position : found.start()]
        made += before if before.strip() else ""
        made += " " if made and not made.endswith(" ") else ""
        made += _ESCAPED.sub(r"\1", found[0])
        position = found.end()
    rest = text[position:]
    return (made + (rest if rest.strip() else "")).strip()
