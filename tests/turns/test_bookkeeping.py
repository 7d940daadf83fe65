"""What a process said so far: the order of deltas, open tool calls, and retries."""

from __future__ import annotations

import pytest

from beam.model import events
from beam.turns.record import Bookkeeping
from tests.support.context import FakeClock
from tests.support.turns import Recorded


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def journal() -> Recorded:
    return Recorded()


@pytest.fixture
def book(journal: Recorded, clock: FakeClock) -> Bookkeeping:
    return Bookkeeping(journal, clock, 10)


def test_deltas_wait_until_they_are_due_and_come_before_what_follows(
    book: Bookkeeping, journal: Recorded, clock: FakeClock
) -> None:
    clock.sleep(1.0)
    book.record(events.TextDelta(text="a "))
    assert (journal.events, book.due_in()) == ([], 0.0)
    book.flush()
    book.record(events.TextDelta(text="b "))
    book.flush()
    assert [delta.text for delta in journal.of(events.TextDelta)] == ["a "]
    book.record(events.ToolCalled(call_id="c", name="Bash"))
    assert journal.kinds() == ["TextDelta", "TextDelta", "ToolCalled"]
    book.record(events.TextDelta(text="c "))
    book.flush(all=True)
    assert [delta.text for delta in journal.of(events.TextDelta)] == ["a ", "b ", "c "]


@pytest.mark.parametrize("close_tools", [True, False])
def test_the_end_writes_what_is_left_and_closes_open_tool_calls(
    book: Bookkeeping, journal: Recorded, close_tools: bool
) -> None:
    book.record(events.ToolCalled(call_id="a", name="Bash", parent="p"))
    book.record(events.ToolCalled(call_id="b", name="Bash"))
    book.record(events.ToolReturned(call_id="b"))
    book.record(events.TextDelta(text="the rest"))
    book.end(close_tools=close_tools)
    assert journal.of(events.TextDelta)[-1].text == "the rest"
    unfinished = [(one.call_id, one.parent) for one in journal.of(events.ToolReturned) if one.unfinished]
    assert unfinished == ([("a", "p")] if close_tools else [])


def test_requests_are_open_until_they_are_decided_or_cancelled(book: Bookkeeping) -> None:
    for key in ("1", "2"):
        book.record(events.PermissionAsked(ask_id=key, tool="Bash"))
    book.record(events.PermissionDecided(ask_id="1", decision="allow", by="ann"))
    assert book.asks == {"2"}
    book.record(events.PermissionDecided(ask_id="2", decision="cancelled", why="gone"))
    assert book.asks == set()


def test_a_retry_is_the_last_word_until_the_next_event(book: Bookkeeping) -> None:
    book.record(events.StatusChanged(state="retrying", attempt=2))
    assert (book.retrying, book.attempt) == (True, 2)
    book.record(events.Text(text="hi"))
    assert (book.retrying, book.attempt, book.lost) == (False, 2, False)
    book.record(events.SessionLost(session_id="s", reason="gone"))
    assert book.lost
