"""The global options: where beam works, what it says, and to whom."""

from __future__ import annotations

import os
import pty
from pathlib import Path

import pytest

from beam.base.errors import UsageError
from beam.cli.context import Context
from beam.cli.streams import is_colourful, is_interactive, is_terminal


def test_dash_c_is_where_paths_begin(tmp_path: Path) -> None:
    call = Context(directory=str(tmp_path))
    assert (call.cwd, call.path("a"), call.path("/b")) == (tmp_path, tmp_path / "a", Path("/b"))


def test_dash_c_must_be_a_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        _ = Context(directory=str(tmp_path / "absent")).cwd


def test_a_note_is_a_line_unless_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    Context().note("said")
    Context(quiet=True).note("not said")
    Context().detail("not said")
    Context(verbose=True).detail("said too")
    assert capsys.readouterr() == ("", "beam: said\nbeam: said too\n")


def test_a_terminal_of_ci_is_one_but_nobody_sits_there(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as stream, os.fdopen(master):
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.delenv("CI", raising=False)
        assert (is_terminal(stream), is_interactive(stream), is_colourful(stream)) == (True, True, True)
        monkeypatch.setenv("NO_COLOR", "1")
        assert (is_interactive(stream), is_colourful(stream)) == (True, False)
        monkeypatch.delenv("NO_COLOR")
        monkeypatch.setenv("TERM", "dumb")
        assert is_colourful(stream) is False
        monkeypatch.setenv("CI", "true")
        assert (is_terminal(stream), is_interactive(stream)) == (True, False)


def test_a_pipe_and_a_closed_stream_are_no_terminals() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w") as stream:
        assert is_terminal(stream) is False
    assert is_terminal(stream) is False
    assert is_terminal(None) is False
