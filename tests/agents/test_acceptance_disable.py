"""An adapter that is switched off runs nothing: not what is sent to it, not what waits, not a smoke test."""

from __future__ import annotations

import pytest

from tests.support.cli import Cli, eventually, processes_with

pytestmark = pytest.mark.acceptance
OFF = {"BEAM_DISABLE": "scripted"}


def test_who_sends_is_told_by_whom_it_was_switched_off(beam: Cli) -> None:
    beam.config("disable: [scripted]\n")
    refused = beam("send", "scripted", "hi")
    assert (refused.code, refused.out) == (2, "")
    assert "scripted is switched off by beam.yaml" in refused.err and "disable:" in refused.err
    assert not (beam.root / "agents" / "scripted" / "queue").exists()


def test_what_waits_is_kept_until_it_is_on_again(beam: Cli) -> None:
    assert beam("send", "scripted", "first").code == 0
    beam("queue", "pause", "scripted")
    message_id = beam("send", "scripted", "later", "--no-wait").out.strip()
    eventually(lambda: not processes_with(str(beam.base)), what="a worker that began before is left")
    assert beam("queue", "resume", "scripted", env=OFF).code in (0, 2)
    waited = beam("wait", message_id, "--timeout", "1s", env=OFF)
    assert waited.code != 0 and "You said" not in waited.out
    assert [line["box"] for line in beam("queue", "list", "--json").lines] == ["waiting"], "it is no dead letter"
    beam("queue", "resume", "scripted")
    assert beam("wait", message_id, "--timeout", "50s").out == "You said: later\n"


def test_doctor_says_it_and_status_shows_it(beam: Cli) -> None:
    beam("send", "scripted", "first")
    beam("agent", "add", "mine", "scripted")
    checks = {line["what"]: line for line in beam("doctor", "--json", env=OFF).lines}
    assert checks["agent mine"]["result"] == "note"
    assert "switched off by BEAM_DISABLE" in checks["agent mine"]["detail"]
    assert "switched off" in beam("status", "scripted", env=OFF).out
