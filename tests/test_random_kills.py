"""Eight senders, twenty agents, a broker, replies routed, and SIGKILL of holders and guards at random times.

Nothing is lost, nothing is done twice in silence, no reply comes twice, and no process is left. The same with agents
that speak a protocol, whose processes the broker keeps, and which are killed themselves, too.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beam.model.message import reply_id
from tests.support.cli import Cli, Started, argv_of, close, eventually, processes_with
from tests.support.crash import OUTCOMES, check_numbers, count_by

pytestmark = pytest.mark.acceptance
AGENTS = tuple(f"agent{number}" for number in range(20))
SENDERS = 8
Event = dict[str, Any]
SPOKEN = "did it"
KILLS = 20  # in `make test`; `make soak` tries SOAK_KILLS
DIALOGUE_KILLS = 6
SOAK_KILLS = 1000
COUNTER = Path(__file__).parent / "support" / "acp_counter.py"


class Storm:
    """A place with twenty counting agents of different slowness, a broker that comes back, and a killer."""

    agents = AGENTS

    def __init__(self, beam: Cli, seed: int) -> None:
        self.beam = beam
        self.random = random.Random(seed)
        self.runs = beam.base / "runs"
        self.runs.touch()
        self.kills: Counter[str] = Counter()
        self.broker: Started | None = None
        limits = "{segment_bytes: 20000, waiting: 10000, hops: 1}"
        lines = "".join(f"  {name}: {settings}\n" for name, settings in self.settings().items())
        beam.config(f"agents:\n{lines}  asker: {{adapter: mailbox}}\nlimits: {limits}\n")

    def settings(self) -> dict[str, str]:
        """Each agent's settings; it counts by the ids of messages."""
        script = self.beam.base / "agent.sh"
        script.write_text(
            f'prompt=$(cat); [ -n "$prompt" ] || exit 9\necho "$BEAM_MESSAGE_ID $prompt" >> {self.runs}\n'
            f'sleep "0.$(( $$ % 4 ))"\nsetsid sleep 300 </dev/null >/dev/null 2>&1 &\necho "{SPOKEN}"\n'
        )
        return dict.fromkeys(self.agents, f"{{command: [sh, {script}]}}")

    def ran(self, journals: dict[str, list[Event]]) -> Counter[str]:
        """How often each message's prompt reached its agent, by the message's id."""
        return count_by(self.runs)

    def rage(self, kills: int) -> None:
        """Sends without a pause, some waiting and some not, until that many were killed."""
        senders: list[Started] = []
        number = 0
        while self.kills.total() < kills:
            for sender in [sender for sender in senders if sender.poll() is not None]:
                senders.remove(sender)
                close(sender)
            while len(senders) < SENDERS:
                senders.append(self._send(number))
                number += 1
            if self.broker is not None and self.broker.poll() is not None:
                close(self.broker)
                self.broker = None
            if self.broker is None:
                self.broker = self._start("broker", "--poll", "500ms")
            self._maybe_kill()
        for sender in senders:
            sender.wait(60)
            close(sender)

    def _send(self, number: int) -> Started:
        args = ["send", self.random.choice(self.agents), f"text{number}"]
        chance = self.random.random()
        if chance < 0.7:
            args += [
                "--from",
                "asker" if chance < 0.4 else self.random.choice(self.agents),
                "--no-wait",
                "--replies",
                "20",
            ]
        return self._start(*args)

    def _start(self, *args: str) -> Started:
        return self.beam.start(*args)

    def _maybe_kill(self) -> None:
        time.sleep(self.random.uniform(0.0, 0.1))
        if self.random.random() < 0.4:
            found = [(pid, kind) for pid in processes_with(str(self.beam.base)) if (kind := self.kind(pid))]
            kinds = sorted({kind for _, kind in found})
            if not kinds:
                return
            unmet = [kind for kind in kinds if kind not in self.kills]  # a guard is there for a moment only
            kind = self.random.choice(unmet or kinds)
            try:
                os.kill(self.random.choice([pid for pid, its in found if its == kind]), 9)
            except ProcessLookupError:
                return
            self.kills[kind] += 1

    def kind(self, pid: int) -> str | None:
        """What there is to kill; None for anything else."""
        return _kind(pid)

    def settle(self, seconds: float) -> None:
        """A new broker brings everything to its end, without kills."""
        self._stop_broker()
        self.broker = self._start("broker", "--poll", "500ms")
        eventually(lambda: not any(self._open(agent) for agent in self.agents), seconds, "messages are left")
        self._stop_broker()
        eventually(lambda: not processes_with(str(self.beam.base)), 30, "processes are left")

    def _stop_broker(self) -> None:
        if self.broker is not None:
            self.broker.terminate()
            self.broker.wait(60)
            close(self.broker)

    def _open(self, agent: str) -> list[str]:
        return [name for box in ("tmp", "new", "cur") for name in self.beam.box(agent, box)]

    def check(self) -> int:
        """Every promise, by what the journals, the queues and the agents themselves say; how many messages."""
        replies = self._replies()
        journals = {agent: self.beam.journal(agent) for agent in self.agents}
        ran = self.ran(journals)
        count = 0
        for agent, journal in journals.items():
            check_numbers(self.beam, agent)
            assert self._open(agent) == []
            about: dict[str, list[Event]] = {}
            for event in journal:
                about.setdefault(event["message_id"], []).append(event)
            messages = {key: said for key, said in about.items() if of_type(said, "message.queued")}
            assert {message_id for message_id in ran if message_id.startswith(f"{agent}-")} <= set(messages)
            for message_id, said in messages.items():
                self._check_one(said, ran[message_id])
                self._check_reply(said, replies[message_id], journals)
            count += len(messages)
        return count

    @staticmethod
    def _check_one(said: list[Event], runs: int) -> None:
        """One outcome. A prompt ran once if the journal says that its agent spoke, at most once if it was sent, and not
        at all if it was not. One that was sent and went back did not run: its agent was never let go."""
        outcomes = [event for event in said if event["type"] in OUTCOMES]
        assert len({event["attempt"] for event in outcomes}) == 1, said
        assert len(of_type(outcomes, "turn.finished")) <= 1, said
        went_back = max((event["seq"] for event in of_type(said, "message.requeued")), default=0)
        sent = sum(event["seq"] > went_back for event in of_type(said, "prompt.sent"))
        status = outcomes[0]["status"]
        has_spoken = any(SPOKEN in event["text"] for event in of_type(said, "text", "text.delta"))
        assert sent <= 1, said
        assert runs in ((1,) if has_spoken else (0, 1)[: 1 + sent]), (runs, said)
        assert status in {"completed", "unknown", "failed", "limit"}, said
        if status in ("completed", "unknown"):
            assert (sent, outcomes[0]["type"]) == (1, "turn.finished"), said
        if status == "completed":
            assert has_spoken, said
        if status == "limit":
            assert (sent, outcomes[0]["reason"]) == (0, "hops"), said

    @staticmethod
    def _check_reply(said: list[Event], replies: set[str], journals: dict[str, list[Event]]) -> None:
        """Who wants a reply gets the one that the journal names. None is named for a reply of too many hops: when it
        was put, its sender's journal said that it is dead, and why."""
        queued, *_ = of_type(said, "message.queued")
        wanted: set[str] = set()
        if queued["reply"] == "queue":
            outcome = next(event for event in said if event["type"] in OUTCOMES)
            if outcome["type"] == "turn.finished":
                (closed,) = of_type(said, "turn.closed")
                assert closed["reply"] in ("queued", "dead"), said
                wanted = {f"{closed['reply_id']} in {queued['from']}"}
            elif outcome["tell"]:
                ident = reply_id(queued["from"], queued["message_id"], outcome["attempt"])
                wanted = {f"{ident} in {queued['from']}"}
            else:
                sent = of_type(journals[queued["from"]], "turn.closed")
                (told,) = (event for event in sent if event["reply_id"] == queued["message_id"])
                assert (told["reply"], told["message_id"]) == ("dead", queued["reply_to"]), (told, said)
                assert outcome["detail"] == told["detail"], (told, said)
        assert replies == wanted, (replies, wanted, said)

    def _replies(self) -> dict[str, set[str]]:
        """The ids of the messages that answer each message, wherever they are."""
        found: dict[str, set[str]] = {}
        paths = (self.beam.root / "agents" / "asker" / "queue").glob("*/*.json")
        messages = [json.loads(path.read_bytes()) for path in paths]
        for message in messages:
            found.setdefault(message["reply_to"], set()).add(f"{message['id']} in {message['to']}")
        assert len(messages) == len({message["id"] for message in messages})
        for agent in self.agents:
            for event in self.beam.journal(agent):
                if event["type"] == "message.queued" and event.get("reply_to"):
                    found.setdefault(event["reply_to"], set()).add(f"{event['message_id']} in {agent}")
        return _Empty(found)


