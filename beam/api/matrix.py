"""The conformance table: results of tests that ran the real agent CLIs.

The data is `beam/agents/conformance.json`, which `make conformance` writes and nobody edits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from beam.agents import registry
from beam.agents.base import Face as Face
from beam.base import typed_values

Word = Literal["works", "unsupported", "fails"]
Result = Literal["refused", "capped", "written", "read", "not offered"]
FACES: tuple[Face, ...] = ("exec", "dialogue", "terminal")


class Case(Struct, frozen=True, kw_only=True):
    """One test case. It runs with every CLI that has one of the modes in `faces`. `capability` is the capability on an
    adapter's card that the case proves; "" if every CLI must pass the case. `quick`: it runs in every test run, not
    only in `make conformance`."""

    name: str
    title: str
    capability: str = ""
    quick: bool = False
    faces: tuple[Face, ...] = ("exec",)


class Cell(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one case with one CLI. `status` is `works`, `unsupported` (the CLI can't do it, and beam says so)
    or `fails` (`evidence` says why). `test` is the id of the test, `date` the day (UTC). `attempts` is for a case that
    consists of several attempts: it has their results, by the attempt's name and the tool (`file`, `shell`)."""

    status: Word
    test: str
    evidence: str
    date: str
    attempts: dict[str, dict[str, Result]] = {}


class Column(Struct, frozen=True, kw_only=True):
    """One mode of a CLI in the tested version, and its results by the names of the cases."""

    adapter: str
    version: str
    face: Face
    cells: dict[str, Cell]


class Matrix(Struct, frozen=True, kw_only=True):
    """The whole conformance table. `adapters` has a column for each mode of each CLI."""

    v: int = 1
    cases: tuple[Case, ...]
    adapters: tuple[Column, ...]


class MatrixLine(Struct, frozen=True, kw_only=True):
    """One cell as `beam agent list --matrix --json` prints it."""

    adapter: str
    version: str
    face: Face
    case: str
    title: str
    capability: str
    status: Word
    test: str
    evidence: str
    date: str


def matrix() -> Matrix:
    """Return the table that this version of beam contains, without adapters that no longer exist."""
    from importlib.resources import files

    read = typed_values.decode((files("beam.agents") / "conformance.json").read_bytes(), Matrix)
    known = tuple(column for column in read.adapters if column.adapter in registry.ADAPTERS)
    return msgspec.structs.replace(read, adapters=known)


def lines(table: Matrix) -> Iterator[MatrixLine]:
    """Yield a line for every cell of the table, column by column, in the order of the cases."""
    for column in table.adapters:
        for case in table.cases:
            if case.name not in column.cells:
                continue
            cell = column.cells[case.name]
            yield MatrixLine(
                adapter=column.adapter,
                version=column.version,
                face=column.face,
                case=case.name,
                title=case.title,
                capability=case.capability,
                status=cell.status,
                test=cell.test,
                evidence=cell.evidence,
                date=cell.date,
            )


def of_mode(table: Matrix, face: Face) -> tuple[tuple[Case, ...], tuple[Column, ...]]:
    """Return the cases (rows) and the columns of one mode; both are empty if the table has no column of that mode."""
    columns = tuple(column for column in table.adapters if column.face == face)
    return tuple(case for case in table.cases if face in case.faces) if columns else (), columns


def short_names(names: Sequence[str]) -> list[str]:
    """Shorten the names to the same length, as short as possible while they still differ, and at least three
    characters. Of the words of a name, only the last one is used whole, and the others by their initials:
    `claude-agent-acp` is `caacp`, which is cut to `caa` if three characters are enough."""
    whole = [_initials(name) for name in names]
    size = next(size for size in range(3, 65) if len({name[:size] for name in whole}) == len(set(names)))
    return [name[:size] for name in whole]


def _initials(name: str) -> str:
    *before, last = name.split("-")
    return "".join(word[:1] for word in before) + last
