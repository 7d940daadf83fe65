"""A command in a process that `warm` forks is what it is in one of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cli import Cli, eventually, processes_with
from tests.support.warm import RUNNING, Warm, is_cold

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    warm = Warm()
    yield warm
    warm.close()


@pytest.mark.parametrize(
    ("args", "data"),
    [
        (("--version",), None),
        (("--help",), None),
        (("status", "--json"), None),
        (("send", "scripted", "-", "--once"), "äöü \N{SNOWMAN}\nsecond".encode()),
        (("send", "scripted", "-", "--once"), b""),
        (("send", "nobody", "hi"), None),
        (("send", "scripted", "hi", "--no-such-option"), None),
        (("show", "nosuch", "--json"), None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_code_and_streams_are_those_of_a_process_of_its_own(
    beam: Cli, warm: Warm, args: tuple[str, ...], data: bytes | None
) -> None:
    assert not is_cold(beam.env)
    own = beam.cold(*args, stdin=data)
    forked = warm.run(args, cwd=beam.project, env=beam.env, data=data, timeout=30)
    assert (forked.returncode, forked.stdout.decode(), forked.stderr.decode()) == (own.code, own.out, own.err)


def test_nothing_of_one_command_is_left_for_the_next(beam: Cli, warm: Warm) -> None:
    first = warm.run(
        ("send", "scripted", "x"), cwd=beam.project, env=beam.env | {"BEAM_ROOT": "../a"}, data=None, timeout=30
    )
    other = warm.run(("status",), cwd=beam.base / "home", env=beam.env, data=None, timeout=30)
    assert first.returncode == 0 and (beam.base / "a" / "agents").is_dir()
    assert other.returncode == 0 and b"scripted" not in other.stdout


def test_one_that_takes_too_long_is_ended(beam: Cli, warm: Warm) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run(("watch",), cwd=beam.project, env=beam.env, data=None, timeout=1.0)
    children = Path(f"/proc/{warm.process.pid}/task/{warm.process.pid}/children")
    eventually(lambda: children.read_text() == "")


def test_a_command_has_the_umask_of_who_asks_and_is_found_while_it_runs(beam: Cli, warm: Warm) -> None:
    beam.config("agents:\n  masks: {command: [sh, -c, 'umask; touch here; until [ -e go ]; do sleep 0.05; done']}\n")
    args = ("send", "masks", "x")
    was = os.umask(0o027)
    try:
        with ThreadPoolExecutor() as pool:
            ended = pool.submit(warm.run, args, cwd=beam.project, env=beam.env, data=None, timeout=30)
            eventually((beam.project / "here").exists)
            assert set(RUNNING) <= set(processes_with(str(beam.base))) and RUNNING
            (beam.project / "go").touch()
            assert ended.result().stdout == b"0027\n"
    finally:
        os.umask(was)
    assert not RUNNING


def test_one_command_dies_where_it_is_told_to_and_the_next_does_not(beam: Cli, warm: Warm) -> None:
    crash = {"BEAM_CRASH_AT": "put.written"}
    codes = [
        warm.run(("send", "scripted", "x"), cwd=beam.project, env=beam.env | env, data=None, timeout=30).returncode
        for env in (crash, {}, crash)
    ]
    assert codes == [-9, 0, -9]


def test_without_the_process_that_forks_it_is_said(beam: Cli) -> None:
    warm = Warm()
    warm.process.kill()
    with pytest.raises((RuntimeError, ConnectionError)):
        warm.run(("--version",), cwd=beam.project, env=beam.env, data=None, timeout=30)
    warm.close()


@pytest.mark.parametrize("env", [{"LANG": "C"}, {"LC_ALL": "C"}, {"PYTHONUTF8": "0"}])
def test_what_is_read_at_the_start_needs_a_process_of_its_own(beam: Cli, env: dict[str, str]) -> None:
    assert is_cold(beam.env | env)
