"""A conversation as Markdown. Text of an agent is quoted, so that it can't pass for a heading of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from beam import transcripts
from beam.cli.render import transcript_text as words
from beam.cli.render.text import collapse_to_line, escape_controls

_SPECIAL = re.compile(r"([\\`*_\[\]<>&#|~])")
_TICKS = re.compile("`+")


def markdown(found: transcripts.Transcript) -> str:
    """Return the Markdown page. Text of agents and people is quoted as it was written; only control characters are
    replaced."""
    return "\n".join(_page(found)).rstrip("\n") + "\n"


def _page(found: transcripts.Transcript) -> Iterator[str]:
    yield f"# {_plain(found.agent)}\n"
    for turn in found.turns:
        yield f"## {words.title(turn)}\n"
        if head := words.turn_line(turn):
            yield f"{_plain(head)}\n"
        if turn.prompt:
            yield f"**Prompt**\n\n{_quote(turn.prompt)}\n"
        for item in words.items(turn):
            yield from _item(item)
        if ended := words.end_line(turn):
            yield f"*{_plain(ended)}*\n"


def _item(item: transcripts.Item) -> Iterator[str]:
    of = " (subagent)" if item.parent else ""
    if item.kind in ("text", "thinking", "plan"):
        name = {"text": "Answer", "thinking": "Thinking", "plan": "Plan"}[item.kind]
        text = _fenced(item.text) if item.kind == "plan" else _quote(item.text)
        yield f"**{name}**{of}\n\n{text}\n"
        return
    shown = words.details(item) if item.kind in ("tool", "ask") else []
    line = _plain(words.summary(item)) + of
    if not shown:
        yield f"- {line}\n"
        return
    yield f"<details><summary>{line}</summary>\n"
    for text in shown:
        yield f"{_fenced(text)}\n"
    yield "</details>\n"


def _plain(text: str) -> str:
    """Return the text on one line, with all characters escaped that are markup in Markdown."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", collapse_to_line(text))


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in escape_controls(text).strip("\n").split("\n"))


def _fenced(text: str) -> str:
    """Return the text as a fenced code block. The fence is longer than any run of backticks in the text."""
    text = escape_controls(text).strip("\n")
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}\n{text}\n{fence}"
