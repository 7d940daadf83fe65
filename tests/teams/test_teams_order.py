"""The order of a stream."""

from __future__ import annotations

from beam.model.events import Event, Notice
from beam.teams.reorder import WINDOW_NS, ReorderBuffer


def notice(ts: str) -> Event:
    return Notice(ts=ts, text=ts)


def stamps(events: list[Event]) -> list[str]:
    return [event.ts for event in events]


def test_what_was_seen_late_goes_first_if_it_came_within_the_window() -> None:
    order = ReorderBuffer()
    order.push([notice("2")], 0)
    order.push([notice("1")], WINDOW_NS - 1)
    assert stamps(order.due(WINDOW_NS - 1)) == []
    assert stamps(order.due(WINDOW_NS)) == ["1", "2"]
    assert not order.is_holding


def test_what_has_not_waited_long_enough_is_held_unless_it_was_before_what_goes() -> None:
    order = ReorderBuffer()
    order.push([notice("2")], 0)
    order.push([notice("3"), notice("1")], 5)
    assert stamps(order.due(WINDOW_NS)) == ["1", "2"]
    assert order.is_holding and stamps(order.all()) == ["3"]


def test_equal_times_keep_the_order_in_which_they_were_seen() -> None:
    order = ReorderBuffer()
    events = [Notice(ts="1", text=str(n)) for n in range(5)]
    order.push(events, 0)
    assert order.due(WINDOW_NS) == events


def test_what_was_seen_under_an_earlier_ticket_comes_first_among_equal_times() -> None:
    order = ReorderBuffer()
    ticket = order.ticket()
    assert (ticket, order.ticket()) == (1, 2)
    order.push([Notice(ts="1", text="now")], 0)
    order.push([Notice(ts="1", text="earlier")], 0, ticket=ticket)
    order.push([Notice(ts="0", text="first")], 0)
    assert [event.text for event in order.all() if isinstance(event, Notice)] == ["first", "earlier", "now"]
    assert (order.is_holding, order.all(), order.due(WINDOW_NS)) == (False, [], [])


def test_an_event_is_due_when_the_window_is_over_with_all_before_it() -> None:
    order = ReorderBuffer(window_ns=10)
    order.push([notice("2")], 0)
    order.push([notice("1"), notice("3")], 5)
    assert order.due(9) == []
    assert stamps(order.due(10)) == ["1", "2"]
    assert stamps(order.due(15)) == ["3"]
