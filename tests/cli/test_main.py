"""The entrance: every error comes up here, and the exit code goes out."""

from __future__ import annotations

import errno
import io

import pytest

from beam import __version__
from beam.cli import app, main


def test_the_version_is_printed_from_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert main.run(["-q", "--version"]) == 0
    assert capsys.readouterr().out == f"beam {__version__}\n" * 2


def test_a_version_that_can_not_be_written_is_an_error_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stdout", Full())
    assert main.run(["--version"]) == 74
    assert capsys.readouterr().err == "beam: can't write to stdout: No space left on device\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["queue", "drop"], "there is no message to remove; beam queue drop ID, or beam queue drop --dead"),
        (["run", "s.yaml", "--ci", "--no-ci"], "--ci and --no-ci don't go together; leave one out"),
        (
            ["run", "s.yaml", "--on-miss", "live"],
            "--on-miss is for --record DIR and --replay DIR; add one, or leave --on-miss out",
        ),
    ],
)
def test_options_that_mean_nothing_together_are_refused_before_anything_is_looked_at(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == 2
    assert capsys.readouterr() == ("", f"beam: {said}\n")


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["help", "wait"]) == 0
    assert capsys.readouterr().out.startswith("Usage: beam wait")


@pytest.mark.slow
def test_an_error_becomes_its_exit_code_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["nonsense"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("beam: no command of beam is called 'nonsense'")


def test_a_misspelt_command_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["queue", "lst"]) == 2
    assert "did you mean `beam queue list`?" in capsys.readouterr().err


@pytest.mark.slow
def test_a_word_that_is_near_nothing_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["agent", "upgrade"]) == 2
    said = capsys.readouterr().err
    assert "did you mean" not in said
    assert "there are: list, show" in said


@pytest.mark.slow
def test_an_agents_name_in_a_commands_place_is_told_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["claude", "hi there", "--new"]) == 2
    said = capsys.readouterr().err
    assert said == (
        "beam: 'claude' is an agent, and no command; to send it a message: beam send claude 'hi there' --new\n"
    )


@pytest.mark.slow
def test_a_misspelt_option_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["send", "scripted", "hi", "--modle", "x"]) == 2
    assert capsys.readouterr().err == "beam: no such option: --modle; did you mean --model?\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv",
    [
        ["--json", "agent", "list"],
        ["agent", "--json", "list"],
        ["agent", "list", "--json"],
        ["-q", "agent", "list", "-q", "--json"],
        ["agent", "-v", "list", "-v", "--json"],
    ],
)
def test_options_that_hold_everywhere_are_taken_anywhere(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*argv, "--all"]) == 0
    assert '"agent":"claude"' in capsys.readouterr().out


def test_json_before_a_command_without_it_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--json", "attach", "x"]) == 2
    assert "beam attach has no --json" in capsys.readouterr().err


def test_every_command_is_in_the_help_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([]) == 0
    out = capsys.readouterr().out
    for name, (section, _, line) in app.COMMANDS.items():
        assert f"\n  {name} " in out
        assert f"{section}:\n" in out
        assert line.split(",")[0][:30] in out


@pytest.mark.slow
def test_every_command_of_the_table_can_be_imported() -> None:
    import typer.main

    group = typer.main.get_command(app.app)
    assert isinstance(group, app.Commands)
    with group.make_context("beam", ["--help"], resilient_parsing=True) as ctx:
        for name in app.COMMANDS:
            command = group.get_command(ctx, name)
            assert command is not None, name
            assert command.help, name
