"""The examples in the help: each command has some, a shell reads them, and beam takes their arguments."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from beam.cli.examples import EXAMPLES
from tests.support import made
from tests.support.typed import parsed, refused

LINES = [(path, line) for path, lines in EXAMPLES.items() for line in lines]


@pytest.mark.slow
def test_each_command_has_examples_and_no_other_name_has() -> None:
    assert set(EXAMPLES) == {path for path, _ in made.commands()}


@pytest.mark.slow
def test_a_shell_reads_every_example() -> None:
    subprocess.run(["bash", "-n", "-c", "\n".join(line for _, line in LINES)], check=True)


def test_each_example_fits_in_80_columns() -> None:
    assert [line for _, line in LINES if len(line) > 78] == []


@pytest.mark.slow
def test_an_example_is_of_its_command_and_beam_takes_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("stdout.jsonl", "screen.cast", "notes.md", "answers.yaml"):
        (tmp_path / name).touch()
    assert refused([line for _, line in LINES], tmp_path) == []
    assert [(path, line) for path, line in LINES if parsed(line, tmp_path)[: len(path.split())] != path.split()] == []
