"""docs/tests.md names every file with tests that `make test` leaves out, and what runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.markdown import rows

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "tests.md").read_text()


def marked() -> set[tuple[str, str]]:
    """Each file of tests with one of the marks, and the mark."""
    return {
        (str(path.relative_to(TESTS)), mark)
        for path in TESTS.rglob("*.py")
        for mark in re.findall(r"(?:pytest|[(\s\[])\.?mark\.(soak|conformance)\b", path.read_text())
    }


@pytest.mark.slow
def test_every_file_with_tests_that_make_test_leaves_out_is_named_with_what_runs_them() -> None:
    named = {(row[0].strip("`"), row[1]) for row in rows(PAGE.partition("<!-- left out -->")[2])}
    assert sorted(marked() - named) == [], "docs/tests.md has no row for these"
    assert sorted(named - marked()) == [], "docs/tests.md has rows that are of nothing"
