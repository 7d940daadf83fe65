"""`log --follow`, `watch --follow`, and which journal a name means after a scenario."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable

import pytest

from tests.support.cli import Cli, Started, eventually

pytestmark = pytest.mark.acceptance


def _reader(process: Started) -> Callable[[], bytes]:
    """Returns what the process has printed so far, each time that it is called."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    seen = b""

    def read() -> bytes:
        nonlocal seen
        assert process.stdout is not None
        with contextlib.suppress(BlockingIOError):
            seen += os.read(process.stdout.fileno(), 1 << 20)
        return seen

    return read


@pytest.mark.parametrize(
    "words", [("log", "scripted", "-f", "--json", "-n", "1"), ("watch", "-f", "scripted", "--json")]
)
def test_what_happens_is_printed_as_it_happens_once_and_until_it_is_interrupted(
    beam: Cli, words: tuple[str, ...]
) -> None:
    beam("send", "scripted", "one")
    process = beam.start(*words)
    try:
        read = _reader(process)
        if words[0] == "log":
            eventually(lambda: b"\n" in read(), what="the last event is printed")
        else:
            eventually(lambda: beam("send", "scripted", "again").code == 0 and b"again" in read(), what="it watches")
        assert beam("send", "scripted", "two").code == 0
        eventually(lambda: b"turn.finished" in read().partition(b'"two"')[2], what="the turn is told")
        process.send_signal(signal.SIGINT)
        eventually(lambda: process.poll() is not None, what="it ends")
        events = [json.loads(line) for line in read().splitlines()]
        numbers = [event["seq"] for event in events if event.get("agent") == "scripted" and event.get("seq")]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    finally:
        if process.poll() is None:
            process.kill()


def test_follow_says_what_it_does_not_go_with(beam: Cli) -> None:
    message = beam("send", "scripted", "one", "--json").json["message_id"]
    assert "needs an agent" in beam("log", message, "-f").err
    for words in (("log", "scripted", "-f", "--turn", "1"), ("watch", "-f", "--now")):
        done = beam(*words)
        assert (done.code, "--follow" in done.err) == (2, True), done


def test_after_a_run_the_agent_of_the_scenario_is_found_by_its_name_alone(beam: Cli) -> None:
    scenario = "beam: 1\nname: {}\nagents: {{fixer: {{adapter: scripted}}}}\nsteps: [{{send: fixer, prompt: hi}}]\n"
    for name in ("gate", "other"):
        (beam.project / f"{name}.yaml").write_text(scenario.format(name))
    beam = beam.with_env({"BEAM_TRUST": "1"})
    assert beam("run", "gate.yaml").code == 0
    assert "You said: hi" in beam("log", "fixer").out
    assert "<html" in beam("log", "fixer", "--format", "html").out
    assert "for this agent" in beam("diff", "fixer").err
    assert beam("run", "other.yaml").code == 0
    for verb in ("log", "diff"):
        done = beam(verb, "fixer")
        assert (done.code, "fixer@gate, fixer@other" in done.err) == (2, True), done
