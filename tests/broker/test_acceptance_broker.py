"""The broker through the real `beam`: it serves, hands over, stops, and one agent's trouble stays that agent's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import beam as beam_package
from beam.api import Beam
from beam.model import events
from beam.store.journal import Reader
from tests.support.cli import Cli, eventually, kill_hard, processes_with

pytestmark = pytest.mark.acceptance

NEWER = "99.0.0"
SLOW = """\
import os, sys, time
prompt = sys.stdin.read()
word = prompt.split()[0]
while word == "gate" and not os.path.exists("gate"):
    time.sleep(0.02)
time.sleep(0 if word == "gate" else float(word))
print("done", prompt)
"""


@pytest.fixture
def slow(beam: Cli) -> Cli:
    """Agents a, b, c that take as many seconds as the prompt's first word says; `gate`: until there is such a file."""
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
            assert not open_turn, "a turn began in another one"
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
    texts = ("gate", "0", "0")
    ids = {name: [slow("send", name, text, "--no-wait").out.strip() for text in texts] for name in "ab"}
    eventually(lambda: all("prompt.sent" in slow.types(name) for name in "ab"), what="they do not run at once")
    (slow.project / "gate").touch()
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
    first = slow("send", "a", "gate", "--no-wait").out.strip()
    second = slow("send", "a", "0 second", "--no-wait").out.strip()
    eventually(lambda: "prompt.sent" in slow.types("a"))
    stopping = slow.start("broker", "stop", "--grace", "60s")
    eventually(lambda: "stopping; 1 turn" in (slow.root / "broker.log").read_text())
    (slow.project / "gate").touch()
    _, err = stopping.communicate(timeout=60)
    assert stopping.returncode == 0, err
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
    (agent,) = (event["pid"] for event in slow.journal("a") if event["type"] == "agent.started")
    eventually(lambda: b"slow.py" in Path(f"/proc/{agent}/cmdline").read_bytes())  # before that it would be sent again
    kill_hard(serving)
    eventually(lambda: not processes_with(str(slow.base)), 10, "the agent lives on")
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


@pytest.fixture
def newer(slow: Cli) -> Cli:
    """The same place, through a copy of beam that is of another version."""
    package = slow.base / "newer" / "beam"
    shutil.copytree(Path(beam_package.__file__).parent, package)
    code = package / "base" / "__init__.py"
    code.write_text(code.read_text().replace(beam_package.__version__, NEWER))
    return slow.with_env({"PYTHONPATH": str(package.parent)})


def test_a_broker_is_upgraded_while_a_turn_runs_and_the_agent_has_one_holder_at_all_times(
    slow: Cli, newer: Cli
) -> None:
    assert newer("--version").out == f"beam {NEWER}\n"
    skew = f"the broker runs beam {beam_package.__version__}, this is {NEWER}"
    old = int(slow("broker", "start").out)
    sends = [slow.start("send", "a", "gate first")]
    eventually(lambda: "prompt.sent" in slow.types("a"))
    sends += [version.start("send", "a", f"0 {number}") for number in range(2) for version in (slow, newer)]
    assert newer("broker", "status", "--json").json["skew"] is True
    assert skew in newer("send", "a", "0 aside", "--no-wait").err
    stopping = slow.start("broker", "stop", "--grace", "60s")
    refused = newer("broker", "start")
    assert (refused.code, refused.out) == (2, ""), "the old one still has its turn"
    assert f"pid {old}" in refused.err
    sends += [version.start("send", "a", f"0 {number}") for number in range(2, 4) for version in (slow, newer)]
    (slow.project / "gate").touch()
    stopping.communicate(timeout=60)
    assert stopping.returncode == 0
    new = int(newer("broker", "start", "--poll", "100ms").out)
    sends += [version.start("send", "a", "0 4") for version in (slow, newer)]
    said = [process.communicate(timeout=60) for process in sends]
    assert sorted(out.decode() for out, _ in said) == sorted(
        ["done gate first\n"] + 2 * [f"done 0 {number}\n" for number in range(5)]
    )
    assert f"the broker runs beam {NEWER}, this is {beam_package.__version__}".encode() in said[-2][1]
    assert skew.encode() not in said[-1][1]

    def is_served_by_the_new_one() -> bool:
        assert newer("send", "a", "0 later").code == 0
        return turns(slow, "a")[-1][2] == new

    eventually(is_served_by_the_new_one)
    assert newer("broker", "stop").code == 0
    holders = [pid for _, _, pid in turns(slow, "a")]
    assert holders[0] == old, "the turn that ran was its to end"
    assert old not in holders[holders.index(new) :]
    outcomes = [event for event in slow.journal("a") if event["type"] == "turn.finished"]
    assert {event["status"] for event in outcomes} == {"completed"}
    assert len({event["message_id"] for event in outcomes}) == len(holders) >= 13
    seqs = [event["seq"] for event in slow.journal("a")]
    assert seqs == list(range(1, len(seqs) + 1)), "two wrote at once"


