"""Shows a turn's asks to the person who waits for it at a terminal, and reads the answers.

The answer goes to the process that holds the agent, exactly as `beam approve` and `beam deny` would send it. Does not
depend on how an event is printed.
"""

from __future__ import annotations

import os
import select
import termios
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from beam import BeamError

if TYPE_CHECKING:
    from beam import Beam, Event

_TICK_S = 0.1
_YES, _NO = ("y", "yes"), ("n", "no")


def may_read() -> bool:
    """Return whether this process is in the foreground of its terminal and so receives its keys."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


class Asking:
    """Asks one question after another while the turn runs. `say` writes to the person."""

    def __init__(self, beam: Beam, say: Callable[[str], None]) -> None:
        self._beam = beam
        self._say = say
        self._over: dict[str, threading.Event] = {}
        self._of: dict[str, str | None] = {}  # the message that each of them belongs to
        self._turn = threading.Lock()

    def event(self, event: Event) -> None:
        """Ask about a new request, or stop asking about one that is over."""
        from beam import events

        match event:
            case events.PermissionAsked():
                self._over[event.ask_id] = threading.Event()
                self._of[event.ask_id] = event.message_id
                threading.Thread(target=self._ask, args=(event,), daemon=True).start()
            case events.PermissionDecided() | events.PermissionCancelled():
                self._end(event.ask_id)
            case events.TurnFinished() | events.MessageDead():
                for ask_id in list(self._over):
                    if self._of[ask_id] == event.message_id:
                        self._end(ask_id)

    def _end(self, ask_id: str) -> None:
        self._of.pop(ask_id, None)
        over = self._over.pop(ask_id, None)
        if over is not None:
            over.set()

    def _ask(self, asked: object) -> None:
        from beam import events
        from beam.cli.render.asks import always_words, question, rest

        assert isinstance(asked, events.PermissionAsked)
        over = self._over.get(asked.ask_id)
        if over is None:
            return
        offers = len(bytes(asked.suggestions)) > len(b"[]")
        choices = "yes / no / " + ("always / " if offers else "") + "stop"
        with self._turn:
            if over.is_set():
                return
            scope = always_words(bytes(asked.suggestions))
            lines = [f"beam: {question(asked)}", *rest(asked), *([f"beam: always: {scope}"] if scope else [])]
            self._say("".join(f"{line}\n" for line in lines))
            termios.tcflush(0, termios.TCIFLUSH)  # what was typed before the question is no answer to it
            while not over.is_set():
                self._say(f"Allow it? [{choices}] ")
                answer = _line(over)
                if answer is None:
                    self._say(
                        "\n"
                        if over.is_set()
                        else f"\nbeam: {asked.ask_id} stays open; answer it with beam approve or beam deny\n"
                    )
                    return
                if self._decide(asked.ask_id, answer.strip().lower(), offers=offers):
                    return

    def _decide(self, ask_id: str, answer: str, *, offers: bool) -> bool:
        """Send the decision that this answer means; return False if it is no answer to the question."""
        try:
            if answer in _YES or (answer in ("a", "always") and offers):
                self._beam.approve(ask_id, always=answer in ("a", "always"))
            elif answer in _NO or answer in ("s", "stop"):
                self._beam.deny(ask_id, stop=answer in ("s", "stop"))
            else:
                return False
        except BeamError as error:
            self._say(f"beam: {error.message}\n")
        return True


def _line(over: threading.Event) -> str | None:
    """Return the next line from stdin; None at its end, or as soon as `over` is set."""
    while not over.is_set():
        if select.select([0], [], [], _TICK_S)[0]:
            data = os.read(0, 4096)
            return data.decode(errors="replace") if data else None
    return None
