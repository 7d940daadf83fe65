"""A recording of a real agent's terminal, played to the state machine with its own clock."""

from __future__ import annotations

import json
import random
from pathlib import Path

from beam.model.screen_profile import Profile
from beam.pty_adapter.screen import Screen
from beam.pty_adapter.turn_end import State, TurnEnd

PLACE = Path(__file__).parents[1] / "recordings" / "pty"
TICK_S = 0.05
FRAME_S = 0.25


def chunks(name: str) -> list[tuple[float, bytes]]:
    """When each piece came, and the piece."""
    data, found, at = (PLACE / f"{name}.raw").read_bytes(), [], 0
    for line in (PLACE / f"{name}.timeline.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "n" not in entry:
            continue
        found.append((entry["t"], data[at : at + entry["n"]]))
        at += entry["n"]
    return found


class Replay:
    """The states of one recording. Enter is pressed at `enter` seconds, `text` being what was typed. With a `seed` the
    bytes come in other pieces. It ends `after` the last byte, or at `last`."""

    def __init__(
        self,
        name: str,
        profile: Profile,
        *,
        text: str,
        enter: float,
        after: float = 5.0,
        seed: int | None = None,
        last: float | None = None,
    ) -> None:
        self.states: list[tuple[float, State, str]] = []
        self.screen = Screen(100, 40)
        self.end = TurnEnd(profile, now=0.0)
        self.text, self.enter = text, enter
        pieces = chunks(name)
        chance = random.Random(seed)
        now = framed = 0.0
        last = pieces[-1][0] + after if last is None else last
        while now < last:
            while pieces and pieces[0][0] <= now:
                self._feed(pieces.pop(0)[1], chance if seed is not None else None)
            if self.enter and now >= self.enter:
                self.end.state = State.READY  # whoever recorded it did not wait for that
                self.end.begin_message(text)
                self.end.on_entered(now)
                self._note(now)
                self.enter = 0.0
            if not self.screen.is_drawing:
                framed = now
            self.end.record_signals(self.screen.take_signals(), now)
            self.end.look(self.screen.view(), now, whole=now - framed < TICK_S or now - framed > FRAME_S)
            self._note(now)
            now = round(now + TICK_S, 3)

    def _feed(self, data: bytes, chance: random.Random | None) -> None:
        at = 0
        while at < len(data):
            step = chance.randint(1, 40) if chance else len(data)
            self.screen.feed(data[at : at + step])
            at += step

    def _note(self, now: float) -> None:
        if not self.states or self.states[-1][1] is not self.end.state:
            self.states.append((now, self.end.state, self.end.via))

    def at(self, state: State) -> float:
        """When the state was first reached."""
        return next(now for now, reached, _ in self.states if reached is state)
