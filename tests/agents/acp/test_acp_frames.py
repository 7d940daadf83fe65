"""The ACP link with the recorded frames of real agents, however they are cut, mixed and spoilt.

The recordings are those of the versions that their directories name (tests/recordings/acp).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents import registry
from beam.agents.acp.dialect import Dialect
from beam.agents.base import Exit, Host, Verdict
from beam.agents.link import (
    Asked,
    Broken,
    Decide,
    HasDialogue,
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
from tests.support.acp_dialogue import DIALECT, RECORDINGS, SESSION, Talk, turn
from tests.support.dialogue import Feed, in_pieces, recorded, spoilt, whole, wrong_ends, wrong_in

PATHS = sorted(RECORDINGS.glob("*/*.jsonl"))
NAMES = [f"{path.parent.name}-{path.stem}" for path in PATHS]
FIRST = [path for path in PATHS if path.stem == "first"]


def dialect_of(path: Path) -> Dialect:
    """The agent's own dialect; but in a recording its sessions were not listed, and its mode and model left alone."""
    adapter = registry.adapter(path.parent.name.partition("-")[0])
    assert isinstance(adapter, HasDialogue)
    link: Any = adapter.dialogue.link(turn(), Host())
    return structs.replace(link._dialect, modes={}, never={}, sets_model=False, lists=False)


def is_silent_failure(verdict: Verdict) -> bool:
    words = ("without a word", "scripted error")
    return verdict.status is Status.FAILED and any(each in (verdict.reason or "") for each in words)


class Played:
    """A recording, played to the link: the link's own requests get the answers of those that were recorded."""

    def __init__(self, path: Path, feed: Feed[Talk]) -> None:
        self.ended: list[tuple[dict[str, Any], Over]] = []
        frames = recorded(path)
        asked = {frame["id"]: frame for way, frame in frames if way == ">" and "method" in frame and "id" in frame}
        opener = next(
            frame for frame in asked.values() if frame["method"] in ("session/new", "session/load", "session/resume")
        )
        session_id = opener["params"].get("sessionId")
        dialect = dialect_of(path)
        if session_id is not None:
            dialect = structs.replace(dialect, resume=opener["method"])
        talk = self.talk = Talk(turn(session_id=session_id), dialect)
        kinds = {}
        for way, frame in frames:
            if way == ">":
                self._did(frame, kinds, talk)
                continue
            if frame.get("method") == "session/request_permission":
                options = frame["params"]["options"]
                kinds[json.dumps(frame["id"])] = {option["optionId"]: option["kind"] for option in options}
            request = asked.get(frame.get("id")) if "method" not in frame else None
            if request is None:
                feed(talk, json.dumps(frame).encode() + b"\n") if "method" in frame else None
                continue
            if any(sent.get("method") == request["method"] for sent in talk.sent):
                number = talk.last(request["method"])["id"]
                steps = feed(talk, json.dumps({**frame, "id": number}).encode() + b"\n")
                self.ended += [(frame, step) for step in steps if isinstance(step, Over)]

    def _did(self, frame: dict[str, Any], kinds: dict[str, dict[str, str]], talk: Talk) -> None:
        if frame.get("method") == "session/prompt":
            text = frame["params"]["prompt"][0]["text"]
            talk.do(Prompt(turn=structs.replace(talk.turn, message_id=f"x-{frame['id']}", text=text)))
        elif frame.get("method") == "session/cancel":
            talk.do(Interrupt())
        elif "method" not in frame and json.dumps(frame["id"]) in kinds:
            key = json.dumps(frame["id"])
            kind = kinds[key].get((frame.get("result") or {}).get("outcome", {}).get("optionId", ""), "")
            word = {"allow": "allow", "reject": "deny"}.get(kind.partition("_")[0], "cancelled")
            talk.do(Decide(key=key, decision=word))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_each_recorded_turn_ends_as_the_agent_said_and_nothing_in_it_is_unknown(path: Path) -> None:
    played = Played(path, whole)
    played.talk.keep(played.talk.link.end(Exit(signal="SIGKILL")))
    assert not played.talk.link.busy
    prompts = [frame for way, frame in recorded(path) if way == ">" and frame.get("method") == "session/prompt"]
    began = any(isinstance(step, Ready) for step in played.talk.steps)
    assert len(played.ended) == (len(prompts) if began else 0)
    for frame, over in played.ended:
        said = (frame.get("result") or {}).get("stopReason")
        expected = {"end_turn": Status.COMPLETED, "cancelled": Status.CANCELLED, "max_tokens": Status.TRUNCATED}
        is_stopped = over.verdict.status is Status.CANCELLED
        if said == "end_turn" and (is_stopped or is_silent_failure(over.verdict)):
            continue  # cancelled by us, or one of those that call a turn `end_turn` in which their model failed
        assert over.verdict.status is expected.get(said, Status.FAILED), (said, over)
    assert [event.what for event in played.talk.events if isinstance(event, events.Unknown)] == []
    assert began == (not any(isinstance(step, Broken) for step in played.talk.steps))


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_any_split_of_the_bytes_gives_the_same_steps(path: Path) -> None:
    steps = Played(path, whole).talk.steps
    for size in (1, 7, 4096):
        assert Played(path, in_pieces(size)).talk.steps == steps


