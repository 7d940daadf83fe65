"""Decides whether a turn runs by the agent's own protocol although nobody named that mode: if its process stays for the
next turn, and the protocol has all that the message wants.

Does not depend on how a turn is run. Reads nothing and starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from beam.agents.base import Adapter
from beam.agents.options import OPTIONS
from beam.agents.ruled import enforced
from beam.model.message import Access, Options
from beam.model.settings import AgentSettings
from beam.rules.rule import Rule

BY_AUTO = (None, "auto")
KEPT = "its process stays for the next message"
NOT_KEPT = "its process ends with the turn"
ASKS = "it asks only over its protocol"


def asked_of(options: Options, settings: AgentSettings, *, attaches: bool) -> list[str]:
    """Return what a message with these options, and the settings, ask of a mode, as keys of `agents.options.OPTIONS`.
    `attaches`: it has files."""
    asked = {
        "schema": bool(options.schema or settings.schema),
        "max_turns": (options.max_turns or settings.max_turns) is not None,
        "budget": (options.budget_usd or settings.budget_usd) is not None,
        "model": (options.model or settings.model) is not None,
        "attach": attaches,
        "system": settings.system is not None,
        "commands": options.slash is True,
    }
    return [option for option, is_asked in asked.items() if is_asked]


def why_not_kept(
    adapter: Adapter,
    options: Options,
    settings: AgentSettings,
    access: Access,
    rules: Sequence[Rule] = (),
    *,
    attaches: bool = False,
) -> str:
    """Return why a turn with these options can't run by the agent's own protocol without being asked to; "" if it
    can."""
    card = adapter.card
    can, headless = card.faces.get("dialogue"), card.faces.get("exec")
    if can is None:
        return "it has no protocol"
    if "dialogue" in card.never_auto:
        return "its protocol is used only where it is named"
    if options.once:
        return "a throw-away session has no next turn"
    if options.model_calls is not UNSET or options.max_tokens is not UNSET:
        return "the turn has a proxy of its own"
    lacking = [OPTIONS[option] for option in asked_of(options, settings, attaches=attaches) if not getattr(can, option)]
    if lacking:
        return f"its protocol has no way to do {', '.join(lacking)}"
    if can.access and access not in can.access:
        return f"its protocol can't enforce access {access}"
    if headless is not None and access in headless.outbox and access not in can.outbox:
        return "over its protocol it could send no messages"
    for rule in rules:
        if not enforced(adapter, rule, "dialogue", access).by:
            return f"over its protocol it can't be held to the rule `{rule}`"
    return ""
