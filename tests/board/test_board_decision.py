"""An ask as a person decides it: no stray key allows anything."""

from __future__ import annotations

import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from beam.board.decision import Decision, always_offer, ask_lines
from tests.board.made import ASK, HOSTILE, PROJECT


def pressed(keys: str, **given: object) -> Decision:
    decision = Decision(**{"is_read": True, "offer": "make", **given})  # type: ignore[arg-type]
    for key in keys:
        decision.press(key)
    return decision


@pytest.mark.slow
@given(st.text(string.ascii_letters + " \r\n", max_size=12))
def test_only_a_then_y_allows_once(keys: str) -> None:
    decision = pressed(keys)
    if decision.answer == "approve":
        assert "ay" in keys
    if decision.answer == "always":
        assert "Ay" in keys


def test_each_answer_takes_its_own_two_keys() -> None:
    assert [pressed(keys).answer for keys in ("ay", "Ay", "dy", "yy", "y", "a\r", "ad", "any")] == [
        "approve", "always", "deny", "", "", "", "", "",
    ]  # fmt: skip


def test_nothing_is_allowed_before_its_end_was_seen_and_denying_always_works() -> None:
    assert pressed("ay", is_read=False).answer == "" and "to its end" in pressed("a", is_read=False).line
    assert pressed("dy", is_read=False).answer == "deny"


def test_always_is_there_only_if_the_agent_offers_it_and_says_what() -> None:
    assert pressed("Ay", offer="").answer == "" and "A allow always" not in pressed("", offer="").line
    assert "from now on: make?" in pressed("A").line and always_offer(ASK) == "Yes, and do not ask again for make"


def test_all_that_would_run_is_shown_line_by_line() -> None:
    lines = ask_lines(ASK, PROJECT, 60)
    assert lines == [
        "asker asks for Bash in /home/me/parser", "", "Remove the build folder", "",
        "command:", "  rm -rf build", "  make clean all", "timeout:", "  5", "",
        "A allows from now on:", "Yes, and do not ask again for make",
    ]  # fmt: skip


def test_all_that_always_would_allow_is_shown_before_it_can_be_chosen() -> None:
    offers = [f"Bash(npm run test:{number})" for number in range(100)] + ["Bash(*)"]
    ask = structs.replace(ASK, suggestions=Raw(msgspec.json.encode(offers)))
    shown = ask_lines(ask, PROJECT, 40)
    whole = "".join(shown[shown.index("A allows from now on:") + 1 :])
    assert whole == always_offer(ask) and whole.endswith("Bash(*)")
    assert "A allows from now on:" not in ask_lines(structs.replace(ASK, suggestions=Raw(b"[]")), PROJECT, 40)


def test_a_long_command_is_broken_and_never_cut() -> None:
    long = "x" * 5_000 + "; rm -rf /"
    ask = structs.replace(ASK, input=Raw(b'{"command":"%s"}' % long.encode()))
    shown = "".join(line[2:] for line in ask_lines(ask, PROJECT, 40) if line.startswith("  "))
    assert shown == long


def test_what_hides_in_a_command_is_shown_by_its_name() -> None:
    ask = structs.replace(ASK, tool=HOSTILE, description=HOSTILE, input=Raw(b'{"a\\u202e":"\\u001b[2K rm"}'))
    text = "\n".join(ask_lines(ask, PROJECT, 80))
    assert "␛[2K rm" in text and "<U+202E>" in text and "\x1b" not in text and "\u202e" not in text


def test_an_input_that_is_no_object_is_shown_as_it_is() -> None:
    for data, shown in ((b"null", "not known"), (b'"ls"', '"ls"'), (b"{broken", "{broken")):
        assert shown in "\n".join(ask_lines(structs.replace(ASK, input=Raw(data)), PROJECT, 60))
