from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from beam.process import table
from tests.process import trees


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], env={"PATH": "/usr/bin:/bin", "BEAM_TURN_tabletest": "1", "EMPTY": ""})
    yield process
    process.kill()
    process.wait()


def start_of(pid: int) -> int:
    row = table.stat_of(pid)
    assert row
    return row[2]


@pytest.mark.slow
def test_a_process_has_a_parent_a_session_and_a_start(sleeper: subprocess.Popen[bytes]) -> None:
    row = table.stat_of(sleeper.pid)
    assert row
    assert (row[0], row[1], row[3]) == (os.getpid(), os.getsid(0), True)
    assert start_of(os.getpid()) <= row[2]


@pytest.mark.slow
def test_a_name_with_brackets_and_blanks_does_not_confuse(tmp_path_factory: pytest.TempPathFactory) -> None:
    program = tmp_path_factory.mktemp("odd") / "a) Z 1 ("
    program.symlink_to(sys.executable)
    process = subprocess.Popen([program, "-S", "-c", "import time; time.sleep(600)"])
    try:
        row = table.stat_of(process.pid)
        assert row
        assert (row[0], row[3]) == (os.getpid(), True)
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_zombie_is_not_alive_and_a_gone_process_is_nothing(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    trees.until(lambda: (row := table.stat_of(sleeper.pid)) and not row[3])
    sleeper.wait()
    assert table.stat_of(sleeper.pid) is None


@pytest.mark.slow
def test_a_process_whose_first_thread_ended_is_alive() -> None:
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "print('ready', flush=True)\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"
    )
    if os.uname().machine != "x86_64":
        code = code.replace("syscall(60", "syscall(93")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout
    try:
        assert process.stdout.readline() == b"ready\n"
        trees.until(lambda: b") Z " in table.read_file(f"/proc/{process.pid}/stat"))
        row = table.stat_of(process.pid)
        assert row
        assert row[3]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
def test_the_marker_is_found_by_its_whole_name(sleeper: subprocess.Popen[bytes]) -> None:
    trees.until(lambda: table.marker_of(sleeper.pid, b"BEAM_TURN_tabletest") == b"1")
    assert table.marker_of(sleeper.pid, b"EMPTY") == b""
    assert table.marker_of(sleeper.pid, b"TURN_tabletest") is None
    assert table.marker_of(sleeper.pid, b"BEAM_TURN_table") is None
    assert list(table.marked_processes(b"BEAM_TURN_tabletest")) == [((sleeper.pid, start_of(sleeper.pid)), b"1")]


@pytest.mark.slow
def test_descendants_are_all_below_and_not_the_root(sleeper: subprocess.Popen[bytes]) -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE)
    assert shell.stdout
    try:
        grandchild = int(shell.stdout.readline())
        found = {pid for pid, _ in table.descendants(os.getpid())}
        assert {sleeper.pid, shell.pid, grandchild} <= found
        assert os.getpid() not in found
        assert table.descendants(shell.pid) == {(grandchild, start_of(grandchild))}
        os.kill(grandchild, signal.SIGKILL)
    finally:
        shell.kill()
        shell.wait()
        shell.stdout.close()


@pytest.mark.slow
def test_children_are_those_of_every_thread(sleeper: subprocess.Popen[bytes]) -> None:
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(subprocess.Popen, ["sleep", "600"]).result()
        try:
            assert {sleeper.pid, other.pid} <= set(table.children())
        finally:
            other.kill()
            other.wait()
    assert other.pid not in table.children()


@pytest.mark.slow
def test_a_signal_reaches_the_very_process(sleeper: subprocess.Popen[bytes]) -> None:
    assert table.send_signal((sleeper.pid, start_of(sleeper.pid)), signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL
    assert not table.send_signal((sleeper.pid, 1), signal.SIGKILL)


@pytest.mark.slow
def test_a_signal_never_reaches_another_process_with_the_same_pid(sleeper: subprocess.Popen[bytes]) -> None:
    assert not table.send_signal((sleeper.pid, start_of(sleeper.pid) - 1), signal.SIGKILL)
    time.sleep(0)
    assert sleeper.poll() is None


def test_a_file_that_cannot_be_read_is_empty() -> None:
    assert table.read_file("/proc/no-such") == b""
