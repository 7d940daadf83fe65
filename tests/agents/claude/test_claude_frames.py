"""Claude's link with the recorded frames of the real CLI, however they are cut, mixed and spoilt.

The recordings are those of Claude Code 2.1.197 and 2.1.330 (tests/recordings/claude/VERSION/stream-json).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Raw, structs

from beam.agents.base import Exit, Turn
from beam.agents.link import (
    Act,
    Answered,
    Asked,
    Broken,
    Decide,
    Intent,
    Interrupt,
    Over,
    Prompt,
    Query,
    Ready,
    Say,
    Set,
    Steer,
    Stirred,
)
from beam.model import events
from beam.model.outcome import Status
from tests.support.claude_dialogue import MODES, RECORDINGS, SESSION, Talk, recorded, turn
from tests.support.dialogue import Feed, in_pieces, kinds, spoilt, whole, wrong_ends, wrong_in

pytestmark = pytest.mark.slow

DONE, CUT, DENIED = Status.COMPLETED, Status.CANCELLED, Status.DENIED
ENDED = {  # how each turn of a recording ended
    "2.1.197/control.jsonl": [DONE] * 3 + [CUT] + [DONE] * 9 + [Status.UNKNOWN],
    "2.1.197/session.jsonl": [DONE] * 2,
    "2.1.197/steer.jsonl": [DONE] * 2,
    "2.1.330/asks.jsonl": [DONE, DONE, DONE, DENIED, DONE, CUT],
    "2.1.330/background.jsonl": [DONE] * 2,
    "2.1.330/control.jsonl": [CUT, DONE, CUT, DONE, DONE, DONE, CUT, DONE, DONE, Status.UNKNOWN],
    "2.1.330/live.jsonl": [DONE] * 6,
    "2.1.330/read.jsonl": [DENIED],
    "2.1.330/session.jsonl": [DONE, DONE, DONE, Status.FAILED],
    "2.1.330/unknown.jsonl": [],
}
GONE = "6b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b99"
ACTIONS = {
    "mcp_set_servers": "mcp.set",
    "mcp_call": "mcp.call",
    "mcp_reconnect": "mcp.reconnect",
    "mcp_toggle": "mcp.enable",
    "rewind_files": "rewind.files",
}
QUERIES = {"get_context_usage": "context", "mcp_status": "mcp"}


class Played:
    """A recording, played to the link: what was sent then it is asked to do, and Claude's ids become the link's own.

    Each turn goes on in the session of the one before, from what Claude had counted by then, as beam's turns do.
    """

    def __init__(self, name: str, feed: Feed[Talk]) -> None:
        frames = recorded(name)
        asked = GONE if "unknown" in name else None
        mode = (frames[1][1].get("response", {}).get("response") or {}).get("current_permission_mode", "default")
        access = next(access for access, word in MODES.items() if word == mode)
        self.talk = Talk(turn(session_id=asked, access=access))
        self._ids: dict[str, str] = {}
        self._count = 0
        self._turn, self._begun = self.talk.turn, 0
        for way, frame in frames:
            if way == ">":
                self._sent(frame)
                continue
            text = json.dumps(frame)
            for theirs, own in self._ids.items():
                text = text.replace(theirs, own)
            feed(self.talk, text.encode() + b"\n")

    def _sent(self, frame: dict[str, Any]) -> None:
        talk, request = self.talk, frame.get("request") or {}
        self._count += 1
        if frame["type"] == "user":
            if talk.link.busy:
                talk.do(Steer(id=f"s{self._count}", text="x"))
            else:
                self._turn = self._next()
                talk.do(Prompt(turn=self._turn))
            self._ids[f'"{frame["uuid"]}"'] = f'"{talk.message["uuid"]}"'
        elif frame["type"] == "control_response":
            said = frame["response"]["response"]
            word = "allow" if said["behavior"] == "allow" else "cancelled" if said.get("interrupt") else "deny"
            talk.do(Decide(key=frame["response"]["request_id"], decision=word))  # type: ignore[arg-type]
        else:
            subtype = request["subtype"]
            if subtype == "interrupt":
                talk.do(Interrupt())
            elif subtype == "set_model":
                talk.do(Set(id=f"c{self._count}", name="model", value=request["model"]))
            elif subtype == "set_permission_mode":
                mode = "plan" if request["mode"] == "plan" else "default"
                talk.do(Set(id=f"c{self._count}", name="mode", value=mode))
            elif subtype == "set_max_thinking_tokens":
                talk.do(Set(id=f"c{self._count}", name="thinking", value=str(request["max_thinking_tokens"])))
            elif subtype == "apply_flag_settings":
                talk.do(Set(id=f"c{self._count}", name="effort", value=request["settings"]["effortLevel"]))
            elif subtype in ACTIONS:
                self._act(subtype, request)
            elif subtype in QUERIES:
                talk.do(Query(id=f"c{self._count}", name=QUERIES[subtype]))
            elif subtype not in ("initialize", "get_settings") or not talk.has_asked(subtype):
                return
            self._ids[f'"{frame["request_id"]}"'] = f'"{talk.request(subtype)["request_id"]}"'

    def _next(self) -> Turn:
        last, self._begun = self.talk.steps[self._begun :], len(self.talk.steps)
        seen = [step.event for step in last if isinstance(step, Say) and isinstance(step.event, events.UsageSeen)]
        sessions = [step.verdict.session_id for step in last if isinstance(step, Over) and step.verdict.session_id]
        return structs.replace(
            self._turn,
            message_id=f"claude-{self._count}",
            session_id=sessions[-1] if sessions else self._turn.session_id,
            carried=seen[-1].total if seen else None,
        )

    def _act(self, subtype: str, request: dict[str, Any]) -> None:
        server, tool = request.get("serverName"), request.get("tool", "")
        if subtype == "mcp_call":
            _, server, tool = tool.split("__")
        given = {"server": server, "tool": tool, "servers": request.get("servers")}
        given |= {"to": request.get("user_message_id"), "dry_run": request.get("dry_run")}
        name = ACTIONS[subtype] if request.get("enabled", True) else "mcp.disable"
        self.talk.do(Act(id=f"c{self._count}", name=name, given=Raw(json.dumps(given).encode())))

    @property
    def ended(self) -> list[Status]:
        return [step.verdict.status for step in self.talk.steps if isinstance(step, Over)]


def test_every_recording_is_played() -> None:
    files = {f"{path.parts[-3]}/{path.name}" for path in RECORDINGS.glob("*/stream-json/*.jsonl")}
    assert files == set(ENDED)


@pytest.mark.parametrize("name", ENDED)
def test_each_recorded_turn_ends_as_claude_said_and_nothing_in_it_is_unknown(name: str) -> None:
    played = Played(name, whole)
    assert played.ended == ENDED[name] and not played.talk.link.busy
    assert [event.what for event in played.talk.events if isinstance(event, events.Unknown)] == []
    assert [step for step in played.talk.steps if isinstance(step, Broken)] == [] or "unknown" in name


@pytest.mark.parametrize(
    "size", [pytest.param(1, marks=pytest.mark.slow), pytest.param(7, marks=pytest.mark.slow), 4096]
)
def test_any_split_of_the_bytes_gives_the_same_steps(size: int) -> None:
    for name in ENDED:
        assert Played(name, in_pieces(size)).talk.steps == Played(name, whole).talk.steps, name


def test_a_recorded_session_that_is_gone_is_reported() -> None:
    assert kinds(Played("2.1.330/unknown.jsonl", whole).talk.steps) == ["Send", "SessionLost", "Broken"]


def test_the_recorded_requests_are_asked_and_answered_once() -> None:
    talk = Played("2.1.330/asks.jsonl", whole).talk
    asked = [step for step in talk.steps if isinstance(step, Asked)]
    assert [step.description.splitlines()[0] for step in asked] == [
        "/lab/project/x",
        "/lab/project/x2",
        "touch y",
        "/lab-outside",
        "touch z",
    ]
    answers = [frame["response"]["request_id"] for frame in talk.sent if frame["type"] == "control_response"]
    assert answers == [step.key for step in asked[:-1]]  # the last one was withdrawn


@pytest.mark.parametrize(
    ("name", "answered"), [("2.1.197/steer.jsonl", [True, True]), ("2.1.330/control.jsonl", [True, True, False])]
)
def test_the_recorded_texts_for_a_turn_that_runs_were_read_or_not(name: str, answered: list[bool]) -> None:
    steps = Played(name, whole).talk.steps
    assert [step.ok for step in steps if isinstance(step, Answered) and step.id.startswith("s")] == answered


def test_the_recorded_run_of_its_own_between_two_turns_is_reported() -> None:
    steps = Played("2.1.330/background.jsonl", whole).talk.steps
    assert isinstance(steps[-1], Stirred)
    verdicts = [step.verdict for step in steps if isinstance(step, Over)]
    assert [(verdict.reply, len(verdict.unfinished)) for verdict in verdicts] == [("ECHO[] turns=1", 0), ("started", 1)]


# -- at random ---------------------------------------------------------------------------------------------------------


def pool() -> list[dict[str, Any]]:
    return [frame for name in ENDED for way, frame in recorded(name) if way == "<" and len(json.dumps(frame)) < 5000]


def intent(rng: random.Random, talk: Talk, keys: list[str]) -> Intent:
    number = str(rng.randrange(5))
    if not talk.link.busy and any(isinstance(step, Ready) for step in talk.steps) and rng.random() < 0.6:
        return Prompt(turn=turn(session_id=SESSION, text="x", message_id=f"claude-{number}"))
    return rng.choice(
        [
            Interrupt(),
            Steer(id=number, text="left"),
            Set(id=number, name="model", value="m"),
            Query(id=number, name=rng.choice(["context", "models", "mcp", "?"])),
            Decide(key=rng.choice([*keys, "0"]), decision=rng.choice(["allow", "deny", "cancelled"]), always=True),
        ]
    )


def owned(frame: dict[str, Any], talk: Talk, rng: random.Random) -> dict[str, Any]:
    """The frame as one about a message or a request of beam's, mostly the last one."""
    messages = [sent["uuid"] for sent in talk.sent if sent["type"] == "user"]
    requests = [sent["request_id"] for sent in talk.sent if sent["type"] == "control_request"]
    if messages and frame.get("type") in ("command_lifecycle", "user"):
        name = "command_uuid" if frame["type"] == "command_lifecycle" else "uuid"
        frame = {**frame, name: rng.choice([*messages, *messages[-1:] * 5])}
    if frame.get("type") == "control_response" and rng.random() < 0.7:
        frame = {**frame, "response": {**frame["response"], "request_id": rng.choice(requests)}}
    return frame


