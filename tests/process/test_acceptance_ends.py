"""Turns end and are told truly, whatever is done to the processes around them: stopped, killed by a pattern, left
without their root, short of what the system has to give.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli, Started, eventually, processes_with

pytestmark = pytest.mark.acceptance
# A process that left its session, its parent and its environment: only the guard knows that it belongs to the turn.
DAEMON = "(env -i setsid sh -c 'sleep 300' {mark} </dev/null >/dev/null 2>&1 &)"


@pytest.fixture
def named(tmp_path: Path) -> Iterator[Cli]:
    """A place whose every path has `beam` in it."""
    (tmp_path / "beam").mkdir()
    cli = Cli(tmp_path / "beam")
    yield cli
    cli.end()
    for pid in [*processes_with(str(tmp_path)), *commands_with(str(tmp_path))]:
        os.kill(pid, 9)


def commands_with(text: str) -> list[int]:
    """The processes whose command line holds the text, as `pkill -f` finds them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                is_it = text.encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if is_it:
                found.append(int(entry.name))
    return found


def started(beam: Cli, agent: str) -> dict[str, Any]:
    """The process of the agent's turn, once its prompt was sent."""
    eventually(lambda: "prompt.sent" in beam.types(agent))
    return [event for event in beam.journal(agent) if event["type"] == "agent.started"][-1]


def ended(process: Started, seconds: float = 60) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out.decode(), err.decode()


def test_whoever_kills_by_the_name_beam_leaves_the_guard_which_ends_all_of_the_turn(named: Cli) -> None:
    mark = named.base / "daemon"
    script = named.base / "agent.sh"
    script.write_text(f"{DAEMON.format(mark=mark)}\ntouch {named.base}/up\nsleep 300\n")
    named.config(f"agents:\n  slow: {{command: [sh, {script}]}}\n")
    process = named.start_cold("send", "slow", "hi")
    eventually(lambda: (named.base / "up").exists() and bool(commands_with(str(mark))))
    ours = {*processes_with(str(named.base)), *commands_with(str(named.base))}
    hit = ours.intersection(commands_with("beam")) - set(commands_with(str(mark)))  # as `pkill -9 -f beam` would
    assert process.pid in hit
    for pid in hit:
        with contextlib.suppress(ProcessLookupError):  # one may go with another
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not commands_with(str(mark)), 20, "what left its session and environment is still there")
    process.communicate()
    eventually(lambda: not processes_with(str(named.base)), 20, "processes are left")


@pytest.mark.parametrize("way", ["ends by itself", "is interrupted"])
def test_a_turn_whose_guard_was_stopped_ends_all_the_same(beam: Cli, way: str) -> None:
    mark = beam.base / "daemon"
    script = beam.base / "agent.sh"
    rest = "while [ ! -e gate ]; do sleep 0.02; done; echo answer" if way == "ends by itself" else "sleep 300"
    script.write_text(f"{DAEMON.format(mark=mark)}\ncat >/dev/null\n{rest}\n")
    beam.config(f"limits: {{grace: 1s}}\nagents:\n  slow: {{command: [sh, {script}]}}\n")
    process = beam.start("send", "slow", "hi")
    guard = started(beam, "slow")["guard_pid"]
    eventually(lambda: bool(commands_with(str(mark))))
    os.kill(guard, signal.SIGSTOP)
    if way == "is interrupted":
        beam("interrupt", "slow")
    else:
        (beam.project / "gate").touch()
    code, out, _ = ended(process)
    assert (code, out) == ((0, "answer\n") if way == "ends by itself" else (9, ""))
    assert commands_with(str(mark)) == []
    assert processes_with(str(beam.base)) == []


# -- a root that is not the broker's any more ----------------------------------------------------------------------


@pytest.mark.parametrize("what", ["gone", "moved", "replaced", "its lock replaced"])
def test_a_broker_whose_root_is_not_there_any_more_says_so_claims_nothing_and_ends(beam: Cli, what: str) -> None:
    beam.config("agents:\n  a: {command: [cat]}\n")
    broker = beam.start("broker", "--poll", "200ms")
    eventually(lambda: beam("broker", "status").code == 0)
    assert beam("send", "a", "one").out == "one\n"
    if what == "its lock replaced":
        (beam.root / "broker.lock").unlink()
        (beam.root / "broker.lock").touch()
    elif what == "gone":
        shutil.rmtree(beam.root)
    else:
        beam.root.rename(beam.base / "old")
    if what == "replaced":
        beam.root.mkdir(mode=0o700)
    code, _, said = ended(broker)
    assert code == 74
    assert "nothing more is claimed" in said and str(beam.root) in said
    if what in ("gone", "moved"):
        assert not beam.root.exists(), "nobody made it anew"
    assert beam("send", "a", "two").out == "two\n", "there is a root again, and who sends holds it"


