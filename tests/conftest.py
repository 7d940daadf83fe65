"""Fixtures for all floors: the real beam in a scratch place, the real agent CLIs, the scripted model."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from beam.process import table, tree
from tests.real.install import bin_directories, bin_directory
from tests.support.cli import Cli, processes_with
from tests.support.repository import make_repository
from tests.support.unit import BeyondUnit, Unit

if TYPE_CHECKING:
    from tests.support.context import Root

# Here, for it must come before anything imports the package: its failures say the same in each order of the tests.
pytest.register_assert_rewrite("beam.testing.conformance")

_LONGEST = {  # each waits more than it works
    "test_acceptance_asks.py",
    "test_acceptance_holder.py",
    "test_acceptance_silence.py",
    "test_acceptance_tui.py",
    "test_cells_conversation.py",
    "test_crash_points.py",
    "test_dialogue.py",
    "test_disk_faults.py",
    "test_teams_join.py",
    "test_teams_watch.py",
    "test_terminal_face.py",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-seed", type=int, default=0, help="seed of the soak tests; 0: a new one, printed")
    parser.addoption("--fuzz-seconds", type=float, default=1800, help="how long `make soak` feeds the readers")
    parser.addoption("--unit", action="store_true", help="only what needs no other program and little time")
    parser.addoption("--beyond-unit", action="store_true", help="all but that")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keeps the garbage collector from the thousands of tests: all of them live as long as the process."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files that take longest first, then those that start `beam` and agent CLIs: a long file that came last
    would keep one core waiting. The longest wait for most of their time, so each second file is one that works."""
    starting = {item.path for item in items if item.get_closest_marker("acceptance") or item.get_closest_marker("real")}
    paths = dict.fromkeys(item.path for item in items)
    longest = [path for path in paths if path.name in _LONGEST]
    working = [path for path in paths if path in starting and path.name not in _LONGEST]
    first = [path for both in zip(longest, working, strict=False) for path in both]
    ranks = {path: rank for rank, path in enumerate(dict.fromkeys([*first, *longest, *working]))}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_configure(config: pytest.Config) -> None:
    """In the background of a script ^C is ignored, and under `nohup` the end of the terminal, by all that is started
    here as well; its tests need them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)  # a handler ends with exec, what is ignored does not
    os.environ["TZ"] = "UTC"  # beam shows local times
    time.tzset()
    tree.become_subreaper()
    _put_python_first()
    config.pluginmanager.register(Unit() if config.getoption("--unit") else _Reaper())  # a unit test starts no process
    if config.getoption("--beyond-unit"):
        config.pluginmanager.register(BeyondUnit())
    # A busy machine is slow: one example may take longer than Hypothesis's deadline of 0.2 s.
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


def _put_python_first() -> None:
    """Puts a folder with the interpreter first on the PATH: where `python3` is a script that looks for one, each agent
    of a test would start twenty processes."""
    folder = Path(sys.prefix, "only-python")
    if str(folder) not in os.environ["PATH"].split(os.pathsep):
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            for name in ("python3", "python"):
                with contextlib.suppress(FileExistsError):
                    (folder / name).symlink_to(Path(sys.executable).resolve())
            os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


class _Reaper:
    """Reaps what outlived a test: some machines have few process numbers and an init that reaps nothing."""

    def pytest_runtest_logfinish(self) -> None:
        """Of a process that a test started and did not wait for, nobody asks the exit status any more."""
        for pid in table.children():
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)


def pytest_report_header() -> str:
    """Says at the top whether the real agents take part."""
    where = bin_directory()
    return (
        f"real agent CLIs: {where}" if where else "real agent CLIs: LEFT OUT (not installed: `make agents`, needs npm)"
    )


@pytest.fixture
def beam(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cli]:
    """The real beam in a scratch place, a git repository where a real agent CLI is tried. Afterwards nothing of it may
    be running."""
    cli = Cli(tmp_path)
    if request.node.get_closest_marker("real") is not None:
        make_repository(cli.project, cli.base / "home")
    yield cli
    cli.end()
    for pid in processes_with(str(tmp_path)):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root in a scratch place, with a clock that stands still."""
    from tests.support.context import Root

    return Root(tmp_path)


@pytest.fixture
def work_tree(tmp_path: Path) -> Path:
    """A git work tree with one commit; its HOME is `home` beside it."""
    folder, home = tmp_path / "shop", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    make_repository(folder, home)
    return folder


@pytest.fixture(scope="session")
def agents_path() -> str:
    """A PATH on which the pinned real agent CLIs come first, or those of `BEAM_AGENTS_FIRST` before them. Without them
    the test is left out, and in CI it fails."""
    where = bin_directory()
    if where is None:
        if os.environ.get("BEAM_REQUIRE_REAL_AGENTS"):
            pytest.fail("the real agent CLIs are required here, and not installed: make agents")
        pytest.skip("left out: the real agent CLIs are not installed (make agents)")
    first = [found] if (found := os.environ.get("BEAM_AGENTS_FIRST")) else []
    return os.pathsep.join([*first, *map(str, bin_directories()), os.environ["PATH"]])


@pytest.fixture(scope="session")
def claude(agents_path: str) -> Path:
    """The pinned real Claude Code."""
    return Path(agents_path.split(os.pathsep)[0]) / "claude"
