"""Pieces in a row: a secret that is cut between them is in none, and everything else is recorded as it came."""

from __future__ import annotations

import json

import pytest

from beam.model import events
from beam.model.events import Event
from beam.secrets.redact import redact_event
from beam.turns.record import Piece, PieceRecorder
from tests.support.context import FakeClock
from tests.support.secrets import PLANTED

KEY = PLANTED["anthropic-key"][0]
DONE = events.StatusChanged(state="idle")


class Journal:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.clock = FakeClock()
        self.pieces = PieceRecorder(self.record, self.clock)

    def record(self, body: Event, *, sync: bool = False) -> Event:
        self.events.append(redact_event(body)[0])  # as a journal does
        return body

    def texts(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Piece)]

    def raws(self) -> list[object]:
        return [event.raw for event in self.events if isinstance(event, Piece)]


@pytest.fixture
def journal() -> Journal:
    return Journal()


def thought(text: str, parent: str | None = None) -> events.Thinking:
    return events.Thinking(text=text, parent=parent, raw=json.dumps({"thinking": text}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANTED)
def test_a_key_cut_between_two_thoughts_is_in_neither(kind: str) -> None:
    text, secret = PLANTED[kind]
    for cut in range(1, len(text)):
        journal = Journal()
        journal.pieces(thought(f"I found {text[:cut]}"))
        journal.pieces(thought(f"{text[cut:]}, so there."))
        journal.pieces(DONE)
        first, second = journal.texts()
        assert secret not in first + second and f"[redacted:{kind}]" in first + second, (first, second)
        assert first.startswith("I found ") and second.endswith(", so there.") and journal.events[-1] == DONE
        written = json.dumps([str(raw) for raw in journal.raws()])
        assert not any(secret[at : at + 12] in first + second + written for at in range(len(secret) - 12)) or cut in (
            1,
            len(text) - 1,
        )


def test_a_key_in_many_lines_of_thinking_is_in_none(journal: Journal) -> None:
    for at in range(0, len(KEY), 10):
        journal.pieces(thought(KEY[at : at + 10]))
    journal.pieces(thought(" that is it."))
    assert journal.texts() == ["[redacted:anthropic-key]", *[""] * (len(KEY) // 10), " that is it."]
    assert not any(isinstance(raw, str) and "that is it" not in raw for raw in journal.raws())


def test_thoughts_without_secrets_are_recorded_at_once_and_untouched(journal: Journal) -> None:
    told = [
        thought("This is"),
        thought("a thought with key sk-ant-api03-"),
        events.Text(text="so: gh"),
        thought("p_x y"),
    ]
    journal.pieces(told[0])
    assert journal.events == told[:1]
    for body in told[1:]:
        journal.pieces(body)
    journal.pieces(DONE)
    assert journal.events == [*told, DONE]


def test_thoughts_of_two_speakers_are_no_pieces_of_one(journal: Journal) -> None:
    first, second = thought("see sk-ant-api03-ab"), thought("otherwordsthatareonelongword", parent="call")
    journal.pieces(first)
    journal.pieces(second)
    journal.pieces(DONE)
    assert journal.events == [first, second, DONE]


def test_a_piece_that_waited_for_long_is_recorded_and_the_rest_of_its_key_is_still_blanked(journal: Journal) -> None:
    journal.pieces(thought(f"see {KEY[:15]}"))
    journal.pieces.record_overdue()
    assert journal.events == []
    journal.clock.sleep(3)
    journal.pieces.record_overdue()
    assert journal.texts() == [f"see {KEY[:15]}"]
    journal.pieces(thought(f"{KEY[15:]} it is"))
    journal.pieces(DONE)
    assert journal.texts()[1] == "[redacted:anthropic-key] it is"


def test_output_of_a_tool_in_pieces_and_texts_are_looked_at_alike(journal: Journal) -> None:
    for make in (lambda text: events.Text(text=text), lambda text: events.ToolProgress(call_id="c", text=text)):
        journal.pieces(make(f"x {KEY[:30]}"))
        journal.pieces(make(f"{KEY[30:]} y"))
    journal.pieces(DONE)
    assert journal.texts() == ["x [redacted:anthropic-key]", " y"] * 2
