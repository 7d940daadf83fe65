"""The guard alone, driven through its pipes by a test that plays the holder."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trees

from beam.process import guard

pytestmark = pytest.mark.acceptance

PYTHON = [sys.executable, "-I", "-S", "-c"]


class Holder:
    """Starts guards and ends what is left of them."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._fds: list[int] = []

    def start(self, argv: list[str], *, grace: float = 5.0, holder: int | None = None) -> None:
        lifeline, self.lifeline = os.pipe()
        self.status, status = os.pipe()
        self._fds = [self.lifeline, self.status]
        words = guard.command(
            argv,
            lifeline=lifeline,
            status=status,
            holder=os.getpid() if holder is None else holder,
            marker="BEAM_TURN_guardtest",
            grace=grace,
        )
        self.process = subprocess.Popen(
            words,
            pass_fds=(lifeline, status),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "BEAM_TURN_guardtest": "guard"},
        )
        os.close(lifeline)
        os.close(status)

    def wish(self, text: str) -> None:
        os.write(self.lifeline, text.encode() + b"\n")

    def drop_lifeline(self) -> None:
        os.close(self.lifeline)
        self._fds.remove(self.lifeline)

    def output_line(self) -> str:
        assert self.process and self.process.stdout
        ready, _, _ = select.select([self.process.stdout], [], [], 10)
        assert ready
        return self.process.stdout.readline().decode().strip()

    def end(self) -> tuple[int, list[str]]:
        """The guard's exit code and what it said."""
        assert self.process
        code = self.process.wait(timeout=15)
        return code, os.read(self.status, 65536).decode().splitlines()

    def close(self) -> None:
        if self.process:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            if self.process.stdout:
                self.process.stdout.close()
        for fd in self._fds:
            os.close(fd)


@pytest.fixture
def holder() -> Iterator[Holder]:
    holder = Holder()
    yield holder
    holder.close()


def agent(kind: str, folder: Path, then: str) -> list[str]:
    return [sys.executable, "-I", "-S", trees.__file__, kind, str(folder), then]


@pytest.mark.parametrize("kind", trees.TREES)
def test_nothing_outlives_the_exit_of_the_agent(kind: str, holder: Holder, tmp_path: Path) -> None:
    holder.start(agent(kind, tmp_path, "exit"))
    code, said = holder.end()
    assert trees.is_gone(tmp_path)
    assert (code, said[1]) == (7, "exited 7 -")
    word, swept, left, ms = said[2].split()
    assert (word, left) == ("clean", "0")
    assert int(swept) >= (trees.MANY if kind == "many" else 1)
    assert int(ms) < 5000


@pytest.mark.parametrize("kind", trees.TREES)
def test_nothing_outlives_an_end_that_was_asked_for(kind: str, holder: Holder, tmp_path: Path) -> None:
    holder.start(agent(kind, tmp_path, "stay"))
    assert holder.output_line() == "ready"
    holder.wish("end 0.1")
    code, said = holder.end()
    assert trees.is_gone(tmp_path)
    assert (code, said[1], said[2].split()[2]) == (143, "exited - 15", "0")


def test_the_agent_may_use_its_grace(holder: Holder) -> None:
    script = "trap 'sleep 0.2; exit 9' TERM; echo ready; while :; do sleep 0.01; done"
    holder.start(["/bin/sh", "-c", script])
    assert holder.output_line() == "ready"
    holder.wish("end 5")
    began = time.monotonic()
    code, said = holder.end()
    assert (code, said[1]) == (9, "exited 9 -")
    assert time.monotonic() - began < 4


def test_a_second_wish_shortens_the_grace(holder: Holder) -> None:
    holder.start(["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"])
    assert holder.output_line() == "ready"
    holder.wish("end 60")
    holder.wish("end 0")
    code, said = holder.end()
    assert (code, said[1]) == (137, "exited - 9")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_guard_ends_the_tree(number: int, holder: Holder, tmp_path: Path) -> None:
    holder.start(agent("cleared-daemon", tmp_path, "stay"))
    assert holder.output_line() == "ready"
    assert holder.process
    os.kill(holder.process.pid, number)
    code, _ = holder.end()
    assert code == 143
    assert trees.is_gone(tmp_path)


@pytest.mark.parametrize("way", ["wish", "signal"])
def test_an_interrupt_reaches_the_agent_alone(way: str, holder: Holder, tmp_path: Path) -> None:
    child = f"trap 'touch {tmp_path}/hit' INT; echo ready; while :; do sleep 0.01; done"
    script = f"trap 'kill -0 $! && exit 5' INT; sh -c \"{child}\" & while :; do sleep 0.01; done"
    holder.start(["/bin/bash", "-c", script], grace=0.0)
    assert holder.output_line() == "ready"
    if way == "wish":
        holder.wish(f"interrupt {int(signal.SIGINT)}")
    else:
        assert holder.process
        os.kill(holder.process.pid, signal.SIGINT)
    code, said = holder.end()
    assert (code, said[1]) == (5, "exited 5 -")
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_the_lifeline_is_the_end_of_all(holder: Holder, tmp_path: Path) -> None:
    holder.start(agent("cleared-daemon", tmp_path, "stay"))
    assert holder.output_line() == "ready"
    holder.drop_lifeline()
    holder.end()
    assert trees.is_gone(tmp_path)


