"""^C, TERM and HUP at every stage: the caller's own message is withdrawn or interrupted, nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.cli import Cli, Ended, Started, asleep, eventually, processes_with, watching

pytestmark = pytest.mark.acceptance

SCRIPT = """
rules:
  - {match: slow, reply: [so far, {hang: true}]}
  - {match: stubborn, reply: [so far, {hang: true, stubborn: true}]}
default: "You said: {prompt}"
"""


@pytest.fixture
def tester(beam: Cli) -> Cli:
    (beam.project / "tester.yaml").write_text(SCRIPT)
    beam.config("agents:\n  tester: {adapter: scripted, script: ./tester.yaml}\n")
    return beam


def running(beam: Cli, count: int = 1) -> None:
    """Waits until a turn hangs."""
    eventually(lambda: beam.types("tester").count("status") >= count, what=str(beam.types("tester")))


def takes(process: Started, number: signal.Signals) -> bool:
    """Whether the process does something of its own about that signal. Of SIGHUP that is so once it sends."""
    assert process.poll() is None, "it ended before"
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def end(process: Started, timeout: float = 30) -> Ended:
    out, err = process.communicate(timeout=timeout)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Ended(code, out.decode(), err.decode())


def nothing_runs(beam: Cli) -> None:
    eventually(lambda: processes_with(str(beam.base)) == [], what="something was left behind")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_in_ones_own_turn_interrupts_it_and_is_raised_again(
    tester: Cli, number: signal.Signals, code: int
) -> None:
    process = tester.start("send", "tester", "slow")
    running(tester)
    process.send_signal(number)
    done = end(process)
    assert (done.code, process.returncode) == (code, -number), done
    assert len(done.err.splitlines()) == 1, done
    assert "cancelled" in done.err
    finished = [event for event in tester.journal("tester") if event["type"] == "turn.finished"]
    assert [event["status"] for event in finished] == ["cancelled"]
    assert (tester.box("tester", "cur"), tester.box("tester", "new")) == ([], [])
    nothing_runs(tester)


def test_an_interrupted_send_in_json_still_prints_its_outcome(tester: Cli) -> None:
    process = tester.start("send", "tester", "slow", "--json")
    running(tester)
    process.send_signal(signal.SIGINT)
    done = end(process)
    assert done.code == 130
    assert (done.json["status"], done.json["exit_code"]) == ("cancelled", 9)


def test_a_second_interrupt_ends_a_stubborn_agent_at_once(tester: Cli) -> None:
    tester.config("agents:\n  tester: {adapter: scripted, script: ./tester.yaml}\nlimits: {grace: 10m}\n")
    process = tester.start("send", "tester", "stubborn")
    running(tester)
    process.send_signal(signal.SIGINT)
    asleep(process)  # it has heard that one, and waits
    process.send_signal(signal.SIGINT)
    done = end(process)
    assert done.code == 130
    nothing_runs(tester)


def test_an_interrupt_while_another_turn_is_ahead_withdraws_the_message(tester: Cli) -> None:
    ahead = tester.start("send", "tester", "slow")
    running(tester)
    behind = tester.start("send", "tester", "behind")
    eventually(lambda: len(tester.box("tester", "new")) == 1)
    behind.send_signal(signal.SIGINT)
    done = end(behind)
    assert done.code == 130, done
    said = [line for line in done.err.splitlines() if "behind tester-" not in line]  # told to who waits for long
    assert len(said) == 1, done
    assert "withdrawn" in said[0]
    assert tester.box("tester", "new") == []
    assert ahead.poll() is None
    ahead.send_signal(signal.SIGINT)
    assert end(ahead).code == 130
    assert "behind" not in [event.get("text") for event in tester.journal("tester") if event["type"] == "text"]
    nothing_runs(tester)


def test_an_interrupt_of_a_wait_detaches_and_says_how_to_go_on(tester: Cli) -> None:
    message = tester("send", "tester", "--no-wait", "slow").out.strip()
    running(tester)
    waiting = tester.start("wait", message)
    asleep(waiting)
    waiting.send_signal(signal.SIGINT)
    done = end(waiting)
    assert done.code == 130, done
    assert len(done.err.splitlines()) == 1, done
    assert f"beam wait {message}" in done.err
    assert tester("show", message).code == 12
    assert tester("interrupt", message).code == 0
    assert tester("wait", message).code == 9
    nothing_runs(tester)


def test_an_interrupt_of_a_second_sender_of_a_key_leaves_the_turn_alone(tester: Cli) -> None:
    first = tester.start("send", "tester", "slow", "--key", "k")
    running(tester)
    second = tester.start("send", "tester", "slow", "--key", "k")
    eventually(lambda: takes(second, signal.SIGHUP))
    second.send_signal(signal.SIGINT)
    done = end(second)
    assert done.code == 130, done
    assert "goes on; beam wait" in done.err
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    assert end(first).code == 130


def test_an_interrupt_before_anything_was_put_leaves_nothing(tester: Cli) -> None:
    process = tester.start("send", "tester", stdin=subprocess.PIPE)
    asleep(process)
    process.send_signal(signal.SIGINT)
    done = end(process)
    assert (done.code, done.out) == (130, "")
    assert "Traceback" not in done.err
    assert not tester.root.exists()


@pytest.mark.parametrize("moment", [0.15, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6])
def test_an_interrupt_at_any_moment_leaves_nothing_half_done(tester: Cli, moment: float) -> None:
    process = tester.start("send", "tester", "quick")
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    done = end(process)
    assert done.code in (0, 130), done
    assert len(done.err.splitlines()) <= 1, done
    assert (tester.box("tester", "cur"), tester.box("tester", "new")) == ([], [])
    types = tester.types("tester")
    assert types.count("turn.started") == types.count("turn.closed")
    nothing_runs(tester)


def test_an_interrupt_of_a_watch_is_its_ordinary_end(tester: Cli) -> None:
    tester("send", "tester", "hi")
    process = tester.start("watch", "--json")
    watching(process)
    process.send_signal(signal.SIGINT)
    done = end(process)
    assert (done.code, done.err) == (130, "")


def test_a_worker_that_is_terminated_ends_its_turn_and_says_so(tester: Cli) -> None:
    message = tester("send", "tester", "--no-wait", "slow").out.strip()
    running(tester)
    started = next(event for event in tester.journal("tester") if event["type"] == "turn.started")
    os.kill(started["owner"]["pid"], signal.SIGTERM)
    done = tester("wait", message)
    assert (done.code, done.out) == (9, ""), done
    nothing_runs(tester)


def test_a_shell_that_ignores_interrupts_is_not_interrupted(tester: Cli) -> None:
    done = tester.shell("trap '' INT; beam send tester hi & sleep 0.1; kill -INT $!; wait $!")
    assert (done.code, done.out) == (0, "You said: hi\n"), done
