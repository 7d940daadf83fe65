"""`--once` messages whose worker was killed: the next one who can takes them up, each is run once, and nobody calls
them running meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.support.cli import Cli, eventually

pytestmark = pytest.mark.acceptance

COUNTING = (
    'agents:\n  counting: {command: [sh, -c, \'text=$(cat); [ -n "$text" ] && echo "$text" >> ran; echo done\']}\n'
)
BEFORE_THE_PROMPT = ("claim.before", "claim.renamed", "claim.recorded", "turn.started", "agent.started")


def lane_of(beam: Cli, message: str, agent: str = "counting") -> Path:
    return beam.root / "agents" / agent / "once" / message.rpartition("-")[2]


def stranded(beam: Cli, many: int) -> list[str]:
    """The ids of so many messages whose workers were killed, each at another step before its prompt was sent."""
    ids = []
    for number in range(many):
        point = BEFORE_THE_PROMPT[number % len(BEFORE_THE_PROMPT)]
        sent = beam(
            "send", "counting", "--once", "--no-wait", f"number {number}", env={"BEAM_CRASH_AT": point, "WORKER": "it"}
        )
        assert sent.code == 0, sent
        ids.append(sent.out.strip())
    for number, message in enumerate(ids):
        box = "new" if number % len(BEFORE_THE_PROMPT) == 0 else "cur"
        reached = lane_of(beam, message) / "queue" / box
        eventually(lambda reached=reached: any(reached.iterdir()), what=f"{reached} is empty")  # type: ignore[misc]
    return ids


def ran(beam: Cli) -> list[str]:
    path = beam.project / "ran"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def all_ran_once(beam: Cli, many: int) -> None:
    wanted = sorted(f"number {number}" for number in range(many))
    eventually(
        lambda: len([line for line in ran(beam) if line.startswith("number")]) >= many, timeout=15, what=str(ran(beam))
    )
    assert [line for line in ran(beam) if line.startswith("number")] == wanted


def all_done(beam: Cli, ids: list[str]) -> None:
    for message in ids:
        shown = beam("show", message, "--json").json
        assert (shown["status"], shown["reply"]) == ("completed", "done"), shown


@pytest.mark.parametrize("many", [5, pytest.param(25, marks=pytest.mark.soak)])
def test_another_send_takes_up_what_many_killed_workers_left_and_each_is_run_once(beam: Cli, many: int) -> None:
    beam.config(COUNTING)
    ids = stranded(beam, many)
    assert ran(beam) == []
    assert beam("send", "counting", "mine").out == "done\n"
    all_ran_once(beam, many)
    for message in ids:
        assert beam("wait", message).code == 0
    all_done(beam, ids)
    assert list((beam.root / "agents" / "counting" / "lanes").iterdir()) == []


def workers(beam: Cli) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                argv = (entry / "cmdline").read_bytes().split(b"\0")
                if b"beam.broker.serving.worker" in argv and str(beam.root).encode() in argv:
                    found.append(int(entry.name))
    return found


def test_after_kill_9_of_all_workers_nothing_is_left_waiting_and_nothing_is_run_twice(beam: Cli) -> None:
    beam.config(COUNTING)
    ids = [beam("send", "counting", "--once", "--no-wait", f"number {number}").out.strip() for number in range(25)]
    for pid in workers(beam):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert beam("send", "counting", "mine").code == 0
    index = beam.root / "agents" / "counting" / "lanes"
    eventually(lambda: not any(index.iterdir()), timeout=60, what="messages are left waiting")
    outcomes = [beam("show", message, "--json").json["status"] for message in ids]
    assert set(outcomes) <= {"completed", "unknown"}  # unknown: killed when the prompt had left
    numbers = [line for line in ran(beam) if line.startswith("number")]
    assert len(numbers) == len(set(numbers)) >= outcomes.count("completed")


def test_a_broker_takes_up_what_killed_workers_left_no_more_at_once_than_its_cap(beam: Cli) -> None:
    beam.config(
        "agents:\n  counting:\n    command:\n    - sh\n    - -c\n    - |\n"
        '      text=$(cat); [ -n "$text" ] || exit 1\n'
        "      echo x >> at.$$; cat at.* | wc -l >> busy; sleep 0.2; rm at.$$\n"
        '      echo "$text" >> ran; echo done\n'
    )
    ids = stranded(beam, 10)
    assert beam("broker", "start", "--cap", "2").code == 0
    try:
        all_ran_once(beam, 10)
        index = beam.root / "agents" / "counting" / "lanes"
        eventually(lambda: not any(index.iterdir()), what="lanes are still looked at")
    finally:
        assert beam("broker", "stop").code == 0
    all_done(beam, ids)
    assert max(map(int, (beam.project / "busy").read_text().split())) <= 2


def test_waiting_for_one_message_whose_worker_was_killed_has_it_run_and_the_others_too(beam: Cli) -> None:
    beam.config(COUNTING)
    ids = stranded(beam, 6)
    waited = beam("wait", ids[2])
    assert (waited.code, waited.out) == (0, "done\n")
    all_ran_once(beam, 6)
    for message in ids:
        assert beam("wait", message).code == 0
    all_done(beam, ids)


def test_a_message_in_a_finished_lane_that_is_tried_again_is_not_lost_with_its_worker(beam: Cli) -> None:
    beam.config(
        "agents:\n  counting: {command: [sh, -c, 'cat >/dev/null; echo x >> ran; test -e good && echo done']}\n"
    )
    failed = beam("send", "counting", "--once", "x", "--json").json["message_id"]
    index = beam.root / "agents" / "counting" / "lanes"
    assert list(index.iterdir()) == []
    (beam.project / "good").touch()
    assert beam("queue", "retry", failed, env={"BEAM_CRASH_AT": "retry.published"}).code == 137
    assert [path.name for path in index.iterdir()] == [failed.rpartition("-")[2]]
    assert beam("send", "counting", "other").code == 0
    eventually(lambda: len(ran(beam)) == 3, what="it was not tried again")
    assert beam("wait", failed).out == "done\n"


def test_a_mailbox_has_no_sessions_to_throw_away(beam: Cli) -> None:
    beam.config("agents:\n  desk: {adapter: mailbox}\n")
    sent = beam("send", "desk", "--once", "--no-wait", "x")
    assert sent.code == 2 and "mailbox" in sent.err, sent


SLOW = """\
agents:
  slow: {command: [sh, -c, 'text=$(cat); echo "$text" >> ran; while [ ! -e go ]; do sleep 0.05; done']}
