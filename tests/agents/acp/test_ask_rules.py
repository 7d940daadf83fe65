"""Who enforces a rule with an agent that asks beam over its protocol."""

from __future__ import annotations

import pytest

from beam.agents.acp.face import AskRules
from beam.rules.rule import parse

RULES = AskRules(always={"ask": {"Bash"}}, beyond={"ask": {"Edit"}}, absent={"read": {"WebFetch"}})


@pytest.mark.parametrize(
    ("text", "behavior", "access", "same_as"),
    [
        ("Bash(ls)", "deny", "ask", "Bash(ls)"),
        ("Edit(a)", "allow", "ask", "Bash(ls)"),
        ("WebFetch", "deny", "read", "Bash(ls)"),
        ("WebFetch", "allow", "read", None),
        ("Edit(a)", "deny", "ask", None),
        ("Read(a)", "deny", "ask", None),
        ("Read(a)", "deny", "full", None),
    ],
)
def test_beam_enforces_a_rule_of_what_it_is_always_asked(
    text: str, behavior: str, access: str, same_as: str | None
) -> None:
    by_beam = RULES.enforced(parse("Bash(ls)", "deny"), "dialogue", "ask")
    found = RULES.enforced(parse(text, behavior), "dialogue", access)  # type: ignore[arg-type]
    assert (found == by_beam) == (same_as is not None)


@pytest.mark.parametrize("face", ["exec", "terminal", "mailbox"])
@pytest.mark.parametrize("access", ["read", "edit", "ask", "full"])
def test_nobody_enforces_a_rule_where_no_protocol_asks(face: str, access: str) -> None:
    found = {RULES.enforced(parse(text, "deny"), face, access) for text in ("Bash", "Edit", "Read")}  # type: ignore[arg-type]
    assert len(found) == 1 and found.isdisjoint({RULES.enforced(parse("Bash", "deny"), "dialogue", "ask")})
