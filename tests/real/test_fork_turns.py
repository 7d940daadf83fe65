"""A copy of an agent's session, made by the real agent CLIs, through the real `beam`, against the scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli

pytestmark = [pytest.mark.real, pytest.mark.acceptance]

FORKING = ("claude", "codex")  # the others that can: the cells `fork` of the conformance table


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


def sent(model: FakeModel) -> str:
    """All that the model was sent in the last request for an answer, as JSON."""
    return json.dumps([request.body for request in model.requests if request.asked is not None][-1])


@pytest.mark.parametrize("name", [pytest.param("claude", marks=pytest.mark.soak), "codex"])
def test_a_fork_goes_on_in_a_copy_and_the_original_never_hears_of_it(
    beam: Cli, agents_path: str, model: FakeModel, name: str
) -> None:
    cli = beam.with_env({"PATH": agents_path, **model.env(name, beam.base / "home")})

    def send(agent: str, text: str) -> Any:
        return cli("send", agent, "--json", text, timeout=120).json

    original = send(name, "remember plums !usage 1000 20")["session_id"]
    done = cli("agent", "fork", name, "twin")
    assert (done.code, done.out) == (0, "") and original in done.err

    assert f"a copy of session {original} of {name}" in cli("agent", "show", "twin").out

    first = send("twin", "and pears !usage 100 7")
    assert (first["status"], first["session"]) == ("completed", "new"), first
    assert first["session_id"] not in (None, original)
    assert "remember plums" in sent(model)
    assert (first["usage"]["input_tokens"], first["usage"]["output_tokens"]) == (100, 7)
    (started,) = [event for event in cli.journal("twin") if event["type"] == "session.started"]
    assert (started["session_id"], started["forked_from"]) == (first["session_id"], original)

    later = send(name, "what now?")
    assert (later["session"], later["session_id"]) == ("resumed", original)
    assert "remember plums" in sent(model) and "and pears" not in sent(model)

    again = send("twin", "what else?")
    assert (again["session"], again["session_id"]) == ("resumed", first["session_id"])
    assert all(words in sent(model) for words in ("remember plums", "and pears"))
    assert "what now?" not in sent(model)


@pytest.mark.conformance
@pytest.mark.parametrize("name", ["gemini"])
def test_an_agent_that_has_no_way_to_copy_a_session_says_so_and_nothing_is_made(
    beam: Cli, agents_path: str, model: FakeModel, name: str
) -> None:
    cli = beam.with_env({"PATH": agents_path, **model.env(name, beam.base / "home")})
    assert cli("send", name, "hello").code == 0
    done = cli("agent", "fork", name, "twin")
    assert (done.code, done.out) == (10, "")
    assert "copy" in done.err and "beam agent add twin gemini" in done.err
    assert not (cli.root / "agents" / "twin").exists()
