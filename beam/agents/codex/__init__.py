"""Codex: its card and its modes."""

from __future__ import annotations

from msgspec import structs

from beam.agents.base import Capabilities, Card
from beam.agents.codex import dialogue, exec, history, screen, tool_rules

__all__ = ["card", "dialogue", "exec", "tool_rules", "terminal", "transcripts"]

terminal, transcripts = screen, history

_HEADLESS = Capabilities(
    resume=True,
    fork=True,
    model=True,
    system=True,
    schema=True,
    tools=True,
    interrupt=True,
    edits=True,
    whole=True,
    tokens=True,
    attach="path",
    access=("read", "edit", "full"),
    outbox=("edit", "full"),
)
card = Card(
    name="codex",
    summary="Codex, OpenAI's coding agent",
    executable="codex",
    install="npm install -g @openai/codex",
    versions=("0.171.0",),
    obeys=dict.fromkeys(("exec", "dialogue", "terminal"), exec.OBEYS),
    faces={
        "exec": _HEADLESS,
        "dialogue": structs.replace(
            _HEADLESS,
            rewind=True,
            deltas=True,
            ask=True,
            steer=True,
            commands=True,
            access=("read", "ask", "edit", "full"),
        ),
        "terminal": Capabilities(
            resume=True,
            model=True,
            system=True,
            tools=True,
            interrupt=True,
            edits=True,
            whole=True,
            tokens=True,
            calls=True,
            ask=True,
            access=("read", "ask", "edit", "full"),
        ),
    },
    own_sandbox=True,
    by_name=("dialogue",),
    ends_at_denial=("terminal",),
)
