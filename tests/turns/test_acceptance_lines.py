"""An agent that writes a line without end, as a process."""

from __future__ import annotations

import pytest

from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance


def test_a_line_without_end_is_told_while_it_grows_and_keeps_no_turn_beyond_its_timeout(beam: Cli) -> None:
    beam.config(
        """\
        agents:
          endless: {command: [sh, -c, 'cat >/dev/null; head -c 4000000 /dev/zero | tr "\\0" x; exec sleep 300']}
        """
    )
    done = beam("send", "endless", "x", "--timeout", "8s", timeout=60)
    assert done.code == 3, done
    deltas = [event for event in beam.journal("endless") if event["type"] == "text.delta"]
    assert sum(len(event["text"]) for event in deltas) == 4_000_000
    (exited,) = (event for event in beam.journal("endless") if event["type"] == "agent.exited")
    told = [event for event in deltas if event["seq"] < exited["seq"]]
    assert len(told) == len(deltas) > 1
    assert exited["stopped_by"] == "timeout"
