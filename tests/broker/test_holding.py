"""A holder that waits for the first of several things."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from beam.broker.serving.holding import Holder, wait_for_sender
from beam.store.queue import Queue
from tests.support.context import Root


def test_what_comes_later_than_the_first_is_no_longer_waited_for() -> None:
    ended: list[str] = []

    async def soon() -> None:
        ended.append("soon")

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    asyncio.run(asyncio.wait_for(Holder._wait_for_first(cast(Any, None), soon(), never()), 5))
    assert ended == ["soon", "cancelled"]


@pytest.mark.parametrize(
    ("is_root_there", "is_served", "why"),
    [
        (True, False, ""),
        (False, False, "the root is gone"),
        (True, True, "a broker serves the agent from now on"),
    ],
)
def test_a_kept_process_is_let_go_when_the_root_is_gone_or_a_broker_serves(
    monkeypatch: pytest.MonkeyPatch, is_root_there: bool, is_served: bool, why: str
) -> None:
    from types import SimpleNamespace

    from beam.broker.serving import holding

    monkeypatch.setattr(holding.registry, "broker_serves_root", lambda _: is_served)
    lease = SimpleNamespace(is_in_place=lambda: is_root_there, log=SimpleNamespace(context=SimpleNamespace(home=None)))
    assert Holder._why_release(cast(Any, SimpleNamespace(_lease=lease))) == why


def test_a_message_that_its_sender_ran_meanwhile_is_waited_for_no_longer(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    async def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            queue.remove(queue.entries("new")[0])

    root.put("box")
    paths = root.place("box")
    queue = Queue(paths.queue, paths.put_lock)
    monkeypatch.setattr(asyncio, "sleep", pause)
    asyncio.run(wait_for_sender(paths))
    assert len(looks) == 3
