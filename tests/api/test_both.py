"""One implementation of a verb, called with and without an event loop."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
from collections.abc import Callable

import pytest

from beam.api import Beam
from beam.api.methods import coroutine_verb, waiting_verb
from beam.api.stream import Stream
from beam.base.clock import Steps
from beam.base.errors import UsageError
from tests.support.refused import refused


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


def test_what_runs_an_event_loop_says_in_one_what_to_call_there() -> None:
    async def work(seen: object) -> None:
        """Ends at once."""

    async def inside() -> None:
        said = "add blocks, and an event loop runs in this thread"
        with refused(UsageError, said, "await it: add.aio(…)"):
            Thing().add(1, right=2)
        said = "a `for` loop over events blocks, and an event loop runs in this thread"
        with refused(UsageError, said, "take `async for`"):
            list(Stream(work, lambda: work(None)))

    asyncio.run(inside())


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


def signature(verb: Callable[..., object]) -> str:
    """Return what `inspect.signature` shows, as it would stand in the source."""
    return str(inspect.signature(verb)).replace("'", "")


def test_the_signature_of_a_verb_is_that_of_its_method() -> None:
    thing = Thing()
    assert [signature(Thing.add), signature(Thing.add.aio)] == ["(self, left: int, *, right: int) -> int"] * 2
    assert [signature(thing.add), signature(thing.add.aio)] == ["(left: int, *, right: int) -> int"] * 2
    assert [signature(Thing.count), signature(Thing.count.aio)] == ["(self, to: int) -> str"] * 2
    assert [signature(thing.count), signature(thing.count.aio)] == ["(to: int) -> str"] * 2


def test_help_shows_a_verb_as_the_method_that_it_is() -> None:
    def shown(thing: object) -> str:
        return pydoc.plain(pydoc.render_doc(thing)).replace("'", "")

    thing = Thing()
    assert "\nadd(self, left: int, *, right: int) -> int\n    Adds." in shown(Thing.add)
    assert "\nadd(left: int, *, right: int) -> int\n    Adds." in shown(thing.add)
    assert "\ncount(to: int) -> str\n    Counts." in shown(thing.count)
    assert "\nasync add(left: int, *, right: int) -> int" in shown(thing.add.aio)
    assert "\nasync count(to: int) -> str" in shown(thing.count.aio)
    assert "|  count(self, to: int) -> str\n |      Counts." in shown(Thing)


def test_only_the_side_for_an_event_loop_is_a_coroutine_function() -> None:
    thing = Thing()
    assert all(inspect.iscoroutinefunction(verb.aio) for verb in (Thing.add, Thing.count, thing.add, thing.count))
    assert not any(inspect.iscoroutinefunction(verb) for verb in (Thing.add, Thing.count, thing.add, thing.count))


def test_a_verb_of_the_class_takes_the_object_first() -> None:
    assert (Thing.add(Thing(), 1, right=2), Thing.count(Thing(), 2)) == (3, "counted to 2")
    assert (asyncio.run(Thing.add.aio(Thing(), 1, right=2)), asyncio.run(Thing.count.aio(Thing(), 2))) == (
        3,
        "counted to 2",
    )


def test_every_verb_of_beam_tells_its_parameters_and_what_it_does() -> None:
    verbs = {name: getattr(Beam, name) for name in dir(Beam) if name[0] != "_" and callable(getattr(Beam, name))}
    assert {"send", "wait", "status", "approve"} <= set(verbs)
    for name, verb in verbs.items():
        shown = signature(verb)
        assert shown.startswith("(self") and "Steps[" not in shown and " at 0x" not in shown, name
        assert verb.__name__ == name and inspect.getdoc(verb), name
    assert " -> Outcome" in signature(Beam.send)
    assert " -> dict[str, Outcome | None]" in signature(Beam.wait_until)
