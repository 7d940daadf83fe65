"""Markdown as the documentation tests need it: fenced blocks, generated parts, links. No library, no rendering."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?:<!-- ([^>]*) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PART = re.compile(r"(<!-- made: ([\w.-]+) -->\n)(.*?)(<!-- /made -->)", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block; `note` is the comment on the line before it."""

    note: str
    language: str
    text: str


def blocks(markdown: str, language: str) -> list[Block]:
    """The fenced blocks of that language, in order."""
    found = (Block(match[1] or "", match[2], match[3]) for match in _FENCE.finditer(markdown))
    return [block for block in found if block.language == language]


def parts(markdown: str) -> dict[str, str]:
    """The generated parts: what stands between `<!-- made: NAME -->` and `<!-- /made -->`."""
    return {match[2]: match[3] for match in _PART.finditer(markdown)}


def with_parts(markdown: str, made: Mapping[str, str]) -> str:
    """The text with its generated parts made anew."""
    return _PART.sub(lambda match: f"{match[1]}{made[match[2]]}{match[4]}", markdown)


def rows(markdown: str) -> Iterator[list[str]]:
    """The cells of every table row but heads and rules; a `\\|` is part of a cell."""
    lines = markdown.splitlines()
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not line.startswith("|---") and not following.startswith("|---"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def shell_lines(markdown: str) -> list[str]:
    """The lines of its `sh` blocks that call beam, without those that go on from the line before."""
    lines = [line for block in blocks(markdown, "sh") for line in block.text.splitlines()]
    return [line for line in lines if re.search(r"(?:^|[ (])beam ", line.partition(" #")[0])]


def broken_links(file: Path) -> list[str]:
    """Relative links of the file that lead to no file, or to no heading of one."""
    text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
    broken = []
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (file.parent / path).resolve() if path else file
        if not there.exists() or (anchor and anchor not in _anchors(there)):
            broken.append(target)
    return broken


def _anchors(file: Path) -> set[str]:
    heads = _HEADING.findall(re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
