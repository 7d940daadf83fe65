"""A storm: retry, drop, edit, reset, gc, pause, kept terminals, asks, leases, throw-away sessions, outboxes, stops and
kills at once, among agents that count what they did.

2,000 messages in `make soak`. `--soak-seed` repeats what was chosen; what it met depends on the machine.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.support.cli import Cli, eventually, processes_with
from tests.support.storm.archive import Archive
from tests.support.storm.claims import Claims
from tests.support.storm.disaster import Disaster
from tests.support.storm.people import People
from tests.support.storm.place import AGENTS, TERMINALS, Place, names

pytestmark = pytest.mark.acceptance
MESSAGES = 20  # in `make test`; `make soak` sends SOAK_MESSAGES
SOAK_MESSAGES = 2000
PEOPLE = 4
_HOUR_S = 3600.0


@pytest.mark.parametrize("messages", [MESSAGES, pytest.param(SOAK_MESSAGES, marks=pytest.mark.soak)])
def test_in_a_storm_nothing_is_lost_and_nothing_is_done_twice_unless_unknown_was_said(
    beam: Cli, pytestconfig: pytest.Config, messages: int
) -> None:
    seed = pytestconfig.getoption("--soak-seed") or random.SystemRandom().randrange(1, 10**6)
    print(f"--soak-seed {seed} in {beam.base}", flush=True)
    began = time.monotonic()
    place = Place(beam)
    people, disaster, archive = People(place, seed, messages), Disaster(place, seed, pause=0.15), Archive(place)
    archive.start()
    people.start(PEOPLE)
    disaster.start()
    people.wait_for_senders()
    people.over.set()
    disaster.call_off()
    print(f"{people.sent} sent in {time.monotonic() - began:.0f} s; {dict(disaster.struck)}", flush=True)
    settle(place, people, 60 + messages / 4)
    archive.close()
    claims = Claims(place, archive, people.said)
    wrong = claims.check()
    print(f"{len(claims.told)} messages, {claims.runs.total()} acts, {time.monotonic() - began:.0f} s")
    print(sorted(people.said.codes.items()))
    print(dict(claims.statuses()))
    assert not wrong, f"--soak-seed {seed}: {len(wrong)} claims do not hold:\n" + "\n".join(wrong[:40])


@pytest.mark.parametrize("agent", TERMINALS)
def test_each_terminal_agent_of_the_storm_acts_on_its_text(beam: Cli, agent: str) -> None:
    place = Place(beam)
    face = ("--via", "terminal") if agent == "tui" else ()
    assert beam("send", agent, "--no-wait", *face, "--", place.text(agent, "t0")).code == 0
    eventually(lambda: place.runs.read_text().endswith(" t0\n"), what=f"{agent} did nothing")


def settle(place: Place, people: People, seconds: float) -> None:
    """A broker brings everything to its end, then it stops and garbage is collected."""
    beam = place.beam
    for agent in AGENTS:
        beam("queue", "resume", agent)
    beam("broker", "stop", "--grace", "0s")
    assert beam("broker", "start", "--poll", "500ms").code == 0
    emptied(place, seconds)
    people.wait_for_waiters(30)
    people.end()
    emptied(place, 30)
    pid = beam("broker", "status", "--json").json["pid"]
    eventually(lambda: len(names(Path(f"/proc/{pid}/fd"))) <= 2 * len(AGENTS) + 15, 30, "descriptors are left open")
    assert beam("broker", "stop").code == 0
    eventually(lambda: not processes_with(str(beam.base)), 30, "processes are left")
    for path in beam.root.rglob("*"):
        if path.name.endswith(".tmp") or path.parent.name == "tmp":
            os.utime(path, (time.time() - 2 * _HOUR_S,) * 2)
    assert beam("doctor", "--gc", "--older-than", "30d").code == 0
    checked = beam("doctor", "--json")
    assert [line for line in checked.lines if line["result"] == "bad"] == []


def emptied(place: Place, seconds: float) -> None:
    """Nothing waits or runs any more."""
    until = time.monotonic() + seconds
    while left := place.open():
        assert time.monotonic() < until, f"left after {seconds:g} s: {left}"
        time.sleep(0.1)
