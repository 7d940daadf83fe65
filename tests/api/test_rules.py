"""The rules of an agent: listed, tried on a call, added and removed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from beam.api import manage, rules
from beam.api.rules import RuleLine, RuleTried
from beam.base.errors import NotFoundError, UnsupportedError, UsageError
from beam.model.message import RuleLists
from tests.support.context import Root
from tests.support.refused import refused


@pytest.fixture
def root(root: Root) -> Root:
    (root.base / "beam.yaml").write_text(
        "agents:\n"
        "  coder: {adapter: claude, access: edit, cwd: sub, rules: {deny: ['Edit(//etc/**)'], allow: ['Bash(ls *)']}}\n"
        "  reader: {adapter: codex}\n"
        "  box: {adapter: mailbox}\n"
    )
    root.reload()
    return root


@pytest.mark.slow
def test_the_rules_of_an_agent_are_listed_in_the_order_of_decision(root: Root) -> None:
    rules.add(root.context, "coder", "ask", "Bash(git push *)", by="ann")
    root.reload()
    found = rules.list_rules(root.context, "coder")
    assert [(each.decision, each.rule, each.whose) for each in found] == [
        ("deny", "Edit(//etc/**)", "beam.yaml"),
        ("ask", "Bash(git push *)", "agent.json"),
        ("allow", "Bash(ls *)", "beam.yaml"),
    ]
    faces = {"exec": "agent", "dialogue": "beam", "terminal": ""}
    assert found[2] == RuleLine(agent="coder", decision="allow", rule="Bash(ls *)", whose="beam.yaml", faces=faces)
    assert found[2].v == 1 and rules.list_rules(root.context, "box") == []


@pytest.mark.parametrize(
    ("call", "decision", "rule", "because", "by"),
    [
        ("Bash(ls -l)", "allow", "Bash(ls *)", "allows all of it", ("agent", "beam", "")),
        (
            "Edit(/etc/passwd)",
            "deny",
            "Edit(//etc/**)",
            "wins over all rules that ask or allow",
            ("agent", "agent", "agent"),
        ),
    ],
)
def test_a_call_is_decided_by_a_rule(
    call: str, decision: Any, rule: str, because: str, by: tuple[str, ...], root: Root
) -> None:
    found = rules.try_rules(root.context, "coder", call)
    assert found == RuleTried(
        agent="coder",
        call=call,
        access="edit",
        face=found.face,
        decision=decision,
        rule=rule,
        whose="beam.yaml",
        why=f"{decision} {rule} of beam.yaml {because}",
        faces=found.faces,
    )
    assert found.v == 1 and found.face == "exec"
    assert [(line.face, line.by) for line in found.faces] == list(
        zip(("exec", "dialogue", "terminal"), by, strict=True)
    )


def test_rules_of_one_message_decide_with_the_others(root: Root) -> None:
    more = RuleLists(ask=("Bash(ls *)",))
    found = rules.try_rules(root.context, "coder", "Bash(ls -l)", more=more)
    assert (found.decision, found.rule) == ("ask", "Bash(ls *)")
    assert found.why == (
        f"ask Bash(ls *) of {found.whose} wins over all rules that allow; a person is asked, "
        "or where nobody can be asked it is denied"
    )


@pytest.mark.parametrize(
    ("access", "why"),
    [
        ("read", "access read decides: what only looks is allowed, the rest is denied"),
        ("edit", "access edit decides: what changes files of the folder is allowed, the rest is denied"),
        ("full", "access full allows it"),
        ("ask", "access ask decides: what only looks is allowed, about the rest a person is asked"),
    ],
)
def test_where_no_rule_decides_the_access_does(access: Any, why: str, root: Root) -> None:
    via = "dialogue" if access == "ask" else None
    for call, begins in (
        ("Bash(make)", "no rule is about it; "),
        (
            "Bash(ls > out)",
            "no rule allows a command with something in doubt in it (a redirection, a substitution, a variable …); ",
        ),
    ):
        found = rules.try_rules(root.context, "coder", call, access=access, via=via)
        assert found == RuleTried(
            agent="coder", call=call, access=access, face=found.face, decision=None, why=begins + why
        )
        assert found.face == ("dialogue" if access == "ask" else found.face)


def test_a_doubt_counts_only_where_a_rule_could_allow_it(root: Root) -> None:
    assert rules.try_rules(root.context, "reader", "Bash(ls > out)").why.startswith("no rule is about it; ")
    assert rules.try_rules(root.context, "coder", "Read(/x)").why.startswith("no rule is about it; ")


def test_in_a_root_where_agents_may_write_no_more_than_read_counts(root: Root) -> None:
    exposed = structs.replace(root.context, exposed=True)
    assert rules.try_rules(exposed, "coder", "Bash(make)").access == "read"
    assert rules.try_rules(root.context, "coder", "Bash(make)").access == "edit"


@pytest.mark.slow
def test_a_rule_is_added_once_and_removed(root: Root) -> None:
    path = rules.add(root.context, "reader", "deny", "Bash( rm * )", by="ann")
    assert path == root.context.agent_paths("reader").dir / "agent.json"
    rules.add(root.context, "reader", "deny", "Bash(mv *)", by="ann")
    rules.add(root.context, "reader", "allow", "Bash(ls)", by="ann")
    own = manage.own_settings(root.reload(), "reader").rules
    assert own.allow == ("Bash(ls)",) and own.deny[1:] == ("Bash(mv *)",) and len(own.deny) == 2
    assert rules.remove(root.context, "reader", "deny", "Bash(mv *)", by="ann") == path
    assert manage.own_settings(root.reload(), "reader").rules.deny == own.deny[:1]
    said = "`deny Bash(mv *)` is no rule in the agent.json of reader"
    hint = "beam rules list reader says where it is written"
    with refused(NotFoundError, said, hint, subject="Bash(mv *)"):
        rules.remove(root.context, "reader", "deny", "Bash(mv *)", by="ann")
    with pytest.raises(NotFoundError):
        rules.remove(root.context, "reader", "ask", "Bash(ls)", by="ann")
    with pytest.raises(UsageError):
        rules.add(root.context, "reader", "deny", "Bash(", by="ann")
    with pytest.raises(NotFoundError):
        rules.add(root.context, "nobody", "deny", "Bash(ls)", by="ann")


def test_a_rule_that_nobody_enforces_allows_nothing(root: Root) -> None:
    rules.check_allow(root.context, "coder", "Bash(make *)")
    said = "box can't be held to the rule `allow Bash(make *)`: no way to hold it to a rule is known"
    with refused(UnsupportedError, said, "leave --rule out", subject="Bash(make *)"):
        rules.check_allow(root.context, "box", "Bash(make *)")
    with pytest.raises(UsageError):
        rules.check_allow(root.context, "coder", "Bash(")
