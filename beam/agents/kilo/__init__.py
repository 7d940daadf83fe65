"""The adapter of Kilo Code's CLI, which is OpenCode under another name: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.base import Card, Exec, Rules
from beam.agents.opencode import acp
from beam.agents.opencode.rules import ENFORCED
from beam.agents.opencode.run import FACE, Run
from beam.model.autoloaded import AutoloadedFile

__all__ = ["card", "dialogue", "exec", "tool_rules"]

_CONFIGS = ("kilo.json", "kilo.jsonc", "opencode.json", "opencode.jsonc")
_INNER = (*_CONFIGS, "config.json", "package.json", "plugin", "plugins", "tool", "tools")
_READ = (*_CONFIGS, *(f"{folder}/{name}" for folder in (".kilo", ".kilocode", ".opencode") for name in _INNER))

card = Card(
    name="kilo",
    summary="Kilo Code's CLI",
    executable="kilo",
    install="npm install -g @kilocode/cli",
    versions=("7.7.7",),
    obeys=tuple(AutoloadedFile(path=path, at=("full",), reach="upward") for path in _READ),
    faces={"exec": FACE, "dialogue": acp.FACE},
    makes=dict.fromkeys(
        (
            "XDG_CACHE_HOME/kilo",
            "XDG_CONFIG_HOME/kilo",
            "XDG_DATA_HOME/kilo",
            "XDG_STATE_HOME/kilo",
            "XDG_STATE_HOME/kilo-sandbox-policy",
        )
    ),
    writes=("XDG_CACHE_HOME/kilo", "XDG_DATA_HOME/kilo", "XDG_STATE_HOME/kilo", "XDG_STATE_HOME/kilo-sandbox-policy"),
    by_name=("dialogue",),
    figures_in_files=True,
)
dialogue = acp.Talk("kilo", "KILO", usual="code")
exec: Exec | None = Run("kilo", "KILO", usual="code")
tool_rules: Rules = ENFORCED
