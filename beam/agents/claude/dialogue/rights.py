"""What each access means to a process of Claude Code that asks beam; the only place of this face that gives it rights.

They are those of a headless turn, in which nobody is asked, and `ask`. Whatever is asked below `ask` beam denies.
"""

from __future__ import annotations

from beam.agents.base import Turn
from beam.agents.claude import exec as headless
from beam.agents.claude import tool_rules
from beam.agents.fields import Object, string
from beam.base.errors import UnsupportedError
from beam.model.message import Access

ACCESS: dict[Access, tuple[str, ...]] = {**headless.ACCESS, "ask": ("--permission-mode", "default")}
_MODES: dict[Access, str] = {access: words[words.index("--permission-mode") + 1] for access, words in ACCESS.items()}
_QUESTIONS = ("AskUserQuestion",)  # nobody can give its answers here
_PLANS = ("EnterPlanMode", "ExitPlanMode")  # as headless, where nobody can agree to a plan


def mode(turn: Turn) -> str:
    """Return the permission mode of a turn's process. With rules that may let more through than `read` does, it asks
    beam about all that `read` would have it deny."""
    return _MODES["ask" if tool_rules.asks_beam(turn) else turn.access]


def flags(turn: Turn) -> tuple[str, ...]:
    """Return the flags of a turn's access and rules; what is allowed beam decides. Raises UnsupportedError."""
    if turn.access not in ACCESS:
        raise UnsupportedError(f"claude has no access {turn.access!r}", subject=turn.access)
    words = list(ACCESS[turn.access])
    words[words.index("--permission-mode") + 1] = mode(turn)
    return tool_rules.flags(words, turn, ("deny", "ask"))


def without_tools(access: Access) -> tuple[str, ...]:
    """Return the flag that takes away the tools which claude has only where somebody answers, and nobody does."""
    return ("--disallowedTools", ",".join(_QUESTIONS if access == "ask" else (*_QUESTIONS, *_PLANS)))


def denied(turn: Turn, answer: Object) -> str:
    """Return what claude did not take over, as it answers to `initialize`; "" if it took all, or is too old to tell."""
    wanted = mode(turn)
    return "" if answer.get("current_permission_mode", wanted) == wanted else f"the permission mode {wanted}"


def for_the_session(suggestions: list[Object]) -> list[Object]:
    """Return what claude suggests to allow for ever as what it is to allow in this session alone; rules for the call
    if it suggests any, else the wider ones. Never more than the mode that edits files.
    """
    found = [{**each, "destination": "session"} for each in suggestions if _is_harmless(each)]
    return [each for each in found if each["type"] == "addRules"] or found


def _is_harmless(suggested: Object) -> bool:
    kind = string(suggested, "type")
    if kind == "setMode":
        return suggested.get("mode") == "acceptEdits"
    if kind == "addRules":
        return suggested.get("behavior") == "allow"
    return kind == "addDirectories"
