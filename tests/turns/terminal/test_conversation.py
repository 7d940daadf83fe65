"""The conversation of a turn on a screen: when the message is typed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from beam.agents.base import Turn
from beam.pty_adapter.turn_end import State
from beam.turns.terminal.conversation import Conversation
from tests.support.turns import turn_input


class Typed(Conversation):
    """A conversation whose message is not taken; `states` are those of the agent when it was to be typed."""

    states: tuple[State, ...] = ()

    async def _type_message(self) -> bool:
        self.states += (self.end.state,)
        return False


def test_after_a_viewers_message_that_asked_something_the_agent_is_waited_for_again() -> None:
    end = SimpleNamespace(
        state=State.READY, ended=False, reading=SimpleNamespace(idle=False), profile=SimpleNamespace(prompt="x")
    )
    looks = [(State.WAITING, False), (State.STARTING, True), (State.STARTING, True), (State.READY, True)]

    class Session:
        is_over = False

        def __init__(self) -> None:
            self.end = end

        async def until(self, claim: Callable[[], bool], seconds: float) -> bool:
            while not claim():
                end.state, end.reading.idle = looks.pop(0)
            return True

    viewers = SimpleNamespace(typed_at=-10.0, hold_keys=contextlib.nullcontext)
    given = (SimpleNamespace(), SimpleNamespace(viewers=viewers), Session(), SimpleNamespace())
    conversation = Typed(turn_input(Turn(text="hi", message_id="x-1", agent="x")), *cast(Any, given))
    asyncio.run(conversation.run())
    assert conversation.states == (State.READY,)
