"""Fixtures for all floors: the real beam in a scratch place, the real agent CLIs, the scripted model."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.install import bin_directories, bin_directory
from tests.support.cli import Cli, processes_with


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-seed", type=int, default=0, help="seed of the soak tests; 0: a new one, printed")


def pytest_configure() -> None:
    """In the background of a script ^C is ignored, by all that is started here as well; its tests need it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    """Says at the top whether the real agents take part."""
    where = bin_directory()
    return (
        f"real agent CLIs: {where}" if where else "real agent CLIs: LEFT OUT (not installed: `make agents`, needs npm)"
    )


@pytest.fixture
def beam(tmp_path: Path) -> Iterator[Cli]:
    """The real beam in a scratch place. Afterwards nothing of it may be running."""
    cli = Cli(tmp_path)
    yield cli
    cli.end()
    for pid in processes_with(str(tmp_path)):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue


@pytest.fixture(scope="session")
def agents_path() -> str:
    """A PATH on which the pinned real agent CLIs come first. Without them the test is left out, and in CI it fails."""
    where = bin_directory()
    if where is None:
        if os.environ.get("BEAM_REQUIRE_REAL_AGENTS"):
            pytest.fail("the real agent CLIs are required here, and not installed: make agents")
        pytest.skip("left out: the real agent CLIs are not installed (make agents)")
    return os.pathsep.join([*map(str, bin_directories()), os.environ["PATH"]])


@pytest.fixture(scope="session")
def claude(agents_path: str) -> Path:
    """The pinned real Claude Code."""
    return Path(agents_path.split(os.pathsep)[0]) / "claude"
