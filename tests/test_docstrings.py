"""Every function's docstring begins with a verb that says what the function does: "Return …", "Read …"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "beam"
MODULES = sorted(PACKAGE.rglob("*.py"))
VERBS = frozenset(
    re.findall(
        r"\w+",
        """
        Acquire Add Allocate Allow Announce Answer Append Apply Archive Ask Begin Bind Blank Call Cancel Carry
        Catch Change Check Choose Claim Close Collect Commit Compare Confine Confirm Connect Continue Copy Count
        Create Cut Declare Deliver Deny Discard Do Drain Draw Drop Empty End Enlarge Erase Fill Find Finish
        Flush Follow Forget Fork Forward Free Give Go Handle Have Hear Hold Ignore Import Insert Interrupt Keep
        Kill Let List Listen Lock Log Look Make Mark Match Merge Move Open Pass Paste Pause Press Print Process
        Publish Put Raise Read Record Refuse Release Remember Remove Rename Renew Repeat Replace Report Request
        Requeue Reset Restore Resume Retry Return Revoke Rewrite Route Run Save Say Scroll Select Send Serve Set
        Shorten Show Signal Skip Stamp Start Stop Store Sync Take Talk Tell Trust Turn Type Update Use Vouch
        Wait Wake Watch Wrap Write Yield
        """,
    )
)


def docstrings(source: str) -> Iterator[tuple[str, int, str]]:
    """Yield name, line and docstring of every function in the source that has one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            yield node.name, node.lineno, text


def without_a_verb(source: str) -> list[str]:
    """Return the functions whose docstring begins with another word, each as `name (line): first line`."""
    return [
        f"{name} ({line}): {text.splitlines()[0]}"
        for name, line, text in docstrings(source)
        if text.split()[0].rstrip(",.:;") not in VERBS
    ]


@pytest.mark.slow
def test_every_docstring_of_a_function_begins_with_a_verb() -> None:
    found = {str(path.relative_to(PACKAGE)): without_a_verb(path.read_text()) for path in MODULES}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_docstring_that_begins_with_a_noun_is_found() -> None:
    source = 'def size():\n    """The size."""\n\ndef read():\n    """Return the size."""\n'
    assert without_a_verb(source) == ["size (1): The size."]
