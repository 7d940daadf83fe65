"""`beam watch --after` killed again and again while a team works: all that it printed is everything, once."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beam.agents.claude.history import read
from beam.model import events
from tests.support.cli import BEAM, Cli, eventually, kill_hard
from tests.teams.teams_replay import WITH_TRANSCRIPTS, Scratch, proved

pytestmark = pytest.mark.acceptance
BODIES = ("text", "tool.called", "tool.returned")


@pytest.mark.parametrize("name", WITH_TRANSCRIPTS)
def test_killed_again_and_again_a_watcher_with_a_cursor_told_everything_once(
    beam: Cli, tmp_path: Path, name: str
) -> None:
    told_once(beam, tmp_path, name, kills=6, within=1.8, speed=2.0, pause=0.3)


@pytest.mark.soak
@pytest.mark.parametrize("name", WITH_TRANSCRIPTS)
def test_killed_twenty_times_a_watcher_with_a_cursor_told_everything_once(beam: Cli, tmp_path: Path, name: str) -> None:
    told_once(beam, tmp_path, name, kills=20, within=3.0, speed=0.8, pause=2.0)


def told_once(beam: Cli, tmp_path: Path, name: str, *, kills: int, within: float, speed: float, pause: float) -> None:
    """Replays the recording and kills the watcher that often, each time within so many seconds: what all of them
    printed together is everything that the recording proves, once."""
    recording = Scratch(tmp_path / "team", name, is_now=True)
    recording.spool = beam.base / "home/.local/state/beam/hooks"
    recording.spool.mkdir(parents=True)
    output = tmp_path / "output"
    chance = random.Random(name)
    player = threading.Thread(target=recording.replay, args=(speed,), kwargs={"pause": pause})

    def printed() -> list[dict[str, Any]]:
        lines = output.read_bytes().split(b"\n") if output.exists() else []
        return [json.loads(line) for line in lines if line]

    def start() -> subprocess.Popen[bytes]:
        argv = [*BEAM, "watch", "--json", "--after", "mine", "--claude-home", str(recording.home)]
        with output.open("ab") as file:
            return subprocess.Popen(argv, cwd=beam.project, env=beam.env, stdout=file, start_new_session=True)

    process = start()
    cursor = beam.base / "home/.local/state/beam/cursors"
    eventually(lambda: cursor.is_dir() and len([*Path(f"/proc/{process.pid}/task").iterdir()]) > 1)
    player.start()
    for _ in range(kills):
        time.sleep(chance.uniform(0.1, within))
        kill_hard(process)
        process = start()
    player.join()
    end = recording.home / "tasks" / "session-end"
    end.mkdir()
    (end / "1.json").write_text(json.dumps({"id": "1", "subject": "the end"}))
    eventually(lambda: any(one.get("team") == "session-end" for one in printed()), 120, "the end is not told")
    time.sleep(2.0)  # what should not come would come now
    kill_hard(process)
    told = [one for one in printed() if one.get("team") != "session-end"]
    truth = proved(name)

    def tasks(kind: str) -> Counter[tuple[str, str]]:
        return Counter((one["team"], one["task_id"]) for one in told if one["type"] == kind)

    assert sum(one["type"] == "mail.sent" for one in told) == len(truth.mails)
    assert tasks("task.created") == truth.created
    assert tasks("task.started") == +truth.started
    assert tasks("task.completed") == +truth.completed
    assert Counter(one["member"] for one in told if one["type"] == "member.joined") == Counter(
        member for member, _ in truth.joined
    )
    said = Counter(_body(one) for one in told if one["type"] in BODIES)
    assert said == _said(recording.home)


def _said(home: Path) -> Counter[tuple[str, ...]]:
    """What the transcripts of the recording say."""
    found: Counter[tuple[str, ...]] = Counter()
    for path in (home / "projects").rglob("*.jsonl"):
        for data in path.read_bytes().splitlines():
            line = read(data)
            for body in line.bodies if line is not None else ():
                if str(body.__struct_config__.tag) in BODIES:
                    found[_body(json.loads(events.encode(body)))] += 1
    return found


def _body(value: dict[str, Any]) -> tuple[str, ...]:
    return value["type"], value.get("call_id", ""), value.get("text", "")
