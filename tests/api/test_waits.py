"""Waiting for several things side by side."""

from __future__ import annotations

import shutil

import pytest

from beam.api import manage
from beam.api.waits import Until, several, state_of
from beam.base.errors import NotFoundError, UnfinishedError
from beam.base.steps import Steps
from beam.broker import mailbox
from tests.support.context import Root


def steps(result: str, *pauses: float) -> Steps[str]:
    yield from pauses
    return result


def run(*waits: Steps[str], only_first: bool = False) -> tuple[list[float], list[tuple[int, str]]]:
    ended: list[tuple[int, str]] = []
    pauses = list(several(waits, only_first=only_first, ended=lambda place, result: ended.append((place, result))))
    return pauses, ended


def test_all_are_waited_for_and_told_as_they_end() -> None:
    pauses, ended = run(steps("a", 3, 1, 1), steps("b", 2), steps("c"))
    assert ended == [(2, "c"), (1, "b"), (0, "a")]
    assert pauses == [2, 1, 1]  # each time as short as the most impatient one


def test_the_first_to_end_is_enough_if_that_is_asked() -> None:
    assert run(steps("a", 1, 1), steps("b", 1), only_first=True) == ([1], [(1, "b")])


@pytest.mark.parametrize("until", ["idle", "asking", "finished"])
def test_who_waits_for_an_agent_that_is_removed_meanwhile_is_told(root: Root, until: Until) -> None:
    paths = root.place("box")
    if until == "idle":
        root.put("box")
    waiting = state_of(root.context, paths, until, timeout=None, looks_only=True)
    next(waiting)
    shutil.rmtree(paths.dir)
    with pytest.raises(NotFoundError, match="box was removed"):
        next(waiting)


@pytest.mark.parametrize("is_lent", [False, True])
def test_an_agent_whose_messages_were_given_up_by_its_removal_is_not_idle(root: Root, is_lent: bool) -> None:
    message = root.put("box")
    if is_lent:
        taken = mailbox.recv(root.context, root.place("box"), None)
        assert taken is not None and taken.id == message.id
    waiting = state_of(root.context, root.place("box"), "idle", timeout=None, looks_only=True)
    next(waiting)
    lease = root.hold("box")
    assert manage._give_up_all(lease) == 1
    with pytest.raises(NotFoundError, match="box was removed"):
        next(waiting)
    lease.hand_over(start_worker=False)


def test_a_state_that_does_not_come_in_time_stops_nothing(root: Root) -> None:
    root.put("box")
    waiting = state_of(root.context, root.place("box"), "idle", timeout=5.0, looks_only=True)
    next(waiting)
    root.clock.sleep(5.0)
    with pytest.raises(UnfinishedError, match="box is not idle after 5 s; nothing was stopped"):
        next(waiting)


def test_none_is_waited_for_where_there_is_none() -> None:
    assert run() == ([], [])


def test_what_one_of_them_raises_ends_the_waiting() -> None:
    def fails() -> Steps[str]:
        yield 1
        raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        run(steps("a", 1, 1, 1), fails())
