"""Nothing stands in beam that nothing calls or reads. A name counts as called where it stands a second time, in no
docstring, and a constant as read where some code says its name."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import beam

pytestmark = pytest.mark.slow

PACKAGE = Path(beam.__file__).parent
CALLED_FROM_OUTSIDE = {
    "connection_made": "asyncio",
    "data_received": "asyncio",
    "connection_lost": "asyncio",
    "do_HEAD": "http.server",
    "do_GET": "http.server",
    "do_POST": "http.server",
    "do_PUT": "http.server",
    "do_DELETE": "http.server",
    "log_message": "http.server",
    "verify_request": "socketserver",
    "redirect_request": "urllib",
    "format_commands": "click",
    "format_options": "click",
    "format_epilog": "click",
    "create_module": "import",
    "exec_module": "import",
    "find_distributions": "importlib.metadata",
    "locate_file": "importlib.metadata",
    "alignment_display": "pyte",
    "check_action": "textual",
    "render_line": "textual",
}
READ_FROM_OUTSIDE = {"CRASH_POINTS": "the tests of crash points"}
_BY_NAME = ("__", "step_", "action_")
Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def words(tree: ast.Module, source: str) -> list[str]:
    """All words of the module but those of docstrings and comments."""
    for node in ast.walk(tree):
        if isinstance(node, (*Definition, ast.Module)) and (text := ast.get_docstring(node, clean=False)):
            source = source.replace(text, "")
    return re.findall(r"\w+", re.sub(r"#.*", "", source))


@functools.cache
def unused() -> frozenset[str]:
    told: Counter[str] = Counter()
    defined: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        tree = ast.parse(source)
        told.update(words(tree, source))
        nodes = [node for node in ast.walk(tree) if isinstance(node, Definition)]
        defined.update(node.name for node in nodes)
        # A decorator may keep it (a command), `step_*` are called by their names in a script, and Textual calls the
        # board's `action_*` by their keys and `on_*` by what happened.
        by_name = (*_BY_NAME, "on_") if path.parent.name == "board" else _BY_NAME
        told.update(node.name for node in nodes if node.decorator_list or node.name.startswith(by_name))
    return frozenset(name for name, count in defined.items() if told[name] <= count)


def test_everything_in_beam_is_called_by_something_in_beam() -> None:
    assert sorted(unused() - CALLED_FROM_OUTSIDE.keys()) == []


def test_what_is_called_from_outside_is_there() -> None:
    assert set(CALLED_FROM_OUTSIDE) <= unused()


def constants(tree: ast.Module) -> Iterator[str]:
    """The names that the module itself gives a value, but those that Python knows."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for name in (each for target in targets for each in ast.walk(target)):
            if isinstance(name, ast.Name) and not name.id.startswith("__"):
                yield name.id


def read_in(tree: ast.Module) -> Iterator[str]:
    """The names that the module reads or imports, and the words of its texts: some names are looked up by them."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.Constant(value=str(text)):
                yield from re.findall(r"\w+", text)


def test_every_constant_of_beam_is_read_by_something_in_beam() -> None:
    trees = [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")]
    read = [set(read_in(tree)) for tree in trees]
    anywhere = set().union(*read)
    unread = {
        name
        for tree, here in zip(trees, read, strict=True)
        for name in constants(tree)
        if name not in (here if name.startswith("_") else anywhere)
    }
    assert unread == READ_FROM_OUTSIDE.keys()