def one_sequence(seed: int, frames: list[dict[str, Any]]) -> Iterator[str]:
    """Play the random sequence of one seed; return what is wrong with it."""
    rng = random.Random(seed)
    talk = Talk(turn(session_id=SESSION))
    prompts, heard = 0, list[object]()
    if rng.random() < 0.9:
        talk.begin()
    for _ in range(rng.randrange(60)):
        choice = rng.random()
        if choice < 0.25:
            keys = [step.key for step in talk.steps if isinstance(step, Asked)]
            wanted = intent(rng, talk, keys)
            prompts += isinstance(wanted, Prompt)
            talk.do(wanted)
        elif choice < 0.35:
            talk.state(rng.choice(["idle", "running", "requires_action"]))
        elif choice < 0.4:
            talk.wake(talk.now + rng.choice([0.1, 5, 100]))
        else:
            frame = owned(rng.choice(frames), talk, rng)
            frame = spoilt(frame, rng) if rng.random() < 0.3 else frame
            heard.append(frame.get("request_id"))
            talk.hear(frame)
    talk.keep(talk.link.end(Exit(code=rng.choice([0, 1]))))
    yield from wrong_ends(talk, prompts)
    decided = [frame["response"]["request_id"] for frame in talk.sent if frame["type"] == "control_response"]
    allowed = [frame for frame in talk.sent if '"allow"' in json.dumps(frame.get("response", {}).get("response"))]
    asked = [step.key for step in talk.steps if isinstance(step, Asked)]
    if any(frame["response"]["request_id"] not in asked for frame in allowed):
        yield "allowed what was not asked"
    if any(decided.count(key) > heard.count(key) for key in decided):
        yield "answered twice"