class DialogueStorm(Storm):
    """The same with agents by the Agent Client Protocol, which count by the texts of messages: each text is sent once.
    Their processes are kept from message to message, and killed as well."""

    agents = AGENTS[:8]

    def rage(self, kills: int) -> None:
        """Begin when the broker keeps a process, so that few kills are enough to meet one."""
        self.broker = self._start("broker", "--poll", "500ms")
        self._start("send", self.agents[0], "the first", "--no-wait").wait(60)
        eventually(lambda: of_type(self.beam.journal(self.agents[0]), "agent.kept"), 60, "no process was kept")
        super().rage(kills)

    def settings(self) -> dict[str, str]:
        command = f"[{sys.executable}, {COUNTER}, {self.runs}]"
        settings = f"{{command: {command}, protocol: acp, access: full, envelope: none}}"
        return dict.fromkeys(self.agents, settings)

    def ran(self, journals: dict[str, list[Event]]) -> Counter[str]:
        texts = Counter(json.loads(line) for line in self.runs.read_text().splitlines())
        queued = [event for journal in journals.values() for event in of_type(journal, "message.queued")]
        ids = {event["text"]: event["message_id"] for event in queued}
        assert len(ids) == len({event["message_id"] for event in queued})
        assert set(texts) <= set(ids)
        return Counter({ids[text]: times for text, times in texts.items()})

    def kind(self, pid: int) -> str | None:
        return "agent" if any(COUNTER.name in word for word in argv_of(pid)) and not _kind(pid) else _kind(pid)


