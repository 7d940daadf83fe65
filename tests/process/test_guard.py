"""The guard alone, driven through its pipes by a test that plays the holder."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.process import guard
from tests.process import trees

pytestmark = pytest.mark.acceptance

MARKER = f"BEAM_TURN_guardtest{os.getpid()}"  # guards of one marker end each other
PYTHON = [sys.executable, "-I", "-S", "-c"]


def telling(argv: list[str], **more: Any) -> int:
    """A descriptor of what a guard is told."""
    told = os.memfd_create("told")
    words = [os.fsencode(word) for word in argv]
    os.write(told, guard.encode_instructions(words, **{"marker": MARKER.encode(), "grace": 0.0, **more}))
    return told


class Holder:
    """Starts guards and ends what is left of them."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.unstarted = b""
        self._fds: list[int] = []

    def start(self, argv: list[str], *, grace: float = 5.0, holder: int | None = None, go: bool = True) -> None:
        lifeline, self.lifeline = os.pipe()
        self.status, status = os.pipe()
        self._fds = [self.lifeline, self.status]
        holder = os.getpid() if holder is None else holder
        told = telling(argv, lifeline=lifeline, status=status, holder=holder, grace=grace, unstarted=self.unstarted)
        self.process = subprocess.Popen(
            guard.command(told),
            executable=sys.executable,
            pass_fds=(lifeline, status, told),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", MARKER: "guard"},
        )
        for fd in (lifeline, status, told):
            os.close(fd)
        if go:
            with contextlib.suppress(BrokenPipeError):  # it may be gone already
                self.wish("go")

    def said(self) -> str:
        """The next of its lines, before its end."""
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.status], [], [], 10)
            assert ready
            line += os.read(self.status, 1)
        return line.decode().strip()

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
    assert (code, said[1:3]) == (7, ["running", "exited 7 -"])
    word, swept, left, ms = said[3].split()
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
    assert (code, said[2], said[3].split()[2]) == (143, "exited - 15", "0")


LATE = """
import posix, sys
sys.path[:0] = [{beam!r}, {tests!r}]
import guard, table
from pathlib import Path
from process import trees
children = table.children
def late():
    found = children()
    trees.until(lambda: not any(row and row[3] for row in map(table.stat_of, found)))
    return found
table.prctl(table.PR_SET_CHILD_SUBREAPER, 1)
chain = posix.fork()
if chain == 0:
    posix.setpgid(0, 0)
    posix.close(1)
    trees._stubborn_chain({folder!r})
trees.until((Path({folder!r}) / "chain").exists)
table.children, table.descendants, table.marked_processes = late, lambda *roots: set(), lambda marker: ()
guard.Guard(status=-1, holder=posix.getppid(), marker=b"NONE", grace=0.0).kill()
print(not children(), flush=True)
try:
    posix.killpg(chain, 9)
except ProcessLookupError:
    pass
"""


