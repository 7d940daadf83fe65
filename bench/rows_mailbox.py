"""What a mailbox costs where many messages wait for whoever answers them."""

from __future__ import annotations

import time
from collections.abc import Callable

from beam.base.clock import SystemClock, rfc3339
from beam.broker.asking import mailbox
from beam.broker.asking.agent_requests import carry_out
from beam.broker.holder.duty import ensure_running
from beam.broker.inbox.context import RootContext
from beam.model.message import Message, Payload, new_id
from beam.root.discovery import create
from beam.store.queue import Queue
from bench.measure import Bench, Figure, Series, in_turns
from bench.place import Project

_CLOCK = SystemClock()
_FEW, _MANY = 10, 2000
_YAML = f"limits: {{waiting: {2 * _MANY}}}\nagents:\n  desk: {{adapter: mailbox}}\n"


def waiting(bench: Bench) -> list[Figure]:
    """A message put, taken and answered, and a look of who waits for one, where 2,000 wait; over the same where 10
    do."""
    many, few = _Desk(bench, "mailbox-many", _MANY), _Desk(bench, "mailbox-few", _FEW)
    answered, answered_few, looked, looked_few = in_turns(
        bench.times(60),
        lambda: _ms(many.answer_one),
        lambda: _ms(few.answer_one),
        lambda: _ms(many.look),
        lambda: _ms(few.look),
    )
    return [
        Figure(
            "mailbox, 2,000 wait: put, recv, reply",
            Series("2,000 wait", answered),
            "ms",
            Series("10 wait", answered_few),
            at_most=1.5,
        ),
        Figure(
            "mailbox, 2,000 wait: a waiter's look",
            Series("2,000 wait", looked),
            "ms",
            Series("10 wait", looked_few),
            at_most=1.5,
        ),
    ]


class _Desk:
    """A mailbox in which so many messages wait."""

    def __init__(self, bench: Bench, name: str, count: int) -> None:
        project = Project(bench, name, _YAML)
        self.context = RootContext.load(
            project.place, environ=project.env, clock=_CLOCK, carry_out=carry_out, exposed=None
        )
        self.place = self.context.agent_paths("desk")
        create(self.context.home, self.place)
        self._queue = Queue(self.place.queue, self.place.put_lock)
        messages = [_message() for _ in range(count)]
        self._queue.put_all(messages, _CLOCK, self.context.config.limits)
        self._last = messages[-1].id

    def answer_one(self) -> None:
        """As many wait afterwards as before."""
        self._queue.put(_message(), _CLOCK, self.context.config.limits)
        message = mailbox.recv(self.context, self.place, None)
        assert message is not None
        mailbox.reply(self.context, self.place, message.id, "yes", failed=False)

    def look(self) -> None:
        """What somebody who waits for the last message does twice a second."""
        ensure_running(self.context, self.place, self._last)


def _message() -> Message:
    now = _CLOCK.now_ns()
    return Message(
        id=new_id("desk", now, _CLOCK.random(4)),
        timestamp=rfc3339(now),
        sender="human",
        to="desk",
        payload=Payload(text="Please look at this and say yes or no. " * 8),
    )


def _ms(step: Callable[[], None]) -> float:
    began = time.perf_counter()
    step()
    return (time.perf_counter() - began) * 1000
