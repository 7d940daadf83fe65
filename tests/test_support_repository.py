"""Where tests try real agent CLIs: in a git repository, as most people do, and each CLI once outside of one.

In a repository CLIs show screens, ask questions and obey files that they have nowhere else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.agents import registry
from tests.conformance.adapters import ADAPTERS
from tests.real import test_outside_a_repository as outside
from tests.support.cli import Cli
from tests.support.repository import is_in_repository

TESTS = Path(__file__).parent
# What makes a repository: the function, and the fixtures and helpers that call it.
MAKES = {"make_repository", "beam", "subject", "place"}
STARTS = {"agents_path", "claude", *MAKES}  # without one of these a test has no CLI to start


def real_tests() -> Iterator[tuple[str, set[str]]]:
    """Each test that is marked `real`, with the names that it and what it uses of its module mention."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "mark.real" not in text:
            continue
        module = ast.parse(text)
        here = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        marks = [node for node in module.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)]
        for name, node in here.items():
            decorated = " ".join(map(ast.unparse, [*node.decorator_list, *marks]))
            if name.startswith("test_") and "mark.real" in decorated:
                yield f"{path.relative_to(TESTS)}::{name}", names_in(node, here)


def names_in(node: ast.AST, here: dict[str, ast.FunctionDef | ast.ClassDef]) -> set[str]:
    found: set[str] = set()
    left = [node]
    while left:
        for part in ast.walk(left.pop()):
            name = getattr(part, "id", None) or getattr(part, "arg", None) or getattr(part, "attr", None)
            if isinstance(name, str) and name not in found:
                found.add(name)
                left += [here[name]] if name in here else []
    return found


@pytest.mark.slow
def test_every_test_of_a_real_cli_works_in_a_git_repository_of_its_own() -> None:
    found = dict(real_tests())
    assert len(found) > 100
    without = [test for test, names in found.items() if names & STARTS and not names & MAKES]
    assert without == []


@pytest.mark.real
def test_the_place_in_which_beam_starts_a_real_cli_is_a_repository(beam: Cli) -> None:
    assert is_in_repository(beam.project) and not is_in_repository(beam.base)


def test_the_place_of_all_other_tests_is_none(beam: Cli) -> None:
    assert not is_in_repository(beam.project)


@pytest.mark.slow
def test_each_cli_is_tried_once_outside_of_a_repository_on_each_of_its_faces() -> None:
    tried = {
        test: {param.values[0] for mark in test.pytestmark if mark.name == "parametrize" for param in mark.args[1]}  # type: ignore[attr-defined]
        for test in (
            outside.test_headless_it_answers_outside_of_a_repository,
            outside.test_on_its_screen_it_answers_outside_of_a_repository,
        )
    }
    screens = {name for name in ADAPTERS if "terminal" in registry.adapter(name).card.faces}
    assert list(tried.values()) == [set(ADAPTERS), screens]
    undo = TESTS / "real/test_undo.py"  # an undo there needs a copy of its own
    outside_of_one = re.compile(r"is_repository=(?!True|is_repository)")
    found = {path for path in TESTS.rglob("*.py") if outside_of_one.search(path.read_text())}
    assert found - {Path(__file__)} == {Path(outside.__file__), undo}
