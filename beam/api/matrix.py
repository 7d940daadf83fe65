"""The conformance table: what each agent CLI was seen to do, by a test that ran the real one.

The data is `beam/agents/conformance.json`, which `make conformance` writes and nobody edits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from beam.agents import registry

Word = Literal["works", "unsupported", "fails"]
Result = Literal["refused", "capped", "written", "read", "not offered"]


class Case(Struct, frozen=True, kw_only=True):
    """One thing that was tried with every CLI. `capability` is the part of an adapter's card that it proves, "" for
    what every CLI must do; `quick`: it is tried in each run of the tests, not only by `make conformance`."""

    name: str
    title: str
    capability: str = ""
    quick: bool = False


class Cell(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of it. `works`; `unsupported` and beam says so; `fails`, and `evidence` says why. `test` is the id of
    the test that ran, `date` the day (UTC). `attempts`, where the case is of many: what came of each, by its name and
    by the tool (`file`, `shell`)."""

    status: Word
    test: str
    evidence: str
    date: str
    attempts: dict[str, dict[str, Result]] = {}


class Column(Struct, frozen=True, kw_only=True):
    """One CLI, in the version that was run, and its cells by the names of the cases."""

    adapter: str
    version: str
    face: str
    cells: dict[str, Cell]


class Matrix(Struct, frozen=True, kw_only=True):
    """The whole table."""

    v: int = 1
    cases: tuple[Case, ...]
    adapters: tuple[Column, ...]


class MatrixLine(Struct, frozen=True, kw_only=True):
    """One cell as `beam agent list --matrix --json` prints it."""

    adapter: str
    version: str
    face: str
    case: str
    title: str
    capability: str
    status: Word
    test: str
    evidence: str
    date: str


def matrix() -> Matrix:
    """Return the table that this beam was shipped with, without adapters that it does not know any more."""
    from importlib.resources import files

    read = msgspec.json.decode((files("beam.agents") / "conformance.json").read_bytes(), type=Matrix)
    known = tuple(column for column in read.adapters if column.adapter in registry.ADAPTERS)
    return msgspec.structs.replace(read, adapters=known)


def lines(table: Matrix) -> Iterator[MatrixLine]:
    """Yield every cell, one adapter after the other, in the order of the cases."""
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


def short_names(names: list[str]) -> list[str]:
    """Cut the names to the same few letters, so few that they still differ."""
    size = next(size for size in range(3, 65) if len({name[:size] for name in names}) == len(set(names)))
    return [name[:size] for name in names]
