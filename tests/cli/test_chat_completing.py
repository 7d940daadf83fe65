"""Completion in a chat: commands, names and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.cli.chatting.completing import completions
from beam.cli.chatting.words import ALONE_COMMANDS, TOGETHER_COMMANDS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name in ("src/parse.py", "src/print.py", "readme.md", ".hidden", "evil\x1b[31m.md", "with space.md"):
        (tmp_path / name).touch()
    return tmp_path


def found(before: str, folder: Path, table: dict[str, str] = ALONE_COMMANDS, **more: list[str]) -> list[str]:
    """The texts that would stand before the cursor."""
    return [
        before[: len(before) + start] + word for word, start, _ in completions(before, table, folder=folder, **more)
    ]


def test_commands_are_completed_at_the_beginning_alone(folder: Path) -> None:
    assert found("/mo", folder) == ["/model"]
    assert found("/co", folder, own=["/compact"]) == ["/compact"]
    assert found("say /mo", folder) == []


def test_a_file_takes_the_place_of_what_begins_with_an_at(folder: Path) -> None:
    assert found("look at @r", folder) == ["look at readme.md"]
    assert found("@s", folder) == ["src/"]
    assert found("see src/p", folder) == ["see src/parse.py", "see src/print.py"]
    assert found("/attach re", folder) == ["/attach readme.md"]


def test_hidden_files_need_a_dot_and_names_that_a_terminal_would_obey_are_left_out(folder: Path) -> None:
    assert found("@", folder) == ["readme.md", "src/"]
    assert found("@.h", folder) == [".hidden"]
    assert found("@evil", folder) == []


def test_agents_are_completed_where_one_is_named(folder: Path) -> None:
    names = ["ann", "bob"]
    assert found("/as a", folder, TOGETHER_COMMANDS, names=names) == ["/as ann"]
    assert found("/next ", folder, TOGETHER_COMMANDS, names=names) == ["/next ann", "/next bob"]
    assert found("well @b", folder, TOGETHER_COMMANDS, names=names) == ["well @bob"]
    assert found("/as ann b", folder, TOGETHER_COMMANDS, names=names) == []


@pytest.mark.slow
def test_what_is_no_folder_or_has_many_files_is_no_error(folder: Path) -> None:
    assert found("@nowhere/x", folder) == []
    assert found("@~nobody-of-that-name/x", folder) == []
    assert found("@a\0b/", folder) == []
    for number in range(300):
        (folder / f"many{number}").touch()
    assert len(found("@many", folder)) <= 201
    (folder / "src").chmod(0)
    assert isinstance(found("@src/p", folder), list)
    (folder / "src").chmod(0o700)
