"""`codex-acp`: Codex behind its adapter for the Agent Client Protocol. Its card and its only mode."""

from __future__ import annotations

from beam.agents.acp.face import AskRules
from beam.agents.base import Card, Exec, Rules
from beam.agents.codex_acp import dialogue
from beam.model.autoloaded import AutoloadedFile

__all__ = ["card", "dialogue", "exec", "tool_rules"]

card = Card(
    name="codex-acp",
    summary="Codex by its adapter for the Agent Client Protocol",
    executable="codex-acp",
    install="npm install -g @agentclientprotocol/codex-acp (it needs Node.js 22 or newer)",
    versions=("2.6.0",),
    obeys={"dialogue": (AutoloadedFile(path=".codex", reach="worktree"),)},  # it tells Codex that the folder is trusted
    faces={"dialogue": dialogue.CAPABILITIES},
    own_sandbox=True,
    ends_at_denial=("dialogue",),
)
exec: Exec | None = None
# At `ask` Codex does not ask about a call that its sandbox or the person's own rules allow.
tool_rules: Rules = AskRules(beyond={"ask": ("Bash", "Edit")})
