"""The broker through the real `beam`: it serves, hands over, stops, and one agent's trouble stays that agent's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.cli import Cli, eventually, kill_hard, processes_with

pytestmark = pytest.mark.acceptance

SLOW = """\
import sys, time
prompt = sys.stdin.read()
time.sleep(float(prompt.split()[0]))
print("done", prompt)
"""


@pytest.fixture
def slow(beam: Cli) -> Cli:
    """Agents a, b, c that take as many seconds as the prompt's first word says."""
    (beam.project / "slow.py").write_text(SLOW)
    agents = "".join(f"  {name}: {{command: [{sys.executable}, slow.py]}}\n" for name in "abc")
    beam.config(f"agents:\n{agents}")
    return beam


@pytest.fixture
def broker(slow: Cli) -> Iterator[int]:
    """The pid of a detached broker."""
    started = slow("broker", "start")
    assert started.code == 0, started.err
    yield int(started.out)
    slow("broker", "stop", "--grace", "0s")
    assert not [pid for pid in processes_with(str(slow.base)) if pid == int(started.out)]


def turns(beam: Cli, agent: str) -> list[tuple[str, str, int]]:
    """(started, closed, pid of the holder) of each turn, from the journal alone."""
    found = []
    open_turn: dict[int, tuple[str, int]] = {}
    for event in beam.journal(agent):
        if event["type"] == "turn.started":
            open_turn[event["turn"]] = (event["ts"], event["owner"]["pid"])
        elif event["type"] == "turn.closed" and event["turn"] in open_turn:
            started, pid = open_turn.pop(event["turn"])
            found.append((started, event["ts"], pid))
    assert not open_turn
    return found


def test_a_send_while_a_broker_serves_is_run_by_the_broker(slow: Cli, broker: int) -> None:
    done = slow("send", "a", "0 x")
    assert (done.code, done.out) == (0, "done 0 x\n")
    assert [pid for _, _, pid in turns(slow, "a")] == [broker]


def test_each_agent_is_served_in_order_and_agents_side_by_side(slow: Cli, broker: int) -> None:
    ids = {name: [slow("send", name, f"0.3 {number}", "--no-wait").out.strip() for number in range(3)] for name in "ab"}
    for name in "ab":
        for message in ids[name]:
            assert slow("wait", message).code == 0
    for name in "ab":
        claimed = [event["message_id"] for event in slow.journal(name) if event["type"] == "message.claimed"]
        assert claimed == ids[name]
    overlapping = [
        (one, other)
        for one in turns(slow, "a")
        for other in turns(slow, "b")
        if one[0] < other[1] and other[0] < one[1]
    ]
    assert overlapping, "no turn of a ran while one of b did"


def test_an_agent_that_appears_later_is_served_without_a_restart(slow: Cli, broker: int) -> None:
    assert slow("agent", "add", "late", "scripted").code == 0
    assert slow("send", "late", "hello").out == "You said: hello\n"
    assert [pid for _, _, pid in turns(slow, "late")] == [broker]


def test_a_changed_beam_yaml_counts_without_a_restart(slow: Cli, broker: int) -> None:
    assert slow("send", "a", "0").out == "done 0\n"
    slow.config((slow.project / "beam.yaml").read_text() + "  d: {command: [echo, new]}\n")
    assert slow("send", "d", "x").out == "new\n"


def test_one_agents_damage_stops_only_that_agent(slow: Cli, broker: int) -> None:
    assert slow("send", "a", "0").code == 0
    slow("broker", "stop")
    segment = next((slow.root / "agents" / "a" / "journal").glob("*.jsonl"))
    lines = segment.read_bytes().split(b"\n")
    segment.write_bytes(b"\n".join([*lines[:2], b"{damaged", *lines[3:]]))
    assert slow("broker", "start").code == 0
    assert slow("send", "b", "0").code == 0
    broken = slow("send", "a", "0")
    assert broken.code == 74
    assert "damaged" in broken.err


def test_a_broker_that_only_polls_serves_too(slow: Cli) -> None:
    assert slow("broker", "start", "--poll-only", "--poll", "100ms").code == 0
    try:
        assert slow("send", "a", "0 x").out == "done 0 x\n"
    finally:
        assert slow("broker", "stop").code == 0


def test_there_is_one_broker_a_root(slow: Cli, broker: int) -> None:
    second = slow("broker", "start")
    assert (second.code, second.out) == (2, "")
    assert f"pid {broker}" in second.err
    foreground = slow("broker")
    assert foreground.code == 2


def test_stopping_lets_a_turn_end_and_claims_nothing_more(slow: Cli, broker: int) -> None:
    first = slow("send", "a", "1", "--no-wait").out.strip()
    second = slow("send", "a", "0 second", "--no-wait").out.strip()
    eventually(lambda: "prompt.sent" in slow.types("a"))
    stopped = slow("broker", "stop", "--grace", "20s")
    assert stopped.code == 0, stopped.err
    assert slow("show", first, "--json").json["status"] == "completed"
    assert slow("show", second, "--json").json["status"] == "waiting"
    assert slow("wait", second).out == "done 0 second\n", "the next one who looks goes on with it"


