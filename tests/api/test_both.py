"""One implementation of a verb, called with and without an event loop."""

from __future__ import annotations

import asyncio

import pytest

from beam.api.both import coroutine_verb, waiting_verb
from beam.base.steps import Steps


class Thing:
    """Has a verb of each kind."""

    def __init__(self) -> None:
        self.paused = 0

    @coroutine_verb
    async def add(self, left: int, *, right: int) -> int:
        """Adds."""
        await asyncio.sleep(0)
        return left + right

    @waiting_verb
    def count(self, to: int) -> Steps[str]:
        """Counts."""
        for _ in range(to):
            self.paused += 1
            yield 0.0
        return f"counted to {to}"

    @waiting_verb
    def fail(self) -> Steps[None]:
        yield 0.0
        raise ValueError("no")


def test_a_coroutine_gives_the_same_both_ways() -> None:
    async def inside() -> int:
        return await Thing().add.aio(1, right=2)

    assert Thing().add(1, right=2) == asyncio.run(inside()) == 3


def test_a_generator_gives_the_same_both_ways() -> None:
    async def inside() -> str:
        return await Thing().count.aio(3)

    assert Thing().count(3) == asyncio.run(inside()) == "counted to 3"


def test_a_waiting_verb_lets_others_run_meanwhile() -> None:
    async def inside() -> list[str]:
        order: list[str] = []

        async def count(to: int) -> None:
            order.append(await Thing().count.aio(to))

        await asyncio.gather(count(4), count(2))
        return order

    assert asyncio.run(inside()) == ["counted to 2", "counted to 4"]


def test_errors_come_out_both_ways() -> None:
    async def inside() -> None:
        await Thing().fail.aio()

    with pytest.raises(ValueError, match="no"):
        Thing().fail()
    with pytest.raises(ValueError, match="no"):
        asyncio.run(inside())


def test_the_blocking_call_of_a_generator_needs_no_loop_and_disturbs_none() -> None:
    async def inside() -> str:
        return Thing().count(1)

    assert asyncio.run(inside()) == "counted to 1"


def test_a_verb_keeps_its_words() -> None:
    assert (Thing.add.__doc__, Thing.count.__doc__) == ("Adds.", "Counts.")
