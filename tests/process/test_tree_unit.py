"""How what a turn left is hunted down, without a process: what each look finds is played."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterable

import pytest

from beam.process import table, tree
from beam.process.table import Process


class Hunt:
    """Finds the processes of one list a look, whatever was killed before."""

    def __init__(self, looks: Iterable[set[Process]]) -> None:
        self.looks = [set(look) for look in looks]
        self.seen: set[Process] = set()
        self.signals: list[int] = []

    def let_guards_finish(self, until: float) -> None: ...

    def signal_all(self, number: int) -> set[Process]:
        self.signals.append(number)
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        self.seen |= found
        return found


def cleaned(
    monkeypatch: pytest.MonkeyPatch,
    *looks: set[Process],
    timeout: float = 5.0,
    pids: Iterable[int] = itertools.repeat(0),
) -> tuple[tree.CleanupResult, list[int]]:
    newest = iter(pids)
    hunt = Hunt(looks)
    now = iter(range(1000))
    monkeypatch.setattr(tree, "_Cleanup", lambda marker, roots: hunt)
    monkeypatch.setattr(tree.time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(tree.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(tree, "start_ticks", lambda pid: 1)
    monkeypatch.setattr(tree.table, "newest_pid", lambda: next(newest))
    return tree.end_processes("MARKER", [], timeout=timeout), hunt.signals


def test_where_nobody_knows_what_was_forked_a_tree_is_killed_until_five_looks_in_a_row_find_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = {(10, 1)}, {(10, 1), (11, 1)}
    missed = [set[Process]()] * 4  # of a chain of forks, whose links are gone a moment later
    found, signals = cleaned(monkeypatch, one, two, two, two, *missed, {(12, 1)}, *missed, set(), timeout=100.0)
    assert (found.ended, found.left) == (3, ())
    assert signals == [signal.SIGSTOP] * 3 + [signal.SIGKILL] * (1 + 4 + 1 + 5)


def test_looks_that_find_nothing_are_believed_if_no_process_was_created_during_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = set[Process]()
    looks = {(10, 1)}, {(10, 1)}, {(10, 1)}, nothing, nothing, {(11, 1)}, nothing
    # Before each look that kills, and after each of them that found nothing: one was created during the third.
    pids = (10, *(10, 10), *(10, 11), 11, *(12, 12), *(12, 12), *(12, 12))
    found, signals = cleaned(monkeypatch, *looks, timeout=100.0, pids=pids)
    assert (found.ended, found.left) == (2, ())
    assert signals.count(signal.SIGKILL) == 7


def test_where_processes_are_created_all_the_time_many_looks_that_find_nothing_are_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, signals = cleaned(monkeypatch, set(), timeout=1000.0, pids=itertools.count(10))
    assert signals.count(signal.SIGKILL) == tree.EMPTY_SCANS


def test_what_can_not_be_killed_in_time_is_left_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = cleaned(monkeypatch, {(11, 1), (10, 1), (12, 2)})
    assert (found.ended, found.left) == (1, (10, 11))


def test_a_tree_that_grows_for_ever_is_stopped_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    growing = [{(pid, 1)} for pid in range(100)]
    _, signals = cleaned(monkeypatch, *growing)
    assert signals.count(signal.SIGSTOP) == table.FREEZE_ROUNDS
