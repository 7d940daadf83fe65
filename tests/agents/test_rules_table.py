"""Every adapter, face and access: a rule is compiled into the launch, decided by beam if it is asked, or refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents import registry
from beam.agents.base import HasTerminal, Host, Launch, Turn
from beam.agents.link import HasDialogue
from beam.agents.options import check_rules, enforcer_of
from beam.base.errors import UnsupportedError
from beam.model.message import RuleLists
from beam.model.settings import AgentSettings
from beam.rules.ruleset import Ruleset, combine, rules_of
from tests.support.ruled import ARGUMENTS, RULES

UUID = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"
CASES = [
    (name, face, access)
    for name in registry.ADAPTERS
    for face, can in registry.adapter(name).card.faces.items()
    for access in can.access or ("full",)
]


def ruleset(word: str, *texts: str) -> Ruleset:
    return combine(rules_of(RuleLists(**{word: texts}), "beam.yaml"))


def launched(name: str, face: str, access: Any, rules: Ruleset) -> Launch:
    adapter = registry.adapter(name)
    settings = AgentSettings(adapter=name, command=("true",))
    turn = Turn(text="hi", message_id="m", agent=name, access=access, cwd="/w", scratch="/s", settings=settings)
    turn = structs.replace(turn, fresh_session_id=UUID, rules=rules)
    if face == "dialogue":
        assert isinstance(adapter, HasDialogue)
        return adapter.dialogue.launch(turn, Host(executable="/x"))
    if face == "terminal":
        assert isinstance(adapter, HasTerminal)
        return adapter.terminal.launch(turn, Host(executable="/x"))
    assert adapter.exec is not None
    return adapter.exec.launch(turn, Host(executable="/x"))


@pytest.mark.parametrize(("name", "face", "access"), CASES)
def test_a_rule_is_compiled_decided_by_beam_or_refused(name: str, face: Any, access: Any) -> None:
    for word, text in product(("deny", "ask", "allow"), RULES):
        adapter, rules = registry.adapter(name), ruleset(word, text)
        (rule,) = rules.rules
        found = enforcer_of(adapter, rule, face, access)
        if not found.by:
            with pytest.raises(UnsupportedError) as refused:
                check_rules(adapter, face, access, rules.rules)
            assert all(part in refused.value.message for part in (name, f"`{word} {text}`", "beam.yaml", found.why))
            assert found.why
            continue
        check_rules(adapter, face, access, rules.rules)
        if found.by == "beam":
            assert face == "dialogue", "only this face asks beam"
        elif not (word == "allow" and access == "full"):
            plain, made = launched(name, face, access, Ruleset()), launched(name, face, access, rules)
            assert (made.argv, made.env, made.files) != (plain.argv, plain.env, plain.files), rule
            assert made.stdin == plain.stdin


@pytest.mark.parametrize("name", [name for name in registry.ADAPTERS if name not in ARGUMENTS])
def test_an_agent_that_knows_no_rules_refuses_each_with_where_it_is_written(name: str) -> None:
    for face, can in registry.adapter(name).card.faces.items():
        with pytest.raises(UnsupportedError, match="`deny Bash` of beam"):
            check_rules(registry.adapter(name), face, (can.access or ("full",))[0], ruleset("deny", "Bash").rules)


def test_a_rule_that_another_face_enforces_is_refused_with_that_face() -> None:
    with pytest.raises(UnsupportedError) as refused:
        check_rules(registry.adapter("claude"), "exec", "read", ruleset("allow", "Bash(git log *)").rules)
    assert refused.value.hint == "--via dialogue"


def test_the_docs_name_each_adapter_that_knows_rules() -> None:
    page = (Path(__file__).parents[2] / "docs/access.md").read_text()
    assert [name for name in ARGUMENTS if f"| `{name}` |" not in page] == []
