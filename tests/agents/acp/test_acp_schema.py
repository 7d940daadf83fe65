"""Recorded frames and beam's own, checked against the protocol's own JSON Schema (`schema/`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from beam.agents.link import Decide, Interrupt
from tests.agents.acp.test_acp_frames import NAMES, PATHS, Played
from tests.support.acp_dialogue import SESSION, Talk, talking, turn
from tests.support.dialogue import Frame, recorded, whole

SCHEMA = json.loads((Path(__file__).parent / "schema" / "schema.json").read_text())
DEVIATIONS = {  # CLI -> its methods that the protocol does not have
    "qwen": {"craft/drainMidTurnQueue"},
    "beam": {"session/set_model"},  # of older agents: the schema has had no such method since June 2026
}


@cache
def names() -> dict[tuple[str, bool], str]:
    """The definition of each method's parameters, and of its result (True)."""
    methods = {name: one["x-method"] for name, one in SCHEMA["$defs"].items() if "x-method" in one}
    return {(method, name.endswith("Response")): name for name, method in methods.items()}


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def deviations(frames: list[tuple[str, Frame]], way: str) -> Iterator[str]:
    """What the frames of that direction have that the schema forbids; a method that it does not know, by name."""
    asked = {(one, frame["id"]): frame["method"] for one, frame in frames if "method" in frame and "id" in frame}
    for one, frame in frames:
        if one != way:
            continue
        if frame.get("jsonrpc") != "2.0":
            yield f"jsonrpc {frame.get('jsonrpc')!r}"
        if "method" in frame:
            method, key, value = frame["method"], (frame["method"], False), frame.get("params")
        else:
            method = asked.get(("<" if way == ">" else ">", frame["id"]), "")
            key, value = (method, True), frame.get("result")
        if "error" in frame:
            name: str | None = "Error"
            value = frame["error"]
        else:
            name = names().get(key)
        if name is None:
            yield method
            continue
        for error in validator(name).iter_errors(value):
            yield f"{method}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_the_recorded_frames_of_each_agent_are_of_the_protocol(path: Path) -> None:
    known = DEVIATIONS.get(path.parent.name.partition("-")[0], set())
    assert set(deviations(recorded(path), "<")) <= known


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_what_beam_sends_to_each_is_of_the_protocol(path: Path) -> None:
    theirs = [("<", frame) for way, frame in recorded(path) if way == "<" and "method" in frame and "id" in frame]
    sent = [(">", frame) for frame in Played(path, whole).talk.sent]
    # A request of Qwen's own is answered with an error, which every method may have.
    assert set(deviations([*theirs, *sent], ">")) <= DEVIATIONS["beam"]


def test_what_beam_sends_in_every_way_that_it_can_is_of_the_protocol() -> None:
    asked: list[tuple[str, Frame]] = []
    for talk in (talking(access="full", model="b", attach=("/p/a.png",)), talking(), Talk(turn(session_id=SESSION))):
        if talk.link.busy:
            for number, word in enumerate(("allow", "deny", "cancelled")):
                talk.ask(number, toolCallId=f"c-{number}", kind="execute")
                asked += [("<", {"id": number, "method": "session/request_permission"})]
                talk.do(Decide(key=str(number), decision=word))  # type: ignore[arg-type]
            talk.do(Interrupt())
        assert set(deviations([*asked, *((">", frame) for frame in talk.sent)], ">")) <= DEVIATIONS["beam"]


@pytest.mark.slow
def test_each_deviation_that_is_listed_is_one_of_a_recording() -> None:
    for name in DEVIATIONS.keys() - {"beam"}:
        paths = [path for path in PATHS if path.parent.name.startswith(f"{name}-")]
        assert {what for path in paths for what in deviations(recorded(path), "<")} == DEVIATIONS[name]


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": 1}}},
        {"method": "session/request_permission", "id": 1, "params": {"sessionId": "s", "options": []}},
        {"method": "session/update", "params": {"update": {}}},
        {"id": 7, "result": {"stopReason": "tired"}},
        {"id": 7, "error": {"message": "no code"}},
        {"method": "session/made_up", "params": {}},
    ],
)
def test_a_frame_that_is_not_of_the_protocol_is_found(wrong: dict[str, Any]) -> None:
    prompt = (">", {"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {}})
    found = list(deviations([prompt, ("<", {"jsonrpc": "2.0", **wrong})], "<"))
    assert found
