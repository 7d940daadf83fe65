"""How each adapter starts its CLI, whole: every mode and access, and what each option of a message changes in it.

`BEAM_WRITE_EXPECTED=1 pytest tests/agents/test_expected_launches.py` writes the expectations anew
(tests/agents/expected/launches); read the difference before you keep it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents import registry
from beam.agents.base import Content, HasTerminal, Host, Launch, Turn
from beam.agents.link import HasDialogue
from beam.base.errors import BeamError
from beam.model.message import RuleLists
from beam.model.settings import AgentSettings
from beam.rules.ruleset import combine, rules_of
from tests.support import expected

HERE = Path(__file__).parent / "expected" / "launches"
HOST = Host(executable="/bin/agent", version="1.0.0", home="/home/me", python="/bin/python")
FRESH = "5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10"
KNOWN = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"
SESSIONS = {"opencode": "ses_e0033d0d", "kilo": "ses_e0033d0d", "kimi": f"session_{KNOWN}"}
RULES = combine(rules_of(RuleLists(allow=("Bash(git log *)",), deny=("Bash(rm *)", "Edit(secret)")), "beam.yaml"))
OPTIONS: dict[str, dict[str, Any]] = {
    "attached": {"attach": ("/p/a.png", "/p/notes.txt")},
    "contents": {
        "contents": (
            Content(path="/p/a.png", image="image/png", data=b"\x89PNG"),
            Content(path="/p/notes.txt", data=b"to do"),
        ),
    },
    "copied": {"session_id": KNOWN, "fork": True},
    "cut": {"session_id": KNOWN, "upto": "m-7"},
    "cut copy": {"session_id": KNOWN, "fork": True, "upto": "m-7"},
    "dashed text": {"text": "--help"},
    "left out": {"leave_out": True},
    "model": {"model": "vendor/model"},
    "once": {"once": True},
    "outbox": {"outbox": "/r/outbox"},
    "resumed": {"session_id": KNOWN},
    "rules": {"rules": RULES},
    "schema": {"schema": '{"type":"object"}'},
    "second attempt": {"attempt": 2},
    "slash": {"text": "/compact", "slash": True},
    "slashed text": {"text": "/compact"},
    "told": {"told": "0123"},
    "trusted": {"folder_trusted": True},
    "wrong model": {"model": "--yolo"},
    "wrong session": {"session_id": "--yolo"},
    "max_turns": {"max_turns": 3},
    "budget": {"budget_usd": 0.5},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "settings: retries": {"retries": 7},
    "settings: no retries": {"retries": 0},
    "settings: system": {"system": "Be brief."},
    "settings: a command with groups": {"command": ("prog", ("--resume", "{session}"), ("--model", "{model}"), "-x")},
    "settings: acp": {"protocol": "acp"},
}


def launched(name: str, face: str, access: Any, **fields: Any) -> Any:
    """The launch as JSON, or why there is none."""
    adapter = registry.adapter(name)
    if isinstance(fields.get("session_id"), str) and fields["session_id"] == KNOWN:
        fields["session_id"] = SESSIONS.get(name, KNOWN)
    settings = structs.replace(
        AgentSettings(adapter=name, command=("prog", "--flag", "{access}")), **fields.pop("settings", {})
    )
    given: dict[str, Any] = {
        "text": "hello you",
        "message_id": "m-1",
        "agent": "me",
        "sender": "human",
        "access": access,
        "cwd": "/p",
        "scratch": "/s",
        "fresh_session_id": FRESH,
        "settings": settings,
    }
    turn = Turn(**{**given, **fields})
    try:
        return expected.told(_launch(adapter, face, turn))
    except BeamError as error:
        return f"{type(error).__name__}: {error.message} | {error.hint} | {error.subject}"


def _launch(adapter: Any, face: str, turn: Turn) -> Launch:
    if face == "dialogue":
        assert isinstance(adapter, HasDialogue)
        return adapter.dialogue.launch(turn, HOST)
    if face == "terminal":
        assert isinstance(adapter, HasTerminal)
        return adapter.terminal.launch(turn, HOST)
    assert adapter.exec is not None
    found: Launch = adapter.exec.launch(turn, HOST)
    return found


def changes(plain: Any, other: Any) -> Any:
    """What is not as in the plain launch."""
    if isinstance(plain, str) or isinstance(other, str):
        return other
    return {key: other.get(key) for key in sorted({*plain, *other}) if plain.get(key) != other.get(key)}


def launches(name: str) -> dict[str, Any]:
    """Each mode and access; with the first and the last access also each option."""
    told: dict[str, Any] = {}
    for face, can in registry.adapter(name).card.faces.items():
        if face == "mailbox":
            continue
        accesses = can.access or ("full",)
        for access in ("read", "ask", "edit", "full"):
            plain = launched(name, face, access)
            told[f"{face} {access}"] = plain
            if access not in (accesses[0], accesses[-1]):
                continue
            options = {**OPTIONS, **{word: {"settings": fields} for word, fields in SETTINGS.items()}}
            for word, fields in options.items():
                told[f"{face} {access}, {word}"] = changes(plain, launched(name, face, access, **fields))
    return {key: value for key, value in told.items() if value != {}}


STARTED = [name for name in registry.ADAPTERS if set(registry.adapter(name).card.faces) - {"mailbox"}]


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTED)
def test_each_message_starts_the_cli_with_its_checked_in_arguments(name: str) -> None:
    expected.check(HERE / f"{name}.json", expected.document(launches(name)))
