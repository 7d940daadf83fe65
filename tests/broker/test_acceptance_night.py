"""A night without anybody: three agents of two accounts, a usage limit, brokers that are killed, and a full disk."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from beam.base.clock import parse_rfc3339
from beam.proxy.wire.values import Answer, Error, ModelRequest, Reply
from beam.testing.fake_model.player import Player
from beam.testing.fake_model.script import Script
from beam.testing.fake_model.server import FakeModel
from tests.support import model_agent
from tests.support.cli import Cli, eventually, kill_hard

pytestmark = pytest.mark.acceptance

AGENTS = {"one": "day", "two": "day", "own": "night"}  # with their accounts
BROKER = """\
import os, stat, sys
from beam.cli.main import main

written, top, full = os.write, sys.argv[1], sys.argv[2]
def write(handle, data):
    if os.path.exists(full) and stat.S_ISREG(os.fstat(handle).st_mode):
        if os.readlink(f"/proc/self/fd/{handle}").startswith(top):
            raise OSError(28, "No space left on device")
    return written(handle, data)
os.write = write
sys.argv = ["beam", "broker"]
main()
"""


class Account(Player):
    """The model of one account, which answers with the prompt. After `most` answers its usage limit is reached for
    `seconds`, once."""

    def __init__(self, most: int, seconds: float) -> None:
        super().__init__(Script(), new_id=lambda: "x")
        self.most, self.seconds = most, seconds
        self.until = 0.0
        self.refused: list[float] = []
        self.answered: Counter[str] = Counter()

    def reply(self, asked: ModelRequest) -> Reply:
        now = time.time()
        if not self.until and sum(self.answered.values()) >= self.most:
            self.until = now + self.seconds
        if now < self.until:
            self.refused.append(now)
            error = Error(status=429, message="limit", retry_after=round(self.until - now, 3))
            return Reply(text="", thinking="", calls=(), answer=Answer(error=error), id="x")
        self.answered[asked.prompt] += 1
        return Reply(text=asked.prompt, thinking="", calls=(), answer=Answer(text=asked.prompt), id="x")


@contextmanager
def model_of(account: Account) -> Iterator[str]:
    """The address of that model while the context lasts."""
    model = FakeModel()
    model._player = account
    with model:
        yield model.url


@pytest.mark.parametrize(
    ("messages", "limit_s"),
    [(12, 3.0), pytest.param(60, 20.0, marks=pytest.mark.soak)],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the files of a handle are read in /proc")
def test_all_messages_are_answered_once_and_in_order(beam: Cli, messages: int, limit_s: float) -> None:
    accounts = {"day": Account(messages // 6, limit_s), "night": Account(10**6, 0.0)}
    full, script = beam.base / "full", beam.base / "broker.py"
    script.write_text(BROKER)
    with ExitStack() as held:
        urls = {name: held.enter_context(model_of(account)) for name, account in accounts.items()}
        program = f"protocol: acp, access: full, command: [{sys.executable}, {model_agent.__file__}]"
        agents = "".join(
            f"  {name}: {{{program}, account: {account}, env: {{MODEL_URL: '{urls[account]}'}}}}\n"
            for name, account in AGENTS.items()
        )
        beam.config(f"policy: {{usage_limit: wait, attempts: 1, retry_unknown: 9}}\nagents:\n{agents}")
        broker = _start(beam, script, full)
        sent: dict[str, list[str]] = {name: [] for name in AGENTS}

        def send(numbers: range) -> None:
            for number in numbers:
                name = list(AGENTS)[number % len(AGENTS)]
                sent[name].append(beam("send", name, f"number {number}", "--no-wait").out.strip())

        send(range(messages - 3))
        eventually(lambda: bool(accounts["day"].refused), 30, "the limit is reached")
        kill_hard(broker)
        broker = _start(beam, script, full)
        eventually(lambda: _serves(beam, broker), 10)
        full.touch()
        send(range(messages - 3, messages))
        eventually(lambda: "No space left" in (beam.base / "broker.log").read_text(), 20, "the disk is full")
        kill_hard(broker)
        full.unlink()
        broker = _start(beam, script, full)
        _wait_for_all(beam, sent, limit_s)
        kill_hard(broker)

    assert accounts["day"].until, "there was a limit"
    assert len(accounts["day"].refused) <= 2 * 3, "each agent of the account asks once, and once more after a kill"
    for name, ids in sent.items():
        events = beam.journal(name)
        finished = [event for event in events if event["type"] == "turn.finished"]
        done = [event for event in finished if event["status"] == "completed"]
        assert [event["message_id"] for event in done] == ids, "each is answered once, in order"
        assert [event["reply"] for event in done] == [f"number {_number(name, index)}" for index in range(len(ids))]
        assert {event["status"] for event in finished} <= {"completed", "failed", "unknown"}
        assert {event["class"] for event in finished if event["status"] == "failed"} <= {"rate_limit"}
        assert "message.dead" not in [event["type"] for event in events] and beam.box(name, "dead") == []
        unknown = Counter(event["message_id"] for event in finished if event["status"] == "unknown")
        answered = accounts[AGENTS[name]].answered
        for index, message in enumerate(ids):
            assert 1 <= answered[f"number {_number(name, index)}"] <= 1 + unknown[message], "and asked once"
        if AGENTS[name] == "day":
            late = [parse_rfc3339(event["ts"]) / 1e9 for event in done]
            assert late[-1] > accounts["day"].until


def _number(name: str, index: int) -> int:
    """The number of the agent's message with that index."""
    return index * len(AGENTS) + list(AGENTS).index(name)


def _start(beam: Cli, script: object, full: object) -> subprocess.Popen[bytes]:
    """Start a broker to which the disk is full as long as the file `full` is there."""
    with (beam.base / "broker.log").open("ab") as log:
        broker = subprocess.Popen(
            [sys.executable, str(script), str(beam.root), str(full)],
            cwd=beam.project,
            env=beam.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    beam.started.append(broker)
    return broker


def _serves(beam: Cli, broker: subprocess.Popen[bytes]) -> bool:
    """Return whether this broker serves the root."""
    return str(broker.pid) in beam("broker", "status").out


def _wait_for_all(beam: Cli, sent: dict[str, list[str]], limit_s: float) -> None:
    """Wait for the end of the last message of each agent."""
    for ids in sent.values():
        assert beam("wait", ids[-1], "--timeout", f"{60 + limit_s * 3:g}s", timeout=200).code == 0
