"""`beam` itself is what programs import; the command line is one of them."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import beam

TOP = Path(__file__).parents[1]
NAMES = [(name, module) for module, names in beam._LAZY.items() for name in names.split()]


def typed() -> dict[str, tuple[str, str]]:
    """What type checkers see: each name, with the module and the name that it is imported from."""
    (block,) = [node for node in ast.parse(Path(beam.__file__).read_text()).body if isinstance(node, ast.If)]
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_what_is_there_and_no_more() -> None:
    whole = {name: (module, name) for name, module in NAMES}
    whole |= {
        name: (module.rpartition(".")[0], module.rpartition(".")[2]) for name, module in beam._LAZY_MODULES.items()
    }
    assert typed() == whole
    assert len(NAMES) + len(beam._LAZY_MODULES) == len(whole), "a name stands twice"
    assert set(beam.__all__) <= set(whole)


@pytest.mark.parametrize(("name", "module"), NAMES, ids=lambda value: value)
def test_a_name_is_what_its_module_has(name: str, module: str) -> None:
    assert getattr(beam, name) is getattr(sys.modules[module], name)
    assert name in dir(beam) or name not in beam.__all__


@pytest.mark.parametrize("name", beam._LAZY_MODULES)
def test_a_module_is_there_by_its_name(name: str) -> None:
    assert getattr(beam, name) is sys.modules[beam._LAZY_MODULES[name]]


def test_no_name_hides_a_package_and_another_name_is_an_error() -> None:
    packages = {path.name for path in Path(beam.__file__).parent.iterdir()}
    assert packages.isdisjoint(typed())
    with pytest.raises(ImportError, match="cannot import name 'Beaam'"):
        from beam import Beaam  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.slow
def test_importing_it_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import beam; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=TOP, capture_output=True, check=True, timeout=60)
    assert done.stdout.decode().split() == ["beam"]


def test_the_contract_keeps_the_command_line_out_of_every_other_package() -> None:
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    packages = {path.parent.name for path in Path(beam.__file__).parent.glob("*/__init__.py")}
    for door, allowed in (("cli", {"cli"}), ("board", {"board", "cli"})):
        (contract,) = [one for one in contracts if one.get("source_modules") == [f"beam.{door}"]]
        assert set(contract["forbidden_modules"]) == {f"beam.{name}" for name in packages - allowed}


def test_a_name_is_looked_up_once() -> None:
    import beam

    vars(beam).pop("Usage", None)
    found = beam.Usage
    assert vars(beam)["Usage"] is found