@pytest.mark.slow
@pytest.mark.parametrize("path", FIRST, ids=[path.parent.name for path in FIRST])
def test_what_is_asked_says_the_command_and_each_request_is_answered_once(path: Path) -> None:
    talk = Played(path, whole).talk
    asked = [step for step in talk.steps if isinstance(step, Asked)]
    shell = [step for step in asked if "touch" in step.description]
    assert len(shell) >= 4 and all("touch" in bytes(step.input).decode() for step in shell)
    assert {step.description.splitlines()[0] for step in shell} <= {"touch /lab/project/made2", "touch PROJECT/made2"}
    answered = [frame["id"] for frame in talk.sent if "method" not in frame]
    requests = [frame["id"] for way, frame in recorded(path) if way == "<" and "method" in frame and "id" in frame]
    assert answered == requests
    called = {event.name for event in talk.events if isinstance(event, events.ToolCalled)}
    assert len(called) >= 3 and not {"tool", "other"} & called


@pytest.mark.slow
def test_a_recorded_session_that_goes_on_says_nothing_of_its_older_turns() -> None:
    for path in PATHS:
        if path.stem == "first":
            continue
        texts = [event.text for event in Played(path, whole).talk.events if isinstance(event, events.Text)]
        assert len(texts) <= 1, path


# -- at random ---------------------------------------------------------------------------------------------------------


def pool() -> list[dict[str, Any]]:
    found = [frame for path in PATHS for way, frame in recorded(path) if way == "<"]
    return [frame for frame in found if len(json.dumps(frame)) < 3000]


def owned(frame: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The frame as one of the link's own session, mostly."""
    params = frame.get("params")
    if isinstance(params, dict) and "sessionId" in params and rng.random() < 0.9:
        return {**frame, "params": {**params, "sessionId": SESSION}}
    return frame


def intents(rng: random.Random, talk: Talk) -> Intent:
    number = str(rng.randrange(5))
    if not talk.link.busy and any(isinstance(step, Ready) for step in talk.steps) and rng.random() < 0.6:
        return Prompt(turn=turn(text=rng.choice(["x", "/x"])))
    keys = [step.key for step in talk.steps if isinstance(step, Asked)]
    return rng.choice(
        [
            Interrupt(),
            Steer(id=number, text="left"),
            Set(id=number, name="model", value="b"),
            Query(id=number, name=rng.choice(["context", "models", "?"])),
            Decide(key=rng.choice([*keys, "0"]), decision=rng.choice(["allow", "deny", "cancelled"])),
        ]
    )


def one_sequence(seed: int, frames: list[dict[str, Any]]) -> Iterator[str]:
    """Play the random sequence of one seed; return what is wrong with it."""
    rng = random.Random(seed)
    access = rng.choice(["read", "ask", "edit", "full"])
    counts = rng.choice(["nothing", "calls", "turn", "process", "session"])
    dialect = structs.replace(DIALECT, counts=counts, modes={}, sets_model=False)
    talk = Talk(turn(access=access, session_id=rng.choice([None, SESSION])), dialect)
    prompts = 0
    if rng.random() < 0.9:
        talk.begin()
    for _ in range(rng.randrange(40)):
        choice = rng.random()
        if choice < 0.3:
            intent = intents(rng, talk)
            prompts += isinstance(intent, Prompt)
            talk.do(intent)
        elif choice < 0.45:
            sent = rng.choice([sent for sent in talk.sent if "method" in sent and "id" in sent])
            reason = rng.choice(["end_turn", "cancelled", "max_tokens", "refusal", "new", None])
            answer = {"result": {"stopReason": reason}} if rng.random() < 0.8 else {"error": spoilt({"code": 1}, rng)}
            talk.hear({"id": sent["id"], **answer})
        elif choice < 0.5:
            talk.wake(talk.now + rng.choice([0.1, 5, 100]))
        else:
            frame = owned(rng.choice(frames), rng)
            talk.hear(spoilt(frame, rng) if rng.random() < 0.3 else frame)
    talk.keep(talk.link.end(Exit(code=rng.choice([0, 1]))))
    yield from wrong_ends(talk, prompts)


@pytest.mark.slow
def test_no_sequence_of_intents_and_frames_raises_or_leaves_a_turn_open() -> None:
    assert wrong_in(one_sequence, pool(), range(1000)) == []


@pytest.mark.soak
def test_no_long_run_of_sequences_raises_or_leaves_a_turn_open() -> None:
    seed = random.randrange(1 << 30)
    assert wrong_in(one_sequence, pool(), range(seed, seed + 10_000)) == []
