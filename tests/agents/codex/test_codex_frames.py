"""Codex's link with the recorded frames of the real app-server, however they are cut, mixed and spoilt.

The recordings are those of Codex 0.169.0 (tests/recordings/codex/0.169.0/app-server).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from beam.agents.base import Exit
from beam.agents.codex.dialogue.wire import IGNORED_METHODS, READ_METHODS
from beam.agents.link import (
    Asked,
    Broken,
    Decide,
    Intent,
    Interrupt,
    Over,
    Prompt,
    Query,
    Ready,
    Set,
    Steer,
)
from beam.model import events
from beam.model.outcome import Status
from tests.support.codex_dialogue import RECORDINGS, THREAD, Talk, turn
from tests.support.dialogue import Feed, in_pieces, recorded, spoilt, whole, wrong_ends, wrong_in

NAMES = sorted(path.name for path in RECORDINGS.glob("*.jsonl"))
STATUS = {"completed": Status.COMPLETED, "failed": Status.FAILED, "interrupted": Status.CANCELLED}


class Played:
    """A recording's first thread that ran turns, played to the link: the link's own requests get its answers."""

    def __init__(self, name: str, feed: Feed[Talk]) -> None:
        self.ended: list[tuple[str, Over]] = []
        frames = recorded(RECORDINGS / name)
        thread = next(frame["params"]["threadId"] for way, frame in frames if frame.get("method") == "turn/start")
        methods = {frame["id"]: frame for way, frame in frames if way == ">" and "method" in frame and "id" in frame}
        talk = self.talk = Talk()
        talk.begin(thread)
        for way, frame in frames:
            asked = methods.get(frame.get("id")) if way == "<" and "method" not in frame else None
            params = frame.get("params") or {}
            if way == ">":
                self._decided(frame, talk)
                if frame.get("method") == "turn/interrupt" and talk.link.busy:
                    talk.do(Interrupt())
            elif asked is not None and asked["method"] == "turn/start":
                started = frame.get("result", {}).get("turn", {}).get("id")
                if asked["params"].get("threadId") == thread and started and not talk.link.busy:
                    talk.do(Prompt(turn=structs.replace(talk.turn, message_id=f"codex-{frame['id']}")))
                    talk.reply("turn/start", frame["result"])
            elif "method" in frame and (params.get("threadId") in (None, thread) or talk.link.busy):
                steps = feed(talk, json.dumps(frame).encode() + b"\n")
                ended = params.get("turn", {}).get("status", "")
                if frame["method"] == "turn/completed" and ended == "interrupted" and talk.link.busy:
                    steps += talk.reply("thread/backgroundTerminals/clean")
                self.ended += [(ended, step) for step in steps if isinstance(step, Over)]

    def _decided(self, frame: dict[str, Any], talk: Talk) -> None:
        decision = (frame.get("result") or {}).get("decision") if "method" not in frame else None
        words = {"accept": "allow", "acceptForSession": "allow", "cancel": "cancelled"}
        if "method" not in frame:
            word = words.get(decision, "deny") if isinstance(decision, str) else "deny"
            talk.do(Decide(key=json.dumps(frame.get("id")), decision=word))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_recorded_turn_ends_as_codex_said_and_nothing_in_it_is_unknown(name: str) -> None:
    played = Played(name, whole)
    played.talk.keep(played.talk.link.end(Exit(signal="SIGKILL")))  # in some the last turn runs
    assert played.ended and not played.talk.link.busy
    for said, over in played.ended:
        assert over.verdict.status is STATUS[said], over
    assert [event.what for event in played.talk.events if isinstance(event, events.Unknown)] == []
    assert not [step for step in played.talk.steps if isinstance(step, Broken)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [pytest.param(1, marks=pytest.mark.slow), pytest.param(7, marks=pytest.mark.slow), 4096]
)
def test_any_split_of_the_bytes_gives_the_same_steps(size: int) -> None:
    for name in NAMES:
        assert Played(name, in_pieces(size)).talk.steps == Played(name, whole).talk.steps, name


@pytest.mark.slow
def test_the_recorded_requests_are_asked_and_answered() -> None:
    talk = Played("02-approvals.jsonl", whole).talk
    asked = [step for step in talk.steps if isinstance(step, Asked)]
    assert [step.tool for step in asked].count("apply_patch") == 5
    assert [step.description.splitlines()[0] for step in asked[:2]] == [
        "/bin/bash -lc 'echo esc1'",
        "/bin/bash -lc 'echo esc2'",
    ]
    answers = [frame["id"] for frame in talk.sent if "method" not in frame]
    assert len(answers) == len(set(answers)) == len(asked)


# -- at random ---------------------------------------------------------------------------------------------------------


def pool() -> list[dict[str, Any]]:
    return [
        frame
        for name in NAMES
        for way, frame in recorded(RECORDINGS / name)
        if way == "<" and len(json.dumps(frame)) < 5000
    ]


def intents(rng: random.Random, talk: Talk, open_keys: list[str]) -> Intent:
    number = str(rng.randrange(5))
    if not talk.link.busy and any(isinstance(step, Ready) for step in talk.steps) and rng.random() < 0.6:
        return Prompt(turn=turn(session_id=THREAD, text="x"))
    return rng.choice(
        [
            Interrupt(),
            Steer(id=number, text="left"),
            Set(id=number, name="model", value="m"),
            Query(id=number, name=rng.choice(["context", "models", "?"])),
            Decide(key=rng.choice([*open_keys, "0"]), decision=rng.choice(["allow", "deny", "cancelled"])),
        ]
    )


def owned(frame: dict[str, Any], talk: Talk, rng: random.Random) -> dict[str, Any]:
    """The frame as one of the link's own thread, and mostly of its turn."""
    begun = [sent["params"] for sent in talk.sent if sent.get("method") == "turn/start"]
    text = json.dumps(frame)
    for key, value in (("threadId", THREAD), ("turnId", f"t{len(begun)}")):
        if rng.random() < 0.9 and key in (frame.get("params") or {}):
            frame = {**frame, "params": {**frame["params"], key: value}}
    if '"turn"' in text and rng.random() < 0.9 and isinstance((frame.get("params") or {}).get("turn"), dict):
        frame = {**frame, "params": {**frame["params"], "turn": {**frame["params"]["turn"], "id": f"t{len(begun)}"}}}
    return frame


