"""The agent CLIs that beam is tested with, by what they can: a new adapter of the registry is among them by itself."""

from __future__ import annotations

from beam.agents import registry
from beam.agents.acp.conversation import AcpLink
from beam.agents.base import Host, Turn
from beam.agents.link import HasDialogue

_CARDS = {name: registry.adapter(name).card for name in registry.ADAPTERS}


def _speaks_acp(name: str) -> bool:
    adapter = registry.adapter(name)
    turn = Turn(text="", message_id="", agent=name)
    return isinstance(adapter, HasDialogue) and isinstance(adapter.dialogue.link(turn, Host()), AcpLink)


HEADLESS = tuple(name for name, card in _CARDS.items() if card.versions and "exec" in card.faces)
ACP = tuple(name for name, card in _CARDS.items() if card.versions and _speaks_acp(name))
IN_ARGV = tuple(name for name in HEADLESS if _CARDS[name].faces["exec"].prompt_in_argv)
RESUMES = tuple(name for name in HEADLESS if _CARDS[name].faces["exec"].resume)
