"""Lists the rules of an agent, tries them on a call, adds and removes them. No tool is run."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct, structs

from beam.agents import registry
from beam.agents.base import Enforced, Face
from beam.agents.options import enforcer_of
from beam.api import manage
from beam.base.errors import NotFoundError, UnsupportedError
from beam.broker.inbox.build_request import MESSAGE_RULES_SOURCE
from beam.broker.inbox.context import RootContext
from beam.config.resolve import AGENT_JSON, ResolvedAgent
from beam.model.message import Access, RuleLists, check_name
from beam.model.settings import AgentSettings
from beam.rules.rule import Behavior, Rule, parse, parse_call
from beam.rules.ruleset import Ruleset, combine, rules_of
from beam.turns.asks import place_of
from beam.turns.choice import face_of, granted_access

_REASON_BY_ACCESS: dict[Access, str] = {
    "read": "access read decides: what only looks is allowed, the rest is denied",
    "edit": "access edit decides: what changes files of the folder is allowed, the rest is denied",
    "full": "access full allows it",
    "ask": "access ask decides: what only looks is allowed, about the rest a person is asked",
}


_REASON_BY_BEHAVIOR: dict[Behavior, str] = {
    "deny": "wins over all rules that ask or allow",
    "ask": "wins over all rules that allow; a person is asked, or where nobody can be asked it is denied",
    "allow": "allows all of it",
}


class RuleLine(Struct, frozen=True, kw_only=True):
    """A rule of an agent, who wrote it, and who enforces it (agent or beam) in each mode."""

    v: int = 1
    agent: str
    decision: Behavior
    rule: str
    whose: str
    faces: dict[str, str] = {}


class ModeLine(Struct, frozen=True, kw_only=True):
    """The enforcement of a rule in one mode of an agent. `by` is `agent` (the agent's CLI) or `beam`. If it is "",
    nothing enforces the rule, and no turn begins in this mode."""

    face: str
    by: str
    why: str = ""


class RuleTried(Struct, frozen=True, kw_only=True):
    """The result of trying the rules of an agent on one call. `decision` is None if no rule decides; `why` explains the
    result. `face` is the mode that a message would use."""

    v: int = 1
    agent: str
    call: str
    access: str
    face: str
    decision: Behavior | None
    rule: str = ""
    whose: str = ""
    why: str = ""
    faces: tuple[ModeLine, ...] = ()


def list_rules(context: RootContext, name: str) -> list[RuleLine]:
    """Return the rules of the agent in their order of precedence."""
    resolved = context.config.resolve(name)
    access, lines = _access_of(context, resolved, None), []
    for rule in _rules(resolved).rules:
        faces = {line.face: line.by for line in _mode_lines(resolved, [rule], access)}
        lines.append(RuleLine(agent=name, decision=rule.behavior, rule=rule.text, whose=rule.whose, faces=faces))
    return lines


def try_rules(
    context: RootContext,
    name: str,
    call: str,
    *,
    access: Access | None = None,
    via: str | None = None,
    more: RuleLists | None = None,
) -> RuleTried:
    """Return what the agent's rules, plus the rules `more` of one message, decide about a call.

    The call is written like a rule, for example `Bash(git push)`. Raises UsageError for an invalid call, NotFoundError
    for an unknown agent.
    """
    resolved = context.config.resolve(name)
    adapter = registry.adapter(resolved.settings.adapter)
    has = _access_of(context, resolved, access)
    face = face_of(adapter, via, has)
    rules = _rules(resolved).plus(rules_of(more or RuleLists(), MESSAGE_RULES_SOURCE))
    folder = os.path.realpath(context.home.project / (resolved.settings.cwd or ""))
    requested = parse_call(call)
    ruling = rules.decide(requested, place_of(folder, context.environ.get("HOME", "")))
    if ruling is None:
        in_doubt = requested.command and rules.with_behavior("allow") and not _is_plain(requested.command)
        doubt = "no rule allows a command with something in doubt in it (a redirection, a substitution, a variable …); "
        why = (doubt if in_doubt else "no rule is about it; ") + _REASON_BY_ACCESS[has]
        return RuleTried(agent=name, call=call, access=has, face=face, decision=None, why=why)
    whose = f"{ruling.behavior} {ruling.text} of {ruling.whose}"
    return RuleTried(
        agent=name,
        call=call,
        access=has,
        face=face,
        decision=ruling.behavior,
        rule=ruling.text,
        whose=ruling.whose,
        why=f"{whose} {_REASON_BY_BEHAVIOR[ruling.behavior]}",
        faces=tuple(_mode_lines(resolved, ruling.rules, has)),
    )


def add(context: RootContext, name: str, behavior: Behavior, text: str, *, by: str) -> Path:
    """Add a rule to the agent's own agent.json; return the path of that file. Raises UsageError for an invalid rule."""
    rule = parse(text, behavior)
    added = RuleLists(**{behavior: (rule.text,)})
    return manage.edit_settings(
        context, check_name(name), lambda own: structs.replace(own, rules=own.rules.plus(added)), by=by
    )


def check_allow(context: RootContext, name: str, text: str) -> None:
    """Raise UsageError if the text is not a valid allow rule, UnsupportedError if no mode of the agent enforces the
    rule."""
    resolved = context.config.resolve(name)
    rule = parse(text, "allow", whose=AGENT_JSON)
    access = _access_of(context, resolved, None)
    lines = _mode_lines(resolved, [rule], access)
    if not any(line.by for line in lines):
        why = lines[0].why if lines else "it has no such access"
        raise UnsupportedError(f"{name} can't be held to the rule `{rule}`: {why}", "leave --rule out", subject=text)


def remove(context: RootContext, name: str, behavior: Behavior, text: str, *, by: str) -> Path:
    """Remove a rule from the agent's own agent.json; return the path of that file. Raises NotFoundError if the rule is
    not in it."""
    rule = parse(text, behavior)

    def without_rule(own: AgentSettings) -> AgentSettings:
        before = getattr(own.rules, behavior)
        if rule.text not in before:
            what = f"`{rule}` is no rule in the {AGENT_JSON} of {name}"
            raise NotFoundError(what, f"beam rules list {name} says where it is written", subject=text)
        after = tuple(each for each in before if each != rule.text)
        return structs.replace(own, rules=structs.replace(own.rules, **{behavior: after}))

    return manage.edit_settings(context, check_name(name), without_rule, by=by)


def _rules(resolved: ResolvedAgent) -> Ruleset:
    written = resolved.rules
    return combine([rule for one in written for rule in rules_of(one.lists, one.whose, is_general=one.is_general)])


def _access_of(context: RootContext, resolved: ResolvedAgent, requested: Access | None) -> Access:
    return granted_access(resolved.settings.access, requested, at_most="read" if context.exposed else None)


def _mode_lines(resolved: ResolvedAgent, rules: list[Rule] | tuple[Rule, ...], access: Access) -> list[ModeLine]:
    """Return a line for each mode of the agent that supports this access: it says who enforces these rules in that
    mode."""
    adapter, lines = registry.adapter(resolved.settings.adapter), []
    for face, can in adapter.card.faces.items():
        if access in can.access or not can.access:
            lines.append(_mode_line(face, [enforcer_of(adapter, rule, face, access) for rule in rules]))
    return lines


def _mode_line(face: Face, found: list[Enforced]) -> ModeLine:
    worst = min(found, key=lambda one: ("", "beam", "agent").index(one.by))
    return ModeLine(face=face, by=worst.by, why=worst.why)


def _is_plain(command: str) -> bool:
    from beam.rules.shell import split

    return split(command) is not None
