"""Eight senders, twenty agents, a broker, replies routed, and SIGKILL of holders and guards at random times.

Nothing is lost, nothing is done twice in silence, no reply comes twice, and no process is left.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cli import BEAM, Cli, eventually, processes_with
from tests.support.crash import OUTCOMES, check_numbers, count_by

pytestmark = pytest.mark.acceptance
AGENTS = tuple(f"agent{number}" for number in range(20))
SENDERS = 8
KILLS = 40  # in `make test`; `make soak` tries SOAK_KILLS
SOAK_KILLS = 1000


class Storm:
    """A place with twenty counting agents of different slowness, a broker that comes back, and a killer."""

    def __init__(self, beam: Cli, seed: int) -> None:
        self.beam = beam
        self.random = random.Random(seed)
        self.runs = beam.base / "runs"
        self.runs.touch()
        self.kills: Counter[str] = Counter()
        self.broker: subprocess.Popen[bytes] | None = None
        script = beam.base / "agent.sh"
        script.write_text(
            f'prompt=$(cat); [ -n "$prompt" ] || exit 9\necho "$BEAM_MESSAGE_ID $prompt" >> {self.runs}\n'
            f'sleep "0.$(( $$ % 4 ))"\nsetsid sleep 300 </dev/null >/dev/null 2>&1 &\necho "did it"\n'
        )
        lines = "".join(f"  {name}: {{command: [sh, {script}]}}\n" for name in AGENTS)
        limits = "{segment_bytes: 20000, waiting: 10000, hops: 1}"
        beam.config(f"agents:\n{lines}  asker: {{mailbox: true}}\nlimits: {limits}\n")

    def rage(self, kills: int) -> None:
        """Sends without a pause, some waiting and some not, until that many were killed."""
        senders: list[subprocess.Popen[bytes]] = []
        number = 0
        while self.kills.total() < kills:
            senders = [sender for sender in senders if sender.poll() is None]
            while len(senders) < SENDERS:
                senders.append(self._send(number))
                number += 1
            if self.broker is None or self.broker.poll() is not None:
                self.broker = self._start("broker", "--poll", "500ms")
            self._maybe_kill()
        for sender in senders:
            sender.wait(60)

    def _send(self, number: int) -> subprocess.Popen[bytes]:
        args = ["send", self.random.choice(AGENTS), f"text{number}"]
        chance = self.random.random()
        if chance < 0.7:
            args += ["--from", "asker" if chance < 0.4 else self.random.choice(AGENTS), "--no-wait"]
        return self._start(*args)

    def _start(self, *args: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*BEAM, *args],
            cwd=self.beam.project,
            env=self.beam.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _maybe_kill(self) -> None:
        time.sleep(self.random.uniform(0.0, 0.1))
        if self.random.random() < 0.4:
            found = [(pid, kind) for pid in processes_with(str(self.beam.base)) if (kind := _kind(pid))]
            kinds = sorted({kind for _, kind in found})
            if not kinds:
                return
            kind = self.random.choice(kinds)
            try:
                os.kill(self.random.choice([pid for pid, its in found if its == kind]), 9)
            except ProcessLookupError:
                return
            self.kills[kind] += 1

    def settle(self, seconds: float) -> None:
        """A new broker brings everything to its end, without kills."""
        self._stop_broker()
        self.broker = self._start("broker", "--poll", "500ms")
        eventually(lambda: not any(self._open(agent) for agent in AGENTS), seconds, "messages are left")
        self._stop_broker()
        eventually(lambda: not processes_with(str(self.beam.base)), 30, "processes are left")

    def _stop_broker(self) -> None:
        if self.broker is not None:
            self.broker.terminate()
            self.broker.wait(60)

    def _open(self, agent: str) -> list[str]:
        return [name for box in ("tmp", "new", "cur") for name in self.beam.box(agent, box)]

    def check(self) -> int:
        """Every promise, by what the journals, the queues and the agents themselves say; how many
        messages there were."""
        ran = count_by(self.runs)
        replies = self._replies()
        count = 0
        for agent in AGENTS:
            check_numbers(self.beam, agent)
            assert self._open(agent) == []
            journal = self.beam.journal(agent)
            queued = {event["message_id"]: event for event in journal if event["type"] == "message.queued"}
            assert {message_id for message_id in ran if message_id.startswith(f"{agent}-")} <= set(queued)
            for message_id, message in queued.items():
                outcomes = [event for event in journal if _is_outcome(event, message_id)]
                assert len({event["attempt"] for event in outcomes}) == 1, (message_id, outcomes)
                assert sum(event["type"] == "turn.finished" for event in outcomes) <= 1, (message_id, outcomes)
                self._check_one(message_id, outcomes[0], ran[message_id])
                if message["reply"] == "queue":
                    is_silent = _is_silent(message, outcomes[0])
                    assert len(replies[message_id]) == (0 if is_silent else 1), (message_id, replies[message_id])
            count += len(queued)
        return count

    @staticmethod
    def _check_one(message_id: str, outcome: dict[str, object], runs: int) -> None:
        """A prompt that reached the agent once has an outcome that admits it; none reached it twice."""
        allowed = {"completed": (1,), "unknown": (0, 1), "failed": (0, 1), "limit": (0,)}
        status = str(outcome["status"])
        assert runs in allowed[status], (message_id, outcome, runs)

    def _replies(self) -> dict[str, set[str]]:
        """The ids of the messages that answer each message, wherever they are."""
        found: dict[str, set[str]] = {}
        paths = (self.beam.root / "agents" / "asker" / "queue").glob("*/*.json")
        messages = [json.loads(path.read_bytes()) for path in paths]
        for message in messages:
            found.setdefault(message["reply_to"], set()).add(f"{message['id']} in {message['to']}")
        assert len(messages) == len({message["id"] for message in messages})
        for agent in AGENTS:
            for event in self.beam.journal(agent):
                if event["type"] == "message.queued" and event.get("reply_to"):
                    found.setdefault(event["reply_to"], set()).add(f"{event['message_id']} in {agent}")
        return _Empty(found)


class _Empty(dict[str, set[str]]):
    def __missing__(self, key: str) -> set[str]:
        return set()


def _kind(pid: int) -> str | None:
    """What there is to kill: the broker, a worker, a sender, a guard; None for anything else."""
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if b"beam.broker.worker" in argv:
        return "worker"
    if b"beam" in argv and b"broker" in argv:
        return "broker"
    if b"beam" in argv and b"send" in argv:
        return "sender"
    return "guard" if any(b"guard.main" in word for word in argv) else None


def _is_silent(message: dict[str, object], outcome: dict[str, object]) -> bool:
    """Whether nobody is told, and so the exchange ends: after too many hops, and for a reply that got no turn."""
    return outcome.get("reason") == "hops" or (bool(message["reply_to"]) and outcome["turn"] is None)


def _is_outcome(event: dict[str, object], message_id: str) -> bool:
    return event["type"] in OUTCOMES and event["message_id"] == message_id


@pytest.mark.parametrize("kills", [KILLS, pytest.param(SOAK_KILLS, marks=pytest.mark.soak)])
def test_holders_and_guards_killed_at_random_lose_nothing_and_do_nothing_twice_in_silence(
    beam: Cli, pytestconfig: pytest.Config, kills: int
) -> None:
    seed = pytestconfig.getoption("--soak-seed") or random.SystemRandom().randrange(1, 10**6)
    print(f"--soak-seed {seed}")
    storm = Storm(beam, seed)
    storm.rage(kills)
    storm.settle(60 + kills)
    print(f"{storm.kills.total()} kills ({dict(storm.kills)}), {storm.check()} messages")
    assert {"broker", "sender", "guard"} <= set(storm.kills)