def test_a_broker_that_lost_its_root_leaves_the_next_ones_file_alone(beam: Cli) -> None:
    beam.config("agents:\n  a: {command: [cat]}\n")
    first = beam.start("broker", "--poll", "300s")
    eventually(lambda: beam("broker", "status").code == 0)
    beam.root.rename(beam.base / "old")
    second = beam.start("broker", "--poll", "200ms")
    eventually(lambda: beam("broker", "status").code == 0)
    first.terminate()
    ended(first)
    assert beam("broker", "status", "--json").json["pid"] == second.pid
    second.terminate()
    assert ended(second)[0] in (0, 143, -15)


# -- a shortage that passes ----------------------------------------------------------------------------------------


def limit_for(pid: int, *, room: int) -> int:
    """The limit of open files with which that process can open so many more: enough to write, too few to spawn."""
    taken = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
    free = (number for number in count() if number not in taken)
    return list(islice(free, room))[-1] + 1


def test_a_message_whose_agent_finds_no_descriptor_waits_and_runs_when_there_are_some(beam: Cli) -> None:
    runs = beam.base / "runs"
    beam.config(f"policy: {{backoff: 1s}}\nagents:\n  a: {{command: [sh, -c, 'echo ran >> {runs}; cat']}}\n")
    broker = beam.start("broker", "--poll", "200ms")
    eventually(lambda: beam("broker", "status").code == 0)
    assert beam("send", "a", "one").out == "one\n"
    runs.unlink()
    most = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit_for(broker.pid, room=6), most[1]))
    message_id = beam("send", "a", "two", "--no-wait").out.strip()
    eventually(lambda: any(event.get("reason") == "shortage" for event in beam.journal("a")))
    assert not runs.exists()
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, most)
    assert beam("wait", message_id).out == "two\n"
    said = [event for event in beam.journal("a") if event.get("message_id") == message_id]
    assert any("nothing ran; tried again in" in event.get("text", "") for event in said if event["type"] == "notice")
    assert [event["status"] for event in said if event["type"] == "turn.finished"] == ["completed"]
    assert runs.read_text() == "ran\n"
    broker.terminate()
    ended(broker)


def test_a_shortage_that_does_not_pass_is_an_outcome_in_the_end(beam: Cli) -> None:
    beam.config("policy: {backoff: 50ms}\nlimits: {start_attempts: 3}\nagents:\n  a: {command: [cat]}\n")
    broker = beam.start("broker", "--poll", "100ms")
    eventually(lambda: beam("broker", "status").code == 0)
    assert beam("send", "a", "one").out == "one\n"
    most = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit_for(broker.pid, room=6), most[1]))
    done = beam("send", "a", "two", "--json")
    assert (done.code, done.json["status"]) == (1, "failed"), done.json["reason"]
    assert os.strerror(24) in done.json["reason"]
    reasons = [event["reason"] for event in beam.journal("a") if event["type"] == "message.requeued"]
    assert reasons == ["shortage", "shortage"]
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, most)
    broker.terminate()
    ended(broker)


# -- clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("face", ["exec", "terminal"])
def test_a_holder_that_was_stopped_hears_what_was_said_meanwhile_before_it_calls_that_silence(
    beam: Cli, face: str
) -> None:
    work = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i; sleep 0.6; done"
    if face == "exec":
        (beam.project / "work.sh").write_text(f"trap 'exit 7' INT\n{work}\n")
        beam.config("agents:\n  a: {command: [bash, work.sh], idle_timeout: 3s}\n")
        process = beam.start("send", "a", "hi")
    else:
        beam.config("agents:\n  a: {adapter: bash, idle_timeout: 3s}\n")
        process = beam.start("send", "a", "--via", "terminal", work)
    started(beam, "a")
    for _ in range(2):
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(3.5)  # longer than the silence that is allowed
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.3)
    code, out, err = ended(process)
    assert code == 0, err
    assert out.split()[-1] == "12"


def test_a_holder_that_was_stopped_past_the_timeout_takes_the_answer_that_came_meanwhile(beam: Cli) -> None:
    beam.config("agents:\n  a: {command: [sh, -c, 'cat; sleep 1; echo; echo answer; exit 3'], timeout: 3s}\n")
    process = beam.start("send", "a", "hi", "--json")
    started(beam, "a")
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(5)
    os.kill(process.pid, signal.SIGCONT)
    _, out, _ = ended(process)
    assert '"status":"failed"' in out and "timeout" not in out.partition('"reason"')[0]


def test_silence_after_a_stop_is_still_silence(beam: Cli) -> None:
    beam.config("agents:\n  a: {command: [sleep, '300'], idle_timeout: 2s}\nlimits: {grace: 0s}\n")
    process = beam.start("send", "a", "hi")
    started(beam, "a")
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(3)
    os.kill(process.pid, signal.SIGCONT)
    code, _, err = ended(process)
    assert code == 3
    assert "no sign of life" in err
