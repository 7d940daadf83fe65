"""Two threads may import at once. Each takes the lock of the module that it imports, then the lock of the module's
package. A package that imports this module takes the locks the other way round, and Python ends one of the imports with
_DeadlockError. So whoever imports a module of such a package imports the package first."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import beam

_TOP = Path(beam.__file__).parent
_TWO_THREADS = """
import _frozen_importlib, _imp, sys, threading, time
package, one, other = sys.argv[1:]

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == package and not half.is_set():
            half.set()
            _imp.release_lock()  # Python holds this lock, too, while it looks for a module
            while not _frozen_importlib._blocking_on:  # until the other thread waits for the package
                time.sleep(0.01)
            _imp.acquire_lock()

def run(code):
    try:
        exec(code)
    except BaseException as error:
        print(type(error).__name__, error)

half = threading.Event()
sys.meta_path.insert(0, Finder())
first = threading.Thread(target=run, args=(one,))
first.start()
assert half.wait(60)
run(other)
first.join()
"""


def modules() -> dict[str, Path]:
    """Each module of beam with its file."""
    return {
        ".".join(("beam", *path.relative_to(_TOP).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in _TOP.rglob("*.py")
    }


def imported(node: ast.AST) -> list[str]:
    """The modules, and perhaps names of modules, that a statement imports, in the order of their imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def at_once(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
            yield from at_once([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from at_once([*node.body, *node.orelse, *node.finalbody])
        else:
            yield node


def imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """All import statements of a module."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def own_modules(package: str, needs: Mapping[str, set[str]]) -> set[str]:
    """The modules of a package that are imported with it."""
    found, new = set[str](), {package}
    while new:
        found |= new
        new = {need for name in new for need in needs[name] if need in needs} - found
    return {name for name in found if name.startswith(f"{package}.")}


@pytest.mark.slow
def test_a_package_is_imported_before_those_of_its_modules_that_it_imports() -> None:
    trees = {name: ast.parse(path.read_bytes()) for name, path in modules().items()}
    needs = {name: {need for node in at_once(tree.body) for need in imported(node)} for name, tree in trees.items()}
    statements = {name: sorted(imports(tree), key=lambda node: node.lineno) for name, tree in trees.items()}
    wrong = []
    packages = {package: own for package in trees if (own := own_modules(package, needs))}
    for package, own in packages.items():
        for name in trees.keys() - {"beam"}:  # `beam.__getattr__` imports each package first
            if f"{name}.".startswith(f"{package}."):
                continue
            for node in statements[name]:
                if package in imported(node):
                    break
                if own.intersection(imported(node)):
                    wrong.append(f"{name}, line {node.lineno}: {package} is not imported first")
    assert not wrong
    assert {"beam.api", "beam.agents.claude", "beam.turns.terminal"} <= packages.keys()


@pytest.mark.slow
def test_a_module_that_runs_as_a_program_defines_all_before_it_runs() -> None:
    bodies = {path: ast.parse(path.read_text()).body for path in (Path(__file__).parents[1] / "beam").rglob("*.py")}
    assert [path for path, body in bodies.items() for each in body[:-1] if "__main__" in ast.unparse(each)[:40]] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "one", "other"),
    [
        (
            "beam.agents.claude",
            "from beam.agents import registry; registry.adapter('claude')",
            "import beam.teams.tails",
        ),
        ("beam.api", "from beam import watch_root", "from beam import Beam"),
        ("beam.turns.terminal", "import beam.turns.terminal", "import beam.api.attach"),
    ],
)
def test_two_threads_import_at_once(package: str, one: str, other: str) -> None:
    words = [sys.executable, "-c", _TWO_THREADS, package, one, other]
    assert subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout == ""
