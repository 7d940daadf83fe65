"""Real Claude Code and Codex go back to an earlier turn: the scripted model is not told what was taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, Ended
from tests.support.repository import files

pytestmark = [pytest.mark.real, pytest.mark.acceptance]


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def live(beam: Cli, agents_path: str, model: FakeModel) -> Iterator[Cli]:
    """beam in a place where both CLIs are the pinned ones and talk to the scripted model only."""
    env = {**model.env("claude"), **model.env("codex", beam.base / "home")}
    yield beam.with_env({"PATH": agents_path, "IS_SANDBOX": "1", **env})
    beam("broker", "stop", "--grace", "0s")
    for name in ("claude", "codex"):
        beam("agent", "release", name)


def send(cli: Cli, agent: str, text: str, *words: str, via: str = "dialogue") -> Ended:
    done = cli("send", agent, "--via", via, "--json", *words, text, timeout=120)
    assert done.code == 0, done
    return done


def told(model: FakeModel) -> str:
    """What the model was told last."""
    return json.dumps([request.body for request in model.requests if request.asked is not None][-1])


def rewound(cli: Cli, agent: str) -> list[dict[str, Any]]:
    return [event for event in cli.journal(agent) if event["type"] == "session.rewound"]


@pytest.mark.soak
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_the_model_is_not_told_what_was_taken_back(live: Cli, model: FakeModel, agent: str) -> None:
    assert live("broker", "start").code == 0
    for word in ("plums", "pears", "figs"):
        send(live, agent, word)
    would = live("agent", "rewind", agent, "--to", "1", "--dry-run", "--json")
    assert (would.json["to"], would.json["turns"], rewound(live, agent)) == (1, [2, 3], [])
    assert live("agent", "rewind", agent, "--to", "1").code == 0
    (event,) = rewound(live, agent)
    assert event["to"] == 1 and event["by"] == "human"
    fourth = send(live, agent, "and now? !usage 100 7").json
    assert (fourth["session"], fourth["reply"][-7:]) == ("resumed", "turns=2")
    assert fourth["usage"]["input_tokens"] in (100, None)
    assert "plums" in told(model) and "pears" not in told(model) and "figs" not in told(model)
    assert live("agent", "rewind", agent, "--to", "2").code == 4
    assert send(live, agent, "and then?").json["reply"].endswith("turns=3")


@pytest.mark.conformance
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_copy_ends_where_it_was_told_and_the_original_is_whole(live: Cli, model: FakeModel, agent: str) -> None:
    first = send(live, agent, "plums").json
    send(live, agent, "pears")
    assert live("agent", "fork", agent, "copy", "--at", first["message_id"]).code == 0
    assert send(live, "copy", "what?").json["reply"].endswith("turns=2")
    assert "plums" in told(model) and "pears" not in told(model)
    assert send(live, agent, "what?").json["reply"].endswith("turns=3")
    assert live("agent", "fork", agent, "other", "--at", "77").code == 4


@pytest.mark.conformance
def test_claude_puts_back_the_files_that_it_changed_too(live: Cli, model: FakeModel) -> None:
    def write(name: str) -> str:
        return f"!tool Write {json.dumps({'file_path': str(live.project / name), 'content': 'x'})} !then !say {name}"

    (live.project / "kept").write_text("before")
    words = ("--access", "edit", "--keep", "5m")
    for prompt in (
        "hello",
        write("made"),
        f"!tool Read {json.dumps({'file_path': str(live.project / 'kept')})} !then " + write("kept"),
    ):
        send(live, "claude", prompt, *words)
    would = live("agent", "rewind", "claude", "--to", "1", "--what", "both", "--dry-run", "--json").json
    assert sorted(Path(path).name for path in would["files"]) == ["kept", "made"]
    assert (live.project / "kept").read_text() == "x"
    done = live("agent", "rewind", "claude", "--to", "1", "--what", "both")
    assert done.code == 0, done
    assert files(live.project) == ["kept"] and (live.project / "kept").read_text() == "before"
    assert send(live, "claude", "what?", *words).json["reply"].endswith("turns=2")
    assert live("agent", "rewind", "claude", "--what", "files", "--dry-run").code == 0


@pytest.mark.soak
def test_headless_turns_of_claude_can_be_taken_back_and_those_of_codex_not(live: Cli, model: FakeModel) -> None:
    for agent in ("claude", "codex"):
        for word in ("plums", "pears"):
            send(live, agent, word, via="exec")
    assert live("agent", "rewind", "claude").code == 0
    assert send(live, "claude", "what?", via="exec").json["reply"].endswith("turns=2")
    assert "pears" not in told(model)
    assert live("agent", "rewind", "codex").code == 10
    assert rewound(live, "codex") == []
