"""Files of a later version of beam are refused and left alone."""

from __future__ import annotations

import pytest

from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance


def test_an_agent_json_of_a_later_beam_is_refused_and_left_as_it_is(beam: Cli) -> None:
    assert beam("agent", "add", "mine", "scripted").code == 0
    path = beam.root / "agents" / "mine" / "agent.json"
    later = path.read_text().replace('"v": 1', '"v": 2')
    path.write_text(later)
    for command in (("send", "mine", "hi"), ("agent", "set", "mine", "model=x")):
        refused = beam(*command)
        assert (refused.code, refused.out) == (2, "")
        assert "of version 2" in refused.err and "upgrade" in refused.err
    assert path.read_text() == later
