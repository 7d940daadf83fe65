"""The adapters that beam knows: name -> module (or module:name in it), imported on first use.

A new agent needs one more line in `ADAPTERS`. `NAMES` includes the adapters of other packages. These are looked up only
for a name that is not built in, because `importlib.metadata` costs 29 ms.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, cast

from beam.agents.base import Adapter
from beam.base.errors import NotFoundError, nearest

if TYPE_CHECKING:
    from beam.agents.session_files import Sessions

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
    "claude-agent-acp": "beam.agents.claude_agent_acp",
    "codex-acp": "beam.agents.codex_acp",
    "python": "beam.agents.python",
    "bash": "beam.agents.bash",
    "command": "beam.agents.command",
    "acp": "beam.agents.acp.anyone",
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

# The adapters whose CLIs keep sessions in files that beam reads. Each has a module `sessions` beside it.
WITH_SESSIONS = (
    "claude",
    "codex",
    "gemini",
    "opencode",
    "kilo",
    "qwen",
    "copilot",
    "aider",
    "pi",
    "kimi",
    "vibe",
    "cline",
    "cn",
)


class _Names(Collection[str]):
    """The names of all adapters, built-in ones first. Iteration looks up the adapters of other packages."""

    def __contains__(self, name: object) -> bool:
        if name in ADAPTERS or not isinstance(name, str):
            return name in ADAPTERS
        from beam.agents import third_party

        return third_party.is_offered(name)

    def __iter__(self) -> Iterator[str]:
        from beam.agents import third_party

        yield from ADAPTERS
        yield from third_party.names(ADAPTERS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


NAMES: Collection[str] = _Names()


def adapter(name: str) -> Adapter:
    """Return the adapter of this name. Raises NotFoundError with the nearest name, ConfigError for an unusable adapter
    of another package."""
    if name not in ADAPTERS:
        from beam.agents import third_party

        if third_party.is_offered(name):
            return third_party.load_adapter(name)
        near = nearest(name, NAMES)
        hint = f"did you mean {near}?" if near else "beam agent list --all shows what there is"
        raise NotFoundError(f"no adapter is called {name!r}", hint, subject=name)
    module, _, attribute = ADAPTERS[name].partition(":")
    found = importlib.import_module(module)
    return cast(Adapter, getattr(found, attribute) if attribute else found)


def sessions_of(name: str) -> Sessions:
    """Return the module `sessions` of an adapter in `WITH_SESSIONS`."""
    return cast("Sessions", importlib.import_module(f"{ADAPTERS[name]}.sessions"))


def ignored_entries() -> Iterator[tuple[str, str]]:
    """Yield the name of each adapter of another package that beam ignores, and the reason."""
    from beam.agents import third_party

    yield from third_party.ignored_entries(ADAPTERS)


def module_of(name: str) -> str:
    """Return the name of the adapter's module. Raises NotFoundError for an unknown adapter, ConfigError for an unusable
    one."""
    if name in ADAPTERS:
        return ADAPTERS[name].partition(":")[0]
    adapter(name)
    from beam.agents import third_party

    return third_party.module_of(name)
