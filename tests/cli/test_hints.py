"""Every command that a message of beam names is one of beam's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import made

BEAM = Path(__file__).parents[2] / "beam"


def texts(source: str) -> Iterator[str]:
    """The texts of a module, without its docstrings; what is filled into one is `…`."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    said = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            said |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


@pytest.mark.slow
def test_every_command_in_a_message_exists() -> None:
    commands = {path for path, _ in made.commands()}
    groups = {path for path in commands if any(other.startswith(f"{path} ") for other in commands)}
    wrong = [
        f"{file.relative_to(BEAM)}: {found}"
        for file in BEAM.rglob("*.py")
        for text in texts(file.read_text())
        for found in re.findall(r"\b(beam [a-z]+ (?!of )[a-z][a-z-]+)", text)
        if found.rpartition(" ")[0] in groups and found not in commands
    ]
    assert wrong == []
