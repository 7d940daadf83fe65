"""docs/security.md: each promise names its tests, each of them exists, and no promise is without one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from beam.api import matrix
from tests.conformance.attempts import ATTEMPTS, BELOW_FULL
from tests.support.made_agents import attempts_of
from tests.support.markdown import rows

TOP = Path(__file__).parents[1]
PAGE = (TOP / "docs" / "security.md").read_text()
PROMISES = PAGE.partition("<!-- promises -->")[2].partition("<!-- /promises -->")[0]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PROMISES)))


def test_each_promise_has_a_test() -> None:
    assert [row[0] for row in rows(PROMISES) if not re.search(r"`[\w/]+\.py::test_\w+`", row[1])] == []
    assert len(list(rows(PROMISES))) >= 25


@pytest.mark.slow
def test_each_named_test_exists() -> None:
    trees = {file: ast.parse((TOP / "tests" / file).read_text()) for file, _ in NAMED}
    functions = ((file, node) for file, tree in trees.items() for node in ast.walk(tree))
    there = {(file, node.name) for file, node in functions if isinstance(node, ast.FunctionDef)}
    assert set(NAMED) - there == set()


def test_every_file_of_tests_that_is_named_elsewhere_in_the_page_exists() -> None:
    assert [path for path in re.findall(r"`(tests/[\w/]+\.py)`", PAGE) if not (TOP / path).is_file()] == []


def test_everything_that_beam_protects_from_has_a_promise() -> None:
    protects = PAGE.partition("## What beam protects you from")[2].partition("\n## ")[0]
    heads = re.findall(r"^\*\*(.+?)\.\*\*", protects, re.MULTILINE)
    assert len(heads) >= 8
    assert [head for head in heads if f"**{head}**" not in PROMISES] == []


@pytest.mark.slow
@pytest.mark.parametrize("access", BELOW_FULL)
def test_every_attempt_of_every_cli_with_that_access_is_in_the_table(access: str) -> None:
    headless = matrix.of_mode(matrix.matrix(), "exec")[1]
    columns = {column.adapter: attempts_of(column, access) for column in headless}
    tried = {name: set(seen) for name, seen in columns.items() if seen}
    every = {attempt.name for attempt in ATTEMPTS}
    assert tried == {
        column.adapter: every
        for column in headless
        if column.cells[f"{access}_writes_no_file_of_beam"].status != "unsupported"
    }
    assert len(tried) >= 6


def test_no_cli_wrote_into_beams_files_or_got_more_rights() -> None:
    ours = {attempt.name for attempt in ATTEMPTS if attempt.group == "files"}
    for column in matrix.matrix().adapters:
        for access in BELOW_FULL:
            for name, tools in attempts_of(column, access).items():
                assert name not in ours or "written" not in tools.values(), (column.adapter, access, name)
