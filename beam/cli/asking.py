"""Shows the permission requests (asks) of a turn to the person who waits for the turn at a terminal, and reads the
answers.

An answer goes to the process that holds the agent, exactly as `beam approve` and `beam deny` would send it. This module
does not depend on how events are printed.
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


def is_in_foreground() -> bool:
    """Return whether this process is in the foreground of its terminal. A process in the background does not receive
    the typed keys."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


class AskPrompter:
    """Asks a person about the permission requests of a running turn, one after another. `say` is called with each text
    for the person."""

    def __init__(self, beam: Beam, say: Callable[[str], None]) -> None:
        self._beam = beam
        self._say = say
        self._closed_events: dict[str, threading.Event] = {}  # by ask id: set once the ask needs no answer
        self._message_ids: dict[str, str | None] = {}  # by ask id: the message that the ask belongs to
        self._question_lock = threading.Lock()

    def event(self, event: Event) -> None:
        """Handle an event of the turn: ask about a new permission request, or stop asking about a request that was
        decided or withdrawn, or whose turn is over."""
        from beam import events

        match event:
            case events.PermissionAsked():
                self._closed_events[event.ask_id] = threading.Event()
                self._message_ids[event.ask_id] = event.message_id
                threading.Thread(target=self._ask, args=(event,), daemon=True).start()
            case events.PermissionDecided():
                self._close_ask(event.ask_id)
            case events.TurnFinished() | events.MessageDead():
                for ask_id in list(self._closed_events):
                    if self._message_ids[ask_id] == event.message_id:
                        self._close_ask(ask_id)

    def _close_ask(self, ask_id: str) -> None:
        self._message_ids.pop(ask_id, None)
        over = self._closed_events.pop(ask_id, None)
        if over is not None:
            over.set()

    def _ask(self, asked: object) -> None:
        from beam import events
        from beam.cli.render.asks import always_words, full_input_lines, question

        assert isinstance(asked, events.PermissionAsked)
        over = self._closed_events.get(asked.ask_id)
        if over is None:
            return
        offers = len(bytes(asked.suggestions)) > len(b"[]")
        choices = "yes / no / " + ("always / " if offers else "") + "stop"
        with self._question_lock:
            if over.is_set():
                return
            scope = always_words(bytes(asked.suggestions))
            lines = [
                f"beam: {question(asked)}",
                *full_input_lines(asked),
                *([f"beam: always: {scope}"] if scope else []),
            ]
            self._say("".join(f"{line}\n" for line in lines))
            termios.tcflush(0, termios.TCIFLUSH)  # text that was typed before the question is not an answer
            while not over.is_set():
                self._say(f"Allow it? [{choices}] ")
                answer = _read_line(over)
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
        """Send the decision that this answer means. Return False if the answer is not one of the offered choices."""
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


def _read_line(over: threading.Event) -> str | None:
    """Return the next line from stdin; None at the end of stdin, or as soon as `over` is set."""
    while not over.is_set():
        if select.select([0], [], [], _TICK_S)[0]:
            data = os.read(0, 4096)
            return data.decode(errors="replace") if data else None
    return None
