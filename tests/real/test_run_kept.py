"""`beam run` with the real Claude Code: several turns over its own protocol, in one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beam.testing.fake_model import FakeModel
from beam.turns.choice import REASON_KEPT, REASON_NOT_KEPT
from tests.support.cli import Cli, eventually, processes_with

pytestmark = [pytest.mark.real, pytest.mark.acceptance, pytest.mark.conformance]


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


def test_a_second_step_needs_no_new_process_and_a_run_of_one_step_stays_headless(
    beam: Cli, agents_path: str, model: FakeModel
) -> None:
    place = beam.with_env({"PATH": agents_path, **model.env("claude")})
    step = "- {{send: claude, prompt: {}}}\n"
    (place.project / "s.yaml").write_text("beam: 1\nname: s\nsteps:\n" + step.format("plums") + step.format("what?"))
    assert place("run", "s.yaml", timeout=240).code == 0
    found = place.journal("claude@s")
    ended = [event for event in found if event["type"] == "turn.finished"]
    assert [(event["via"], event["why"], event["session"]) for event in ended] == [
        ("dialogue", REASON_KEPT, "new"),
        ("dialogue", REASON_KEPT, "resumed"),
    ]
    assert "turns=2" in ended[1]["reply"]
    assert [event["since"] for event in found if event["type"] == "agent.started"] == [None, 1]
    eventually(lambda: not processes_with(str(place.base)), what="claude is gone")
    (place.project / "s.yaml").write_text("beam: 1\nname: t\nsteps:\n" + step.format("plums"))
    assert place("run", "s.yaml", timeout=240).code == 0
    (alone,) = [event for event in place.journal("claude@t") if event["type"] == "turn.finished"]
    assert (alone["via"], alone["why"]) == ("exec", REASON_NOT_KEPT)