def one_sequence(seed: int, frames: list[dict[str, Any]]) -> Iterator[str]:
    """Play the random sequence of one seed; return what is wrong with it."""
    rng = random.Random(seed)
    talk = Talk(turn(session_id=THREAD))
    prompts = 0
    if rng.random() < 0.9:
        talk.begin()
    for _ in range(rng.randrange(40)):
        choice = rng.random()
        if choice < 0.3:
            keys = [step.key for step in talk.steps if isinstance(step, Asked)]
            intent = intents(rng, talk, keys)
            prompts += isinstance(intent, Prompt)
            talk.do(intent)
        elif choice < 0.45 and any("method" in sent and "id" in sent for sent in talk.sent):
            sent = rng.choice([sent for sent in talk.sent if "method" in sent and "id" in sent])
            talk.hear({"id": sent["id"], "result": {"turn": {"id": f"t{prompts}"}}})
        elif choice < 0.5:
            talk.wake(talk.now + rng.choice([0.1, 5, 100]))
        else:
            frame = owned(rng.choice(frames), talk, rng)
            talk.hear(spoilt(frame, rng) if rng.random() < 0.3 else frame)
    talk.keep(talk.link.end(Exit(code=rng.choice([0, 1]))))
    yield from wrong_ends(talk, prompts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 1000), marks=pytest.mark.slow)], ids=["100", "1000"]
)
def test_no_sequence_of_intents_and_frames_raises_or_leaves_a_turn_open(seeds: range) -> None:
    assert wrong_in(one_sequence, pool(), seeds) == []


@pytest.mark.soak
def test_no_long_run_of_sequences_raises_or_leaves_a_turn_open() -> None:
    seed = random.randrange(1 << 30)
    assert wrong_in(one_sequence, pool(), range(seed, seed + 10_000)) == []


def test_what_is_heard_is_not_ignored() -> None:
    assert not READ_METHODS & IGNORED_METHODS
