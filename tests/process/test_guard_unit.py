"""How the guard waits, and how it chases children that are born while it kills, without a process."""

from __future__ import annotations

import os
import signal
import time

import pytest

from beam.process import guard


class Played(guard.Guard):
    """A guard whose children die as this test says: `left` is what each look at the dead finds."""

    def __init__(self, *left: bool) -> None:
        self._group = 1
        self._left = list(left)

    def reap(self) -> bool:
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was killed: groups and processes. Process 7 is of the guard's own group."""
    found: list[tuple[str, int]] = []

    def kill(pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        if pid == 9:
            raise PermissionError
        found.append(("process", pid))

    monkeypatch.setattr(guard.table, "children", lambda: [7, 8, 9])
    monkeypatch.setattr(guard.posix, "getpgid", lambda pid: 1 if pid == 7 else pid * 10)
    monkeypatch.setattr(guard.posix, "killpg", lambda group, number: found.append(("group", group)))
    monkeypatch.setattr(guard.posix, "kill", kill)
    return found


def test_each_child_is_killed_with_its_group_once_and_never_the_guards_own(killed: list[tuple[str, int]]) -> None:
    assert Played(False, False, True)._kill_children() is True
    assert sorted(killed) == [("group", 80), ("group", 90), ("process", 7), ("process", 8)]


def test_without_a_child_the_chase_is_over_at_once(killed: list[tuple[str, int]]) -> None:
    assert Played(True)._kill_children() is True
    assert killed == []


def test_children_that_can_not_be_ended_do_not_hold_the_guard_up(
    killed: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(range(100))
    monkeypatch.setattr(guard.time, "monotonic", lambda: next(moments) * guard.CHASE_SECONDS)
    monkeypatch.setattr(guard.time, "sleep", lambda seconds: None)
    assert Played(False)._kill_children() is False
    assert next(moments) <= 4


class Waiting:
    """A guard that waits for two seconds at most, and records what it hears."""

    def __init__(self, report: int) -> None:
        self.exited = None
        self.grace = 9.0
        self.report = report
        self.deadline = time.monotonic() + 2.0
        self.heard: list[object] = []

    def reap(self) -> bool:
        return "over" in self.heard

    def on_command(self, line: bytes) -> None:
        self.heard += [line, "over"] if line == b"end 0" else [line]

    def on_signals(self, numbers: bytes) -> None:
        self.heard += [numbers, "over"]

    def report_exec_result(self) -> None:
        self.heard += ["report", "over"]

    def end(self, grace: float) -> None:
        self.heard += [grace, "over"]


@pytest.mark.parametrize(
    ("speaks", "data", "heard"),
    [
        ("lifeline", b"interrupt 2\nend 0\n", [b"interrupt 2", b"end 0", "over"]),
        ("lifeline", None, [guard.HOLDER_GRACE, "over"]),
        ("wakeup", b"\x02", [b"\x02", "over"]),
        ("holder", None, [guard.HOLDER_GRACE, "over"]),
        ("report", b"x", ["report", "over"]),
    ],
)
def test_the_guard_hears_its_holder_signals_and_the_report_of_the_start(
    speaks: str, data: bytes | None, heard: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {name: os.pipe() for name in ("lifeline", "wakeup", "holder", "report")}
    waiting = Waiting(ends["report"][0])
    if data is not None:
        os.write(ends[speaks][1], data)
    os.close(ends[speaks][1])
    guard._wait(
        waiting,  # type: ignore[arg-type]
        lifeline=ends["lifeline"][0],
        wakeup=ends["wakeup"][0],
        holder=ends["holder"][0],
    )
    assert waiting.heard[: len(heard)] == heard
    for name, (read, write) in ends.items():
        os.close(read)
        if name != speaks:
            os.close(write)
