"""Which processes carry a variable, with a table of processes that is played."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from beam.process import table

OWNERS = {1: 0, 10: 1000, 11: 1000, 12: 1000, 13: 1000}  # pid -> user; 14 is gone
VALUES = {1: b"guard", 10: b"guard", 11: None, 12: b"1", 13: b"1"}


def test_only_living_processes_of_this_user_that_carry_the_variable_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def stat(path: str) -> SimpleNamespace:
        return SimpleNamespace(st_uid=OWNERS[int(path.removeprefix("/proc/"))])

    def owned(path: str) -> SimpleNamespace:
        if path == "/proc/14":
            raise FileNotFoundError
        return stat(path)

    monkeypatch.setattr(table, "LINUX", True)
    monkeypatch.setattr(table, "pids", lambda: [1, 10, 11, 12, 13, 14])
    monkeypatch.setattr(table, "marker_of", lambda pid, name: VALUES[pid] if name == b"MARK" else None)
    monkeypatch.setattr(table, "stat_of", lambda pid: ("x", 1, pid * 2, pid != 13))  # 13 is a zombie
    monkeypatch.setattr(table.posix, "stat", owned)
    monkeypatch.setattr(table.posix, "getuid", lambda: 1000)
    assert list(table.marked(b"MARK")) == [((10, 20), b"guard"), ((12, 24), b"1")]
