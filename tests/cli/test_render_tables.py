"""Tables on a terminal and in a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from beam.cli.render import tables
from beam.cli.render.tables import print_columns

HEAD = ("RESULT", "WHAT", "DETAIL")
ROWS = [("ok", "root", "x" * 100), ("note", "agent claude", "not installed")]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stdout counts as a terminal."""
    monkeypatch.setattr(tables, "is_terminal", lambda _: True)


@pytest.mark.usefixtures("terminal")
def test_a_long_last_column_is_cut_and_the_others_stay_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_columns(HEAD, ROWS)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "RESULT  WHAT          DETAIL",
        f"ok      root          {'x' * 17}…",
        "note    agent claude  not installed",
    ]


@pytest.mark.usefixtures("terminal")
def test_a_table_without_rows_is_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(HEAD, [])
    assert capsys.readouterr().out.split() == list(HEAD)


def test_a_pipe_gets_whole_cells_parted_by_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(HEAD, [("ok", "a\tb", "x\ny")])
    assert capsys.readouterr().out == "RESULT\tWHAT\tDETAIL\nok\ta b\tx y\n"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("encoding", "drawn"), [("latin-1", "é ?"), ("ascii", "\\xe9 ...")])
def test_a_terminal_without_some_characters_gets_signs_in_their_place(
    monkeypatch: pytest.MonkeyPatch, encoding: str, drawn: str
) -> None:
    drawn_on = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(drawn_on, encoding=encoding))
    print_columns(HEAD, [("ok", "é …", "x")])
    sys.stdout.flush()
    assert drawn in drawn_on.getvalue().decode(encoding)