"""


def metric(beam: Cli, name: str, agent: str) -> float:
    lines = beam("status", "--metrics").out.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f'{name}{{agent="{agent}"}}'))


def test_status_metrics_and_queue_tell_once_turns_that_run_from_those_that_nobody_holds(beam: Cli) -> None:
    beam.config(SLOW + COUNTING.removeprefix("agents:\n"))
    left = stranded(beam, 3)  # one still waits, two were claimed
    runs = beam("send", "slow", "--once", "--no-wait", "x").out.strip()
    eventually(lambda: ran(beam) == ["x"], what="it does not run")
    status = {line["agent"]: line for line in beam("status", "--json").lines}
    assert [turn["state"] for turn in status["counting"]["once"]] == ["waiting", "died", "died"]
    assert (status["counting"]["state"], status["counting"]["waiting"]) == ("died", 1)
    (once,) = status["slow"]["once"]
    assert (once["message_id"], once["state"], once["turn"]["alive"]) == (runs, "running", True)
    assert status["slow"]["state"] == "running"
    assert "--once: 1 waiting, 2 died" in beam("status", "counting").out
    assert "--once: 1 running" in beam("status", "slow").out
    assert (metric(beam, "beam_running", "counting"), metric(beam, "beam_running", "slow")) == (0, 1)
    assert (metric(beam, "beam_once_died", "counting"), metric(beam, "beam_queue_depth", "counting")) == (2, 1)
    boxes = {line["id"]: line["box"] for line in beam("queue", "list", "--json").lines}
    assert boxes == {left[0]: "waiting", left[1]: "died", left[2]: "died", runs: "running"}
    shown = beam("show", left[1])
    assert shown.code == 12 and "left by a holder that died" in shown.err, shown
    (beam.project / "go").touch()
    assert beam("wait", runs).code == 0
    for message in left:
        assert beam("wait", message).code == 0
    status = {line["agent"]: line for line in beam("status", "--json").lines}
    assert (status["counting"]["totals"]["turns"], status["counting"]["last"]["status"]) == (3, "completed")
    assert [line["once"] for line in status.values()] == [[], []]
    assert 'beam_turns_total{agent="counting",status="completed"} 3' in beam("status", "--metrics").out


def test_interrupt_of_an_agent_ends_its_once_turns_too(beam: Cli) -> None:
    beam.config(SLOW)
    ids = [beam("send", "slow", "--no-wait", "own").out.strip()]
    ids += [beam("send", "slow", "--once", "--no-wait", text).out.strip() for text in ("a", "b")]
    eventually(lambda: ran(beam) == ["a", "b", "own"], what="not all of them run")
    done = beam("interrupt", "slow")
    assert done.code == 0 and all(message in done.err for message in ids), done
    for message in ids:
        assert beam("wait", message, "--json").json["status"] == "cancelled"
    again = beam("interrupt", "slow")
    assert again.code == 2 and "not in a turn" in again.err
