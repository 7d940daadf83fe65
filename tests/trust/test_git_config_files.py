"""What a git configuration makes git run, from files that are written by hand: no git takes part."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.model.message import Access
from beam.trust.git_config import GitFindings, findings_of_git, override_variables, parse


class Folder:
    """A folder with a git directory in it, as far as git's configuration is concerned."""

    def __init__(self, base: Path) -> None:
        self.path = base / "work"
        self.git = self.path / ".git"
        (self.git / "hooks").mkdir(parents=True)

    def config(self, text: str, name: str = "config") -> None:
        (self.git / name).write_text(text)

    def hook(self, name: str, *, executable: bool = True) -> None:
        path = self.git / "hooks" / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755 if executable else 0o644)

    def look(self, access: Access = "read") -> GitFindings:
        return findings_of_git(self.path, self.path, access=access, home=self.path.parent)

    def names(self, access: Access = "read") -> list[str]:
        return [found.name for found in self.look(access).found]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_configuration_that_runs_nothing_has_no_finding(folder: Folder) -> None:
    folder.config('[core]\n\tbare = false\n\tfsmonitor = true\n[remote "origin"]\n\turl = https://example.org\n')
    assert folder.look() == GitFindings()


def test_a_program_of_the_configuration_is_found_and_turned_off(folder: Folder) -> None:
    folder.config('[core]\n\tfsmonitor = ./spy\n[filter "x"]\n\tclean = ./dirty\n')
    found = folder.look()
    assert [each.name for each in found.found] == [
        ".git/config has git run './spy' (core.fsmonitor)",
        ".git/config has git run './dirty' (filter.x.clean)",
    ]
    assert all(each.ignored and each.quiet and each.says and each.by == ("git",) for each in found.found)
    assert found.off == {"core.fsmonitor": "false", "filter.x.clean": ""}


def test_with_full_access_only_the_monitor_is_turned_off(folder: Folder) -> None:
    folder.config('[core]\n\tfsmonitor = ./spy\n[filter "x"]\n\tclean = ./dirty\n')
    found = folder.look("full")
    assert found.off == {"core.fsmonitor": "false"}
    assert [each.ignored for each in found.found] == [True, False]


def test_an_executable_hook_is_found_and_one_that_is_not_executable_is_not(folder: Folder) -> None:
    folder.hook("post-index-change")
    assert folder.names() == [".git/hooks/post-index-change"]
    assert folder.look().off == {"core.hookspath": "/dev/null"}
    assert folder.look("full").off == {}
    folder.hook("post-index-change", executable=False)
    assert folder.names() == []


def test_hooks_of_another_directory_are_found(folder: Folder) -> None:
    folder.config("[core]\n\thooksPath = mine\n")
    (folder.path / "mine").mkdir()
    hook = folder.path / "mine/post-index-change"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    assert folder.names() == ["mine/post-index-change"]


def test_included_files_count_whatever_their_condition(folder: Folder) -> None:
    folder.config('[include]\n\tpath = more\n[includeIf "gitdir:/x"]\n\tpath = other\n')
    folder.config("[core]\n\tfsmonitor = ./one\n", "more")
    folder.config("[diff]\n\texternal = ./two\n", "other")
    assert [name.partition(" has git run ")[2] for name in folder.names()] == [
        "'./one' (core.fsmonitor)",
        "'./two' (diff.external)",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[core\n", "no section at 0"),
        ("key = value\n", "no key at 0"),
        ('[core]\n\ta = "open\n', "a quote that does not end"),
        ("[core]\n\ta = \\q\n", "no escape at "),
        ("[core]\n\ta ? b\n", "no = at "),
        ("[core]\n\ta = b\0\n", "it holds a NUL"),
        ("[include]\n\tpath = config\n", "its files include each other"),
        ("[include]\n\tpath = ~other/x\n", "the path '~other/x'"),
        ("[include]\n\tpath = .\n", "it is no file"),
    ],
)
def test_a_configuration_that_is_not_understood_is_itself_a_finding(folder: Folder, text: str, why: str) -> None:
    folder.config(text)
    (name,) = folder.names()
    assert name.startswith(f".git/config is not read as git would read it: {why}")
    assert folder.look().found[0].digest


def test_an_index_that_is_not_understood_is_a_finding(folder: Folder) -> None:
    folder.git.joinpath("index").write_bytes(b"nonsense")
    (name,) = folder.names()
    assert name == ".git/index is not read as git would read it: it is no index, or too large"


def test_a_git_file_leads_to_the_git_directory_and_its_common_one(folder: Folder) -> None:
    folder.config("[core]\n\tfsmonitor = ./spy\n")
    tree = folder.path.parent / "tree"
    tree.mkdir()
    own = folder.git / "worktrees/tree"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {own}\n")
    (found,) = findings_of_git(tree, tree, access="read", home=tree.parent).found
    assert found.name.endswith("has git run './spy' (core.fsmonitor)")
    (tree / ".git").write_text("nonsense\n")
    assert findings_of_git(tree, tree, access="read", home=tree.parent) == GitFindings()


def test_a_directory_that_looks_like_a_bare_repository_is_not_used(folder: Folder) -> None:
    bare = folder.path / "bare"
    for name in ("objects", "refs"):
        (bare / name).mkdir(parents=True)
    (bare / "config").write_text("[core]\n\tfsmonitor = ./spy\n")
    found = findings_of_git(folder.path, bare, access="read", home=folder.path.parent)
    assert found.off == {"core.fsmonitor": "false", "safe.bareRepository": "explicit"}


def test_values_are_read_with_their_quotes_escapes_and_comments() -> None:
    text = (
        "\ufeff[Core]\r\n\tA = one \\\n two # no\n\tb"
        '\n\tc ; no\n\td = "a # b" c\n\te = x\\ty\\"\n[s "Sub \\" x"]\n\tk=  v  \n'
    )
    assert parse(text) == [
        ("core.a", "one  two"),
        ("core.b", "true"),
        ("core.c", "true"),
        ("core.d", "a # b c"),
        ("core.e", 'x\ty"'),
        ('s.Sub " x.k', "v"),
    ]


def test_the_variables_come_after_those_that_are_there() -> None:
    assert override_variables({}, {"GIT_CONFIG_COUNT": "2"}) == {}
    env = override_variables({"a.b": "", "c.d": "x"}, {"GIT_CONFIG_COUNT": "2"})
    assert env == {
        "GIT_CONFIG_COUNT": "4",
        "GIT_CONFIG_KEY_2": "a.b",
        "GIT_CONFIG_VALUE_2": "",
        "GIT_CONFIG_KEY_3": "c.d",
        "GIT_CONFIG_VALUE_3": "x",
    }
    assert override_variables({"a.b": ""}, {"GIT_CONFIG_COUNT": "many"})["GIT_CONFIG_COUNT"] == "1"
