"""Recordings of the CLIs whose headless face prints lines or text: each decodes to its checked-in events.

`BEAM_WRITE_EXPECTED=1 pytest tests/agents/test_headless_recordings.py` writes the expectations anew
(tests/recordings/ADAPTER/VERSION/expected). `runs.json` beside the recordings says how each process ended and which
session its turn asked for.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam.agents import registry
from beam.agents.base import Exit, Turn
from beam.model.outcome import Class, Status
from tests.agents import recorded
from tests.agents.recorded import Recorded

RECORDINGS = Path(__file__).parent.parent / "recordings"
ADAPTERS = ("aider", "claude", "cline", "cn", "copilot", "kilo", "kimi", "opencode", "pi", "qwen")
NAMES = [
    (adapter, runs.parent.name, name)
    for adapter in ADAPTERS
    for runs in sorted((RECORDINGS / adapter).glob("*/runs.json"))
    for name in json.loads(runs.read_text())
]
FRESH = "5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10"


def load(adapter: str, version: str, name: str) -> Recorded:
    """The recording of one process."""
    place = RECORDINGS / adapter / version
    run = json.loads((place / "runs.json").read_text())[name]
    stderr = place / f"{name}.err"
    turn = Turn(text="", message_id="", agent=adapter, session_id=run["session"], fresh_session_id=FRESH)
    tail = stderr.read_text("utf-8") if stderr.exists() else ""
    exit = Exit(code=run["exit"], stderr_tail=tail, stopped_by=run.get("stopped_by"))
    return Recorded(name=name, turn=turn, stdout=(place / f"{name}.out").read_bytes(), exit=exit)


@pytest.mark.slow
@pytest.mark.parametrize(("adapter", "version", "name"), NAMES)
def test_a_recording_becomes_the_expected_events(adapter: str, version: str, name: str) -> None:
    face = registry.adapter(adapter).exec
    assert face is not None
    expected = RECORDINGS / adapter / version / "expected" / f"{name}.jsonl"
    recorded.check(face.decoder, load(adapter, version, name), expected)


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_recordings_of_a_cli_become_their_expected_events(adapter: str) -> None:
    face = registry.adapter(adapter).exec
    assert face is not None
    names = [(version, name) for named, version, name in NAMES if named == adapter]
    found = {name: recorded.whole(face.decoder, load(adapter, *name)) for name in names}
    places = {(version, name): RECORDINGS / adapter / version / "expected" / f"{name}.jsonl" for version, name in names}
    assert found == {name: path.read_text("utf-8") for name, path in places.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("adapter", "version", "name"), NAMES)
def test_an_errors_text_is_never_a_reply(adapter: str, version: str, name: str) -> None:
    face = registry.adapter(adapter).exec
    assert face is not None
    recording = load(adapter, version, name)
    _, verdict = recorded.decode(face.decoder, recording, [recording.stdout])
    assert (verdict.reply is None) == (verdict.status in (Status.FAILED, Status.REFUSED))
    assert (verdict.reason is None) == (verdict.status is Status.COMPLETED)


@pytest.mark.parametrize(
    ("adapter", "name", "class_", "reason"),
    [
        ("qwen", "api429", Class.RATE_LIMIT, "stopped after its retries: post http"),
        ("aider", "refused", Class.NETWORK, "stopped after its retries: litellm.InternalServerError"),
        ("aider", "cut", Class.NETWORK, "litellm.APIConnectionError"),
        ("kimi", "no-model", Class.BAD_REQUEST, 'Model "none" is not configured'),
    ],
)
def test_a_recorded_failure_has_its_class(adapter: str, name: str, class_: Class, reason: str) -> None:
    face = registry.adapter(adapter).exec
    assert face is not None
    version = next(version for named, version, found in NAMES if (named, found) == (adapter, name))
    recording = load(adapter, version, name)
    _, verdict = recorded.decode(face.decoder, recording, [recording.stdout])
    assert (verdict.status, verdict.class_) == (Status.FAILED, class_)
    assert str(verdict.reason).startswith(reason)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_there_are_recordings_of_the_version_that_the_card_names(adapter: str) -> None:
    recorded_of = {version for named, version, _ in NAMES if named == adapter}
    assert set(registry.adapter(adapter).card.versions) <= recorded_of
