"""What is asked of the kernel, and read of it, without a process: Landlock's rules, /proc, and the way to a folder."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam.process import landlock, program, table
from beam.process.links import LinkSearch, find_links_into

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


# -- Landlock ----------------------------------------------------------------------------------------------------------

WRITE_FILE, REFER, TRUNCATE = 2, 0x2000, 0x4000
FOLDER_1, FOLDER_2, FOLDER_3 = 0x1FF0 | WRITE_FILE, 0x1FF0 | WRITE_FILE | REFER, 0x1FF0 | WRITE_FILE | REFER | TRUNCATE


@pytest.mark.parametrize(
    ("version", "rights"), [(1, FOLDER_1), (2, FOLDER_2), (3, FOLDER_3), (4, FOLDER_3), (5, FOLDER_3)]
)
def test_each_version_of_landlock_withholds_what_it_knows(version: int, rights: int) -> None:
    assert landlock.rights(version) == rights


@pytest.mark.parametrize(
    ("protected", "allowed"), [([], []), ([b"/a b", b"/\xff"], [b"/a b/-c"]), ([b"/x"], []), ([], [b"/+"])]
)
def test_what_is_carried_to_the_guard_is_read_again(protected: list[bytes], allowed: list[bytes]) -> None:
    carried = landlock.encode_paths(protected, allowed)
    assert landlock.decode_paths(carried) == (protected, allowed)
    assert b" /" not in carried and b"\0" not in carried


class Kernel:
    """Landlock's system calls: what each is asked, and what each says."""

    def __init__(self, **says: int) -> None:
        self.says = {"create": 50, "add": 0, "restrict": 0, "prctl": 0, **says}
        self.rules: list[tuple[str, int]] = []
        self.asked: list[tuple[Any, ...]] = []
        self.closed: list[int] = []

    def libc(self, name: bytes) -> Callable[..., int]:
        return self.prctl if name == b"prctl" else self.syscall

    def prctl(self, *arguments: int) -> int:
        self.asked.append(("prctl", *arguments))
        return self.says["prctl"]

    def syscall(self, number: int, *arguments: Any) -> int:
        if number == 444:
            self.asked.append(("create", *arguments))
            return self.says["create"]
        if number == 445:
            rules, kind, rule, flags = arguments
            assert (rules, kind, flags, len(rule)) == (self.says["create"], 1, 0, 12)
            granted, fd = int.from_bytes(rule[:8], sys.byteorder), int.from_bytes(rule[8:], sys.byteorder)
            self.rules.append((str(Path(f"/proc/self/fd/{fd}").readlink()), granted))
            return self.says["add"]
        assert number == 446
        self.asked.append(("restrict", *arguments))
        return self.says["restrict"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a protected folder, one inside it that is allowed, and what lies beside the way to it."""
    home = tmp_path / "home"
    for folder in ("state/beam/agents", "state/other", "cache"):
        (home / folder).mkdir(parents=True)
    (home / "state/file").touch()
    (home / "link").symlink_to("cache")
    return home


def confined(kernel: Kernel, home: Path, monkeypatch: pytest.MonkeyPatch, version: int = 3) -> dict[str, int]:
    """The rules below that home."""
    close = landlock.posix.close
    monkeypatch.setattr(landlock.table, "libc", kernel.libc)
    monkeypatch.setattr(landlock.table, "LINUX", True)
    monkeypatch.setattr(
        landlock.posix, "close", lambda fd: kernel.closed.append(fd) if fd == kernel.says["create"] else close(fd)
    )
    protected, allowed = bytes(home / "state/beam"), [bytes(home / "state/beam/agents")]
    landlock.confine([protected], allowed, version)
    return {path.removeprefix(f"{home}/"): granted for path, granted in kernel.rules if path.startswith(f"{home}/")}


@pytest.mark.slow
@linux
def test_all_beside_the_way_to_a_protected_folder_stays_open_and_the_way_is_closed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(create=3333)
    assert confined(kernel, home, monkeypatch) == {
        "cache": FOLDER_3,
        "state/other": FOLDER_3,
        "state/file": WRITE_FILE | TRUNCATE,
        "state/beam/agents": FOLDER_3,
    }
    ways = {path for path, _ in kernel.rules}
    assert not ways & {"/", str(home), str(home.parent), str(home / "state"), str(home / "state/beam")}
    rights = FOLDER_3.to_bytes(8, sys.byteorder)
    assert kernel.asked == [("create", rights, 8, 0), ("prctl", 38, 1, 0, 0, 0), ("restrict", 3333, 0)]
    assert kernel.closed == [3333]


@linux
def test_with_the_first_version_files_are_not_kept_from_being_cut(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = confined(Kernel(create=3333), home, monkeypatch, version=1)
    assert found["state/file"] == WRITE_FILE and found["cache"] == FOLDER_1


@linux
@pytest.mark.parametrize(
    ("says", "number", "text"),
    [
        ({"create": -1}, errno.ENOSYS, "this kernel gives no Landlock"),
        ({"create": 3333, "add": -1}, errno.ENOENT, "what was allowed is not there"),
        ({"create": 3333, "prctl": -1}, errno.EPERM, "Landlock was refused"),
        ({"create": 3333, "restrict": -1}, errno.EPERM, "Landlock was refused"),
    ],
)
def test_what_the_kernel_refuses_is_an_error(
    says: dict[str, int], number: int, text: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(**says)
    with pytest.raises(OSError, match=text) as refused:
        confined(kernel, home, monkeypatch)
    assert refused.value.errno == number
    assert kernel.closed == ([3333] if "create" in says and says["create"] > 0 else [])


@linux
def test_a_confinement_that_failed_is_told_apart_from_an_exec_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock.table, "libc", Kernel(create=-1).libc)
    with pytest.raises(OSError, match="could not be confined") as refused:
        landlock.confine_encoded(landlock.encode_paths([b"/nowhere"], []), 1)
    assert refused.value.errno == errno.ENOSYS + landlock.ERRNO_OFFSET


@pytest.mark.parametrize(
    ("is_linux", "machine", "says", "version"),
    [
        (True, "x86_64", 5, 5),
        (True, "x86_64", -1, 0),
        (True, "alpha", 5, 0),
        (True, "mips64", 5, 0),
        (False, "x", 5, 0),
    ],
)
def test_the_version_is_what_the_kernel_says_where_its_calls_are_known(
    is_linux: bool, machine: str, says: int, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(create=says)
    monkeypatch.setattr(landlock.table, "libc", kernel.libc)
    monkeypatch.setattr(landlock.table, "LINUX", is_linux)
    monkeypatch.setattr(landlock.posix, "uname", lambda: type("U", (), {"machine": machine}))
    assert landlock.abi() == version
    assert kernel.asked == ([("create", 0, 0, 1)] if machine == "x86_64" else [])


def test_the_way_to_a_folder_goes_by_its_links_and_ends_at_its_real_place(tmp_path: Path) -> None:
    base = bytes(tmp_path.resolve())
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/link").symlink_to("../real")
    (tmp_path / "a/whole").symlink_to(tmp_path / "real")
    (tmp_path / "a/ring").symlink_to("ring")
    for name in (b"a/link/deep/x", b"a/./link//deep/../deep/x", b"a/whole/deep/x"):
        folders, ends = landlock.folders_leading_to([base + b"/" + name])
        assert ends == {base + b"/real/deep/x"}
        assert {base, base + b"/a", base + b"/real", base + b"/real/deep", b"/"} <= folders
    assert landlock.folders_leading_to([b"/", b"/.."]) == (set(), {b"/"})
    folders, ends = landlock.folders_leading_to([base + b"/real", base + b"/real/deep/x"])
    assert base + b"/real" not in folders and base + b"/real/deep" not in folders
    with pytest.raises(OSError, match="too many links"):
        landlock.folders_leading_to([base + b"/a/ring"])


# -- /proc -------------------------------------------------------------------------------------------------------------


def stat_line(parent: int, session: int, start: int, state: str = "S", threads: int = 1) -> bytes:
    fields = [state, parent, 2, session, *range(13), threads, 0, start]
    return f"7 (a ) b) {' '.join(map(str, fields))}".encode()


PROC = {
    "/proc/1/stat": stat_line(0, 1, 10),
    "/proc/7/stat": stat_line(1, 7, 70),
    "/proc/8/stat": stat_line(7, 7, 80, "Z"),
    "/proc/9/stat": stat_line(8, 9, 90),
    "/proc/10/stat": stat_line(7, 7, 100, "Z", threads=2),
    "/proc/11/stat": stat_line(7, 7, 110, "X"),
    "/proc/12/stat": b"12 (x) S 7 1",
    "/proc/13/stat": stat_line(1, 13, 130),
    "/proc/7/environ": b"A=1\0MARK=guard\0B=",
    "/proc/9/environ": b"MARK=1",
    "/proc/13/environ": b"XMARK=1\0MARKX=2",
}


@pytest.fixture
def proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process table above."""
    names = [path.split("/")[2] for path in PROC if path.endswith("/stat")]
    monkeypatch.setattr(table, "LINUX", True)
    monkeypatch.setattr(table, "read_file", lambda path: PROC.get(path, b""))
    monkeypatch.setattr(table.posix, "listdir", lambda path: [*names, "self", "meminfo"])
    monkeypatch.setattr(table.posix, "getpid", lambda: 9)


@pytest.mark.parametrize(
    ("pid", "row"),
    [
        (1, (0, 1, 10, True)),
        (7, (1, 7, 70, True)),
        (8, (7, 7, 80, False)),
        (10, (7, 7, 100, True)),
        (11, (7, 7, 110, False)),
        (12, None),
        (99, None),
    ],
)
def test_a_row_of_the_table_is_read_whatever_the_programs_name(
    proc: None, pid: int, row: tuple[int, int, int, bool] | None
) -> None:
    assert table.stat_of(pid) == row


def test_the_newest_are_first_and_those_below_a_process_are_found_through_zombies(proc: None) -> None:
    assert table.pids() == [13, 12, 11, 10, 9, 8, 7, 1]
    assert table.descendants(7) == {(9, 90), (10, 100)}
    assert table.descendants(1) == {(7, 70), (9, 90), (10, 100), (13, 130)}
    assert table.descendants(13) == table.descendants(99) == set()


def test_the_environments_above_are_the_nearest_first_up_to_the_first_process(proc: None) -> None:
    assert list(table.ancestor_environments(5)) == [[b""], [b"A=1", b"MARK=guard", b"B="]]
    assert list(table.ancestor_environments(1)) == [[b""]]
    assert list(table.ancestor_environments(0)) == []


@pytest.mark.parametrize(("pid", "value"), [(7, b"guard"), (9, b"1"), (13, None), (99, None)])
def test_a_marker_is_a_variable_of_just_that_name(proc: None, pid: int, value: bytes | None) -> None:
    assert table.marker_of(pid, b"MARK") == value


@linux
def test_a_file_is_read_whole_and_one_that_is_not_there_is_empty(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 200_000)
    assert table.read_file(str(tmp_path / "large")) == b"x" * 200_000
    assert table.read_file(str(tmp_path / "none")) == table.read_file(str(tmp_path)) == b""


# -- programs and links ------------------------------------------------------------------------------------------------


def test_a_program_is_looked_for_in_the_folders_of_its_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin/tool"
    tool.write_text("#!/bin/sh\n")
    env = {"PATH": f"/nowhere:{tmp_path}/bin"}
    if os.getuid():
        with pytest.raises(PermissionError):
            program.check_executable("tool", env=env, cwd="/")
    tool.chmod(0o755)
    program.check_executable("tool", env=env, cwd="/")
    program.check_executable(str(tool), env={"PATH": ""}, cwd="/")
    program.check_executable("./bin/tool", env={"PATH": ""}, cwd=str(tmp_path))
    for name in ("other", "./tool", str(tmp_path / "other")):
        with pytest.raises(FileNotFoundError):
            program.check_executable(name, env=env, cwd=str(tmp_path))


def test_the_search_for_links_tells_all_that_it_found(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "link").symlink_to(tmp_path / "state")
    (tree / "deep/link").symlink_to(tmp_path / "state/x")
    (tree / "other").symlink_to(tmp_path / "beside")
    (tree / "file").touch()
    found = find_links_into([str(tmp_path / "state")], str(tree), now=lambda: 0.0)
    assert found == LinkSearch(links=(str(tree / "link"), str(tree / "deep/link")), entries=5)
    assert find_links_into([str(tmp_path / "state")], str(tree), entries=4).skipped == (str(tree), str(tree / "deep"))
    assert find_links_into([str(tmp_path / "state")], str(tree), entries=0).skipped == (str(tree),)
