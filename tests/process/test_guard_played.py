"""The guard with a kernel that is played: what it says to its holder, whom it signals, when it kills; why a program was
not started; whom a clean-up hits."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.base.errors import BeamError, DiskError
from beam.model.events import Owner
from beam.process import guard, landlock, program, table, tree
from beam.process.table import Process

ME, HOLDER, AGENT = 50, 40, 60


class Kernel:
    """The calls that a guard makes, and what they say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.sent: list[tuple[int, str]] = []
        self.written: list[tuple[int, bytes]] = []
        self.parent = HOLDER
        self.dead: list[tuple[int, int]] = []
        self.childless = True
        self.marked: set[Process] = set()
        self.below: set[Process] = set()
        self.report = b""
        self.now = 100.0
        monkeypatch.setattr(guard.posix, "getppid", lambda: self.parent)
        monkeypatch.setattr(guard.posix, "getpid", lambda: ME)
        monkeypatch.setattr(guard.posix, "write", self._write)
        monkeypatch.setattr(guard.posix, "read", lambda fd, size: self.report)
        monkeypatch.setattr(guard.posix, "waitpid", self._waitpid)
        monkeypatch.setattr(guard.posix, "kill", self._kill)
        monkeypatch.setattr(guard.select, "select", lambda *given: ([1] if self.report or given[3] > 5 else [], [], []))
        monkeypatch.setattr(guard.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(guard.time, "sleep", self._sleep)
        monkeypatch.setattr(table, "LINUX", True)
        monkeypatch.setattr(
            table, "marked_processes", lambda name: [(process, b"1") for process in sorted(self.marked)]
        )
        monkeypatch.setattr(table, "descendants", lambda *roots: set(self.below) if ME in roots else set())
        monkeypatch.setattr(table, "send_signal", lambda process, number: self._kill(process[0], number))
        self.refuses = False

    def _write(self, fd: int, data: bytes) -> int:
        if self.refuses:
            raise BrokenPipeError
        self.written.append((fd, data))
        return len(data)

    def _waitpid(self, pid: int, options: int) -> tuple[int, int]:
        assert (pid, options) == (-1, os.WNOHANG)
        if self.dead:
            return self.dead.pop(0)
        if self.childless:
            raise ChildProcessError
        return 0, 0

    def _kill(self, pid: int, number: int) -> None:
        if pid == 99:
            raise PermissionError
        self.sent.append((pid, signal.Signals(number).name))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def made(kernel: Kernel, *, went: bool = False) -> guard.Guard:
    """A guard of an agent that is held, or runs."""
    one = guard.Guard(status=7, holder=HOLDER, marker=b"MARK", grace=9.0)
    one.agent, one._gate, one.report, one.on_terminal = AGENT, 8, 9, False
    one.is_released = one._has_heard = went
    return one


def said(kernel: Kernel) -> list[str]:
    return [data.decode() for fd, data in kernel.written if fd == 7]


def test_what_it_says_is_a_line_and_a_holder_that_is_gone_is_no_error(kernel: Kernel) -> None:
    one = made(kernel)
    assert (one.holder, one.marker, one.grace, one.me, one.deadline) == (HOLDER, b"MARK", 9.0, ME, None)
    one.send_status_line("hello")
    kernel.refuses = True
    one.send_status_line("nobody")
    assert kernel.written == [(7, b"hello\n")]


@pytest.mark.parametrize(
    ("parent", "deadline", "went", "refuses", "goes"),
    [
        (HOLDER, None, False, False, True),
        (1, None, False, False, False),
        (HOLDER, 5.0, False, False, False),
        (HOLDER, None, True, False, False),
        (HOLDER, None, False, True, False),
    ],
)
def test_the_agent_goes_once_while_its_holder_lives_and_wants_no_end(
    kernel: Kernel, parent: int, deadline: float | None, went: bool, refuses: bool, goes: bool
) -> None:
    one = made(kernel, went=went)
    kernel.parent, kernel.refuses, one.deadline = parent, refuses, deadline
    one.on_command(b"go")
    assert kernel.written == ([(8, b"g")] if goes else [])
    assert one.is_released == (goes or went)


@pytest.mark.parametrize(("report", "line", "went"), [(b"", "running\n", True), (b"2", "failed 2\n", False)])
def test_the_result_of_the_exec_is_reported_once(kernel: Kernel, report: bytes, line: str, went: bool) -> None:
    one = made(kernel)
    one.report_exec_result()
    assert said(kernel) == []
    one.is_released = True
    kernel.report = report
    one.report_exec_result()
    one.report_exec_result()
    assert (said(kernel), one.is_released) == ([line], went)


def test_an_exec_under_way_is_waited_for_as_long_as_is_said(kernel: Kernel) -> None:
    one = made(kernel)
    one.is_released = True
    one.report_exec_result(1.0)
    assert said(kernel) == []
    one.report_exec_result(9.0)
    assert said(kernel) == ["running\n"]


@pytest.mark.parametrize(
    ("status", "line"), [(0, "exited 0 -\n"), (3 << 8, "exited 3 -\n"), (9, "exited - 9\n"), (15, "exited - 15\n")]
)
def test_the_agents_end_is_reported_once_with_its_code_or_signal(kernel: Kernel, status: int, line: str) -> None:
    one = made(kernel, went=True)
    kernel.dead = [(70, 9), (AGENT, status), (AGENT, 0)]
    assert one.reap() is True
    assert (said(kernel), one.exited, one.swept) == ([line], status, set())
    kernel.childless = False
    assert one.reap() is False


def test_an_agent_whose_exec_failed_has_no_end_that_is_reported(kernel: Kernel) -> None:
    one = made(kernel)
    one.is_released, kernel.report, kernel.dead = True, b"13", [(AGENT, 127 << 8)]
    one.reap()
    assert said(kernel) == ["failed 13\n"]


def test_what_dies_by_a_signal_while_it_sweeps_was_swept(kernel: Kernel) -> None:
    one = made(kernel, went=True)
    one.sweeping = True
    kernel.dead = [(70, 9), (71, 0), (72, 15), (AGENT, 9)]
    one.reap()
    assert one.swept == {70, 72}


def test_only_the_agent_is_interrupted_and_only_while_it_lives(kernel: Kernel) -> None:
    one = made(kernel, went=True)
    one.on_command(b"interrupt 15")
    one.on_signals(bytes([signal.SIGINT, signal.SIGWINCH]))
    one.on_terminal = True
    one.on_signals(bytes([signal.SIGINT]))
    one.agent = 99
    one.interrupt(2)
    one.agent, one.exited = AGENT, 0
    one.on_command(b"interrupt 2")
    assert kernel.sent == [(AGENT, "SIGTERM"), (AGENT, "SIGINT")]


def test_an_end_asks_all_of_the_tree_once_and_a_later_one_only_shortens_the_time(kernel: Kernel) -> None:
    one = made(kernel, went=True)
    kernel.below, kernel.marked = {(AGENT, 1), (61, 1), (HOLDER, 1)}, {(ME, 1), (62, 1)}
    one.on_command(b"end 3")
    assert sorted(kernel.sent) == sorted((pid, name) for pid in (AGENT, 61, 62) for name in ("SIGTERM", "SIGCONT"))
    assert (one.deadline, one.swept) == (103.0, {61, 62})
    kernel.sent.clear()
    for grace, deadline in ((9.0, 103.0), (1.0, 101.0), (0.0, 100.0)):
        one.end(grace)
        assert one.deadline == deadline
    assert kernel.sent == []


@pytest.mark.parametrize(("went", "grace", "deadline"), [(True, 0.0, 100.0), (False, 5.0, 100.0)])
def test_an_end_without_grace_or_before_the_agent_went_asks_nobody(
    kernel: Kernel, went: bool, grace: float, deadline: float
) -> None:
    one = made(kernel, went=went)
    kernel.below = {(AGENT, 1)}
    one.end(grace)
    assert (kernel.sent, one.deadline) == ([], deadline)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_guard_that_is_told_to_end_ends_all_with_its_usual_grace(kernel: Kernel, number: int) -> None:
    one = made(kernel, went=True)
    one.on_signals(bytes([number]))
    assert one.deadline == 109.0


def test_who_has_no_child_is_looked_for_by_the_marker_alone(kernel: Kernel) -> None:
    one = made(kernel, went=True)
    kernel.below, kernel.marked = {(61, 1)}, {(62, 1)}
    assert one.targets(childless=True) == {(62, 1)}
    assert one.targets(childless=False) == {(61, 1), (62, 1)}
    assert one.swept == {61, 62}


def test_all_are_stopped_then_killed_until_two_looks_find_nothing(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made(kernel, went=True)
    looks = [{(61, 1)}, {(61, 1), (62, 1)}, {(61, 1), (62, 1)}, {(62, 1)}, set(), set()]
    monkeypatch.setattr(one, "targets", lambda *, childless: looks.pop(0))
    assert one.kill() == 0
    assert looks == [] and one.sweeping
    stopped = [pid for pid, name in kernel.sent if name == "SIGSTOP"]
    killed = [pid for pid, name in kernel.sent if name == "SIGKILL"]
    assert (stopped, sorted(killed)) == ([61, 62], [61, 62, 62])


@pytest.mark.slow
def test_what_can_not_be_killed_within_five_seconds_is_counted(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(kernel, went=True)
    monkeypatch.setattr(one, "targets", lambda *, childless: {(61, 1), (62, 1)})
    assert one.kill() == 2
    assert 105.0 < kernel.now < 105.1


def test_the_guards_instructions_are_read_as_they_were_told(kernel: Kernel) -> None:
    told = guard.encode_instructions(
        [b"agent", b"-x"], lifeline=3, status=4, holder=5, marker=b"M", grace=1.5, unstarted=b"/u", confined=b"c"
    )
    assert told.split(b"\0")[1:] == [b"3", b"4", b"5", b"M", b"1.5", b"/u", b"c", b"agent", b"-x"]
    with pytest.raises(ValueError, match="embedded null byte"):
        guard.encode_instructions([b"a\0b"], lifeline=3, status=4, holder=5, marker=b"M", grace=1.5)
    assert guard.command(6)[1:4] == ["-I", "-S", "-c"] and guard.command(6)[-1] == "6"


def test_the_word_that_an_agent_was_never_started_is_left_once_and_only_where_it_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "unstarted"
    guard._create_unstarted_file(b"")
    for _ in range(2):
        guard._create_unstarted_file(bytes(file))
    guard._create_unstarted_file(bytes(tmp_path / "none/file"))
    assert [path.name for path in tmp_path.iterdir()] == ["unstarted"]
    assert file.stat().st_mode & 0o777 == 0o600


# -- why a program was not started -------------------------------------------------------------------------------------

UNPROTECTED = "beam's own files could not be protected from it"
MISSING = "install it, or give its path"
REASONS: list[tuple[int, str, str]] = [
    (errno.EAGAIN, "ShortageError prog can't be started now: Resource temporarily unavailable", ""),
    (errno.ENOENT, "NotFoundError prog was not found not_installed", MISSING),
    (
        errno.E2BIG,
        "BeamError the arguments and environment of prog are too long for this system exec",
        "send a shorter text, or use an agent that reads its prompt from stdin",
    ),
    (errno.ENOEXEC, "BeamError prog is not a program for this machine exec", "check that its first line is `#!…`"),
    (errno.EACCES, "BeamError prog may not be executed exec", "chmod +x prog"),
    (errno.EPERM, "BeamError prog may not be executed exec", "chmod +x prog"),
    (errno.EIO, "BeamError prog could not be started: Input/output error exec", ""),
    (
        errno.ENOSYS + landlock.ERRNO_OFFSET,
        f"BeamError prog was not started: {UNPROTECTED} (Function not implemented) confinement",
        "`beam doctor` shows what this system supports",
    ),
]


def told(error: BeamError) -> tuple[str, str]:
    kind = f" {error.kind}" if error.kind else ""
    return f"{type(error).__name__} {error.message}{kind}", error.hint or ""


@pytest.mark.parametrize(("number", "text", "hint"), REASONS)
def test_each_reason_is_reported_with_what_to_do(number: int, text: str, hint: str) -> None:
    error = program.start_error(OSError(number, "x"), "prog", env={"PATH": "/nowhere"}, cwd="/")
    seen, advice = told(error)
    assert (seen.removesuffix(" shortage"), advice, error.subject) == (text, hint, "prog")


def test_other_reasons_are_reported_too(tmp_path: Path) -> None:
    error = program.start_error(OSError(errno.ENOENT, "x"), "prog", env={}, cwd=f"{tmp_path}/none")
    assert told(error)[0].startswith(f"ConfigError the folder {tmp_path}/none does not exist")
    assert (error.hint, error.subject) == ("create it, or set another `cwd:`", f"{tmp_path}/none")
    tool = tmp_path / "tool"
    tool.write_text("#!/nowhere/interpreter\n")
    tool.chmod(0o755)
    error = program.start_error(OSError(errno.ENOENT, "x"), "tool", env={"PATH": str(tmp_path)}, cwd="/")
    assert told(error) == (
        "NotFoundError tool needs an interpreter that does not exist here not_installed",
        "install it",
    )
    assert told(program.start_error(ValueError("a null byte"), "p", env={}, cwd="/")) == (
        "BeamError p could not be started: a null byte exec",
        "",
    )
    disk = DiskError("can't write")
    assert program.start_error(disk, "p", env={}, cwd="/") is disk
    disk.__cause__ = OSError(errno.EMFILE, "x")
    assert type(program.start_error(disk, "p", env={}, cwd="/")).__name__ == "ShortageError"


# -- signals that reach no other process -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "opens", "signals", "sent"),
    [
        (5, 0, None, True),
        (6, 0, None, False),
        (5, errno.ESRCH, None, False),
        (5, errno.ENOSYS, None, True),
        (5, 0, ProcessLookupError, False),
    ],
)
def test_a_signal_reaches_the_process_that_began_then_or_none(
    start: int, opens: int, signals: type[OSError] | None, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int, int]] = []
    closed: list[int] = []

    def opened(pid: int) -> int:
        if opens:
            raise OSError(opens, "x")
        return 3

    def hit(how: str) -> Callable[[int, int], None]:
        def call(target: int, number: int) -> None:
            if signals is not None:
                raise signals
            calls.append((how, target, number))

        return call

    monkeypatch.setattr(table, "stat_of", lambda pid: (1, 1, 5, True))
    monkeypatch.setattr(table.posix, "pidfd_open", opened)
    monkeypatch.setattr(table.posix, "close", closed.append)
    monkeypatch.setattr(table.posix, "kill", hit("pid"))
    monkeypatch.setattr(table, "_signal", SimpleNamespace(pidfd_send_signal=hit("fd")))
    assert table.send_signal((7, start), 9) is sent
    assert closed == ([] if opens else [3])
    assert calls == ([("pid", 7, 9) if opens else ("fd", 3, 9)] if sent else [])
    monkeypatch.setattr(table, "stat_of", lambda pid: None)
    assert table.send_signal((7, start), 9) is False


OWNER = Owner(pid=7, start_ticks=5, boot_id="b", pid_namespace="n", host="h")


@pytest.mark.parametrize(
    ("changes", "alive"),
    [
        ({}, True),
        ({"start_ticks": 6}, False),
        ({"host": "another"}, True),
        ({"boot_id": "c"}, False),
        ({"boot_id": "c", "host": "another"}, None),
        ({"boot_id": ""}, True),
        ({"boot_id": "", "host": "another"}, None),
        ({"pid_namespace": "m"}, None),
    ],
)
def test_a_process_is_known_to_live_on_this_host_and_in_this_namespace(
    changes: dict[str, Any], alive: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msgspec import structs

    monkeypatch.setattr(tree, "_boot_id", lambda: "b")
    monkeypatch.setattr(tree, "_pid_namespace", lambda: "n")
    monkeypatch.setattr(tree.os, "uname", lambda: SimpleNamespace(nodename="h"))
    monkeypatch.setattr(tree, "start_ticks", lambda pid: 5 if pid == 7 else None)
    assert tree.is_alive(structs.replace(OWNER, **changes)) is alive


@pytest.mark.parametrize(("row", "ticks"), [((1, 1, 5, True), 5), ((1, 1, 5, False), None), (None, None)])
def test_a_zombie_has_no_start(row: Any, ticks: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "stat_of", lambda pid: row)
    assert tree.start_ticks(7) == ticks


def test_a_strike_hits_the_marked_the_recorded_and_all_below_but_none_above(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[Process, int]] = []
    monkeypatch.setattr(tree, "_self_and_ancestors", lambda: {1, 2})
    monkeypatch.setattr(
        table, "marked_processes", lambda name: [((2, 1), b"1"), ((10, 1), b"1"), ((11, 1), table.GUARD_VALUE)]
    )
    monkeypatch.setattr(table, "descendants", lambda *roots: {(13, 1), (1, 1)} if set(roots) >= {10, 12} else set())
    monkeypatch.setattr(table, "send_signal", lambda process, number: sent.append((process, number)))
    monkeypatch.setattr(tree, "start_ticks", lambda pid: {12: 1, 14: 2}.get(pid))
    hunt = tree._Cleanup(b"M", {(12, 1), (14, 1)})
    found = {(10, 1), (11, 1), (12, 1), (13, 1)}
    assert hunt.signal_all(9) == found == hunt.seen
    assert sorted(sent) == [(process, 9) for process in sorted(found)]


def test_guards_are_woken_and_told_to_end_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [[((11, 1), table.GUARD_VALUE), ((10, 1), b"1")], [((11, 1), table.GUARD_VALUE)], []]
    sent: list[tuple[Process, int]] = []
    monkeypatch.setattr(tree, "_self_and_ancestors", lambda: {1})
    monkeypatch.setattr(table, "marked_processes", lambda name: looks.pop(0))
    monkeypatch.setattr(table, "send_signal", lambda process, number: sent.append((process, number)))
    monkeypatch.setattr(tree.time, "sleep", lambda seconds: None)
    hunt = tree._Cleanup(b"M", set())
    hunt.let_guards_finish(until=time.monotonic() + 60)
    assert (looks, hunt.seen) == ([], {(11, 1)})
    assert sent == [((11, 1), table.SIGTERM), ((11, 1), table.SIGCONT)]


ROWS = {
    10: (1, 9, 100, True),  # adopted
    11: (1, 9, 100, False),  # adopted, and dead
    12: (1, 5, 100, True),  # of the own session
    13: (1, 9, 99, True),  # older than the guard
    14: (1, 9, 100, True),  # spared
    15: None,
}


def test_orphans_are_the_children_in_other_sessions_since_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[Any] = []
    looks = [list(ROWS), [], []]
    monkeypatch.setattr(tree, "_subreaper", True)
    monkeypatch.setattr(tree, "spared_pids", {14})
    monkeypatch.setattr(table, "children", lambda: looks.pop(0))
    monkeypatch.setattr(table, "stat_of", ROWS.get)
    monkeypatch.setattr(table, "send_signal", lambda process, number: killed.append((process, number)))
    monkeypatch.setattr(tree.os, "getsid", lambda pid: 5)
    monkeypatch.setattr(tree.os, "getpgid", lambda pid: pid * 10)
    monkeypatch.setattr(tree.os, "killpg", lambda group, number: killed.append(group))
    monkeypatch.setattr(tree.os, "waitpid", lambda pid, options: killed.append(f"reaped {pid}"))
    monkeypatch.setattr(tree.time, "sleep", lambda seconds: None)
    assert tree.end_orphans(since=100) == tree.CleanupResult(ended=1, left=())
    assert killed == [100, ((10, 100), table.SIGKILL), "reaped 10", 110, "reaped 11"]
    monkeypatch.setattr(tree, "_subreaper", False)
    assert tree.end_orphans(since=0) == tree.CleanupResult()
