"""Recorded frames of Codex and beam's own, checked against the JSON Schema that the real Codex writes of itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from msgspec import Raw

from beam.agents.link import Act, Decide, Interrupt, Query, Set, Steer
from tests.agents.codex.test_codex_conversation import ANSWERS
from tests.agents.codex.test_codex_frames import NAMES, Played
from tests.support.codex_dialogue import RECORDINGS, THREAD, TURN, Talk, opened, turn
from tests.support.dialogue import Frame, recorded, whole
from tests.support.repository import make_repository

pytestmark = pytest.mark.real
DEVIATIONS = {"config/mcpServer/reload: : {} is not of type 'null'"}  # Codex takes no parameters and empty ones alike
REFUSED = {"account/chatgptAuthTokens/refresh", "attestation/generate", "of a newer version"}

SETTINGS = {"model": "m", "effort": "low", "mode": "plan"}


class Schema:
    """The schema of the pinned Codex, by the method of a frame."""

    def __init__(self, folder: Path) -> None:
        whole_schema = json.loads((folder / "codex_app_server_protocol.schemas.json").read_text())
        self._definitions = whole_schema["definitions"]
        self._validators: dict[str, Draft7Validator] = {}
        self._kinds = {name: self._methods(name) for name in ("ClientRequest", "ServerRequest", "ServerNotification")}

    def _methods(self, name: str) -> dict[str, dict[str, Any]]:
        union = self._definitions.get(name) or self._definitions["v2"][name]
        return {kind["properties"]["method"]["enum"][0]: kind["properties"].get("params") for kind in union["oneOf"]}

    def params(self, kind: str, method: str) -> dict[str, Any] | None:
        """The schema of a method's parameters; null for one that is not there."""
        return self._kinds[kind].get(method, None)

    def has(self, kind: str, method: str) -> bool:
        return method in self._kinds[kind]

    def result(self, kind: str, method: str) -> dict[str, Any] | None:
        """The schema of a method's answer, which is named like that of its parameters."""
        ref = (self._kinds[kind].get(method) or {}).get("$ref", "")
        if not ref.endswith("Params"):
            return None
        name = ref.removesuffix("Params") + "Response"
        where = self._definitions["v2"] if "/v2/" in name else self._definitions
        return {"$ref": name} if name.rpartition("/")[2] in where else None

    def errors(self, schema: dict[str, Any], value: object) -> Iterator[str]:
        key = json.dumps(schema)
        if key not in self._validators:
            self._validators[key] = Draft7Validator({"allOf": [schema], "definitions": self._definitions})
        for error in self._validators[key].iter_errors(value):
            yield f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"

    def deviations(self, frames: list[tuple[str, Frame]], way: str) -> Iterator[str]:
        """What the frames of that direction have that the schema forbids; a method that it does not know, by name."""
        asked = {(one, frame["id"]): frame["method"] for one, frame in frames if "method" in frame and "id" in frame}
        for one, frame in frames:
            if one != way:
                continue
            mine = "ClientRequest" if way == ">" else "ServerRequest"
            if "method" in frame:
                kind = mine if "id" in frame else "ServerNotification"
                method, schema, value = frame["method"], self.params(kind, frame["method"]), frame.get("params")
                if way == ">" and "id" not in frame:
                    continue  # `initialized`
                if not self.has(kind, method):
                    yield method
                    continue
            else:
                method = asked.get(("<" if way == ">" else ">", frame["id"]), "")
                schema = self.result("ServerRequest" if way == ">" else "ClientRequest", method)
                value = frame.get("result")
            if schema is not None and "error" not in frame:
                yield from (f"{method}: {text}" for text in self.errors(schema, value))


