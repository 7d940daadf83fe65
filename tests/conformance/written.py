"""The shipped table of conformance cells: how it is read, and how a run is written into it."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from beam.api import matrix
from tests.conformance import cases
from tests.conformance.adapters import columns, pinned

FILE = Path(__file__).parents[2] / "beam" / "agents" / "conformance.json"
MODULES = (
    "conversation",
    "tools",
    "options",
    "prompts",
    "failures",
    "outcomes",
    "stops",
    "reach",
    "folder",
    "screen",
    "screen_acts",
)
OF_EACH_CLI = ("dialogue",)  # their tests are in a file for each CLI
_EVIDENCE_CHARACTERS = 160


def all_cases() -> dict[str, cases.Case]:
    """Every case there is, by name, in the order of the table."""
    for name in MODULES:
        importlib.import_module(f"tests.conformance.test_cells_{name}")
    for name in OF_EACH_CLI:
        importlib.import_module(f"tests.conformance.{name}")
    files = (*MODULES, *(f"{name}_{{cli}}" for name in OF_EACH_CLI))
    order = {f"test_cells_{name}": place for place, name in enumerate(files)}
    found = list(cases.CASES.values())
    found.sort(key=lambda case: order[Path(case.test.partition("::")[0]).stem])
    return {case.name: case for case in found}


def write(seen: Iterable[Mapping[str, Any]], *, date: str) -> None:
    """Puts the cells of one run into the file. Those of another version, of no case and of no column any more go."""
    known, versions = all_cases(), pinned()
    faces = [face for face in matrix.FACES if any(face in case.faces for case in known.values())]
    before = {(column.adapter, column.face): column for column in read().adapters} if FILE.exists() else {}
    written = []
    for column in columns(faces):
        version, kept = versions[column.adapter], before.get((column.adapter, column.face))
        cells = dict(kept.cells) if kept is not None and kept.version == version else {}
        for cell in seen:
            if cell["column"] == column.id:
                case = known[cell["case"]]
                cells[case.name] = matrix.Cell(
                    status=msgspec.convert(cell["status"], matrix.Word),
                    test=case.test_id(column),
                    evidence=told(cell["evidence"]),
                    date=date,
                    attempts=cell.get("attempts", {}),
                )
        ordered = {name: cells[name] for name, case in known.items() if name in cells and column.face in case.faces}
        written.append(matrix.Column(adapter=column.adapter, version=version, face=column.face, cells=ordered))
    rows = tuple(
        matrix.Case(name=case.name, title=case.title, capability=case.capability, quick=case.quick, faces=case.faces)
        for case in known.values()
    )
    FILE.write_text(_text(matrix.Matrix(cases=rows, adapters=tuple(written))), "utf-8")


def read() -> matrix.Matrix:
    """The file as it is, adapters that are gone included."""
    return msgspec.json.decode(FILE.read_bytes(), type=matrix.Matrix)


def told(evidence: str) -> str:
    """The evidence as the file has it: short, on one line, with no path of the machine and no process's number."""
    text = re.sub(r"(?<![\w.:/])/(?:[\w.@+-]+/)+[\w.@+-]*", "PATH", " ".join(evidence.split()))
    text = re.sub(r"127\.0\.0\.1:\d+", "the model's address", text)
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID", text)
    return text if len(text) <= _EVIDENCE_CHARACTERS else text[: _EVIDENCE_CHARACTERS - 1] + "…"


def _text(table: matrix.Matrix) -> str:
    """JSON with a case and a cell a line, so that a difference can be read."""

    def line(value: object) -> str:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)

    cases_ = ",\n".join(f"    {line(case)}" for case in table.cases)
    columns = []
    for column in table.adapters:
        head = line({"adapter": column.adapter, "version": column.version, "face": column.face})[:-1]
        cells = ",\n".join(f"      {json.dumps(name)}: {line(cell)}" for name, cell in column.cells.items())
        columns.append(f'    {head}, "cells": {{\n{cells}\n    }}}}')
    adapters = ",\n".join(columns)
    return f'{{\n  "v": {table.v},\n  "cases": [\n{cases_}\n  ],\n  "adapters": [\n{adapters}\n  ]\n}}\n'
