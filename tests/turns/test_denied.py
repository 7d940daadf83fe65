"""What is said of a turn in which something was denied because nobody was there."""

from __future__ import annotations

import pytest
from msgspec import Raw

from beam.agents.base import Capabilities, Verdict
from beam.model.message import Access
from beam.model.outcome import Denial, Status, denial_text
from beam.turns.outcome import denials_to_report, mark_rule_denials, with_denial_reason

WRITE = Denial(tool="Write", input=Raw(b'{"content":"x","file_path":"/p/made"}'))
BASH = Denial(tool="Bash", input=Raw(b'{"command":"touch  made\\n"}'))
ALL: tuple[Access, ...] = ("read", "edit", "full")


def verdict(*denials: Denial, status: Status = Status.DENIED) -> Verdict:
    return Verdict(status=status, reason="why", denials=denials)


def test_a_denial_names_the_tools_their_arguments_and_what_would_allow_more() -> None:
    assert with_denial_reason(verdict(WRITE, BASH), Capabilities(access=ALL), "read").reason == (
        "not permitted: Write (/p/made), Bash (touch made); the answer may be incomplete; "
        "it ran with access `read`: --access edit or full allows more"
    )


@pytest.mark.parametrize(
    ("access", "can", "hint"),
    [
        ("read", ("read", "full"), "; it ran with access `read`: --access full allows more"),
        (
            "read",
            ("read", "ask", "edit", "full"),
            "; it ran with access `read`: --access ask, edit or full allows more",
        ),
        ("edit", ALL, "; it ran with access `edit`: --access full allows more"),
        (
            "ask",
            ("read", "ask"),
            "; it ran with access `ask`: a request that waits is answered with beam approve or beam deny",
        ),
        ("ask", ("ask", "edit", "full"), "; it ran with access `ask`: --access edit or full allows more"),
        ("full", ALL, "; it ran with access `full`, the widest it has: what denied it is a setting of its own"),
        (None, (), ""),
        ("full", (), ""),
    ],
)
def test_the_hint_is_true_for_the_access_that_was_used(
    access: Access | None, can: tuple[Access, ...], hint: str
) -> None:
    reason = with_denial_reason(verdict(BASH), Capabilities(access=can), access).reason or ""
    assert reason.endswith("the answer may be incomplete" + hint)


def test_an_ask_that_nobody_answered_was_not_decided() -> None:
    reason = with_denial_reason(verdict(BASH), Capabilities(access=("read", "ask")), "ask").reason or ""
    assert reason.startswith("nobody decided on Bash (touch made)")


def test_what_a_person_denied_is_no_reason_of_a_denied_turn() -> None:
    by_ann = Denial(tool="Bash", by="ann")
    assert with_denial_reason(verdict(by_ann), Capabilities(access=ALL), "read").reason == "why"
    assert "Bash" not in (with_denial_reason(verdict(by_ann, WRITE), Capabilities(access=ALL), "read").reason or "")


def test_a_turn_in_which_rules_denied_everything_completed() -> None:
    named = mark_rule_denials(verdict(WRITE, BASH), lambda denial: True)
    assert (named.status, named.reason, [denial.by for denial in named.denials]) == (
        Status.COMPLETED,
        None,
        ["rule", "rule"],
    )


def test_what_no_rule_denies_stays_the_reason_of_a_denied_turn() -> None:
    named = mark_rule_denials(verdict(WRITE, BASH), lambda denial: denial.tool == "Bash")
    assert (named.status, [denial.by for denial in named.denials]) == (Status.DENIED, ["default", "rule"])
    assert "Bash" not in (with_denial_reason(named, Capabilities(access=ALL), "read").reason or "")


def test_a_rule_takes_no_denial_from_a_person_and_changes_no_other_end() -> None:
    by_ann = verdict(Denial(tool="Bash", by="ann"))
    assert mark_rule_denials(by_ann, lambda denial: True) == by_ann
    stopped = mark_rule_denials(verdict(BASH, status=Status.TIMEOUT), lambda denial: True)
    assert (stopped.status, stopped.reason, stopped.denials[0].by) == (Status.TIMEOUT, "why", "rule")


def test_a_turn_that_ended_otherwise_keeps_its_reason() -> None:
    assert with_denial_reason(verdict(BASH, status=Status.TIMEOUT), Capabilities(access=ALL), "read").reason == "why"


def test_no_denial_is_null_where_the_cli_would_not_tell_of_one() -> None:
    assert denials_to_report((), Capabilities(), "read") is None
    assert denials_to_report((), Capabilities(denials=True), "read") == ()
    assert denials_to_report((BASH,), Capabilities(), None) == (BASH,)


def test_an_agent_that_asks_for_all_that_it_may_not_do_had_nothing_denied_unless_an_ask_was() -> None:
    assert denials_to_report((), Capabilities(), "ask") == ()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (b"null", "t"),
        (b'{"n":1}', "t"),
        (b'{"query":"q"}', "t (q)"),
        (b'["x"]', "t"),
        (b'{"command":"' + b"x" * 200 + b'"}', f"t ({'x' * 79}…)"),
    ],
)
def test_a_call_is_shown_by_its_tool_and_what_says_most_of_it(given: bytes, text: str) -> None:
    assert denial_text(Denial(tool="t", input=Raw(given))) == text
