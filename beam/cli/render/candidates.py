"""A root that may be adopted, as text: everything in it that would run. Terminal control characters are replaced."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from beam.cli.render.text import collapse_to_line, escape_controls

if TYPE_CHECKING:
    from beam import Candidate, Finding, Waiting


def lines(candidate: Candidate) -> Iterator[str]:
    """Yield the lines that show a root which may be adopted."""
    yield collapse_to_line(f"{os.fsencode(candidate.root).decode(errors='backslashreplace')}: {candidate.why}")
    for agent in candidate.agents:
        yield from _agent_lines(agent)


def _agent_lines(found: Finding) -> Iterator[str]:
    yield f"  {found.agent}" + (": this folder has an agent of that name, so it stays there" if found.taken else "")
    for line in _safe_lines(found.settings or ""):
        yield f"    agent.json: {line}"
    if found.session is not None:
        yield f"    goes on in the session {collapse_to_line(found.session)}"
    for message in found.waiting:
        yield f"    {_message_head(message)}:"
        for name, value in message.more.items():
            yield f"      {collapse_to_line(name)}: {collapse_to_line(json.dumps(value, ensure_ascii=False))}"
        for line in _safe_lines(message.text):
            yield f"      | {line}"


def _message_head(message: Waiting) -> str:
    access = f", with access {message.access}" if message.access is not None else ""
    attach = f", attaching {', '.join(message.attach)}" if message.attach else ""
    return collapse_to_line(f"waits, from {message.sender}{access}{attach}")


def _safe_lines(text: str) -> list[str]:
    return [escape_controls(line) for line in text.splitlines()]