class _Empty(dict[str, set[str]]):
    def __missing__(self, key: str) -> set[str]:
        return set()


def _kind(pid: int) -> str | None:
    """What there is to kill: the broker, a worker, a sender, a guard; None for anything else."""
    argv = argv_of(pid)
    if "beam.broker.serving.worker" in argv:
        return "worker"
    if "beam" in argv and "broker" in argv:
        return "broker"
    if "beam" in argv and "send" in argv:
        return "sender"
    return "guard" if any("guard.main" in word for word in argv) else None


def of_type(said: list[Event], *types: str) -> list[Event]:
    """Those events."""
    return [event for event in said if event["type"] in types]


@pytest.mark.parametrize("kills", [KILLS, pytest.param(SOAK_KILLS, marks=pytest.mark.soak)])
def test_holders_and_guards_killed_at_random_lose_nothing_and_do_nothing_twice_in_silence(
    beam: Cli, pytestconfig: pytest.Config, kills: int
) -> None:
    seed = pytestconfig.getoption("--soak-seed") or random.SystemRandom().randrange(1, 10**6)
    print(f"--soak-seed {seed} in {beam.base}")
    rage(Storm(beam, seed), kills, {"broker", "sender", "guard"})


@pytest.mark.parametrize("kills", [DIALOGUE_KILLS, pytest.param(SOAK_KILLS, marks=pytest.mark.soak)])
def test_in_dialogue_mode_with_kept_processes_kills_lose_nothing_and_do_nothing_twice_in_silence(
    beam: Cli, pytestconfig: pytest.Config, kills: int
) -> None:
    seed = pytestconfig.getoption("--soak-seed") or random.SystemRandom().randrange(1, 10**6)
    print(f"--soak-seed {seed} in {beam.base}")
    storm = DialogueStorm(beam, seed)
    rage(storm, kills, {"broker", "sender", "agent"} if kills > DIALOGUE_KILLS else set())
    kept = [event for agent in storm.agents for event in of_type(beam.journal(agent), "agent.kept")]
    assert kept, "no process was kept, so this tried nothing new"


def rage(storm: Storm, kills: int, kinds: set[str]) -> None:
    """Kills so many, of all these kinds, and checks every promise afterwards."""
    storm.rage(kills)
    storm.settle(60 + kills)
    print(f"{storm.kills.total()} kills ({dict(storm.kills)}), {storm.check()} messages")
    assert kinds <= set(storm.kills)
