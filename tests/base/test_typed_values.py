"""Values that a type is read into: in several threads at once, and in one place only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import beam as package
from beam.base import typed_values

ROOT = Path(package.__file__).parent
AT_ONCE = """
import sys, threading
from msgspec import Struct
from beam.base import typed_values

def once():
    fields = {"__annotations__": {"a": "int", "b": "list[dict[str, int]]"}}
    union = None
    for n in range(60):
        kind = type(f"T{n}", (Struct,), dict(fields), tag=True)
        union = kind if union is None else union | kind
    Many = type("Many", (Struct,), {"__annotations__": {"items": list[union]}})
    start = threading.Barrier(6)

    def use():
        start.wait()
        found = typed_values.decode(b'{"items": [{"type": "T3", "a": 1, "b": []}]}', Many)
        assert typed_values.convert({"items": [{"type": "T4", "a": 1, "b": []}]}, Many).items[0].a == found.items[0].a

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

sys.setswitchinterval(1e-6)
for _ in range(20):
    once()
print("whole")
"""


class Pair(msgspec.Struct):
    a: int
    b: str = ""


def test_json_and_plain_values_become_the_type_or_are_refused() -> None:
    assert typed_values.decode(b'{"a": 1}', Pair) == typed_values.convert({"a": 1}, Pair) == Pair(1)
    assert typed_values.convert("7", int, strict=False) == 7
    for wrong in (lambda: typed_values.decode(b'{"a": "1"}', Pair), lambda: typed_values.convert({"a": "1"}, Pair)):
        with pytest.raises(msgspec.ValidationError):
            wrong()
    with pytest.raises(msgspec.DecodeError):
        typed_values.decode(b"{", Pair)


@pytest.mark.acceptance
def test_threads_that_use_a_type_for_the_first_time_at_once_do_not_crash_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


@pytest.mark.slow
def test_no_module_has_msgspec_use_a_type_by_itself() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        if path != ROOT / "base/typed_values.py":
            found += [f"{path.relative_to(ROOT)}:{line}" for line in _own_uses(ast.parse(path.read_text()))]
    assert found == []


def test_the_look_for_such_modules_finds_them() -> None:
    text = "import msgspec\nfrom msgspec import convert\nmsgspec.json.decode(b, type=X)\nmsgspec.convert(v, X)"
    assert _own_uses(ast.parse(text)) == [2, 3, 4]


def _own_uses(tree: ast.Module) -> list[int]:
    """Lines that decode or convert with a type, or import what does."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="msgspec", names=names) if any(each.name == "convert" for each in names):
                found.append(node.lineno)
            case ast.Call(func=ast.Attribute(attr="convert", value=ast.Name(id="msgspec"))):
                found.append(node.lineno)
            case ast.Call(func=ast.Attribute(attr="decode", value=ast.Attribute(attr="json")), keywords=[_, *_]):
                found.append(node.lineno)
    return sorted(found)