def test_an_exec_that_fails_is_said_with_its_errno(holder: Holder) -> None:
    holder.start(["/no/such/program"])
    assert holder.end() == (125, ["failed 2"])


def test_a_program_is_looked_for_on_the_path_of_the_agent(holder: Holder) -> None:
    holder.start(["sh", "-c", "exit 4"])
    assert holder.end()[0] == 4


def test_a_program_that_is_nowhere_on_the_path_is_said_with_its_errno(holder: Holder) -> None:
    holder.start(["no-such-program"])
    assert holder.end() == (125, ["failed 2"])


def test_a_guard_whose_holder_is_gone_starts_nothing(holder: Holder, tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    holder.start(["touch", str(tmp_path / "ran")], holder=gone.pid)
    code, said = holder.end()
    assert (code, said) == (125, [])
    assert not (tmp_path / "ran").exists()


def test_a_guard_of_another_parent_starts_nothing(holder: Holder, tmp_path: Path) -> None:
    holder.start(["touch", str(tmp_path / "ran")], holder=os.getppid())
    assert holder.end() == (125, [])
    assert not (tmp_path / "ran").exists()


def test_a_descriptor_that_is_no_pipe_is_not_taken_for_a_lifeline() -> None:
    with Path("/dev/null").open("rb") as null:
        words = guard.command(["true"], lifeline=null.fileno(), status=1, holder=os.getpid(), marker="M", grace=0)
        done = subprocess.run(words, pass_fds=(null.fileno(),), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (125, b"")


def test_the_agent_starts_with_default_signals_and_an_empty_mask(holder: Holder) -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
    ignored = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        holder.start(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGUSR2, ignored)
    of_the_c_library = 1 << 31 | 1 << 32  # signals 32 and 33: no program can set them
    assert [int(holder.output_line().split()[1], 16) & ~of_the_c_library for _ in range(2)] == [0, 0]


def test_the_agent_has_no_descriptor_of_the_guard(holder: Holder) -> None:
    holder.start(["ls", "/proc/self/fd"])
    assert [holder.output_line() for _ in range(4)] == ["0", "1", "2", "3"]  # 3 is the folder that ls reads
    assert holder.end()[0] == 0


def test_the_agent_carries_the_marker_but_is_no_guard(holder: Holder) -> None:
    holder.start(["printenv", "BEAM_TURN_guardtest"])
    assert holder.output_line() == "1"


def test_a_signal_to_the_process_group_of_the_agent_does_not_hit_the_guard(holder: Holder) -> None:
    holder.start(["sh", "-c", "kill -9 0"])
    code, said = holder.end()
    assert (code, said[1], said[2].split()[2]) == (137, "exited - 9", "0")


def test_a_forked_copy_of_the_lifeline_does_not_hide_the_death_of_the_holder(tmp_path: Path) -> None:
    lifeline, status = os.pipe(), os.pipe()
    script = (
        "import os, subprocess, sys, time\n"
        "words = [str(os.getpid()) if word == 'HOLDER' else word for word in sys.argv[1:]]\n"
        f"subprocess.Popen(words, pass_fds=({lifeline[0]}, {status[1]}), start_new_session=True)\n"
        "time.sleep(600)"
    )
    words = guard.command(
        agent("cleared-daemon", tmp_path, "stay"), lifeline=lifeline[0], status=status[1], holder=0, marker="M", grace=0
    )
    words[words.index("0")] = "HOLDER"
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", script, *words], pass_fds=(lifeline[0], status[1]), stdout=subprocess.PIPE
        )
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        process.wait()
        trees.until(lambda: trees.is_gone(tmp_path))  # the test still holds the write end
        process.stdout.close()
    finally:
        for fd in (*lifeline, *status):
            os.close(fd)


def test_the_guard_is_small_and_cheap(holder: Holder) -> None:
    holder.start(["sh", "-c", "echo ready; sleep 600"])
    assert holder.output_line() == "ready"
    assert holder.process
    proc = Path(f"/proc/{holder.process.pid}")
    rollup = (proc / "smaps_rollup").read_text().splitlines()
    private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    ticks = sum(int(field) for field in (proc / "stat").read_text().rpartition(")")[2].split()[11:13])
    holder.wish("end 0")
    holder.end()
    assert private <= 4096, "kB"
    assert ticks * 1000 / os.sysconf("SC_CLK_TCK") <= 35, "ms"


def test_the_guard_imports_only_the_cheapest_modules() -> None:
    folder = str(Path(guard.__file__).parent)
    script = "import sys; sys.path.append(sys.argv[1]); old = set(sys.modules); import guard; "
    script += "print(sorted({*sys.modules} - old))"
    done = subprocess.run([*PYTHON, script, folder], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['__future__', 'errno', 'guard', 'select', 'table']"