class Following:
    """What an agent's journal says from now on."""

    def __init__(self, journal: Path) -> None:
        self._reader = Reader(journal)
        self.types: set[type] = set()
        self.closed: set[str | None] = set()

    def until(self, claim: Callable[[], bool], what: object) -> None:
        """Looks every millisecond until the claim holds."""
        deadline = time.monotonic() + 30
        while not claim():
            assert time.monotonic() < deadline, what
            for event in self._reader.poll():
                self.types.add(type(event))
                if isinstance(event, events.TurnClosed):
                    self.closed.add(event.message_id)
            time.sleep(0.001)


MOMENTS = (events.TurnStarted, events.PromptSent, events.AgentExited, events.TurnFinished, events.TurnClosed)


@pytest.mark.parametrize("rounds", [10, pytest.param(1_000, marks=pytest.mark.soak)])
def test_no_message_is_stranded_when_holders_hand_over(beam: Cli, rounds: int) -> None:
    """Each round publishes while another process holds or is about to leave, at another moment each time; every message
    is answered with nobody helping. (How often the lock can change hands, without turns: test_hand_over.py.)"""
    beam.config("agents:\n  copy: {command: [cat]}\nlimits: {segment_bytes: 50000}\n")
    program = Beam(cwd=beam.project, environ=beam.env)
    said = Following(program.context.agent_paths("copy").journal)
    for number in range(rounds):
        said.types.clear()
        leaving = beam.start("send", "copy", f"first {number}")
        moment = MOMENTS[number % len(MOMENTS)]
        said.until(lambda moment=moment: moment in said.types, f"{moment} of round {number} in {beam.root}")
        if number % 10 == 0:
            put = beam("send", "copy", f"second {number}", "--no-wait")
            assert (put.code, put.err) == (0, ""), (put, beam.root)
            message = put.out.strip()
        else:
            message = program.put(program.message("copy", f"second {number}", wait=False))
        out, err = leaving.communicate(timeout=30)
        assert (out.decode(), err.decode(), leaving.returncode) == (f"first {number}\n", "", 0), (number, beam.root)
        said.until(lambda message=message: message in said.closed, f"{message} was stranded in {beam.root}")
    outcomes = [event for event in beam.journal("copy") if event["type"] == "turn.finished"]
    assert {event["status"] for event in outcomes} == {"completed"}
    assert len({event["message_id"] for event in outcomes}) == len(outcomes) == 2 * rounds
    holders = [pid for _, _, pid in turns(beam, "copy")]
    print(f"{rounds} rounds, {sum(before != after for before, after in pairwise(holders))} times another process held")
    seqs = [event["seq"] for event in beam.journal("copy")]
    assert seqs == list(range(1, len(seqs) + 1))


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
    script = f"cd '{slow.project}' && '{sys.executable}' -m beam broker start | cat"
    done = subprocess.run(["bash", "-c", script], env=slow.env, capture_output=True, timeout=20, check=False)
    assert done.stdout.strip().isdigit()
    assert slow("broker", "stop").code == 0


def test_a_broker_that_could_not_open_the_files_of_its_turns_does_not_begin(slow: Cli) -> None:
    message = slow("send", "a", "0 x", "--no-wait", env={"BEAM_CRASH_AT": "put.published"})
    assert message.code == 137, message
    refused = slow.shell("ulimit -n 40; beam broker --cap 4")
    assert (refused.code, refused.out) == (74, "")
    assert "Too many open files" in refused.err
    assert "ulimit -n" in refused.err
    assert not (slow.root / "broker.json").exists()
    assert len(slow.box("a", "new")) == 1


def test_an_agent_that_begins_in_a_session_or_a_copy_is_made_whole_under_a_broker(beam: Cli) -> None:
    assert beam("broker", "start").code == 0
    try:
        for number in range(4):
            session = f"claude:11111111-2222-4333-8444-55555555555{number}"
            for words in (("add", f"s{number}", "--session", session), ("fork", f"s{number}", f"f{number}")):
                assert beam("agent", *words).code == 0, words
            # Of another creation that was killed. The broker makes the rest as soon as it sees the first directory.
            (beam.root / "agents" / f"g{number}" / "queue").mkdir(parents=True, exist_ok=True)
            assert beam("agent", "fork", f"s{number}", f"g{number}").code == 0
    finally:
        beam("broker", "stop")


def test_of_two_brokers_that_are_started_at_once_one_serves_and_the_other_says_so(beam: Cli) -> None:
    started = [beam.start_cold("broker", "start") for _ in range(3)]
    try:
        codes = [process.wait(timeout=60) for process in started]
        said = [process.communicate()[1].decode() for process in started]
        assert sorted(codes) == [0, 2, 2], said
        for code, text in zip(codes, said, strict=True):
            assert code == 0 or text.startswith("beam: a broker already serves "), text
    finally:
        beam("broker", "stop")
