"""A person's patterns: those that can be used, and what is wrong with the others."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from beam.agents import registry
from beam.agents.base import HasTerminal
from beam.base import patterns
from beam.base.patterns import time_limit
from beam.model.screen_profile import PATTERN_FIELDS, Profile, patterns_of


@pytest.mark.slow
@pytest.mark.parametrize("text", [r"^(a+)+$", r"(x+x+)+y", r"^(?:.*)*z$", r"(\s*)*!", r"(?:ab|ab)*c", r"^([a-z]+)*\d$"])
def test_a_pattern_that_can_take_for_ever_is_found_out(text: str) -> None:
    assert "too long" in patterns.find_problem(text, whole_screen=False)


@pytest.mark.slow
def test_it_is_found_out_too_where_the_process_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns.time, "process_time", lambda: 0.0)
    monkeypatch.setattr(patterns, "_LONGEST_WAIT_S", 0.2)
    assert "too long" in patterns.find_problem(r"^(a+)+$", whole_screen=False)


@pytest.mark.slow
def test_a_pattern_for_a_whole_screen_is_tried_on_one() -> None:
    greedy = r"[\s\S]*a[\s\S]*b[\s\S]*c[\s\S]*d"
    assert "too long" in patterns.find_problem(greedy, whole_screen=True)


@pytest.mark.parametrize("text", ["(", "[a-", "*x", "(?P<a>x)(?P<a>y)", "x{99999999999}"])
def test_what_is_no_regular_expression_is_said(text: str) -> None:
    assert "not a regular expression" in patterns.find_problem(text, whole_screen=False)


def test_a_pattern_has_a_length() -> None:
    assert "longer" in patterns.find_problem("x" * 1001, whole_screen=False)


SCREENS = [name for name in registry.ADAPTERS if isinstance(registry.adapter(name), HasTerminal)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SCREENS)
def test_no_pattern_of_an_adapter_would_be_refused_from_a_person(name: str) -> None:
    adapter = registry.adapter(name)
    assert isinstance(adapter, HasTerminal)
    profile = adapter.terminal.profile
    for value in (profile, *profile.dialogs):
        for field, known in PATTERN_FIELDS[type(value)].items():
            for text in patterns_of(type(value), field, getattr(value, field)):
                assert patterns.find_problem(text, whole_screen=known.whole_screen) == "", (field, text)
                assert not (known.group and text) or patterns.count_groups(text) == 1, (field, text)


def test_every_text_field_of_a_profile_is_a_pattern_or_known_to_be_none() -> None:
    plain = {"scrollbar", "submit", "interrupt", "quit", "dialogs"}
    texts = {field for field in Profile.__struct_fields__ if "str" in str(Profile.__annotations__[field])}
    assert texts - set(PATTERN_FIELDS[Profile]) == plain - {"dialogs"}


@pytest.mark.slow
def test_a_search_that_takes_too_long_is_ended_and_what_comes_next_is_not() -> None:
    with pytest.raises(TimeoutError), time_limit(0.05):
        re.search("(a+)+Z$", "a" * 40 + "b!")
    with time_limit(0.05):
        assert re.search("b!", "a" * 40 + "b!")


def test_outside_of_the_main_thread_nothing_is_ended() -> None:
    found: list[bool] = []

    def look() -> None:
        with time_limit(0.01):
            found.append(re.search("b", "ab") is not None)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [True]


def test_a_process_that_was_stopped_during_a_search_has_no_slow_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    @contextmanager
    def stopped_once(_: float) -> Iterator[None]:
        tries.append(1)
        yield

    class Slept:
        def search(self, _: str) -> None:
            if len(tries) == 1:
                raise TimeoutError

    monkeypatch.setattr(patterns, "time_limit", stopped_once)
    assert not patterns._takes_long(Slept(), "x")  # type: ignore[arg-type]
    assert len(tries) == 2


def test_one_search_that_seems_slow_is_no_slow_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 9.0, 9.0, 9.001])
    monkeypatch.setattr(patterns.time, "process_time", lambda: next(clock))
    assert not patterns._takes_long(re.compile("a"), "b")
    clock = iter([0.0, 1.0, 1.0, 2.0, 2.0, 3.0])
    assert patterns._takes_long(re.compile("a"), "b")
