"""Several senders, a few agents, SIGKILL of holders at random times: nothing lost, nothing twice in silence."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.cli import BEAM, Cli, eventually, processes_with
from tests.support.crash import OUTCOMES, check_numbers, count_by

pytestmark = pytest.mark.acceptance
AGENTS = ("one", "two", "three")
AT_ONCE = 4


class Storm:
    """A place with three counting agents of random slowness, and a killer."""

    def __init__(self, beam: Cli, seed: int) -> None:
        self.beam = beam
        self.random = random.Random(seed)
        self.runs = beam.base / "runs"
        self.runs.touch()
        self.kills = 0
        script = beam.base / "agent.sh"
        script.write_text(
            f'prompt=$(cat); [ -n "$prompt" ] || exit 9\necho "$BEAM_MESSAGE_ID $prompt" >> {self.runs}\n'
            f'sleep "0.$(( $$ % 3 ))"\nsetsid sleep 300 </dev/null >/dev/null 2>&1 &\necho "did $prompt"\n'
        )
        lines = "".join(f"  {name}: {{command: [sh, {script}]}}\n" for name in AGENTS)
        beam.config(f"agents:\n{lines}  asker: {{mailbox: true}}\nlimits: {{segment_bytes: 20000, waiting: 10000}}\n")

    def rage(self, count: int) -> None:
        """Sends that many messages, some waiting and some not, and kills holders meanwhile."""
        senders: list[subprocess.Popen[bytes]] = []
        for number in range(count):
            senders.append(self._send(number))
            while sum(sender.poll() is None for sender in senders) >= AT_ONCE:
                self._maybe_kill()
        while any(sender.poll() is None for sender in senders):
            self._maybe_kill()

    def _send(self, number: int) -> subprocess.Popen[bytes]:
        args = ["send", self.random.choice(AGENTS), f"text{number}"]
        if self.random.random() < 0.6:
            args += ["--from", "asker", "--no-wait"]
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
        if self.random.random() < 0.25:
            holders = [pid for pid in processes_with(str(self.beam.base)) if _is_holder(pid)]
            if holders:
                try:
                    os.kill(self.random.choice(holders), 9)
                except ProcessLookupError:
                    return
                self.kills += 1

    def settle(self) -> None:
        """Lets everything come to its end, without kills."""
        for agent in AGENTS:
            for message_id in self._open(agent):
                self.beam("wait", message_id, timeout=120)
        eventually(lambda: not processes_with(str(self.beam.base)), 30, "processes are left")
        for agent in AGENTS:
            self.beam("send", agent, "the last one")
        eventually(lambda: not processes_with(str(self.beam.base)), 30, "processes are left")

    def _open(self, agent: str) -> list[str]:
        names = [name for box in ("new", "cur") for name in self.beam.box(agent, box)]
        return [name.partition("-")[2].removesuffix(".json") for name in names]

    def check(self) -> None:
        """Every promise, by what the journals, the queues and the agents themselves say."""
        ran = count_by(self.runs)
        replies = self._replies()
        for agent in AGENTS:
            check_numbers(self.beam, agent)
            assert [self.beam.box(agent, box) for box in ("tmp", "new", "cur")] == [[], [], []]
            journal = self.beam.journal(agent)
            queued = {event["message_id"]: event for event in journal if event["type"] == "message.queued"}
            assert {message_id for message_id in ran if message_id.startswith(f"{agent}-")} <= set(queued)
            for message_id, message in queued.items():
                outcomes = [event for event in journal if _is_outcome(event, message_id)]
                assert len({event["attempt"] for event in outcomes}) == 1, (message_id, outcomes)
                assert sum(event["type"] == "turn.finished" for event in outcomes) <= 1, (message_id, outcomes)
                self._check_one(message_id, outcomes[0]["status"], ran[message_id])
                if message["reply"] == "queue":
                    assert replies.count(message_id) == 1, message_id

    @staticmethod
    def _check_one(message_id: str, status: str, runs: int) -> None:
        allowed = {"completed": (1,), "unknown": (0, 1), "failed": (0,)}
        assert runs in allowed[status], (message_id, status, runs)

    def _replies(self) -> list[str]:
        directory = self.beam.root / "agents" / "asker" / "queue" / "new"
        return [json.loads(path.read_bytes())["reply_to"] for path in directory.glob("*.json")]


def _is_holder(pid: int) -> bool:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"beam.broker.worker" in argv or (b"beam" in argv and b"send" in argv)


def _is_outcome(event: dict[str, object], message_id: str) -> bool:
    return event["type"] in OUTCOMES and event["message_id"] == message_id


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.soak)])
def test_holders_killed_at_random_lose_nothing_and_do_nothing_twice_in_silence(
    beam: Cli, pytestconfig: pytest.Config, count: int
) -> None:
    seed = pytestconfig.getoption("--soak-seed") or random.SystemRandom().randrange(1, 10**6)
    print(f"--soak-seed {seed}")
    storm = Storm(beam, seed)
    storm.rage(count)
    storm.settle()
    print(f"{storm.kills} kills")
    assert storm.kills > count // 20
    storm.check()
