"""Maps each access to the flags and permission modes of a Claude Code process that asks beam. No other module of the
dialogue mode gives the process rights.

The accesses are `ask` and those of headless mode. With an access other than `ask`, nobody is asked: beam denies every
request that no rule allows.
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
_QUESTION_TOOLS = ("AskUserQuestion",)  # nobody can answer its questions here
_PLAN_TOOLS = ("EnterPlanMode", "ExitPlanMode")  # as in headless mode: nobody can agree to a plan


def permission_mode(turn: Turn) -> str:
    """Return the permission mode of a turn's process. If rules may allow more than `read` does, claude asks beam
    about each call that it would otherwise deny."""
    return _MODES["ask" if tool_rules.asks_beam(turn) else turn.access]


def flags(turn: Turn) -> tuple[str, ...]:
    """Return the flags for a turn's access and rules. Rules that allow are left out, because beam itself applies them.
    Raises UnsupportedError."""
    if turn.access not in ACCESS:
        raise UnsupportedError(f"claude has no access {turn.access!r}", subject=turn.access)
    words = list(ACCESS[turn.access])
    words[words.index("--permission-mode") + 1] = permission_mode(turn)
    return tool_rules.flags(words, turn, ("deny", "ask"))


def disallowed_tools_flag(access: Access) -> tuple[str, ...]:
    """Return the flag that disables the tools that ask the user something which nobody can answer with this access."""
    return ("--disallowedTools", ",".join(_QUESTION_TOOLS if access == "ask" else (*_QUESTION_TOOLS, *_PLAN_TOOLS)))


LIVE_MODES = ("default", "plan")  # of a running process: the mode of its access, and one that only plans
_LIVE_ACCESSES: dict[Access, tuple[Access, ...]] = {
    "read": ("read",),  # the process was started with tools and settings that only read
    "ask": ("ask", "edit"),
    "edit": ("ask", "edit"),
    "full": ("ask", "edit", "full"),
}


def live_access(first: Access, wanted: str) -> Access | None:
    """Return the access `wanted` if a process that began with `first` can be given it while it lives; else None."""
    return next((access for access in _LIVE_ACCESSES[first] if access == wanted), None)


def live_mode(first: Turn, access: Access) -> str:
    """Return the permission mode of a process that began with the turn `first` and now has this access."""
    return permission_mode(first) if access == first.access else _MODES[access]


def setting_not_applied(turn: Turn, answer: Object) -> str:
    """Return the requested setting that claude did not apply, according to its answer to `initialize`; "" if claude
    applied all settings, or is too old to report them."""
    wanted = permission_mode(turn)
    return "" if answer.get("current_permission_mode", wanted) == wanted else f"the permission mode {wanted}"


def session_permissions(suggestions: list[Object]) -> list[Object]:
    """Return claude's suggestions for "always allow", limited to this session: rules for the call if there are any,
    else the wider suggestions. A suggestion to change the permission mode is kept only for `acceptEdits`."""
    found = [{**each, "destination": "session"} for each in suggestions if _is_harmless(each)]
    return [each for each in found if each["type"] == "addRules"] or found


def _is_harmless(suggested: Object) -> bool:
    kind = string(suggested, "type")
    if kind == "setMode":
        return suggested.get("mode") == "acceptEdits"
    if kind == "addRules":
        return suggested.get("behavior") == "allow"
    return kind == "addDirectories"
