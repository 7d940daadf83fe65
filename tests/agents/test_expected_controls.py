"""The complete steps of each link for settings, questions and actions of a process that stays, and for the answers to
them.

`BEAM_WRITE_EXPECTED=1 pytest tests/agents/test_expected_controls.py` writes the expectations anew
(tests/agents/expected/controls); read the difference before you keep it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, structs

from beam.agents.base import Exit
from beam.agents.link import Act, Decide, Intent, Interrupt, Query, Send, Set, Steer, Step
from tests.support import acp_dialogue, claude_dialogue, codex_dialogue, expected
from tests.support.dialogue import Conversation

HERE = Path(__file__).parent / "expected" / "controls"
VALUES = {
    "model": ("b", "none", ""),
    "effort": ("high", "none", ""),
    "thinking": ("1000", "auto", "x", "-1", "1" * 30, ""),
    "mode": ("plan", "default", "careful", "full", ""),
    "access": ("read", "ask", "edit", "full", "x"),
    "novel": ("x",),
}
GIVEN = (
    {},
    {"server": "docs"},
    {"server": "docs", "tool": "ping"},
    {"server": "docs", "tool": "ping", "arguments": {"a": 1}},
)
MORE: tuple[dict[str, Any], ...] = (
    {"servers": {"docs": {"command": "x"}}},
    {"to": "m-1", "dry_run": True},
    {"to": "m-1"},
)
ACTIONS = ("mcp.reconnect", "mcp.call", "mcp.set", "mcp.enable", "mcp.disable", "rewind.files", "novel")
INTENTS: list[Intent] = [
    *(Set(id="c", name=name, value=value) for name, values in VALUES.items() for value in values),
    *(Query(id="c", name=name) for name in ("context", "models", "modes", "mcp", "account", "commands", "novel")),
    *(Act(id="c", name=name, given=Raw(json.dumps(given).encode())) for name in ACTIONS for given in (*GIVEN, *MORE)),
    Act(id="c", name="mcp.call", given=Raw(b"[]")),
    Steer(id="c", text="and so"),
    Interrupt(),
    Decide(key="0", decision="allow"),
]
MODELS = {"data": [{"id": "gpt-5.5", "supportedReasoningEfforts": [{"reasoningEffort": "high"}]}, {"id": "other"}]}
SERVER = {"name": "docs", "runtimeStatus": "up", "status": "connected", "tools": {"ping": {}}, "toolsError": "no"}
RESULTS: list[dict[str, Any]] = [
    {},
    {"mode": "plan", "applied": {"effort": "high"}, "totalTokens": 5, "maxTokens": 9, "mcpServers": [SERVER]},
    {"mode": "other", "applied": {"effort": "low"}, **MODELS, "account": {"name": "me"}},
    {"data": [SERVER], "content": [{"type": "text", "text": "pong"}], "filesChanged": ["a"], "insertions": 1},
]


def of_claude(access: Any) -> claude_dialogue.Talk:
    talk = claude_dialogue.Talk(claude_dialogue.turn(access=access))
    talk.begin(
        commands=[{"name": "compact"}, {"name": "context"}],
        models=[{"value": "big"}, {"value": "small"}],
        account={"email": "me@example.org"},
    )
    return talk


def of_codex(access: Any) -> codex_dialogue.Talk:
    talk = codex_dialogue.Talk(codex_dialogue.turn(access=access))
    talk.begin()
    return talk


def of_acp(access: Any) -> acp_dialogue.Talk:
    dialect = structs.replace(acp_dialogue.DIALECT, plan="planning")
    modes = {**acp_dialogue.MODES, "availableModes": [*acp_dialogue.MODES["availableModes"], {"id": "planning"}]}
    talk = acp_dialogue.Talk(acp_dialogue.turn(access=access), dialect)
    models = {"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]}
    talk.begin(modes=modes, models=models)
    for method in ("session/set_mode", "session/set_model"):
        if talk.sent[-1].get("method") == method:
            talk.reply(method)
    talk.say("available_commands_update", availableCommands=[{"name": "compact"}])
    talk.say("usage_update", used=5, size=9)
    return talk


def answered_claude(talk: Any, frame: dict[str, Any], result: dict[str, Any] | None) -> list[Step]:
    said = {"subtype": "error", "error": "no"} if result is None else {"subtype": "success", "response": result}
    found: list[Step] = talk.hear({"type": "control_response", "response": {"request_id": frame["request_id"], **said}})
    return found


def answered_rpc(talk: Any, frame: dict[str, Any], result: dict[str, Any] | None) -> list[Step]:
    said = {"error": {"code": -1, "message": "no"}} if result is None else {"result": result}
    found: list[Step] = talk.hear({"jsonrpc": "2.0", "id": frame["id"], **said})
    return found


Make = Callable[[Any], Conversation]
Answer = Callable[[Any, dict[str, Any], dict[str, Any] | None], list[Step]]
LINKS: dict[str, tuple[Make, Answer]] = {
    "claude": (of_claude, answered_claude),
    "codex": (of_codex, answered_rpc),
    "acp": (of_acp, answered_rpc),
}


def requested(steps: list[Step]) -> dict[str, Any] | None:
    """The request in these steps that wants an answer."""
    frames = [json.loads(step.data) for step in steps if isinstance(step, Send)]
    return next((frame for frame in frames if "request_id" in frame or ("id" in frame and "method" in frame)), None)


def played(name: str, access: Any, intent: Intent, result: Any) -> list[Any]:
    """The steps of the intent, those of its answer, and those of one more request that follows from it."""
    make, answer = LINKS[name]
    talk = make(access)
    steps = talk.do(intent)
    told = [expected.of_step(step) for step in steps]
    for _ in range(2):
        frame = requested(steps)
        if frame is None or result == "nothing":
            break
        steps = answer(talk, frame, result)
        told.append("answered")
        told += [expected.of_step(step) for step in steps]
    if result == "nothing":
        told.append(["late", talk.link.due, *map(expected.of_step, talk.wake(talk.link.due or 0.0))])
    return told


def named(intent: Intent) -> str:
    fields = {each: getattr(intent, each) for each in intent.__struct_fields__ if each != "id"}
    return f"{type(intent).__name__} " + " ".join(str(expected.told(value)) for value in fields.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", LINKS)
def test_each_intent_between_two_turns_has_its_steps(name: str) -> None:
    told = {}
    for intent in INTENTS:
        first = played(name, "ask", intent, "nothing")
        told[named(intent)] = first
        if len(first) < 2 or not any("Send" in each for each in first if isinstance(each, dict)):
            continue
        for number, result in enumerate([None, *RESULTS]):
            after = played(name, "ask", intent, result)
            told[f"{named(intent)}, {'refused' if result is None else number}"] = after[after.index("answered") :]
    expected.check(HERE / f"{name}.json", expected.document(told))


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("access", ["read", "ask", "edit", "full"])
def test_the_access_and_the_modes_of_a_process_change_as_it_began(name: str, access: str) -> None:
    told = {
        named(intent): played(name, access, intent, {"mode": ""})
        for intent in INTENTS
        if isinstance(intent, Set) and intent.name in ("access", "mode")
    }
    expected.check(HERE / f"{name}-{access}.json", expected.document(told))


@pytest.mark.parametrize("name", LINKS)
def test_a_text_for_a_running_turn_and_its_end(name: str) -> None:
    told = {}
    for end in (Exit(code=0), Exit(code=1, stderr_tail="oh"), Exit(signal="SIGKILL")):
        make, _ = LINKS[name]
        talk: Any = make("ask")
        talk.prompt()
        steps = [*talk.do(Steer(id="c", text="and so")), *talk.do(Interrupt()), *talk.link.end(end)]
        told[f"{end.code} {end.signal}"] = [expected.of_step(step) for step in steps]
    expected.check(HERE / f"{name}-ends.json", expected.document(told))
