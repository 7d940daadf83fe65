"""The adapter of Claude Code: its description (`card`) and its modes."""

from __future__ import annotations

from msgspec import structs

from beam.agents.base import Capabilities, Card, Remembers
from beam.agents.claude import dialogue, exec, screen, tool_rules

__all__ = ["card", "dialogue", "exec", "tool_rules", "terminal", "transcripts"]

terminal = transcripts = screen

_HEADLESS = Capabilities(
    resume=True,
    fork=True,
    rewind=True,
    model=True,
    system=True,
    schema=True,
    max_turns=True,
    budget=True,
    deltas=True,
    tools=True,
    interrupt=True,
    edits=True,
    whole=True,
    tokens=True,
    cost=True,
    denials=True,
    calls=True,
    models=True,
    api_time=True,
    commands=True,
    attach="path",
    access=("read", "edit", "full"),
    outbox=("edit", "full"),
)
card = Card(
    name="claude",
    summary="Claude Code, Anthropic's coding agent",
    executable="claude",
    install="npm install -g @anthropic-ai/claude-code",
    versions=("2.1.332",),
    obeys=dict.fromkeys(("exec", "dialogue", "terminal"), exec.OBEYS),
    remembers=(Remembers(path=".claude/settings.local.json", keys=("permissions", "allow"), most=5),),
    faces={
        "exec": _HEADLESS,
        "dialogue": structs.replace(
            _HEADLESS, checkpoints=True, ask=True, steer=True, changes=True, access=("read", "ask", "edit", "full")
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
            models=True,
            commands=True,
            ask=True,
            access=("read", "ask", "edit", "full"),
        ),
    },
    makes={"HOME/.claude": None, "HOME/.claude.json": "{}\n"},
    by_name=("dialogue",),
    teams=True,
    ends_at_denial=("terminal",),
)
