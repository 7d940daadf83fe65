"""Tables on a terminal and in a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from beam.cli.render.tables import print_columns

HEAD = ("RESULT", "WHAT", "DETAIL")
ROWS = [("ok", "root", "x" * 100), ("note", "agent claude", "not installed")]


def test_a_long_last_column_is_cut_and_the_others_stay_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_columns(HEAD, ROWS, wide=True)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "RESULT  WHAT          DETAIL",
        f"ok      root          {'x' * 17}…",
        "note    agent claude  not installed",
    ]


def test_a_table_without_rows_is_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(HEAD, [], wide=True)
    assert capsys.readouterr().out.split() == list(HEAD)


def test_a_pipe_gets_whole_cells_parted_by_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(HEAD, [("ok", "a\tb", "x\ny")], wide=False)
    assert capsys.readouterr().out == "RESULT\tWHAT\tDETAIL\nok\ta b\tx y\n"


@pytest.mark.parametrize(("encoding", "drawn"), [("latin-1", "é ?"), ("ascii", "\\xe9 ...")])
def test_a_terminal_without_some_characters_gets_signs_in_their_place(
    monkeypatch: pytest.MonkeyPatch, encoding: str, drawn: str
) -> None:
    terminal = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(terminal, encoding=encoding))
    print_columns(HEAD, [("ok", "é …", "x")], wide=True)
    sys.stdout.flush()
    assert drawn in terminal.getvalue().decode(encoding)
