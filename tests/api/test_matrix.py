"""The shipped conformance table, read as a program and a person read it."""

from __future__ import annotations

import msgspec
import pytest

from beam.api import matrix
from beam.cli.render.matrix import MARKS, MEANING
from tests.support.cli import Cli
from tests.support.terminal import Terminal


def test_it_has_every_cell_as_a_line_with_its_test_and_evidence() -> None:
    table = matrix.matrix()
    found = list(matrix.lines(table))
    assert len(found) == sum(len(column.cells) for column in table.adapters) > 300
    assert all(line.test.startswith("tests/") and line.evidence and line.date for line in found)
    assert {line.status for line in found} <= set(MARKS)


def test_names_are_cut_to_the_same_few_letters_that_still_differ() -> None:
    assert matrix.short_names(["claude", "cline", "cn"]) == ["cla", "cli", "cn"]
    assert matrix.short_names(["alpha", "alpine"]) == ["alph", "alpi"]
    assert matrix.short_names(["claude", "claude-agent-acp", "codex-acp"]) == ["cla", "caa", "cac"]


def test_each_mode_has_its_own_rows_and_columns() -> None:
    cases = tuple(
        matrix.Case(name=name, title=name, faces=faces)
        for name, faces in (("a", ("exec",)), ("b", ("exec", "dialogue")), ("c", ("dialogue",)))
    )
    columns = tuple(matrix.Column(adapter="x", version="1", face=face, cells={}) for face in ("exec", "dialogue"))
    table = matrix.Matrix(cases=cases, adapters=columns)
    named = {face: [case.name for case in matrix.of_mode(table, face)[0]] for face in matrix.FACES}
    assert named == {"exec": ["a", "b"], "dialogue": ["b", "c"], "terminal": []}
    assert matrix.of_mode(table, "dialogue")[1] == columns[1:] and matrix.of_mode(table, "terminal")[1] == ()


@pytest.mark.acceptance
def test_beam_agent_list_matrix_is_a_table_with_tabs_for_a_program_and_json_lines(beam: Cli) -> None:
    table = matrix.matrix()
    head, *rows = beam("agent", "list", "--matrix").out.splitlines()
    adapters = list(dict.fromkeys(column.adapter for column in table.adapters))
    assert head.split("\t") == ["MODE", "CASE", *adapters]
    shown = [(face, case.title) for face in matrix.FACES for case in matrix.of_mode(table, face)[0]]
    assert [tuple(row.split("\t")[:2]) for row in rows] == shown
    assert {word for row in rows for word in row.split("\t")[2:]} <= {*MARKS, ""}
    lines = beam("agent", "list", "--matrix", "--json").lines
    assert lines == [msgspec.to_builtins(line) for line in matrix.lines(table)]
    assert not beam.root.exists()


@pytest.mark.acceptance
def test_on_a_terminal_it_fits_80_columns_and_says_what_its_marks_mean(beam: Cli) -> None:
    terminal = Terminal(beam, "agent", "list", "--matrix")
    assert terminal.end() == 0
    lines = terminal.seen.splitlines()
    assert max(map(len, lines)) <= 79
    assert MEANING in lines
    for column in matrix.matrix().adapters:
        assert f"{column.adapter} {column.version}" in " ".join(terminal.seen.split())
