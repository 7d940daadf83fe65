"""The adapters that beam knows: name -> module (or module:name in it), imported on first use.

A new agent is one line here.
"""

from __future__ import annotations

import importlib
from typing import cast

from beam.agents.base import Adapter
from beam.base.errors import NotFoundError

ADAPTERS = {
    "claude": "beam.agents.claude",
    "codex": "beam.agents.codex",
    "gemini": "beam.agents.gemini",
    "opencode": "beam.agents.opencode",
    "kilo": "beam.agents.kilo",
    "qwen": "beam.agents.qwen",
    "aider": "beam.agents.aider",
    "pi": "beam.agents.pi",
    "kimi": "beam.agents.kimi",
    "copilot": "beam.agents.copilot",
    "cn": "beam.agents.cn",
    "cline": "beam.agents.cline",
    "vibe": "beam.agents.vibe",
    "python": "beam.agents.python",
    "bash": "beam.agents.bash",
    "command": "beam.agents.command",
    "scripted": "beam.agents.scripted",
    "mailbox": "beam.agents.mailbox",
    "amp": "beam.agents.presets:amp",
    "auggie": "beam.agents.presets:auggie",
    "crush": "beam.agents.presets:crush",
    "cursor-agent": "beam.agents.presets:cursor_agent",
    "droid": "beam.agents.presets:droid",
    "goose": "beam.agents.presets:goose",
    "kiro-cli": "beam.agents.presets:kiro_cli",
    "trae-cli": "beam.agents.presets:trae_cli",
}


def adapter(name: str) -> Adapter:
    """Return the adapter's module. Raises NotFoundError with the nearest name."""
    if name not in ADAPTERS:
        import difflib

        near = difflib.get_close_matches(name, ADAPTERS, 1)
        hint = f"did you mean {near[0]}?" if near else "beam agent list --all shows what there is"
        raise NotFoundError(f"no adapter is called {name!r}", hint, subject=name)
    module, _, attribute = ADAPTERS[name].partition(":")
    found = importlib.import_module(module)
    return cast(Adapter, getattr(found, attribute) if attribute else found)
