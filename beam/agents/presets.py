"""Agent CLIs that were never tested: they are listed as unverified, without modes and capabilities.

Each of them is an `Adapter`, which the registry calls `beam.agents.presets:NAME`. The facts about a CLI are from its
own help. A person can use it through a `command` agent.
"""

from __future__ import annotations

from msgspec import Struct

from beam.agents.base import Card, Exec


class Preset(Struct, frozen=True, kw_only=True):
    """An adapter that is only listed, and can't run turns."""

    card: Card
    exec: Exec | None = None


def _preset(name: str, summary: str, command: str, why: str) -> Preset:
    """Return a preset. `command` is the YAML of a headless call, for a `command` agent; `why` says what prevented a
    test."""
    use = f"as an agent of your own it may work: `command: {command}` in beam.yaml (docs/command.md)"
    return Preset(card=Card(name=name, summary=summary, version_argv=(), faces={}, unverified=f"{why}; {use}"))


cursor_agent = _preset(
    "cursor-agent", "Cursor's CLI", '[cursor-agent, -p, "{prompt}"]', "its installer is no package of a registry"
)
amp = _preset(
    "amp", "Amp, Sourcegraph's agent", '[amp, -x, "{prompt}"]', "its native package can't be installed for a test"
)
goose = _preset("goose", "Goose, Block's agent", "[goose, run, -i, -]", "no registry ships it")
droid = _preset(
    "droid", "Droid, Factory's agent", '[droid, exec, "{prompt}"]', "it needs a login before its first answer"
)
auggie = _preset(
    "auggie", "Auggie, Augment's CLI", '[auggie, -p, "{prompt}"]', "it needs a login before its first answer"
)
crush = _preset(
    "crush", "Crush, Charm's agent", '[crush, run, "{prompt}"]', "its package fetches its binary from elsewhere"
)
kiro_cli = _preset(
    "kiro-cli",
    "Kiro's CLI",
    '[kiro-cli, chat, --no-interactive, "{prompt}"]',
    "its installer is no package of a registry",
)
trae_cli = _preset(
    "trae-cli", "Trae Agent's CLI", '[trae-cli, run, "{prompt}"]', "its installer is no package of a registry"
)
