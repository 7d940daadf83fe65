"""All rules that apply to a turn, and their decision on a call: deny first, then ask, then allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from beam.rules.rule import BEHAVIOR_ORDER, Behavior, Rule, parse

if TYPE_CHECKING:
    from beam.model.message import RuleLists
    from beam.rules.match import AgentPlace
    from beam.rules.rule import ToolCall


class Ruling(Struct, frozen=True, kw_only=True):
    """The decision on one call, and the deciding rules. There are several rules if each of them allows a part of the
    call."""

    behavior: Behavior
    rules: tuple[Rule, ...]

    @property
    def text(self) -> str:
        """Return the texts of the deciding rules, joined by commas."""
        return ", ".join(rule.text for rule in self.rules)

    @property
    def whose(self) -> str:
        """Return who wrote the deciding rules, joined by commas."""
        return ", ".join(dict.fromkeys(rule.whose for rule in self.rules))


class Ruleset(Struct, frozen=True):
    """The rules of a turn. A `deny` applies wherever it was written. An agent's own `ask` or `allow` takes precedence
    over an `ask` or `allow` of `defaults` with the same text."""

    rules: tuple[Rule, ...] = ()

    def with_behavior(self, behavior: Behavior) -> tuple[Rule, ...]:
        """Return the rules with this behavior: `deny`, `ask` or `allow`."""
        return tuple(rule for rule in self.rules if rule.behavior == behavior)

    def decide(self, call: ToolCall, place: AgentPlace) -> Ruling | None:
        """Return the decision of the rules on the call; None if no rule applies."""
        from beam.rules.match import allowing_rules, may_match

        for behavior in ("deny", "ask"):
            for rule in self.with_behavior(behavior):
                if may_match(rule, call, place):
                    return Ruling(behavior=behavior, rules=(rule,))
        found = allowing_rules(self.with_behavior("allow"), call, place)
        return Ruling(behavior="allow", rules=found) if found else None

    def plus(self, more: Iterable[Rule]) -> Ruleset:
        """Return a ruleset of these rules and the rules in `more`, without repeats."""
        return combine((*self.rules, *more))

    @property
    def lists(self) -> RuleLists:
        """Return the texts of the rules, in one list per behavior."""
        from beam.model.message import RuleLists

        return RuleLists(**{word: tuple(rule.text for rule in self.with_behavior(word)) for word in BEHAVIOR_ORDER})

    def bounded(self, most: RuleLists, whose: str, *, keep_allow: bool = False) -> Ruleset:
        """Return the rules for a message whose sender is an agent that itself ran with the rules `most`. A rule that
        allows is kept only if `most` also allows it, or with `keep_allow`, for a sender that could do everything. The
        rules in `most` that deny or ask are added; `whose` says who wrote these."""
        kept = [rule for rule in self.rules if keep_allow or rule.behavior != "allow" or rule.text in most.allow]
        return combine((*kept, *rules_of(most, whose, without=("allow",))))

    def without_allow(self) -> Ruleset:
        """Return the rules that deny or ask, without the rules that allow."""
        return Ruleset(tuple(rule for rule in self.rules if rule.behavior != "allow"))


def combine(rules: Sequence[Rule]) -> Ruleset:
    """Return the rules without repeats, sorted: deny, ask, allow. An agent's own `ask` or `allow` rule
    replaces the `ask` and `allow` rules of `defaults` that have the same text."""
    own = {(rule.text, rule.behavior) for rule in rules if not rule.is_general and rule.behavior != "deny"}
    texts = {text for text, _ in own}
    found: dict[tuple[str, str], Rule] = {}
    for rule in rules:
        key = (rule.text, rule.behavior)
        if rule.is_general and rule.behavior != "deny" and rule.text in texts and key not in own:
            continue
        if key not in found or found[key].is_general:
            found[key] = rule
    order = {word: place for place, word in enumerate(BEHAVIOR_ORDER)}
    return Ruleset(tuple(sorted(found.values(), key=lambda rule: order[rule.behavior])))


def rules_of(
    lists: RuleLists, whose: str, *, is_general: bool = False, without: Sequence[Behavior] = ()
) -> tuple[Rule, ...]:
    """Return the rules in these lists, without those of the behaviors in `without`. Raises UsageError for a text that
    is not a rule."""
    return tuple(
        parse(text, behavior, whose=whose, is_general=is_general)
        for behavior in BEHAVIOR_ORDER
        if behavior not in without
        for text in getattr(lists, behavior)
    )
