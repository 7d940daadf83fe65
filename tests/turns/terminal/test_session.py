"""A turn's look at its agent's screen."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from beam.pty_adapter.screen import Screen, View
from beam.turns.terminal.session import FRAME_S, TerminalSession
from tests.support.context import FakeClock


class Looks:
    """The looks at a screen, in place of the state machine: its first row, and whether it is a whole frame."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []

    def record_signals(self, signals: Any, now: float) -> None: ...

    def look(self, view: View, now: float, *, whole: bool, reads_keys: bool, foreground: int) -> None:
        self.seen.append((view.rows[0].rstrip(), whole))


def test_an_unfinished_frame_is_left_out_for_a_moment_also_where_it_is_the_first() -> None:
    clock, screen, looks = FakeClock(), Screen(20, 3), Looks()
    clock.sleep(100)
    engine = SimpleNamespace(clock=clock, record_sign_of_life=lambda: None)
    window = SimpleNamespace(reads_keys=lambda: True, foreground_group=lambda: 0)
    process = SimpleNamespace(screen=screen, fed=asyncio.Event(), window=window)
    session = TerminalSession(cast(Any, engine), cast(Any, process), cast(Any, looks))
    for data, passes_s in (
        (b"\x1b[?2026hone", FRAME_S),
        (b"", 0.01),
        (b" two\x1b[?2026l", 0.01),
        (b"\x1b[?2026h", 0.01),
    ):
        screen.feed(data)
        session.tick()
        clock.sleep(passes_s)
    assert looks.seen == [("one", False), ("one", False), ("one two", True), ("one two", False)]
    clock.sleep(FRAME_S)
    session.tick()
    assert looks.seen[-1] == ("one two", True)
