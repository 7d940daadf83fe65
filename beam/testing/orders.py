"""The orders to a scripted agent that stays running: each is one JSON line on stdin, for a new turn, a text for the
running turn, an interrupt, a setting or a question (docs/scripted.md).

Does not depend on scripts or sessions.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from typing import Any

from beam.testing.player import STEP_S, pause, write_frame


class Orders:
    """The orders to one process. `model` is the model for the next turn, "" if none is set."""

    def __init__(self) -> None:
        self.model = ""
        self._prompts: queue.SimpleQueue[dict[str, str] | None] = queue.SimpleQueue()
        self._received: list[str] = []  # in this turn
        self._unread: list[tuple[str, str]] = []  # id and text
        self._is_playing = False
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def prompt(self) -> dict[str, str] | None:
        """Wait for the next order that begins a turn, and return this order; None once stdin has ended."""
        return self._prompts.get()

    def begin(self) -> None:
        """Begin a turn. Until the turn ends, the first interrupt order or the end of stdin raises KeyboardInterrupt in
        the main thread."""
        with self._lock:
            self._is_playing, self._received = True, []

    def end(self) -> None:
        """End the turn, and answer each unread text with an error."""
        with self._lock:
            self._is_playing = False
            for call_id, _ in self._unread:
                _answer(call_id, ok=False, code="unfinished", message="the turn was over before it was read")
            self._unread = []

    def received(self, waits: bool) -> str:
        """Return all texts that were passed to this turn; with `waits`, wait until there is one."""
        while True:
            with self._lock:
                for call_id, text in self._unread:
                    self._received.append(text)
                    _answer(call_id)
                self._unread = []
                if self._received or not waits:
                    return "\n".join(self._received)
            pause(STEP_S)

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            with contextlib.suppress(ValueError, AttributeError, BrokenPipeError):
                order = json.loads(line)
                self._handle_order(order.get("do"), {key: str(value) for key, value in order.items()})
        self._prompts.put(None)
        self._interrupt()

    def _handle_order(self, do: object, order: dict[str, str]) -> None:
        call_id = order.get("id", "")
        if do == "prompt":
            self._prompts.put(order)
        elif do == "interrupt":
            self._interrupt()
        elif do == "steer":
            with self._lock:
                if self._is_playing:
                    self._unread.append((call_id, order.get("text", "")))
                    return
            _answer(call_id, ok=False, code="failed", message="no turn runs that could take a text")
        elif do == "set" and order.get("name") == "model":
            self.model = order.get("value", "")
            _answer(call_id, message="from the next turn on")
        elif do == "query" and order.get("name") == "models":
            _answer(call_id, result=[self.model] if self.model else [])
        else:
            what = order.get("name", "")
            _answer(call_id, ok=False, code="unsupported", message=f"the scripted agent has no {what!r}")

    def _interrupt(self) -> None:
        with self._lock:
            if self._is_playing:
                self._is_playing = False  # one is enough
                os.kill(os.getpid(), signal.SIGINT)


def _answer(call_id: str, *, ok: bool = True, **more: Any) -> None:
    write_frame("answer", id=call_id, ok=ok, **more)
