"""The conformance table for people and for programs."""

from __future__ import annotations

import sys
import textwrap

from beam import conformance
from beam.cli.render.text import escape_controls, write

MARKS: dict[conformance.Word, str] = {"works": "✓", "unsupported": "-", "fails": "✗"}
MODES: dict[conformance.Face, str] = {"exec": "headless", "dialogue": "own protocol", "terminal": "on its screen"}
MEANING = "✓ works   - unsupported, and beam says so   ✗ fails"
_WIDTH = 79


def print_table(table: conformance.Matrix) -> None:
    """Print the table for a person: for each mode a row per case and a narrow column per CLI, then the legend and the
    reasons of failures."""
    versions = {column.adapter: column.version for column in table.adapters}
    short = dict(zip(versions, conformance.short_names(tuple(versions)), strict=True))
    title = max((len(case.title) for case in table.cases), default=0)
    for face in conformance.FACES:
        cases, columns = conformance.of_mode(table, face)
        if columns:
            _print_row(MODES[face].upper(), title, [short[column.adapter] for column in columns])
        for case in cases:
            cells = [column.cells.get(case.name) for column in columns]
            marks = [" " if cell is None else MARKS[cell.status] for cell in cells]
            names = (short[column.adapter] for column in columns)
            _print_row(case.title, title, [mark.center(len(name)) for mark, name in zip(marks, names, strict=True)])
        if columns:
            write(sys.stdout, "\n")
    write(sys.stdout, f"{MEANING}\n")
    told = (f"{short[name]} {name} {version}" for name, version in versions.items())
    _print_paragraph(", ".join(word.replace(" ", "\xa0") for word in told))
    for line in conformance.lines(table):
        if line.status == "fails":
            _print_paragraph(f"✗ {line.adapter}, {MODES[line.face]}, {line.title}: {line.evidence}")


def print_tabs(table: conformance.Matrix) -> None:
    """Print the table for a program: separated by tabs, names in full; a cell that was not run is empty."""
    adapters = list(dict.fromkeys(column.adapter for column in table.adapters))
    write(sys.stdout, "\t".join(["MODE", "CASE", *adapters]) + "\n")
    for face in conformance.FACES:
        cases, columns = conformance.of_mode(table, face)
        for case in cases:
            cells = {column.adapter: cell for column in columns if (cell := column.cells.get(case.name))}
            words = (cells[name].status if name in cells else "" for name in adapters)
            write(sys.stdout, "\t".join([face, case.title, *words]) + "\n")


def _print_row(title: str, width: int, cells: list[str]) -> None:
    write(sys.stdout, " ".join([title.ljust(width), *cells]).rstrip() + "\n")


def _print_paragraph(text: str) -> None:
    for line in textwrap.wrap(escape_controls(text), _WIDTH, subsequent_indent="  ", break_on_hyphens=False):
        write(sys.stdout, line.replace("\xa0", " ") + "\n")
