"""A conversation with a link, without an agent: what the link sends is kept, and the test writes what the agent says.

The support of each protocol (`acp_dialogue`, `claude_dialogue`, `codex_dialogue`) adds the frames of its protocol.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from beam.agents.link import Broken, Intent, Link, Over, Say, Send, Step
from beam.model import events
from beam.process.pipes import LineSplitter

Frame = dict[str, Any]


class Conversation:
    """One conversation with a link. `now` is its clock; `steps` are all its steps, `sent` all frames that it sent."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.now = 0.0
        self.steps: list[Step] = []
        self.sent: list[Frame] = []
        self.keep(self.link.open(self.now))

    def keep(self, steps: Iterable[Step]) -> list[Step]:
        found = list(steps)
        self.steps += found
        self.sent += [json.loads(step.data) for step in found if isinstance(step, Send)]
        return found

    def do(self, intent: Intent) -> list[Step]:
        return self.keep(self.link.do(intent, self.now))

    def hear(self, frame: object) -> list[Step]:
        line = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        return self.keep(self.link.line(line, self.now))

    def wake(self, now: float) -> list[Step]:
        self.now = now
        return self.keep(self.link.on_due(now))

    @property
    def events(self) -> list[events.Event]:
        return [step.event for step in self.steps if isinstance(step, Say)]


Talk = TypeVar("Talk", bound=Conversation)
Feed = Callable[[Talk, bytes], list[Step]]


def over(talk: Conversation) -> Over:
    """The one end of a turn."""
    (found,) = [step for step in talk.steps if isinstance(step, Over)]
    return found


def broken(talk: Conversation) -> Broken:
    """The one break of the conversation."""
    (found,) = [step for step in talk.steps if isinstance(step, Broken)]
    return found


def kinds(steps: Iterable[Step]) -> list[str]:
    """The steps by name; an event by its own."""
    return [type(step.event if isinstance(step, Say) else step).__name__ for step in steps]


def recorded(path: Path) -> list[tuple[str, Frame]]:
    """The frames of a recording, each with its direction: `>` was sent to the agent, `<` came from it."""
    found = []
    for line in path.read_text("utf-8").splitlines():
        _, direction, frame = line.split(" ", 2)
        if frame.startswith("{"):
            found.append((direction, json.loads(frame)))
    return found


# -- the same bytes in pieces ------------------------------------------------------------------------------------------


def whole(talk: Conversation, data: bytes) -> list[Step]:
    return talk.hear(data.rstrip(b"\n"))


def in_pieces(size: int) -> Feed[Conversation]:
    """Feeds the bytes in pieces, as they may come out of a pipe."""

    def feed(talk: Conversation, data: bytes) -> list[Step]:
        lines, found = LineSplitter(1 << 30), []
        for start in range(0, len(data), size):
            for line in lines.feed(data[start : start + size]):
                found += talk.hear(line)
        return found

    return feed


# -- frames at random --------------------------------------------------------------------------------------------------


def spoilt(frame: Any, rng: random.Random) -> Any:
    """The frame with one field of it gone, or something else."""
    if not isinstance(frame, dict) or not frame:
        return rng.choice([None, 0, "x", [], {}, -1, True, 1.5])
    key = rng.choice(list(frame))
    copy = dict(frame)
    if rng.random() < 0.3:
        del copy[key]
    else:
        copy[key] = spoilt(copy[key], rng)
    return copy


def wrong_ends(talk: Conversation, prompts: int) -> Iterator[str]:
    """Yield what is wrong with the ends of a finished conversation in which so many turns were begun."""
    overs = sum(isinstance(step, Over) for step in talk.steps)
    is_broken = any(isinstance(step, Broken) for step in talk.steps)
    if talk.link.busy:
        yield "a turn is left open"
    if not is_broken and overs != prompts:
        yield f"{prompts} prompts and {overs} ends"
    if is_broken and overs > prompts:
        yield "an end without a prompt"


def wrong_in(sequence: Callable[[int, list[Frame]], Iterable[str]], frames: list[Frame], seeds: range) -> list[Any]:
    """What is wrong with the sequences of these seeds, each with its seed."""
    return [(seed, what) for seed in seeds for what in sequence(seed, frames)]
