"""What real agent CLIs were seen to do, as a table."""

from __future__ import annotations

import pytest

from beam.api.matrix import Case, Cell, Column, Matrix, Word
from beam.cli.render import matrix


def cell(status: Word, evidence: str = "seen") -> Cell:
    return Cell(status=status, test="t", evidence=evidence, date="2026-01-02")


TABLE = Matrix(
    cases=(
        Case(name="first", title="a first turn", faces=("exec", "terminal")),
        Case(name="resume", title="it goes on", faces=("exec",)),
    ),
    adapters=(
        Column(
            adapter="claude", version="2.1", face="exec", cells={"first": cell("works"), "resume": cell("unsupported")}
        ),
        Column(adapter="codex", version="0.9", face="exec", cells={"first": cell("fails", "no\x1b answer " * 9)}),
        Column(adapter="claude", version="2.1", face="terminal", cells={"first": cell("works")}),
    ),
)


def test_a_person_gets_a_block_a_mode_a_legend_and_the_reasons_of_failures(capsys: pytest.CaptureFixture[str]) -> None:
    matrix.print_table(TABLE)
    assert capsys.readouterr().out.splitlines() == [
        "HEADLESS     cla cod",
        "a first turn  ✓   ✗",
        "it goes on    -",
        "",
        "ON ITS SCREEN cla",
        "a first turn  ✓",
        "",
        "✓ works   - unsupported, and beam says so   ✗ fails",
        "cla claude 2.1, cod codex 0.9",
        "✗ codex, headless, a first turn: no␛ answer no␛ answer no␛ answer no␛ answer",
        "  no␛ answer no␛ answer no␛ answer no␛ answer no␛ answer",
    ]


def test_a_program_gets_names_in_full_and_an_empty_cell_where_nothing_was_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    matrix.print_tabs(TABLE)
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == [
        ["MODE", "CASE", "claude", "codex"],
        ["exec", "a first turn", "works", "fails"],
        ["exec", "it goes on", "unsupported", ""],
        ["terminal", "a first turn", "works", ""],
    ]


def test_an_empty_table_is_only_a_legend(capsys: pytest.CaptureFixture[str]) -> None:
    matrix.print_table(Matrix(cases=(), adapters=()))
    assert capsys.readouterr().out == f"{matrix.MEANING}\n"


def test_names_of_versions_are_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("aider", "cline", "codex", "gemini", "opencode", "qwen")
    columns = tuple(Column(adapter=name, version="1.0 of-a-day", face="exec", cells={}) for name in names)
    matrix.print_table(Matrix(cases=(), adapters=columns))
    assert capsys.readouterr().out.splitlines()[3:] == [
        "aid aider 1.0 of-a-day, cli cline 1.0 of-a-day, cod codex 1.0 of-a-day,",
        "  gem gemini 1.0 of-a-day, ope opencode 1.0 of-a-day, qwe qwen 1.0 of-a-day",
    ]
