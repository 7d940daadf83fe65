"""An agent that writes a line without end, as a process."""

from __future__ import annotations

import json

import pytest

from tests.support.cli import Cli, eventually

pytestmark = pytest.mark.acceptance

# It writes the second half of its line when the test has seen the first.
ENDLESS = r"""cat >/dev/null
write() { head -c 2000000 /dev/zero | tr "\0" x; }
write
until [ -e seen ]; do sleep 0.05; done
write
exec sleep 300"""


def test_a_line_without_end_is_told_while_it_grows_and_keeps_no_turn_beyond_its_timeout(beam: Cli) -> None:
    beam.config(json.dumps({"agents": {"endless": {"command": ["sh", "-c", ENDLESS]}}}))
    sent = beam.start("send", "endless", "x", "--timeout", "8s")
    eventually(lambda: "text.delta" in beam.types("endless"), 30)
    (beam.project / "seen").touch()
    out, err = sent.communicate(timeout=60)
    assert sent.returncode == 3, (out, err)
    deltas = [event for event in beam.journal("endless") if event["type"] == "text.delta"]
    assert sum(len(event["text"]) for event in deltas) == 4_000_000
    (exited,) = (event for event in beam.journal("endless") if event["type"] == "agent.exited")
    assert all(event["seq"] < exited["seq"] for event in deltas)
    assert exited["stopped_by"] == "timeout"