@pytest.fixture(scope="module")
def schema(agents_path: str, tmp_path_factory: pytest.TempPathFactory) -> Schema:
    """What `codex app-server generate-json-schema` writes, run in a git repository."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("project")
    make_repository(folder, home)
    words = ["codex", "app-server", "generate-json-schema", "--experimental", "--out", str(home / "schema")]
    env = {"HOME": str(home), "PATH": agents_path}
    subprocess.run(words, env=env, cwd=folder, check=True, capture_output=True, timeout=60)
    return Schema(home / "schema")


def test_a_wrong_frame_is_found(schema: Schema) -> None:
    command = "item/commandExecution/requestApproval"
    for way, frame in (
        (">", {"id": 1, "method": "turn/start", "params": {"threadId": 7}}),
        (">", {"id": 0, "result": {"decision": "maybe"}}),
        ("<", {"method": "turn/completed", "params": {}}),
        ("<", {"method": "turn/nonsense", "params": {}}),
    ):
        asked = [("<", {"id": 0, "method": command, "params": {}})] if way == ">" else []
        assert list(schema.deviations([*asked, (way, frame)], way))


@pytest.mark.parametrize("name", NAMES)
def test_the_recorded_frames_are_of_the_protocol(schema: Schema, name: str) -> None:
    assert set(schema.deviations(recorded(RECORDINGS / name), "<")) == set()


@pytest.mark.parametrize("name", NAMES)
def test_what_beam_sends_is_of_the_protocol(schema: Schema, name: str) -> None:
    theirs = [("<", frame) for way, frame in recorded(RECORDINGS / name) if way == "<" and "method" in frame]
    sent = [(">", frame) for frame in Played(name, whole).talk.sent]
    assert set(schema.deviations([*theirs, *sent], ">")) == set()


def test_what_beam_sends_in_every_way_that_it_can_is_of_the_protocol(schema: Schema) -> None:
    first = turn(session_id=THREAD, upto="t-1")
    for talk in (Talk(turn(access="edit", scratch="/s")), Talk(first), Talk(turn(session_id="s", fork=True, upto="t"))):
        if talk.turn is not first:
            talk.begin()
            talk.prompt()
        else:
            talk.reply("initialize")
            talk.reply("thread/resume", opened(first))
            talk.reply("thread/turns/list", {"data": [{"id": "t-2"}, {"id": "t-1"}]})
        given = Raw(b'{"server": "docs", "tool": "t"}')
        for intent in (
            *(
                Set(id=name, name=name, value=value)
                for name, value in (("model", "m"), ("effort", "low"), ("mode", "plan"))
            ),
            *(Query(id=name, name=name) for name in ("models", "account", "mcp")),
            *(Act(id="r", name="mcp.reconnect"), Act(id="c", name="mcp.call", given=given)),
            *(Steer(id="s", text="x"), Interrupt()),
        ):
            talk.do(intent)
        assert set(schema.deviations([(">", frame) for frame in talk.sent], ">")) <= DEVIATIONS


@pytest.mark.parametrize("word", ["allow", "deny", "cancelled", ""])
def test_each_of_its_requests_is_answered_in_its_own_shape(schema: Schema, word: str) -> None:
    """Also one that says nothing (`""`): then beam answers by itself."""
    talk = Talk(turn(access="ask"))
    talk.begin()
    talk.prompt()
    item = {"id": "f", "type": "fileChange", "changes": [{"path": "/a", "kind": {"type": "add"}, "diff": ""}]}
    talk.say("item/started", item=item)
    given: dict[str, dict[str, Any]] = {
        "item/commandExecution/requestApproval": {"itemId": "c", "command": "ls"},
        "item/fileChange/requestApproval": {"itemId": "f"},
        "item/permissions/requestApproval": {"itemId": "p", "permissions": {"network": {"enabled": True}}},
        "mcpServer/elicitation/request": {"serverName": "s", "_meta": {"codex_approval_kind": "mcp_tool_call"}},
    }
    asked = []
    for number, method in enumerate(ANSWERS):
        talk.ask(number, method, **(given.get(method, {}) if word else {}))
        asked.append(("<", {"id": number, "method": method, "params": {"threadId": THREAD, "turnId": TURN}}))
        if word and method in given:
            talk.do(Decide(key=str(number), decision=word))  # type: ignore[arg-type]
    answers = [frame for frame in talk.sent if "method" not in frame]
    assert [frame["id"] for frame in answers] == list(range(len(ANSWERS)))
    refused = {
        method
        for (_, frame), answer in zip(asked, answers, strict=True)
        if "error" in answer
        for method in [frame["method"]]
    }
    assert refused == REFUSED
    assert set(schema.deviations([*asked, *((">", frame) for frame in answers)], ">")) == set()
