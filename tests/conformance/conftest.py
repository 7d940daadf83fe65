"""The CLIs of the cells; and `BEAM_WRITE_CONFORMANCE=1`, which writes what the cells were into the shipped table."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.conformance import screens, written
from tests.conformance.adapters import COLUMNS
from tests.conformance.subject import Subject, place


@pytest.fixture(scope="module")
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, agents_path: str
) -> Iterator[Subject]:
    """The CLI that the cell is for, in a place that is the same for all its cells of one module."""
    made = screens.place if COLUMNS[request.param].face == "terminal" else place
    yield from made(request.param, tmp_path_factory.mktemp(request.param), agents_path)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes each cell as it comes, where that was asked for; one whose test failed is a cell that fails."""
    if not os.environ.get("BEAM_WRITE_CONFORMANCE") or "PYTEST_XDIST_WORKER" in os.environ:
        return
    cells = [value for name, value in report.user_properties if name == "cell" and report.when == "call"]
    path, _, rest = report.nodeid.partition("::test_")
    if report.failed and "test_cells_" in path:
        case, _, column = rest.removesuffix("]").partition("[")
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message.splitlines()[0] if crash else "its test broke"
        cells.append({"case": case, "column": column, "status": "fails", "evidence": why})
    if cells:
        written.write(cells, date=time.strftime("%Y-%m-%d", time.gmtime()))