@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 1000), marks=pytest.mark.slow)], ids=["100", "1000"]
)
def test_no_sequence_of_intents_and_frames_raises_or_leaves_a_turn_open(seeds: range) -> None:
    assert wrong_in(one_sequence, pool(), seeds) == []


@pytest.mark.soak
def test_no_long_run_of_sequences_raises_or_leaves_a_turn_open() -> None:
    seed = random.randrange(1 << 30)
    assert wrong_in(one_sequence, pool(), range(seed, seed + 10_000)) == []


def test_what_a_live_process_was_asked_is_answered_as_it_was_recorded() -> None:
    answers = [step for step in Played("2.1.330/live.jsonl", whole).talk.steps if isinstance(step, Answered)]
    codes = ["", "", "", "", "unsupported", "", "", "", "", "failed", "", "", "", "", "", "", "failed"]
    assert [answer.code for answer in answers] == codes
    told = [json.loads(bytes(answer.result)) for answer in answers]
    docs = {"name": "docs", "status": "connected", "tools": ["ping"], "error": ""}
    assert told[7] == [docs] and told[11] == [{**docs, "status": "disabled", "tools": []}]
    assert told[14] == told[15] | {"files": ["/tmp/lab/w/made"], "lines_added": 0, "lines_removed": 1}
