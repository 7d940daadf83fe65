"""What programs answer that are asked for their versions: shell scripts stand for CLIs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from beam.api import cli_answers
from beam.api.cli_answers import Answer, CliAnswers, Command
from tests.support.cli import eventually, processes_with

pytestmark = pytest.mark.slow


def program(folder: Path, text: str, mode: int = 0o755) -> Command:
    path = folder / "cli"
    path.write_text(text)
    path.chmod(mode)
    return str(path), "--version"


def answer(argv: Command) -> Answer:
    with CliAnswers(os.environ) as answers:
        answers.ask(argv)
        came = answers.take(wait=True)
        assert answers.take(wait=True) == {}
    return came[argv]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\necho; echo ' 1.0 '; echo more; echo 2.0 >&2\n", Answer("1.0")),
        ("#!/bin/sh\necho 2.0 >&2; echo 3.0 >&2\n", Answer("2.0")),
        ("#!/bin/sh\nsleep 60 & echo 1.0\n", Answer("1.0")),
        ("#!/bin/sh\n:\n", Answer("")),
        ("#!/bin/sh\necho 1.0; echo 'no node' >&2; exit 3\n", Answer("", "--version fails (exit code 3): no node")),
        ("#!/bin/sh\nkill -9 $$\n", Answer("", "--version fails (ended by signal 9)")),
        ("#!/nowhere/sh\n", Answer("", "needs an interpreter that does not exist here", is_stopped=True)),
        ("\0junk", Answer("", "is not a program for this machine", is_stopped=True)),
    ],
)
def test_the_first_line_is_the_answer_and_what_went_wrong_is_said(tmp_path: Path, text: str, said: Answer) -> None:
    assert answer(program(tmp_path, text)) == said


def test_what_may_not_be_run_is_said(tmp_path: Path) -> None:
    said = Answer("", "may not be executed", is_stopped=True)
    assert answer(program(tmp_path, "#!/bin/sh\n", 0o600)) == said


def test_what_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_answers, "ANSWER_SECONDS", 0.5)
    argv = program(tmp_path, f"#!/bin/sh\necho 1.0\nexport MARK={tmp_path}/mark\nsleep 60 & wait\n")
    with CliAnswers(os.environ) as answers:
        answers.ask(argv)
        eventually(lambda: processes_with(f"{tmp_path}/mark") != [])
        assert answers.take(wait=True) == {argv: Answer("1.0", "--version does not end within 0.5 s")}
    eventually(lambda: processes_with(str(tmp_path)) == [], what="its child is left")


def test_a_flood_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_answers, "ANSWER_SECONDS", 0.5)
    flood = answer(program(tmp_path, "#!/bin/sh\nexec yes | tr -d '\\n'\n"))
    assert len(flood.text) <= cli_answers._MAX_BYTES * 2 and "does not end" in flood.problem


def test_a_slow_one_keeps_no_other_back_and_is_ended_with_the_context(tmp_path: Path) -> None:
    slow = program(tmp_path, "#!/bin/sh\nsleep 60\n")
    with CliAnswers(os.environ) as answers:
        answers.ask(slow)
        answers.ask(("/bin/echo", "1"))
        assert answers.take(wait=True) == {("/bin/echo", "1"): Answer("1")}
        assert answers.take(wait=False) == {} and processes_with(str(tmp_path)) != []
    assert processes_with(str(tmp_path)) == []


def test_a_program_is_started_once_however_often_it_is_asked(tmp_path: Path) -> None:
    argv = program(tmp_path, f"#!/bin/sh\necho 1 >> {tmp_path}/calls; echo {time.time_ns()}\n")
    with CliAnswers(os.environ) as answers:
        for _ in range(2):
            answers.ask(argv)
            answers.ask(argv)
            assert list(answers.take(wait=True)) == [argv]
    assert (tmp_path / "calls").read_text() == "1\n"
