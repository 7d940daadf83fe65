"""Runs the turns of a chat: prints their events as text, shows their permission requests (asks) as questions, and sends
interrupts and typed texts to the running turn.

This module does not decide which agent has the next turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from beam import BeamError, Event, NotFoundError, SignalledError, UnfinishedError, UnsupportedError, events, since
from beam.cli.chatting import words
from beam.cli.chatting.transcript import Style, Transcript
from beam.cli.render import asks, live
from beam.cli.render.text import collapse_to_line, one_line, truncate

if TYPE_CHECKING:
    from beam import Beam, Message, Outcome, Progress
    from beam.cli.render.days import Days

_SHORT_WAIT_S = 1.0  # a message that waits for less time is not shown as waiting


class UnreadText(Struct, frozen=True, kw_only=True):
    """A text that the running turn did not read. `why` is the reason, or "" if it is unknown. `is_interrupted` is true
    if a person in this chat ended the turn."""

    text: str
    why: str
    is_interrupted: bool


class Turns:
    """Runs the turns of a chat. `say` is called with lines to print. `ask` is called with a question to show in place
    of the input's prompt sign, or with "" to remove the question. Before a question that takes the place of another it
    is called with "", because both may have the same words. Without a terminal `ask` is None, and each permission
    request is printed with the commands that answer it. `seen` is called with each event of the turns."""

    def __init__(
        self,
        beam: Beam,
        style: Style,
        say: Callable[[Iterable[str]], None],
        ask: Callable[[str], None] | None,
        *,
        seen: Callable[[Event], None] | None = None,
    ) -> None:
        self._beam = beam
        self._style = style
        self._say = say
        self._ask = ask
        self._seen = seen
        self._transcript = Transcript(style)
        self._asks: dict[str, events.PermissionAsked] = {}
        self._shown_ask = ""  # id of the ask whose question is shown
        self._tasks: set[asyncio.Task[None]] = set()
        self._progress: Callable[[], Progress | None] | None = None
        self._put_at = 0.0
        self.message: Message | None = None  # the message whose turn runs or waits
        self.has_begun = False
        self._interrupted: set[str] = set()  # ids of the messages whose turns a person in this chat ended
        self.takes_steering = True  # until the agent refuses a text for a running turn
        self.unread: list[str] = []  # texts for the running turn that it has not read yet

    # -- one turn ------------------------------------------------------------------------------------------------------

    async def run(self, message: Message) -> Outcome:
        """Send the message, print its turn, and return its outcome. Raises the errors of `Beam.deliver`."""
        self.message, self.has_begun = message, False
        self._put_at = time.monotonic()
        self._progress = self._beam.progress(message)
        try:
            outcome = await self._beam.deliver.aio(message, self._on_event)
        except SignalledError as error:
            from beam import Outcome

            if isinstance(error.outcome, Outcome):
                self._say(self._transcript.outcome(error.outcome))
            raise
        finally:
            self.message, self._progress = None, None
            self._asks.clear()
            self._next_question()
        self._say(self._transcript.outcome(outcome))
        return outcome

    def _on_event(self, event: Event) -> None:
        if isinstance(event, events.TurnStarted):
            self.has_begun = True
            self._transcript.begin(time.monotonic())
        if self._seen is not None:
            self._seen(event)
        if isinstance(event, events.ImageSeen):
            event = events.with_image_in(event, str(self._beam.home.agent(event.agent).dir))
        self._say(self._transcript.event(event, time.monotonic()))
        match event:
            case events.PermissionAsked() if event.expires is not None:  # if None, beam itself decides it immediately
                self._on_ask(event)
            case events.PermissionDecided():
                self._asks.pop(event.ask_id, None)
                self._next_question()

    def is_interrupted(self, message_id: str) -> bool:
        """Return whether a person in this chat ended the turn of this message."""
        return message_id in self._interrupted

    def live_rows(self, columns: int) -> list[str]:
        """Return the rows that show the current state of the turn; an empty list if no turn runs and no message
        waits."""
        if self.message is None:
            return []
        now = time.monotonic()
        if not self.has_begun and now - self._put_at < _SHORT_WAIT_S:
            return ["…"]
        if not self.has_begun:
            progress = self._progress() if self._progress is not None else None
            row = live.progress_line(self.message.id, progress, waited_s=now - self._put_at)
            return [truncate(f"… {collapse_to_line(row)}", columns - 1)]
        rows = self._transcript.live_rows(now, columns)
        unread = [f"  {one_line(f'→ {text} (not read yet)', columns - 3)}" for text in self.unread]
        return [*rows[:-1], *unread, *rows[-1:]]

    # -- asks ----------------------------------------------------------------------------------------------------------

    def _on_ask(self, event: events.PermissionAsked) -> None:
        if self._ask is None:
            self._say([f"  {asks.line(event)}"])
            return
        self._asks[event.ask_id] = event
        if len(self._asks) == 1:
            self._next_question()

    def _next_question(self) -> None:
        if self._ask is None:
            return
        asked = next(iter(self._asks.values()), None)
        before, self._shown_ask = self._shown_ask, asked.ask_id if asked is not None else ""
        if asked is None:
            self._ask("")
            return
        if before and before != asked.ask_id:
            self._ask("")
        scope = asks.always_words(bytes(asked.suggestions))
        said = [self._style.bold(f"? {asks.question(asked)}"), *asks.full_input_lines(asked)]
        self._say([*said, *([f"  always: {scope}"] if scope else [])])
        self._ask(f"Allow it? [yes / no, and why /{' always /' if _offers_always(asked) else ''} stop]")

    def answer(self, line: str) -> None:
        """Handle a line that a person entered while a question was shown: decide the permission request, or say that
        the line is not an answer."""
        asked = next(iter(self._asks.values()), None)
        if asked is None:
            return
        given = words.parse_answer(line, offers=_offers_always(asked))
        if given is None:
            self._say([self._style.dim("  that is no answer to the question")] if line.strip() else [])
            return
        self.start_task(self._decide(asked, given))

    async def _decide(self, asked: events.PermissionAsked, given: words.Answer) -> None:
        if given.allow:
            await self._beam.approve.aio(asked.ask_id, always=given.always)
            return
        try:
            await self._beam.deny.aio(asked.ask_id, message=given.reason, stop=given.stop)
        except BeamError as error:
            if given.reason is None or isinstance(error, NotFoundError):
                raise
            await self._beam.deny.aio(asked.ask_id, stop=given.stop)
            self._say(
                [self._style.dim(f"  {collapse_to_line(asked.agent)} can't be told why; it is denied all the same")]
            )

    # -- while it runs -------------------------------------------------------------------------------------------------

    def interrupt(self) -> bool:
        """End the running turn, or withdraw the waiting message. Return False if there is neither."""
        if self.message is None:
            return False
        message_id = self.message.id
        self._interrupted.add(message_id)

        async def stop() -> None:
            try:
                await self._beam.interrupt.aio(message_id)
            except (NotFoundError, UnfinishedError):
                return  # it has just ended on its own

        self.start_task(stop())
        return True

    def steer(self, agent: str, text: str, otherwise: Callable[[UnreadText], None]) -> None:
        """Give a text to the running turn. If that turn did not read the text, call `otherwise` with the text and the
        reason."""
        assert self.message is not None
        message_id = self.message.id
        self.unread.append(text)

        def not_read(why: str = "") -> None:
            otherwise(UnreadText(text=text, why=why, is_interrupted=message_id in self._interrupted))

        async def tell() -> None:
            try:
                await self._beam.steer.aio(agent, text)
            except UnsupportedError as error:
                self.takes_steering = False
                not_read(error.message)
            except (NotFoundError, UnfinishedError):
                not_read()
            except BeamError as error:
                not_read(error.message)
            else:
                self._say([self._style.bold(f"→ {line}") for line in _safe_lines(text)])
            finally:
                self.unread.remove(text)

        self.start_task(tell())

    def start_task(self, work: object) -> None:
        """Run a coroutine at the same time as the turn. If it raises a BeamError, print the error."""

        async def safely() -> None:
            try:
                await work  # type: ignore[misc]
            except BeamError as error:
                self._say([self._style.red(f"  ! {collapse_to_line(str(error))}")])

        task = asyncio.ensure_future(safely())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_for_tasks(self) -> None:
        """Wait up to 5 seconds for the coroutines that `start_task` started, then cancel those that still run."""
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=5)
            for task in left:
                task.cancel()


def _offers_always(asked: events.PermissionAsked) -> bool:
    return len(bytes(asked.suggestions)) > len(b"[]")


def _safe_lines(text: str) -> list[str]:
    from beam.cli.render.text import escape_controls

    return escape_controls(text).split("\n")


def dated_lines(lines: Iterable[str], days: Days, style: Style) -> list[str]:
    """Return the lines, which are shown now, below the date if the day has changed since the line before them."""
    said = list(lines)
    heading = days.heading(since(0)) if said else ""
    return [style.dim(heading), *said] if heading else said


def typed_lines(text: str, style: Style, mark: str = "> ") -> list[str]:
    """Return the lines that show a text which a person sent. The first line begins with `mark`."""
    first, *more = _safe_lines(text)
    return [style.bold(f"{mark}{first}"), *(style.bold(f"{' ' * len(mark)}{line}") for line in more)]
