"""The real Mistral Vibe, through the real `beam`, against the scripted model."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, Ended, eventually, processes_with

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
VERBATIM = '- "quoted" `ticks` $HOME é\n/second line, it\'s <b>'


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def vibe(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    """beam in a place where `vibe` is the pinned one and talks to the scripted model only."""
    if shutil.which("vibe", path=agents_path) is None:
        pytest.skip("left out: vibe does not install here (it needs Python 3.12)")
    return beam.with_env({"PATH": agents_path, **model.env("vibe", beam.base / "home")})


def send(cli: Cli, text: str, *options: str) -> Ended:
    return cli("send", "vibe", "--json", *options, "--", text, timeout=400)


def sent(model: FakeModel) -> str:
    """All that the model was sent in the last request for an answer, as JSON."""
    return json.dumps([request.body for request in model.requests if request.asked is not None][-1], ensure_ascii=False)


def writing(path: Path) -> str:
    return f"!tool write_file {json.dumps({'path': str(path), 'content': 'x'})}"


@pytest.mark.soak
def test_the_prompt_arrives_verbatim_and_the_second_turn_has_the_context_of_the_first(
    vibe: Cli, model: FakeModel
) -> None:
    first = send(vibe, VERBATIM).json
    assert (first["status"], first["session"], first["reason"]) == ("completed", "new", None)
    assert model.prompts() == [VERBATIM]
    second = send(vibe, "and again").json
    assert (second["status"], second["session"], second["session_id"]) == ("completed", "resumed", first["session_id"])
    assert json.dumps(VERBATIM, ensure_ascii=False)[1:-1] in sent(model)
    assert second["reply"] == "ECHO[and again] turns=2"
    eventually(lambda: processes_with(str(vibe.base)) == [], what="vibe left processes behind")


@pytest.mark.soak
def test_a_session_that_is_gone_is_said_and_the_turn_begins_once_afresh(vibe: Cli) -> None:
    assert send(vibe, "one").json["status"] == "completed"
    shutil.rmtree(vibe.base / "home" / ".vibe" / "logs")
    done = send(vibe, "two").json
    assert (done["status"], done["session"], done["reply"]) == ("completed", "lost", "ECHO[two] turns=1")


@pytest.mark.soak
def test_access_read_writes_nothing_though_vibe_asks_nobody_and_access_full_does(vibe: Cli) -> None:
    made = vibe.project / "made"
    done = send(vibe, writing(made)).json
    assert (done["status"], [denial["tool"] for denial in done["denials"]]) == ("denied", ["file_system.write_file"])
    assert not made.exists()
    assert send(vibe, writing(made), "--access", "full").json["status"] == "completed"
    assert made.read_text() == "x"
    changed = [event["path"] for event in vibe.journal("vibe") if event["type"] == "file.changed"]
    assert changed == ["made"]


@pytest.mark.soak
def test_retries_end_by_beams_own_cap(vibe: Cli) -> None:
    done = send(vibe, "!error 500")
    assert (done.code, done.json["status"], done.json["class"], done.json["reply"]) == (1, "failed", "overloaded", None)


@pytest.mark.soak
def test_a_killed_vibe_is_a_crash_and_its_app_server_does_not_survive_it(vibe: Cli, model: FakeModel) -> None:
    process = vibe.start("send", "vibe", "--json", "!stall")
    eventually(lambda: model.prompts() != [], timeout=100)
    started: dict[str, Any] = next(event for event in vibe.journal("vibe") if event["type"] == "agent.started")
    os.kill(started["pid"], 9)
    out, _ = process.communicate(timeout=60)
    outcome = json.loads(out)
    assert (outcome["status"], outcome["class"], outcome["reply"]) == ("failed", "crashed", None)
    eventually(lambda: processes_with(str(vibe.base)) == [], what="vibe left processes behind")
