"""Calls in a folder's own repository: its configuration is looked at before each that can run a program."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from beam.worktree.repository import Repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "shop"
    for name in ("objects", "refs"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git/config").write_text("[core]\n\tbare = false\n")
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.touch(mode=0o755)
    return {"PATH": str(program.parent), "HOME": str(tmp_path / "home")}


@pytest.fixture
def repository(folder: Path, environ: dict[str, str]) -> Repository:
    return Repository(folder, environ)


def configure(folder: Path) -> None:
    with (folder / ".git/config").open("a") as file:
        file.write('[filter "x"]\n\tclean = run-me\n')


def turned_off(repository: Repository, *words: str) -> dict[str, str]:
    """The settings by which this call keeps git from programs."""
    env = repository.call(*words).env
    count = int(env.get("GIT_CONFIG_COUNT", "0"))
    return {env[f"GIT_CONFIG_KEY_{number}"]: env[f"GIT_CONFIG_VALUE_{number}"] for number in range(count)}


def test_a_program_that_is_configured_after_the_first_look_is_turned_off_in_the_next_call(
    folder: Path, repository: Repository
) -> None:
    assert turned_off(repository, "add", "--all") == {}
    configure(folder)
    assert turned_off(repository, "add", "--all").get("filter.x.clean") == ""


@pytest.mark.parametrize("word", ["add", "apply", "branch", "commit", "diff", "update-index", "worktree"])
def test_the_configuration_is_looked_at_before_each_command_that_can_run_a_program(
    folder: Path, repository: Repository, word: str
) -> None:
    configure(folder)
    assert "filter.x.clean" in turned_off(repository, word)


@pytest.mark.parametrize("trusted", [True, False])
def test_what_a_folder_names_counts_if_it_is_trusted_and_as_it_was_at_first(
    folder: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    configure(folder)
    monkeypatch.setattr("beam.worktree.repository.ledger.standing_of", lambda *_: SimpleNamespace(trusted=trusted))
    repository = Repository(folder, environ)
    assert ("filter.x.clean" in turned_off(repository, "add")) is not trusted
    with (folder / ".git/config").open("a") as file:
        file.write('[diff "y"]\n\tcommand = run-me\n')
    assert {"filter.x.clean", "diff.y.command"} <= set(turned_off(repository, "add"))
