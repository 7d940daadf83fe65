"""Agent CLIs that were never tested: listed as unverified, with no mode and no capability claimed.

Each is an `Adapter` by its names, in the registry as `beam.agents.presets:NAME`. Everything known about them is from
their own help; they can be used through a `command` agent.
"""

from __future__ import annotations

from msgspec import Struct

from beam.agents.base import Card, Exec


class Preset(Struct, frozen=True, kw_only=True):
    """An adapter that is only listed."""

    card: Card
    exec: Exec | None = None


def _preset(name: str, summary: str, command: str, why: str) -> Preset:
    """Return a preset. `command` is a headless call as a `command` agent's YAML; `why` says what prevented a test."""
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
