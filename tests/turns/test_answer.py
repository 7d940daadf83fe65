"""A success without an answer is a failure, for every agent that asks a model."""

from __future__ import annotations

import msgspec
import pytest

from beam.agents import registry
from beam.agents.base import Verdict
from beam.model import events
from beam.model.outcome import Class, Denial, ModelCallCounts, Status, Usage
from beam.turns.outcome import is_blank, is_work, require_answer

DONE = Verdict(status=Status.COMPLETED)
SILENT = {"command", "bash", "python", "scripted", "mailbox"}  # what they print is all that they say


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", " ", "\n\t\r", "\u200b\ufeff", "\x1b\x07", "\u00a0\u2003", "\u2060", "\u3164", "\u2800", "\ufe0f"),
        *("\x1b[0m", "\x1b[1;31m \x1b[K\x9b2J", "\x1b]0;a title\x07", "\x1b]8;;https://a.example\x1b\\", "\x1b(B\x1bc"),
    ],
)
def test_a_text_that_shows_nothing_is_blank(text: str | None) -> None:
    assert is_blank(text)
    found = require_answer(msgspec.structs.replace(DONE, reply=text), "claude", worked=False)
    assert (found.status, found.class_, found.reply) == (Status.FAILED, Class.EMPTY, None)
    assert found.reason == "claude ended its turn without an answer"


@pytest.mark.parametrize(
    "text",
    [
        "a",
        ".",
        "0",
        "🙂",
        " ok ",
        "漢",
        "\x1b[31mno\x1b[0m",
        "\x1b[0m[",
        "\x1b]0;never ended",
        "\u2764\ufe0f",
        "\u3164a",
    ],
)
def test_any_visible_character_is_an_answer(text: str) -> None:
    verdict = msgspec.structs.replace(DONE, reply=text)
    assert require_answer(verdict, "claude", worked=False) == verdict


def test_work_without_words_is_an_answer() -> None:
    assert require_answer(DONE, "claude", worked=True) == DONE


def test_a_structured_answer_needs_no_words() -> None:
    verdict = msgspec.structs.replace(DONE, structured=msgspec.Raw(b"{}"))
    assert require_answer(verdict, "claude", worked=False) == verdict


@pytest.mark.parametrize(
    ("by", "ends_at_denial", "is_answer"),
    [
        ("ann", True, True),
        ("rule", True, True),
        ("default", True, False),
        ("ann", False, False),
        ("rule", False, False),
    ],
)
def test_only_a_turn_that_a_denial_by_a_person_or_a_rule_can_end_needs_no_words_then(
    by: str, ends_at_denial: bool, is_answer: bool
) -> None:
    verdict = msgspec.structs.replace(DONE, denials=(Denial(tool="Bash", by=by),))
    found = require_answer(verdict, "opencode", worked=False, ends_at_denial=ends_at_denial)
    assert found.status is (Status.COMPLETED if is_answer else Status.FAILED)
    assert found.denials == verdict.denials


@pytest.mark.parametrize(
    "known", [{"usage": Usage(calls=0)}, {"model_calls": ModelCallCounts(calls=0), "usage": Usage(calls=2)}]
)
def test_a_turn_in_which_no_model_was_called_is_never_completed(known: dict[str, object]) -> None:
    verdict = Verdict(status=Status.COMPLETED, reply="hi", **known)  # type: ignore[arg-type]
    found = require_answer(verdict, "claude", worked=True)
    assert (found.status, found.class_, found.reason) == (Status.FAILED, Class.EMPTY, "claude called no model")


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPLETED])
def test_any_other_outcome_stays_as_it_is(status: Status) -> None:
    verdict = Verdict(status=status, class_=Class.AUTH if status is Status.FAILED else None, reason="why")
    assert require_answer(verdict, "claude", worked=False) == verdict


def test_a_call_that_succeeded_a_changed_file_and_an_image_are_work() -> None:
    assert is_work(events.ToolReturned(call_id="1"))
    assert is_work(events.FileChanged(path="a"))
    assert is_work(events.ImageSeen(media_type="image/png"))


def test_a_call_that_failed_or_never_ended_and_words_are_no_work() -> None:
    assert not is_work(events.ToolReturned(call_id="1", is_error=True))
    assert not is_work(events.ToolReturned(call_id="1", unfinished=True))
    assert not is_work(events.ToolCalled(call_id="1", name="Bash"))
    assert not is_work(events.Text(text="hi"))
    assert not is_work(events.Thinking(text="hm"))


@pytest.mark.parametrize("name", registry.ADAPTERS)
def test_every_agent_but_programs_and_people_asks_a_model(name: str) -> None:
    assert registry.adapter(name).card.asks_model is (name not in SILENT)
