"""Small parts of the library that otherwise run only inside whole commands."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam.api import Beam, deciding, rewind
from beam.api.deciding import AskDecider
from beam.api.sessions import _History
from beam.api.stream import Stream
from beam.api.team_join import Joining
from beam.base.errors import UsageError
from beam.model import events
from beam.model.events import AnyEvent
from beam.model.outcome import Status
from tests.support.context import Root


def named(seq: int, message_id: str = "a-1") -> dict[str, Any]:
    return {"seq": seq, "ts": f"2026-01-01T00:00:0{seq}.000000Z", "agent": "a", "message_id": message_id}


def finished(seq: int, turn: int, session_id: str, message_id: str = "a-1") -> events.TurnFinished:
    return events.TurnFinished(**named(seq, message_id), turn=turn, session_id=session_id, status=Status.COMPLETED)


def test_the_turns_of_a_session_are_counted_one_by_one() -> None:
    history = _History()
    history.update(events.SessionStarted(**named(1), session_id="s1"))
    assert history.lines["s1"].turns == 0
    for turn in (1, 2, 3):
        history.update(finished(turn + 1, turn, "s1"))
    history.update(finished(5, 4, "s2"))
    assert (history.lines["s1"].turns, history.lines["s1"].last_at) == (3, named(4)["ts"])


def test_the_turns_that_can_be_taken_back_are_those_of_the_session_with_their_messages(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[list[AnyEvent]] = [
        [finished(1, 1, "s1"), finished(2, 2, "s0", "a-2"), finished(3, 3, "s1", "a-3")],
        [events.SessionRewound(**named(4), session_id="s1", to=1, upto="x"), finished(5, 4, "s1", "a-4")],
    ]

    class Read:
        def __init__(self, _: Path) -> None: ...

        def poll(self) -> list[AnyEvent]:
            return happened.pop(0) if happened else []

    monkeypatch.setattr(rewind, "Reader", Read)
    past = rewind._past_turns(root.context.home.agent("a"), "s1")
    assert [(each.turn, each.message_id) for each in past] == [(1, "a-1"), (4, "a-4")]


def test_the_result_of_a_stream_is_refused_before_its_last_event() -> None:
    async def work(_: object) -> int:
        return 7

    async def stop() -> None: ...

    stream = Stream(work, stop)
    with pytest.raises(UsageError, match="not over"):
        _ = stream.result
    assert list(stream) == [] and stream.result == 7


@pytest.mark.parametrize("every_root", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_search_of_every_root_has_this_one_once(
    root: Root, monkeypatch: pytest.MonkeyPatch, every_root: bool, is_known: bool
) -> None:
    searched: list[Any] = []
    beam = Beam(cwd=root.context.home.project, environ={"HOME": str(root.context.home.root), "BEAM_TRUST": "1"})
    other = object()
    monkeypatch.setattr("beam.root.discovery.known_roots", lambda _: [other, *([beam.home] if is_known else [])])
    monkeypatch.setattr("beam.api.search.search", lambda homes, *_, **__: searched.extend(homes))
    beam.search("word", every_root=every_root)
    assert searched.count(beam.home) == 1 and (other in searched) == every_root


@pytest.mark.parametrize("answer", ["allow", None, 5])
def test_a_function_that_decides_runs_in_a_thread_and_its_answer_comes_back(answer: object) -> None:
    def decide(_: object) -> Any:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return answer

    assert asyncio.run(asyncio.wait_for(deciding._call_in_thread(decide, None), 5)) == answer  # type: ignore[arg-type]


def test_what_a_function_that_decides_raises_is_raised_where_it_is_awaited() -> None:
    def decide(_: object) -> Any:
        raise KeyError("no")

    with pytest.raises(KeyError):
        asyncio.run(asyncio.wait_for(deciding._call_in_thread(decide, None), 5))  # type: ignore[arg-type]


def test_whoever_has_a_function_decide_still_sees_each_event(root: Root) -> None:
    seen: list[Any] = []
    passed: Callable[[Any], None] = seen.append
    event = finished(1, 1, "s1")
    AskDecider(root.context, lambda _: None, passed, by="me").event(event)  # type: ignore[arg-type,return-value]
    assert seen == [event]


def test_a_member_that_joins_a_team_may_read_unless_it_is_said_otherwise() -> None:
    joining = Joining(agent="a", name="ann")
    assert (joining.access, joining.takes_tasks, joining.leads, joining.idle_s) == ("read", False, False, None)
    assert inspect.signature(Joining).parameters["access"].default == "read"
