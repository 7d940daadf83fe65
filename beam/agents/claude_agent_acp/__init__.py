"""`claude-agent-acp`: Claude Code behind its adapter for the Agent Client Protocol. Its card and its only mode."""

from __future__ import annotations

from beam.agents import claude
from beam.agents.acp.face import AskRules
from beam.agents.base import Card, Exec, Rules
from beam.agents.claude_agent_acp import dialogue
from beam.model.autoloaded import AutoloadedFile

__all__ = ["card", "dialogue", "exec", "tool_rules"]

# Beside the session, the adapter runs `claude auth status` in the folder. If that is ended early, it runs the hooks of
# these settings, and no option of a session keeps it from that.
_SETTINGS = (".claude/settings.json", ".claude/settings.local.json")
OBEYS = (
    *(AutoloadedFile(path=path, reach="worktree") for path in _SETTINGS),
    *(one for one in claude.card.obeys["dialogue"] if one.path not in _SETTINGS),
)

card = Card(
    name="claude-agent-acp",
    summary="Claude Code by its adapter for the Agent Client Protocol",
    executable="claude-agent-acp",
    install="npm install -g @agentclientprotocol/claude-agent-acp (it needs Node.js 22 or newer)",
    versions=("0.101.0",),
    obeys={"dialogue": OBEYS},
    faces={"dialogue": dialogue.CAPABILITIES},
    makes=claude.card.makes,
)
exec: Exec | None = None
# At `ask` the person's own settings may allow some calls unasked.
tool_rules: Rules = AskRules(beyond={"ask": ("Bash", "Edit", "WebFetch")}, always={"read": ("Bash", "Edit")})
