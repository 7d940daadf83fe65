"""Stand-ins for a chat's library and its terminal, for tests of a chat without a process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from beam.model import events
from beam.model.message import Message, Options, Payload
from beam.model.outcome import Outcome, Status


def outcome(**more: Any) -> Outcome:
    """A turn that was completed."""
    given = {"status": Status.COMPLETED, "turn": 1, "attempt": 1, "message_id": "bot-1", "agent": "bot", **more}
    return Outcome(**given)


def message(message_id: str, to: str = "bot", text: str = "hi") -> Message:
    """A message from a person."""
    sent_at = "2026-01-02T03:04:05.000000Z"
    return Message(id=message_id, timestamp=sent_at, sender="human", to=to, payload=Payload(text=text))


class Verb:
    """An asynchronous verb of the library: what it was called with, and what it answers, in order, else None."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    async def aio(self, *given: Any, **named: Any) -> Any:
        """One call. An answer that is an error is raised; a function is called and awaited."""
        self.calls.append((given, named))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            return await answer(*given, **named)
        return answer


class Library:
    """What a chat uses of `Beam`."""

    def __init__(self) -> None:
        self.deliver = Verb()
        self.approve, self.deny, self.interrupt, self.steer, self.ask_live = Verb(), Verb(), Verb(), Verb(), Verb()
        self.home = SimpleNamespace(agent=lambda name: SimpleNamespace(dir=Path("/root") / name))
        self.shown: Any = None
        self.told: list[str] = []
        self.made: list[tuple[str, str, list[Path], Options]] = []
        self.end: Callable[[], None] | None = None
        self.came: list[Any] = []
        self.is_open = False
        self.refused: list[Exception] = []

    def progress(self, message: Message) -> Callable[[], Any]:
        return lambda: self.shown

    def recalled(self, agent: str) -> list[str]:
        return [f"said to {agent} before"]

    def message(self, agent: str, text: str, *, attach: Sequence[Path] = (), options: Options = Options()) -> Message:
        if self.refused:
            raise self.refused.pop(0)
        self.made.append((agent, text, list(attach), options))
        return message(f"bot-{len(self.made)}", agent, text)

    def notes(self, message: Message) -> list[str]:
        return list(self.told)

    @contextlib.contextmanager
    def ending_signals(self, end: Callable[[], None]) -> Iterator[list[Any]]:
        self.end = end
        yield self.came

    async def __aenter__(self) -> Library:
        self.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_open = False


class Terminal:
    """What a chat uses of `Composer`: what was printed and asked, and the functions that it was made with."""

    def __init__(self, **given: Any) -> None:
        self.given = given
        self.said: list[str] = []
        self.asked: list[str] = []
        self.back: list[str] = []
        self.text = ""
        self.refreshed = 0
        self.closed = asyncio.Event()

    async def run(self, greeting: str) -> None:
        self.said.append(greeting)
        await self.closed.wait()

    def close(self) -> None:
        self.closed.set()

    def say(self, lines: Iterable[str]) -> None:
        self.said.extend(lines)

    def ask(self, question: str) -> None:
        self.asked.append(question)

    def put_back(self, text: str) -> None:
        self.back.append(text)

    def refresh(self) -> None:
        self.refreshed += 1

    def taken(self) -> list[str]:
        """What was printed since the last time."""
        said, self.said = self.said, []
        return said


async def settled() -> None:
    """Lets all that can run now run."""
    for _ in range(20):
        await asyncio.sleep(0)


class Turn:
    """A turn of `deliver` that goes on until it is told how it ends."""

    def __init__(self) -> None:
        self.end: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.event: Callable[[events.Event], None] = lambda _: None

    async def __call__(self, message: Message, event: Callable[[events.Event], None]) -> Outcome:
        self.event = event
        return await self.end

    def begin(self) -> None:
        self.event(
            events.TurnStarted(
                owner=events.Owner(pid=1, start_ticks=1), turn_key="k", adapter="codex", via="exec", turn=1
            )
        )


@contextlib.asynccontextmanager
async def going(work: Awaitable[Any]) -> AsyncIterator[asyncio.Future[Any]]:
    """The work as a task that has begun, and that is over afterwards."""
    task = asyncio.ensure_future(work)
    await settled()
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
