"""The one handler: which error says what, where, and ends with which code."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
import typer

from beam.base.errors import DiskError, LimitError, NotFoundError, UsageError
from beam.cli import errors, main


def test_an_error_of_beam_is_one_line_with_its_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.handle(NotFoundError("no agent is called 'x'", "did you mean y?", subject="x"), []) == 4
    assert capsys.readouterr() == ("", "beam: no agent is called 'x'; did you mean y?\n")


def test_with_json_it_is_one_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.handle(LimitError("too much", "less", subject="x"), ["send", "--json"]) == 7
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "v": 1,
        "error": {"exit_code": 7, "kind": "limit", "message": "too much", "hint": "less", "subject": "x"},
    }
    assert said.err == "beam: too much; less\n"


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [(["--json"], True), (["send", "a", "--events"], True), (["--", "--json"], False), (["send"], False), ([], False)],
)
def test_json_is_wanted_where_an_option_says_so(argv: list[str], wanted: bool) -> None:
    assert errors.wants_json(argv) is wanted


def test_what_is_no_text_is_reported_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.handle(UsageError("bad \udcff name", subject="\udcff"), ["--json"]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["subject"] == "\\udcff"
    assert said.err == "beam: bad \\udcff name\n"


def test_a_message_of_several_lines_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    errors.handle(UsageError("one\ntwo"), [])
    assert capsys.readouterr().err == "beam: one two\n"


def test_an_error_of_the_system_names_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.handle(PermissionError(13, "Permission denied", "/x/y"), []) == 74
    assert capsys.readouterr().err == "beam: /x/y: Permission denied\n"


def test_a_full_disk_under_stdout_is_reported_as_an_error_of_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.handle(OSError(errno.ENOSPC, "No space left on device"), []) == 74
    assert capsys.readouterr().err == "beam: can't write to stdout: No space left on device\n"
    assert errors.handle(OSError(errno.EIO, "Input/output error"), []) == 74
    assert capsys.readouterr().err == "beam: a stream of this command: Input/output error\n"


@pytest.mark.parametrize(
    ("file", "hint"),
    [("claude", "type: beam send claude hi"), ("plan.yaml", "beam run --help"), ("a/claude", "beam run --help")],
)
def test_a_second_word_of_run_is_taken_for_a_prompt_if_the_first_is_no_file(
    capsys: pytest.CaptureFixture[str], file: str, hint: str
) -> None:
    assert main.run(["run", file, "hi"]) == 2
    assert capsys.readouterr().err == f"beam: got unexpected extra argument(s) (hi); {hint}\n"


def test_a_disk_error_is_74() -> None:
    assert errors.handle(DiskError("can't write /x"), []) == 74


def test_a_lack_of_memory_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.handle(MemoryError(), []) == 1
    assert capsys.readouterr().err.startswith("beam: beam got no more memory; try it again when less runs")


def test_an_exit_is_its_code() -> None:
    assert errors.handle(typer.Exit(3), []) == 3
    assert errors.handle(SystemExit(4), []) == 4


def test_a_bug_leaves_its_traceback_in_a_file_without_secrets(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    key = "sk-ant-api03-" + "a" * 80
    try:
        raise ValueError(f"the key was {key}")
    except ValueError as error:
        assert errors.handle(error, []) == 70
    said = capsys.readouterr().err
    (file,) = tmp_path.iterdir()
    assert str(file) in said
    assert key not in said + file.read_text()
    assert "ValueError" in file.read_text()


def test_a_bug_on_a_full_disk_is_still_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    try:
        raise ValueError("odd")
    except ValueError as error:
        assert errors.handle(error, []) == 70
    assert "could not be written" in capsys.readouterr().err


def test_no_message_is_a_command_of_githubs_runner(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, marked in (("true", False), ("", True)):
        monkeypatch.setenv("GITHUB_ACTIONS", value)
        errors.complain("unknown key ##[stop-commands]x", ["##[error]y"])
        assert ("##[" in capsys.readouterr().err) == marked
