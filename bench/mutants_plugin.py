"""A pytest plugin for `bench.mutants`, which runs it in a process of its own.

With BEAM_TRACE=FILE it writes which lines of `beam/` each test runs, and how long it takes. With BEAM_WANTED=FILE it
runs only the tests that the file names, in its order.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

_BEAM = f"{Path.cwd()}/beam/"
_ran: dict[str, set[int]] = defaultdict(set)


def _called(frame: FrameType, event: str, _: object) -> Any:
    name = frame.f_code.co_filename
    if not name.startswith(_BEAM):
        return None
    lines = _ran[name]
    lines.add(frame.f_lineno)

    def ran(frame: FrameType, event: str, _: object) -> Any:
        lines.add(frame.f_lineno)
        return ran

    return ran


class Tracer:
    """Writes what each test runs. What no test runs in itself, as it is imported, stands under the empty name."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._tests: dict[str, Any] = {}
        self._failed = set[str]()
        threading.settrace(_called)
        sys.settrace(_called)

    def _take(self, name: str, seconds: float) -> None:
        lines = {file.removeprefix(_BEAM): sorted(them) for file, them in _ran.items() if them}
        _ran.clear()
        self._tests[name] = {"seconds": seconds, "lines": lines}

    def pytest_collection_finish(self) -> None:
        """Keeps apart what ran while the tests were imported."""
        self._take("", 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Traces one test, with its fixtures."""
        _ran.clear()
        began = time.perf_counter()
        sys.settrace(_called)
        result = yield
        self._take(item.nodeid, time.perf_counter() - began)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps the tests that fail, or are left out, without a mutation."""
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Writes all of it."""
        sys.settrace(None)
        self._target.write_text(
            json.dumps({name: ran for name, ran in self._tests.items() if name not in self._failed})
        )


class Chosen:
    """Runs only the tests that were chosen."""

    def __init__(self, names: list[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Puts them into their order."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._place), key=lambda item: self._place[item.nodeid]
        )


def pytest_configure(config: pytest.Config) -> None:
    """Does what the environment says."""
    if target := os.environ.get("BEAM_TRACE"):
        config.pluginmanager.register(Tracer(Path(target)))
    if wanted := os.environ.get("BEAM_WANTED"):
        config.pluginmanager.register(Chosen(json.loads(Path(wanted).read_text())))
