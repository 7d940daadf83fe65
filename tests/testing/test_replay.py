from __future__ import annotations

import pytest

from beam.agents.base import Exit
from beam.base.errors import NotFoundError, UnsupportedError
from beam.model.events import TurnFinished
from beam.model.outcome import Status
from beam.testing.replay import replay, without_raw

LINES = [
    b'{"type":"system","subtype":"init","session_id":"s-1","model":"m"}\n',
    b'{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"s-1"}\n',
]


def test_events_are_numbered_from_one_and_end_with_the_outcome():
    events = list(replay("claude", LINES, exit=Exit(code=0)))

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.agent for event in events} == {"claude"}
    last = events[-1]
    assert isinstance(last, TurnFinished)
    assert (last.status, last.reply, last.session_id, last.exit_code) == (Status.COMPLETED, "hi", "s-1", 0)


def test_how_the_process_ended_is_part_of_the_verdict():
    *_, last = replay("claude", LINES[:1], exit=Exit(signal="SIGKILL"))

    assert isinstance(last, TurnFinished)
    assert (last.status, last.exit_code) == (Status.FAILED, 1)


def test_the_lines_of_the_cli_can_be_left_out():
    events = list(replay("claude", LINES, exit=Exit(code=0)))

    assert b"init" in repr(events[0]).encode()
    assert not any("subtype" in repr(without_raw(event)) for event in events)


def test_no_adapter_and_one_without_a_headless_face_are_refused():
    with pytest.raises(NotFoundError, match="clod"):
        list(replay("clod", [], exit=Exit()))
    with pytest.raises(UnsupportedError, match="mailbox"):
        list(replay("mailbox", [], exit=Exit()))
