"""The conformance table for people and for programs."""

from __future__ import annotations

import sys
import textwrap

from beam import conformance
from beam.cli.render.text import escape_controls, write

MARKS: dict[conformance.Word, str] = {"works": "✓", "unsupported": "-", "fails": "✗"}
MEANING = "✓ works   - unsupported, and beam says so   ✗ fails"
_WIDTH = 79


def as_table(table: conformance.Matrix) -> None:
    """Print it for a person: a row per case, a narrow column per CLI, then the legend and the reasons of failures."""
    names = conformance.short_names([column.adapter for column in table.adapters])
    title = max((len(case.title) for case in table.cases), default=0)
    _row("", title, names)
    for case in table.cases:
        cells = [column.cells.get(case.name) for column in table.adapters]
        marks = [" " if cell is None else MARKS[cell.status] for cell in cells]
        _row(case.title, title, [mark.center(len(name)) for mark, name in zip(marks, names, strict=True)])
    columns = zip(names, table.adapters, strict=True)
    versions = (f"{name} {column.adapter} {column.version}" for name, column in columns)
    write(sys.stdout, f"\n{MEANING}\n")
    _paragraph(", ".join(word.replace(" ", "\xa0") for word in versions))
    for line in conformance.lines(table):
        if line.status == "fails":
            _paragraph(f"✗ {line.adapter}, {line.title}: {line.evidence}")


def as_tabs(table: conformance.Matrix) -> None:
    """Print it for a program: separated by tabs, names in full; a cell that was not run is empty."""
    write(sys.stdout, "\t".join(["CASE", *(column.adapter for column in table.adapters)]) + "\n")
    for case in table.cases:
        cells = (column.cells.get(case.name) for column in table.adapters)
        words = ("" if cell is None else cell.status for cell in cells)
        write(sys.stdout, "\t".join([case.title, *words]) + "\n")


def _row(title: str, width: int, cells: list[str]) -> None:
    write(sys.stdout, " ".join([title.ljust(width), *cells]).rstrip() + "\n")


def _paragraph(text: str) -> None:
    for line in textwrap.wrap(escape_controls(text), _WIDTH, subsequent_indent="  ", break_on_hyphens=False):
        write(sys.stdout, line.replace("\xa0", " ") + "\n")