def test_a_chain_of_forks_ends_though_each_look_at_it_comes_too_late(tmp_path: Path) -> None:
    folders = {"beam": str(Path(guard.__file__).parent), "tests": str(Path(__file__).parents[1])}
    script = LATE.format(folder=str(tmp_path), **folders)
    done = subprocess.run([*PYTHON, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "True\n", done
    assert trees.is_gone(tmp_path)


def test_the_agent_may_use_its_grace(holder: Holder) -> None:
    script = "trap 'sleep 0.2; exit 9' TERM; echo ready; while :; do sleep 0.01; done"
    holder.start(["/bin/sh", "-c", script])
    assert holder.output_line() == "ready"
    holder.wish("end 600")
    code, said = holder.end()
    assert (code, said[2]) == (9, "exited 9 -")


def test_a_second_wish_shortens_the_grace(holder: Holder) -> None:
    holder.start(["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"])
    assert holder.output_line() == "ready"
    holder.wish("end 60")
    holder.wish("end 0")
    code, said = holder.end()
    assert (code, said[2]) == (137, "exited - 9")


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
    assert (code, said[2]) == (5, "exited 5 -")
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_the_lifeline_is_the_end_of_all(holder: Holder, tmp_path: Path) -> None:
    holder.start(agent("cleared-daemon", tmp_path, "stay"))
    assert holder.output_line() == "ready"
    holder.drop_lifeline()
    holder.end()
    assert trees.is_gone(tmp_path)


def test_an_agent_is_not_executed_before_it_is_let_go(holder: Holder, tmp_path: Path) -> None:
    holder.unstarted = os.fsencode(tmp_path / "unstarted")
    holder.start(["touch", str(tmp_path / "ran")], go=False)
    word, pid, _ = holder.said().split()
    assert word == "held"
    trees.until(lambda: "pipe" in Path(f"/proc/{pid}/wchan").read_text())  # it waits there
    holder.wish("go")
    assert holder.end()[1][:2] == ["running", "exited 0 -"]
    assert [path.name for path in tmp_path.iterdir()] == ["ran"]


@pytest.mark.parametrize("way", ["lifeline", "end", "signal", "kill"])
def test_an_agent_that_was_never_let_go_did_nothing_and_the_guard_leaves_word(
    way: str, holder: Holder, tmp_path: Path
) -> None:
    holder.unstarted = os.fsencode(tmp_path / "unstarted")
    holder.start(["touch", str(tmp_path / "ran")], go=False)
    pid = int(holder.said().split()[1])
    assert holder.process
    if way == "lifeline":
        holder.drop_lifeline()
    elif way == "end":
        holder.wish("end 60\ngo")  # in one write: after the first of them the guard may be gone
    elif way == "signal":
        os.kill(holder.process.pid, signal.SIGTERM)
    else:
        os.kill(pid, signal.SIGKILL)
    code, said = holder.end()
    assert (code, "running" in said, said[-1].split()[:3:2]) == (125, False, ["clean", "0"])
    assert [path.name for path in tmp_path.iterdir()] == ["unstarted"]


def test_an_exec_that_fails_leaves_word_that_nothing_was_started(holder: Holder, tmp_path: Path) -> None:
    holder.unstarted = os.fsencode(tmp_path / "unstarted")
    holder.start(["/no/such/program"])
    assert holder.end()[0] == 125
    assert [path.name for path in tmp_path.iterdir()] == ["unstarted"]


def test_a_pattern_that_names_beam_or_the_agent_does_not_find_the_guard(holder: Holder, tmp_path: Path) -> None:
    (tmp_path / "beam").mkdir()
    holder.start([sys.executable, "-c", "import signal; signal.pause()", "beam", str(tmp_path / "beam")])
    assert holder.said().startswith("held")
    assert holder.process
    cmdline = Path(f"/proc/{holder.process.pid}/cmdline")
    trees.until(lambda: b"guard.main" in cmdline.read_bytes())  # the kernel may show none for a moment
    words = cmdline.read_bytes().lower()
    assert not any(word in words for word in (b"beam", sys.executable.encode(), str(tmp_path).encode()))
    holder.wish("end 0")
    holder.end()


def test_an_exec_that_fails_is_said_with_its_errno(holder: Holder) -> None:
    holder.start(["/no/such/program"])
    code, said = holder.end()
    assert (code, said[1], said[2].split()[1:3]) == (125, "failed 2", ["0", "0"])


def test_a_program_is_looked_for_on_the_path_of_the_agent(holder: Holder) -> None:
    holder.start(["sh", "-c", "exit 4"])
    assert holder.end()[0] == 4


def test_a_program_that_is_nowhere_on_the_path_is_said_with_its_errno(holder: Holder) -> None:
    holder.start(["no-such-program"])
    code, said = holder.end()
    assert (code, said[1]) == (125, "failed 2")


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
        told = telling(["true"], lifeline=null.fileno(), status=1, holder=os.getpid())
        words, passed = guard.command(told), (null.fileno(), told)
        done = subprocess.run(words, executable=sys.executable, pass_fds=passed, capture_output=True, check=False)
        os.close(told)
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
    holder.start(["printenv", MARKER])
    assert holder.output_line() == "1"


def test_a_signal_to_the_process_group_of_the_agent_does_not_hit_the_guard(holder: Holder) -> None:
    holder.start(["sh", "-c", "kill -9 0"])
    code, said = holder.end()
    assert (code, said[2], said[3].split()[2]) == (137, "exited - 9", "0")


def test_a_forked_copy_of_the_lifeline_does_not_hide_the_death_of_the_holder(tmp_path: Path) -> None:
    lifeline, status = os.pipe(), os.pipe()
    script = (
        "import os, subprocess, sys, time\n"
        "passed = [int(word) for word in sys.argv[1:4]]\n"
        "told = os.pread(passed[2], 65536, 0).replace(b'HOLDER', b'%d' % os.getpid())\n"
        "os.pwrite(passed[2], told, 0), os.truncate(passed[2], len(told))\n"
        "subprocess.Popen(sys.argv[4:], executable=sys.executable, pass_fds=passed, start_new_session=True)\n"
        "time.sleep(600)"
    )
    argv = agent("cleared-daemon", tmp_path, "stay")
    told = telling(argv, lifeline=lifeline[0], status=status[1], holder="HOLDER", marker=MARKER.encode())
    passed = (lifeline[0], status[1], told)
    os.write(lifeline[1], b"go\n")
    try:
        words = [sys.executable, "-c", script, *map(str, passed), *guard.command(told)]
        process = subprocess.Popen(words, pass_fds=passed, stdout=subprocess.PIPE)
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        process.wait()
        trees.until(lambda: trees.is_gone(tmp_path))  # the test still holds the write end
        process.stdout.close()
    finally:
        for fd in (*lifeline, *status, told):
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
