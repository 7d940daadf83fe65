"""Calls of git: which program, its configuration and its environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam.worktree.calls import GitCall, GitError, PrivateRepository, call_in_folder, call_in_private_repository

_STRANGERS = {
    "GIT_DIR": "/elsewhere",
    "GIT_SSH_COMMAND": "run-me",
    "GIT_EXTERNAL_DIFF": "run-me",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "run-me",
    "LD_PRELOAD": "/elsewhere/run-me.so",
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.touch(mode=0o755)
    return {"PATH": f".:bin:{git.parent}", "HOME": "/home/person", **_STRANGERS}


def made_apart(tmp_path: Path, environ: dict[str, str], index: Path | None = None) -> GitCall:
    place = PrivateRepository(
        directory=tmp_path / "own", work_tree=tmp_path, objects=tmp_path / 'a "b\\:c', environ=environ
    )
    return call_in_private_repository(place, "add", "--all", cwd=tmp_path, within_s=1.0, index=index)


def settings(call: GitCall) -> dict[str, str]:
    """The settings that the call has in its arguments."""
    pairs = zip(call.argv[1::2], call.argv[2::2], strict=False)
    return dict(setting.split("=", 1) for flag, setting in pairs if flag == "-c")


def test_git_apart_has_nothing_of_the_persons_environment_but_where_programs_are(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    call = made_apart(tmp_path, environ, tmp_path / "index")
    assert call.env == {
        "PATH": str(tmp_path / "bin"),
        "HOME": str(tmp_path / "own"),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_DIR": str(tmp_path / "own"),
        "GIT_WORK_TREE": str(tmp_path),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{tmp_path}/a \\"b\\\\:c"',
    }


def test_git_inside_a_folder_has_the_persons_configuration_and_no_other_variable_of_git(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    call = call_in_folder(tmp_path, environ, {}, "status", within_s=1.0)
    of_git = {name: value for name, value in call.env.items() if name.startswith("GIT_")}
    assert of_git == {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": "run-me",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    assert (call.env["PATH"], call.env["HOME"]) == (str(tmp_path / "bin"), "/home/person")


def test_what_keeps_git_from_programs_wins_over_the_persons_variables(tmp_path: Path, environ: dict[str, str]) -> None:
    without = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_1": "core.fsmonitor", "GIT_CONFIG_VALUE_1": "false"}
    env = call_in_folder(tmp_path, environ, without, "status", within_s=1.0).env
    assert {name: env[name] for name in without} == without


def test_each_call_runs_no_hook_no_monitor_and_no_maintenance(tmp_path: Path, environ: dict[str, str]) -> None:
    for call in (made_apart(tmp_path, environ), call_in_folder(tmp_path, environ, {}, "commit", within_s=1.0)):
        assert {"core.hooksPath": "/dev/null", "core.fsmonitor": "false", "gc.auto": "0"}.items() <= settings(
            call
        ).items()
        assert settings(call)["maintenance.auto"] == "false"


def test_git_apart_reads_no_attributes_and_no_list_of_ignored_files_of_the_person(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    found = settings(made_apart(tmp_path, environ))
    assert (found["core.attributesFile"], found["core.excludesFile"]) == (os.devnull, os.devnull)


def test_git_is_not_looked_for_in_a_folder_that_the_path_names_without_a_root(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call_in_folder(tmp_path, environ, {}, "status", within_s=1.0).argv[0] == str(tmp_path / "bin" / "git")
    with pytest.raises(GitError, match="not installed") as error:
        call_in_folder(tmp_path, {"PATH": ".:bin"}, {}, "status", within_s=1.0)
    assert error.value.kind == "not_installed"
