"""`beam send` as a person meets it, with shipped scripted agents and ordinary programs."""

from __future__ import annotations

import pytest

from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance


def test_a_send_with_nothing_set_up_prints_only_the_answer(beam: Cli) -> None:
    done = beam("send", "scripted", "hello")
    assert (done.code, done.out, done.err) == (0, "You said: hello\n", "")


def test_the_second_turn_resumes_the_session_of_the_first(beam: Cli) -> None:
    first = beam("send", "scripted", "one", "--json").json
    second = beam("send", "scripted", "two", "--json").json
    assert (first["session"], second["session"]) == ("new", "resumed")
    assert first["session_id"] == second["session_id"]
    assert (first["turn"], second["turn"]) == (1, 2)
