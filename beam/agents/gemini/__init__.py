"""The adapter of Gemini CLI: its description (`card`) and its modes."""

from __future__ import annotations

from msgspec import structs

from beam.agents.acp.face import ACP_CAPABILITIES
from beam.agents.base import Capabilities, Card
from beam.agents.gemini import dialogue, exec, history, screen, tool_rules

__all__ = ["card", "dialogue", "exec", "terminal", "tool_rules", "transcripts"]

terminal, transcripts = screen, history

card = Card(
    name="gemini",
    summary="Gemini CLI, Google's coding agent",
    executable="gemini",
    install="npm install -g @google/gemini-cli",
    versions=("0.61.0",),
    obeys=dict.fromkeys(("exec", "dialogue", "terminal"), exec.OBEYS),
    faces={
        "exec": Capabilities(
            resume=True,
            model=True,
            deltas=True,
            tools=True,
            interrupt=True,
            edits=True,
            tokens=True,
            models=True,
            denials=True,
            attach="path",
            access=("read", "edit", "full"),
            outbox=("edit", "full"),
        ),
        "dialogue": structs.replace(
            ACP_CAPABILITIES, tokens=True, calls=True, access=("read", "ask", "edit", "full"), outbox=("edit", "full")
        ),
        "terminal": Capabilities(
            resume=True,
            model=True,
            tools=True,
            interrupt=True,
            edits=True,
            tokens=True,
            calls=True,
            models=True,
            ask=True,
            access=("read", "ask", "edit", "full"),
        ),
    },
    figures_in_files=True,  # over its protocol it counts cached tokens as input, and leaves out thoughts
    makes=dict.fromkeys(("HOME/.gemini",)),
    by_name=("dialogue",),
    never_auto=("dialogue",),  # over its protocol, a session continues in one process only
)
