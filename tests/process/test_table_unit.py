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
    assert list(table.marked_processes(b"MARK")) == [((10, 20), b"guard"), ((12, 24), b"1")]


@pytest.mark.parametrize(
    ("last", "pids"),
    [
        (b"0.1 0.2 0.3 1/78 40\n", [40, 12, 3, 1, 900, 41]),
        (b"0.1 0.2 0.3 1/78 950\n", [900, 41, 40, 12, 3, 1]),
        (b"", [900, 41, 40, 12, 3, 1]),
    ],
    ids=["wrapped", "not wrapped", "unknown"],
)
@pytest.mark.skipif(not table.LINUX, reason="of Linux")
def test_the_newest_processes_come_first_also_after_their_numbers_wrapped(
    last: bytes, pids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table.posix, "listdir", lambda _: ["1", "3", "self", "12", "40", "41", "900"])
    monkeypatch.setattr(table, "read_file", lambda path: last if path == "/proc/loadavg" else b"")
    assert table.pids() == pids
