from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import beam
from beam.model.events import Owner
from beam.process import spawn, tree
from tests.process import trees

acceptance = pytest.mark.acceptance
KEY = f"treetest{os.getpid()}"
HOLDER = Path(__file__).with_name("holder.py")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], env={"PATH": "/usr/bin:/bin"})
    yield process
    process.kill()
    process.wait()


def owner(pid: int) -> Owner:
    return replace(tree.this_process(), pid=pid, start_ticks=tree.start_ticks(pid) or 0)


class Beam:
    """A stand-in for beam with one agent, and what it recorded."""

    def __init__(self, kind: str, folder: Path) -> None:
        agent = [sys.executable, "-I", "-S", trees.__file__, kind, str(folder), "stay"]
        self.process = subprocess.Popen(
            [sys.executable, str(HOLDER), "holder", KEY, *agent],
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(beam.__file__).parents[1])},
        )
        assert self.process.stdout
        words = sorted(self.process.stdout.readline() for _ in range(2))[0].split()
        _, guard_pid, guard_ticks, pid, ticks = words
        here = tree.this_process()
        self.guard = replace(here, pid=int(guard_pid), start_ticks=int(guard_ticks))
        self.agent = replace(here, pid=int(pid), start_ticks=int(ticks))

    def rest_of_output(self) -> str:
        assert self.process.stdout
        return self.process.stdout.read()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


def test_this_process_is_alive() -> None:
    me = tree.this_process()
    assert me.pid == os.getpid()
    assert tree.is_alive(me) is True


@pytest.mark.slow
def test_a_process_that_is_gone_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    recorded = owner(sleeper.pid)
    assert tree.is_alive(recorded) is True
    sleeper.kill()
    trees.until(lambda: tree.is_alive(recorded) is False)  # a zombie is gone, too
    sleeper.wait()
    assert tree.is_alive(recorded) is False


def test_another_process_with_the_same_pid_is_not_taken_for_it() -> None:
    assert tree.is_alive(replace(tree.this_process(), start_ticks=1)) is False


def test_a_process_of_an_earlier_boot_is_not_alive() -> None:
    assert tree.is_alive(replace(tree.this_process(), boot_id="earlier")) is False


@pytest.mark.parametrize("elsewhere", [{"host": "other", "boot_id": "other"}, {"pid_namespace": "1"}])
def test_of_a_process_elsewhere_nothing_is_known(elsewhere: dict[str, str]) -> None:
    assert tree.is_alive(replace(tree.this_process(), **elsewhere)) is None


def test_a_host_that_was_renamed_is_still_this_one() -> None:
    assert tree.is_alive(replace(tree.this_process(), host="before")) is True


@pytest.mark.slow
def test_cleaning_ends_a_recorded_process_and_what_is_below_it() -> None:
    shell = subprocess.Popen(["sh", "-c", "env -i sleep 600 & echo $!; wait"], stdout=subprocess.PIPE)
    assert shell.stdout
    below = owner(int(shell.stdout.readline()))
    cleaned = tree.end_processes("BEAM_TURN_none", [owner(shell.pid)])
    assert shell.wait(timeout=30) == -signal.SIGKILL
    shell.stdout.close()
    assert (cleaned.ended, cleaned.left) == (2, ())
    assert tree.is_alive(below) is False


@pytest.mark.slow
def test_cleaning_never_hits_a_process_that_got_a_recorded_pid(sleeper: subprocess.Popen[bytes]) -> None:
    recorded = owner(sleeper.pid)
    cleaned = tree.end_processes("BEAM_TURN_none", [replace(recorded, start_ticks=recorded.start_ticks - 1)])
    assert cleaned == tree.CleanupResult()
    assert tree.is_alive(recorded)


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [{"host": "other", "boot_id": "other"}, {"pid_namespace": "1"}])
def test_cleaning_leaves_a_process_elsewhere_alone(elsewhere: dict[str, str], sleeper: subprocess.Popen[bytes]) -> None:
    recorded = owner(sleeper.pid)
    assert tree.end_processes("BEAM_TURN_none", [replace(recorded, **elsewhere)]) == tree.CleanupResult()
    assert tree.is_alive(recorded)


@pytest.mark.slow
def test_cleaning_never_ends_itself_or_those_above_it(sleeper: subprocess.Popen[bytes]) -> None:
    code = (
        "import os, sys, subprocess\n"
        "from beam.process import tree\n"
        "from msgspec.structs import replace\n"
        "def owner(pid): return replace(tree.this_process(), pid=pid, start_ticks=tree.start_ticks(pid))\n"
        "other = subprocess.Popen(['sleep', '600'])\n"
        "cleaned = tree.end_processes('BEAM_TURN_own', [owner(os.getpid()), owner(os.getppid())])\n"
        "print(cleaned.ended, other.wait(), flush=True)"
    )
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(beam.__file__).parents[1]),
        "BEAM_TURN_own": "1",
    }
    shell = ["sh", "-c", f'"{sys.executable}" -c "$0"; echo above', code]
    done = subprocess.run(shell, env=environ, capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout == "1 -9\nabove\n"


@acceptance
@pytest.mark.parametrize("kind", trees.TREES)
def test_nothing_outlives_a_killed_holder(kind: str, tmp_path: Path) -> None:
    holder = Beam(kind, tmp_path)
    holder.process.kill()
    trees.until(lambda: trees.is_gone(tmp_path))
    holder.close()


@acceptance
@pytest.mark.parametrize("kind", trees.TREES)
def test_when_the_guard_alone_is_killed_its_holder_cleans(kind: str, tmp_path: Path) -> None:
    holder = Beam(kind, tmp_path)
    os.kill(holder.guard.pid, signal.SIGKILL)
    trees.until(lambda: trees.is_gone(tmp_path))
    ended = holder.rest_of_output()
    holder.close()
    assert "code=None, signal=None" in ended
    assert "left=0" in ended
    assert holder.process.returncode == 0


# What cleared its environment is found by nothing but its parents: when guard and holder are killed at the same moment,
# the agent goes with the guard and those are out of reach.
MARKED = [kind for kind in trees.TREES if "cleared" not in kind and "undumpable" not in kind]


@acceptance
@pytest.mark.parametrize("kind", MARKED)
def test_the_next_holder_ends_what_a_killed_guard_and_holder_left(kind: str, tmp_path: Path) -> None:
    holder = Beam(kind, tmp_path)
    os.kill(holder.process.pid, signal.SIGSTOP)
    os.kill(holder.guard.pid, signal.SIGKILL)
    holder.process.kill()
    cleaned = tree.end_processes(spawn.marker_name(KEY), [holder.agent, holder.guard])
    assert cleaned.left == ()
    assert trees.is_gone(tmp_path)
    holder.close()


@acceptance
@pytest.mark.parametrize("kind", ["plain", "cleared-daemon", "many"])
def test_a_stopped_guard_of_a_dead_holder_finishes_its_work(kind: str, tmp_path: Path) -> None:
    holder = Beam(kind, tmp_path)
    os.kill(holder.guard.pid, signal.SIGSTOP)
    holder.process.kill()
    assert tree.end_processes(spawn.marker_name(KEY), []).left == ()
    assert trees.is_gone(tmp_path)
    holder.close()
