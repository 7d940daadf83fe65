"""`pytest --unit`: the tests that need no other program and little time, and none of them starts a process.

`pytest --beyond-unit`: all others. Both together are all tests.
"""

from __future__ import annotations

import gc
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

_LONGER = ("slow", "acceptance", "real", "soak", "conformance")
_WHOLE_FILE = re.compile(rf"^pytestmark = .*pytest\.mark\.({'|'.join(_LONGER)})\b", re.MULTILINE)
_ANY = re.compile(rf"\b({'|'.join(_LONGER)})\b")
_FIXTURE_PARAMETERS = re.compile(r"fixture\([^()]*\bparams=")
_TESTS = Path(__file__).parents[1]
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"})


class Unit:
    """What `--unit` changes: fewer tests are collected, and one that starts a process fails."""

    def __init__(self) -> None:
        self._started = list[str]()
        sys.addaudithook(self._heard)

    def _heard(self, event: str, _: tuple[object, ...]) -> None:
        if event in _STARTS:
            self._started.append(event)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Does not even import a file all of whose tests are left out."""
        if collection_path.suffix != ".py":
            return None
        return True if _WHOLE_FILE.search(collection_path.read_text()) else None

    def pytest_pycollect_makeitem(self, obj: object) -> list[pytest.Item] | None:
        """Makes no tests of a function with one of the marks of longer tests, whatever its parameters."""
        if not inspect.isfunction(obj):
            return None
        return [] if any(mark.name in _LONGER for mark in getattr(obj, "pytestmark", ())) else None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leaves out the parameters, and the tests of modules, with one of the marks of longer tests."""
        left_out = [item for item in items if _is_longer(item)]
        for path in {item.path for item in left_out}:
            if not _has_longer(path):
                raise pytest.UsageError(f"{path} has a longer test and names no mark of one: nobody would run it")
        _leave_out(config, items, left_out)

    def pytest_collection_finish(self) -> None:
        """Leaves the garbage of a run of seconds to its end: looking for it takes a tenth of the time."""
        gc.disable()

    def pytest_runtest_logstart(self) -> None:
        """What was started until now belongs to no test."""
        self._started = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Fails a test that started a process, its fixtures included."""
        yield
        started, self._started = self._started, []
        if started:
            pytest.fail(f"a unit test starts no process ({', '.join(sorted(set(started)))}): mark it `slow`")


class BeyondUnit:
    """What `--beyond-unit` changes: the tests of `--unit` are left out."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Does not even import a file that has unit tests only."""
        if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
            return None
        return None if _has_longer(collection_path) else True

    def pytest_pycollect_makeitem(self, collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
        """Makes no tests of a function that has unit tests only: each worker would make thousands for nothing."""
        if not inspect.isfunction(obj) or _is_longer(collector) or _has_fixture_parameters(collector.path):
            return None
        marks = getattr(obj, "pytestmark", ())
        return None if any(mark.name in _LONGER or _has_longer_parameters(mark) for mark in marks) else []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leaves out the unit tests of the other files."""
        _leave_out(config, items, [item for item in items if not _is_longer(item)])


def _is_longer(node: pytest.Item | pytest.Collector) -> bool:
    return any(node.get_closest_marker(mark) for mark in _LONGER)


def _has_longer_parameters(mark: pytest.Mark) -> bool:
    """Whether some parameters of a function have a mark of longer tests; also where only pytest can tell."""
    if mark.name != "parametrize":
        return False
    values = mark.kwargs["argvalues"] if "argvalues" in mark.kwargs else mark.args[1]
    if not isinstance(values, Sequence):
        return True
    own = [each.name for value in values for each in getattr(value, "marks", ())]
    return any(name in _LONGER for name in own)


def _has_longer(path: Path) -> bool:
    """Whether the file names a mark of longer tests, as it must to have one."""
    return _ANY.search(path.read_text()) is not None


@cache
def _has_fixture_parameters(path: Path) -> bool:
    """Whether fixtures of the file, or of a `conftest.py` above it, have parameters, which may have marks too."""
    files = [path, *(folder / "conftest.py" for folder in path.parents if _TESTS in (folder, *folder.parents))]
    return any(_FIXTURE_PARAMETERS.search(file.read_text()) for file in files if file.is_file())


def _leave_out(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
