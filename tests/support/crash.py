"""A place in which holders are killed: a counting agent, a mailbox that sends, and the claims that hold afterwards."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from beam.api import Beam
from tests.support.cli import Cli, Ended, eventually, processes_with

KILLED = 137
OUTCOMES = ("turn.finished", "message.dead")


class Place:
    """A scratch project. `worker` counts each prompt that reached it and leaves a process behind; `broken` counts and
    fails; `box` is a mailbox; `asker` is one in whose name messages are sent, so that replies lie in its queue."""

    def __init__(self, beam: Cli, *, limits: str = "{}") -> None:
        self.beam = beam
        self.runs = beam.base / "runs"
        self.runs.touch()
        script = beam.base / "agent.sh"
        script.write_text(
            f"""prompt=$(cat)
[ -n "$prompt" ] || exit 9
setsid sleep 300 </dev/null >/dev/null 2>&1 &
echo "$BEAM_MESSAGE_ID $prompt" >> {self.runs}
[ "$1" = fail ] && exit 3
echo "the answer to $prompt"
"""
        )
        beam.config(
            f"agents:\n"
            f"  worker: {{command: [sh, {script}]}}\n"
            f"  broken: {{command: [sh, {script}, fail]}}\n"
            f"  box: {{adapter: mailbox}}\n"
            f"  asker: {{adapter: mailbox}}\n"
            f"limits: {limits}\n"
        )

    def crash(self, point: str, *args: str) -> Ended:
        """Runs beam, which must die at the point."""
        ended = self.beam(*args, env={"BEAM_CRASH_AT": point})
        assert ended.code == KILLED, (point, ended)
        self.all_gone()
        return ended

    def crash_worker(self, point: str, agent: str, text: str) -> str:
        """Puts a message in the asker's name; the worker that runs it dies at the point. The message's id."""
        ended = self.beam("send", agent, text, "--from", "asker", "--no-wait", env={"BEAM_CRASH_AT": point})
        assert ended.code == 0, ended
        self.all_gone()
        return ended.out.strip()

    def id_of(self, agent: str) -> str:
        """The id of the only message that the agent has or had."""
        ids = {event["message_id"] for event in self.beam.journal(agent) if event.get("message_id")}
        for box in ("new", "cur", "dead", "tmp"):
            ids |= {re.sub(r"^\d{20}-|\.json$", "", name) for name in self.beam.box(agent, box)}
        assert len(ids) == 1, ids
        return str(ids.pop())

    def ran(self, message_id: str) -> int:
        """How often a prompt of this message reached the agent."""
        return sum(line.split()[0] == message_id for line in self.runs.read_text().splitlines())

    def outcomes(self, agent: str, message_id: str) -> list[tuple[int, str]]:
        """(attempt, status) of every outcome in the journal; a dead letter's event after its turn's is the same one."""
        found: dict[int, str] = {}
        for event in self.beam.journal(agent):
            if event.get("message_id") == message_id and event["type"] in OUTCOMES:
                if event["type"] == "turn.finished":
                    assert event["attempt"] not in found, "two outcomes of one attempt"
                found.setdefault(event["attempt"], event["status"])
        return sorted(found.items())

    def replies(self, message_id: str) -> list[dict[str, Any]]:
        """The messages in the asker's queue that answer this one."""
        directory = self.beam.root / "agents" / "asker" / "queue"
        found = [
            json.loads(path.read_bytes()) for box in ("new", "cur", "dead") for path in (directory / box).glob("*")
        ]
        return [message for message in found if message["reply_to"] == message_id]

    def all_gone(self) -> None:
        """No process of this place runs."""
        eventually(lambda: not processes_with(str(self.beam.base)), 10, "processes are left")

    def holds(self, agent: str) -> None:
        """What is true after every crash and its recovery: nothing is left in between, and the journal is whole."""
        self.all_gone()
        assert self.beam.box(agent, "tmp") == []
        assert self.beam.box(agent, "cur") == []
        check_numbers(self.beam, agent)
        assert Beam(self.beam.root, cwd=self.beam.project, environ=self.beam.env).verify(agent) == []
        journal = self.beam.root / "agents" / agent / "journal"
        assert [path.name for path in journal.iterdir() if not path.name.endswith(".jsonl")] == []


def check_numbers(beam: Cli, agent: str) -> None:
    """The agent's events are numbered from 1 without a gap or a repeat, and time does not go back."""
    events = [event for event in beam.journal(agent) if event["type"] != "<torn>"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    times = [event["ts"] for event in events]
    assert times == sorted(times)


def count_by(path: Path) -> Counter[str]:
    """How often each first word stands in the file."""
    return Counter(line.split()[0] for line in path.read_text().splitlines() if line.strip())
