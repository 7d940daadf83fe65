"""Recordings of each CLI's headless mode: they are read the same in any pieces, and an error is never an answer.

`runs.json` beside the recordings says how each process ended and which session its turn asked for; the recordings of
three CLIs are older and say it themselves.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from beam.agents import registry
from beam.agents.base import Decoder, Exit, Turn
from beam.model.outcome import Class, Status
from tests.agents import claude_recordings, codex_recordings, gemini_recordings, recorded
from tests.agents.recorded import Recorded
from tests.support.clis import HEADLESS

RECORDINGS = Path(__file__).parent.parent / "recordings"
OLDER = {each.HERE.parts[-2:]: each for each in (claude_recordings, codex_recordings, gemini_recordings)}
NAMES = [(*place, name) for place, each in OLDER.items() for name in each.names()] + [
    (adapter, runs.parent.name, name)
    for adapter in registry.ADAPTERS
    for runs in sorted((RECORDINGS / adapter).glob("*/runs.json"))
    for name in json.loads(runs.read_text())
]
RECORDED = tuple(dict.fromkeys(adapter for adapter, *_ in NAMES))
ENDS = {"api401": (Status.FAILED, Class.AUTH), "denied": (Status.DENIED, None)}
FRESH = "5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10"


def load(adapter: str, version: str, name: str) -> Recorded:
    """The recording of one process."""
    if older := OLDER.get((adapter, version)):
        return older.load(name)
    place = RECORDINGS / adapter / version
    run = json.loads((place / "runs.json").read_text())[name]
    stderr = place / f"{name}.err"
    turn = Turn(text="", message_id="", agent=adapter, session_id=run["session"], fresh_session_id=FRESH)
    tail = stderr.read_text("utf-8") if stderr.exists() else ""
    exit = Exit(code=run["exit"], stderr_tail=tail, stopped_by=run.get("stopped_by"))
    return Recorded(name=name, turn=turn, stdout=(place / f"{name}.out").read_bytes(), exit=exit)


def decoder(adapter: str, turn: Turn) -> Decoder:
    """What reads the CLI's output in this turn."""
    face = registry.adapter(adapter).exec
    assert face is not None
    return face.decoder(turn)


def verdict(adapter: str, version: str, name: str) -> recorded.Verdict:
    """How the recorded turn ended."""
    recording = load(adapter, version, name)
    return recorded.decode(partial(decoder, adapter), recording, [recording.stdout])[1]


@pytest.mark.slow
@pytest.mark.parametrize("adapter", RECORDED)
def test_a_recording_is_the_same_in_any_pieces_and_nothing_of_it_is_unknown(adapter: str) -> None:
    for row in NAMES:
        if row[0] == adapter:
            recorded.check(partial(decoder, adapter), load(*row))


@pytest.mark.slow
@pytest.mark.parametrize("adapter", RECORDED)
def test_an_errors_text_is_never_a_reply(adapter: str) -> None:
    for row in NAMES:
        if row[0] != adapter:
            continue
        found = verdict(*row)
        assert (found.reason is None) == (found.status is Status.COMPLETED), row
        if found.status in (Status.FAILED, Status.REFUSED) and found.class_ is not Class.SCHEMA:
            assert found.reply is None, row
        if found.status is Status.COMPLETED:
            assert found.reply is not None, row


@pytest.mark.parametrize(("adapter", "version", "name"), [row for row in NAMES if row[2] in ENDS])
def test_the_same_thing_that_went_wrong_is_the_same_for_every_cli(adapter: str, version: str, name: str) -> None:
    found = verdict(adapter, version, name)
    assert (found.status, found.class_) == ENDS[name]


@pytest.mark.parametrize(
    ("adapter", "name", "class_", "reason"),
    [
        ("qwen", "api429", Class.RATE_LIMIT, "stopped after its retries: post http"),
        ("aider", "refused", Class.NETWORK, "stopped after its retries: litellm.InternalServerError"),
        ("aider", "cut", Class.NETWORK, "litellm.APIConnectionError"),
        ("kimi", "lost", Class.BAD_REQUEST, "Session"),
        ("pi", "lost", Class.BAD_REQUEST, "No session found"),
        ("qwen", "lost", Class.BAD_REQUEST, "No saved session found"),
        ("qwen", "unreached", Class.NETWORK, "Connection error."),
        ("opencode", "err404", Class.BAD_REQUEST, "nope"),
        ("opencode", "attach", Class.OVERLOADED, "stub error 500"),
        ("pi", "broken", Class.NETWORK, "terminated"),
        ("kimi", "no-model", Class.BAD_REQUEST, 'Model "none" is not configured'),
    ],
)
def test_a_recorded_failure_has_its_class(adapter: str, name: str, class_: Class, reason: str) -> None:
    version = next(version for named, version, found in NAMES if (named, found) == (adapter, name))
    found = verdict(adapter, version, name)
    assert (found.status, found.class_) == (Status.FAILED, class_)
    assert str(found.reason).startswith(reason)


@pytest.mark.parametrize("adapter", [name for name in HEADLESS if name != "codex"])  # the protocol of that was recorded
def test_there_are_recordings_of_the_version_that_the_card_names(adapter: str) -> None:
    assert set(registry.adapter(adapter).card.versions) <= {version for named, version, _ in NAMES if named == adapter}
