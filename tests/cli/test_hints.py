"""Every command that a message of beam names is one of beam's, and the agent in it is one."""

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


def _usage_texts(tree: ast.AST) -> Iterator[str]:
    """The texts in a module that name arguments, in usage lines and in help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("metavar", "help"):
            yield from texts(f"x = {ast.unparse(node.value)}")


def test_no_message_has_the_word_agent_in_place_of_a_name() -> None:
    sources = {file: file.read_text() for file in BEAM.rglob("*.py")}
    usage = {"AGENT", *(text for source in sources.values() for text in _usage_texts(ast.parse(source)))}
    wrong = [
        f"{file.relative_to(BEAM)}: {text}"
        for file, source in sources.items()
        for text in texts(source)
        if re.search(r"\bAGENT\b", text) and text not in usage
    ]
    assert wrong == []
