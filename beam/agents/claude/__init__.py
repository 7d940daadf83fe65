"""The adapter of Claude Code: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.base import Capabilities, Card, Remembers
from beam.agents.claude import dialogue, exec, screen, tool_rules

__all__ = ["card", "dialogue", "exec", "tool_rules", "terminal", "transcripts"]

terminal = transcripts = screen

card = Card(
    name="claude",
    summary="Claude Code, Anthropic's coding agent",
    executable="claude",
    install="npm install -g @anthropic-ai/claude-code",
    versions=("2.1.330",),
    obeys=exec.OBEYS,
    remembers=(Remembers(path=".claude/settings.local.json", keys=("permissions", "allow"), most=5),),
    faces={
        "exec": Capabilities(
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
        ),
        "dialogue": Capabilities(
            resume=True,
            fork=True,
            rewind=True,
            checkpoints=True,
            model=True,
            system=True,
            schema=True,
            max_turns=True,
            budget=True,
            deltas=True,
            tools=True,
            interrupt=True,
            ask=True,
            steer=True,
            changes=True,
            tokens=True,
            cost=True,
            denials=True,
            calls=True,
            models=True,
            api_time=True,
            commands=True,
            attach="path",
            access=("read", "ask", "edit", "full"),
            outbox=("edit", "full"),
        ),
        "terminal": Capabilities(
            resume=True,
            model=True,
            system=True,
            tools=True,
            interrupt=True,
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
)
