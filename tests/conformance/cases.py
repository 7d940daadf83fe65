"""The table of conformance cells: a case is one function, the same for every CLI, and each CLI that has the case's
mode makes a cell of it.

A cell *works* (the function returned its evidence), is *unsupported, and says so* (the card does not claim what the
case is about, and beam was seen to refuse it or to say so), or *fails*, for a reason that `FAILS` gives.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beam.agents.base import Capabilities, Face
from beam.agents.model_route import router_of
from beam.testing.conformance.cells import Cell, is_claimed, refused, shown
from tests.conformance import attempts
from tests.conformance.adapters import COLUMNS, MAIN, Column, columns
from tests.conformance.subject import Subject

__all__ = ["CASES", "FAILS", "MAIN", "Case", "case", "refused", "shared", "shown"]

Act = Callable[[Subject], str]
SLOW = pytest.mark.conformance

_UNTOLD_REFUSALS = (
    (("aider", "aider-terminal"), "aider says the same of a refusal as of an empty answer: failed (empty)"),
    (("cn",), "cn prints nothing, for a refusal as for an empty answer: failed (empty)"),
    (("cline",), "cline says the same of a refusal as of an empty answer: failed (empty)"),
)

FAILS: dict[tuple[str, str], str] = {
    (
        "broken_then_answered",
        "cn",
    ): "Continue prints what it had of the broken answer and the whole second one as one text; "
    "nothing in its output tells them apart",
    (
        "screen_model",
        "opencode-terminal",
    ): "a session that goes on keeps its model, whatever `--model` says; a new session takes it",
    **{("refused_answer", column): why for columns, why in _UNTOLD_REFUSALS for column in columns},
    (
        "hook_stops",
        "codex",
    ): "`codex exec` does not tell the words of the hook; the turn is `failed` (`stopped`) all the same",
    (
        "hook_stops",
        "codex-acp-dialogue",
    ): "codex-acp does not pass on what a hook did; the turn is `failed`, but of class `empty`",
    (
        "hook_stops",
        "qwen",
    ): "headless it does not pass on what the hook said; that the model was not asked is told (failed, stopped)",
    **dict.fromkeys(
        (("refused_answer", column) for column in ("qwen", "qwen-dialogue", "gemini-dialogue")),
        "it tells a refusal without text as an empty answer (failed, empty); through a proxy the turn is refused",
    ),
    **attempts.FAILS,
}
"""(case, id of the column) -> why the cell fails: what the CLI does, or what beam lacks."""


@dataclass(frozen=True)
class Case:
    """One row of the table. `capability`: what of the card it is about ("" for what every CLI must do): a field of
    `Capabilities`, `not FIELD`, `access:WORD`, or two of these joined by `+`. `quick`: `make test` runs it too.
    `by_proxy`: beam's proxy has the capability for every CLI whose model calls can go through it. `faces`: the modes
    that it is for. `test`: the id of its test, without the column's; `{cli}` in it is the CLI, as a file's name."""

    name: str
    title: str
    capability: str
    quick: bool
    test: str
    by_proxy: bool = False
    faces: tuple[Face, ...] = ("exec",)

    def claimed(self, adapter: str, can: Capabilities) -> bool:
        """Whether the card of that adapter's face claims it, or beam's proxy has it for the adapter."""
        return is_claimed(self.capability, can) or (self.by_proxy and router_of(adapter) is not None)

    def test_id(self, column: Column) -> str:
        """The test that makes the cell."""
        return f"{self.test.replace('{cli}', column.file)}[{column.id}]"


CASES: dict[str, Case] = {}
"""Every case, by name, in the order of the files and in them; filled as those are imported."""


def case(
    title: str,
    capability: str = "",
    *,
    quick: bool = False,
    quick_for: tuple[str, ...] = (),
    otherwise: Act | None = None,
    by_proxy: bool = False,
    faces: tuple[Face, ...] = ("exec",),
    file: str = "",
) -> Callable[[Act], Any]:
    """Makes one cell a CLI, in each of these modes that it has, of the decorated function, which returns the evidence.
    `otherwise` is run in its place where the card does not claim the capability; it too returns the evidence.
    `quick_for`: `make test` runs the cells of these columns. `file`: its tests are in files of this name, with `{cli}`
    for the CLI, each of which takes those of its own by `cells_of_file`."""

    def made(act: Act) -> Any:
        name = act.__name__.removeprefix("test_")
        path = file or f"{act.__module__.rpartition('.')[2]}.py"
        test_id = f"tests/conformance/{path}::{act.__name__}"
        found = Case(name, title, capability, quick, test_id, by_proxy, faces)
        CASES[name] = found

        def test_of(some: Sequence[Column]) -> Any:
            ids = [column.id for column in some]
            parameters = [pytest.param(each, marks=() if quick or each in quick_for else SLOW) for each in ids]

            @pytest.mark.real
            @pytest.mark.acceptance
            @pytest.mark.parametrize("subject", parameters, indirect=True)
            def test(subject: Subject, record_property: Callable[[str, object], None]) -> None:
                status, evidence = _judge(found, act, otherwise, subject)
                cell = {"case": found.name, "column": subject.column.id, "status": status, "evidence": evidence}
                record_property("cell", cell | {"attempts": subject.attempts.get(found.name, {})})

            test.__doc__ = act.__doc__
            return test

        if not file:
            return test_of(columns(faces))
        _OF_FILES.setdefault(file, {})[act.__name__] = test_of
        return act

    return made


_OF_FILES: dict[str, dict[str, Callable[[Sequence[Column]], Any]]] = {}


def cells_of_file(file: str, path: str) -> dict[str, Any]:
    """The tests, by their names, that the file at `path` has of the cases with this `file`: those of its own CLI."""
    name = Path(path).name
    own = [column for column in COLUMNS.values() if file.replace("{cli}", column.file) == name]
    found = {}
    for case in CASES.values():
        if case.test.startswith(f"tests/conformance/{file}::"):
            test = f"test_{case.name}"
            found[test] = _OF_FILES[file][test]([column for column in own if column.face in case.faces])
    return found


def shared(
    module: str,
    cell: Cell,
    *,
    quick_for: tuple[str, ...] = (),
    faces: tuple[Face, ...] = ("exec",),
    by_proxy: bool = False,
) -> Any:
    """The same of a case that third parties run, too. `module` is the one whose tests these are."""

    def act(subject: Subject) -> str:
        return cell.act(subject)

    act.__name__, act.__module__, act.__doc__ = f"test_{cell.name}", module, cell.act.__doc__
    return case(
        cell.title,
        cell.capability,
        quick=cell.quick,
        quick_for=quick_for,
        otherwise=cell.otherwise,
        faces=faces,
        by_proxy=by_proxy,
    )(act)


def _judge(case: Case, act: Act, otherwise: Act | None, subject: Subject) -> tuple[str, str]:
    reason = FAILS.get((case.name, subject.column.id))
    if reason is not None:
        with pytest.raises((AssertionError, subprocess.TimeoutExpired)):
            act(subject)
        return "fails", reason
    if case.claimed(subject.name, subject.can):
        return "works", act(subject)
    return "unsupported", (otherwise or shown(case.capability))(subject)