def test_stopping_at_once_interrupts_the_turn_and_leaves_nothing(slow: Cli, broker: int) -> None:
    message = slow("send", "a", "60", "--no-wait").out.strip()
    eventually(lambda: "prompt.sent" in slow.types("a"))
    assert slow("broker", "stop", "--grace", "0s").code == 0
    outcome = slow("show", message, "--json").json
    assert outcome["status"] == "cancelled"
    assert "broker" in outcome["reason"]
    eventually(lambda: not processes_with(str(slow.base)), 5)


def test_a_killed_broker_leaves_an_unknown_outcome_no_process_and_the_rest_goes_on(slow: Cli) -> None:
    serving = slow.start("broker")
    eventually(lambda: (slow.root / "broker.json").exists())
    running = slow("send", "a", "60", "--no-wait").out.strip()
    waiting = slow("send", "a", "0 next", "--no-wait").out.strip()
    eventually(lambda: "prompt.sent" in slow.types("a"))
    kill_hard(serving)
    eventually(lambda: not processes_with(str(slow.project / "slow.py")), 5)
    assert slow("wait", waiting).out == "done 0 next\n"
    assert slow("show", running).code == 8
    assert slow("broker", "status").code == 4


def test_a_broker_ten_sends_and_a_worker_at_once_are_one_holder_at_a_time(slow: Cli) -> None:
    slow("send", "a", "0.2 first", "--no-wait")
    sends = [slow.start("send", "a", f"0 {number}") for number in range(5)]
    assert slow("broker", "start").code == 0
    sends += [slow.start("send", "a", f"0 {number}") for number in range(5, 10)]
    out = sorted(process.communicate(timeout=60)[0].decode() for process in sends)
    assert out == [f"done 0 {number}\n" for number in range(10)]
    assert slow("broker", "stop").code == 0
    found = turns(slow, "a")
    assert len(found) == 11
    assert all(before[1] <= after[0] for before, after in pairwise(found)), "two turns overlap"
    seqs = [event["seq"] for event in slow.journal("a")]
    assert seqs == list(range(1, len(seqs) + 1))


@pytest.mark.parametrize("rounds", [10, pytest.param(10_000, marks=pytest.mark.soak)])
def test_no_message_is_stranded_when_holders_hand_over(beam: Cli, rounds: int) -> None:
    """Each round publishes while another holder is about to leave; every message is answered with nobody helping."""
    for number in range(rounds):
        leaving = beam.start("send", "scripted", f"first {number}")
        message = beam("send", "scripted", f"second {number}", "--no-wait").out.strip()
        out, err = leaving.communicate(timeout=30)
        assert (out, leaving.returncode) == (f"You said: first {number}\n".encode(), 0), err
        eventually(lambda message=message: beam("show", message).code == 0, 20, f"{message} was stranded")


def test_a_broker_of_another_version_is_said(slow: Cli, broker: int) -> None:
    path = slow.root / "broker.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "version": "0.0.1"}))
    assert slow("broker", "status", "--json").json["skew"] is True
    done = slow("send", "a", "0")
    assert done.code == 0
    assert "0.0.1" in done.err


def test_a_paused_queue_takes_messages_in_and_runs_none(slow: Cli, broker: int) -> None:
    assert slow("queue", "pause", "a").code == 0
    message = slow("send", "a", "0 x", "--no-wait").out.strip()
    assert slow("wait", message, "--timeout", "500ms").code == 12
    assert json.loads(slow("status", "a", "--json").out)["state"] == "paused"
    assert slow("send", "b", "0").code == 0
    assert slow("queue", "resume", "a").code == 0
    assert slow("wait", message).out == "done 0 x\n"


def test_the_systemd_unit_names_this_root(slow: Cli) -> None:
    unit = slow("broker", "service").out
    assert f"--root {slow.root} broker" in unit
    assert "KillMode=mixed" in unit


def test_a_foreground_broker_ends_by_the_signal_it_got(slow: Cli) -> None:
    serving = slow.start("broker")
    eventually(lambda: (slow.root / "broker.json").exists())
    os.kill(serving.pid, signal.SIGTERM)
    _, err = serving.communicate(timeout=10)
    assert serving.returncode == 0, err
    assert b"stopped" in err
    assert not Path(slow.root / "broker.json").exists()


def test_a_detached_broker_keeps_no_pipe_of_its_starter_open(slow: Cli) -> None:
    script = f"cd {slow.project} && {sys.executable} -m beam broker start | cat"
    done = subprocess.run(["bash", "-c", script], env=slow.env, capture_output=True, timeout=20, check=False)
    assert done.stdout.strip().isdigit()
    assert slow("broker", "stop").code == 0
