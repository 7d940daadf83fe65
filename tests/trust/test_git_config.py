"""What git would run because of a folder is found, as real git reads it, and with the variables git does not run it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam.model.message import Access
from beam.trust import git_config, ledger
from beam.trust.git_config import GitFindings, findings_of_git, override_variables, parse

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(cwd: Path, *words: str, env: Mapping[str, str] = {}) -> str:
    done = subprocess.run(["git", *words], cwd=cwd, env={**ENV, **env}, capture_output=True, text=True, check=False)
    return done.stdout


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A git work tree with a committed file that is changed now, so that git looks into it."""
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    git(made, "init", "-q")
    (made / "a.txt").write_text("one\n")
    git(made, "add", "-A")
    git(made, "commit", "-qm", "x")
    (made / "a.txt").write_text("two\n")
    return made


def at(folder: Path, access: Access = "read", *, base: Path | None = None) -> GitFindings:
    return findings_of_git(base or folder, folder, access=access, home=Path("/nonexistent"))


def use(folder: Path, env: Mapping[str, str] = {}) -> None:
    """What agent CLIs do."""
    for words in (("status",), ("diff",), ("diff", "--cached"), ("log", "-p", "-1"), ("stash", "create")):
        git(folder, *words, env=env)


@pytest.mark.slow
def test_a_plain_repository_has_nothing_to_trust(work: Path) -> None:
    git(work, "config", "remote.origin.url", "https://example.org/x")
    git(work, "config", "core.fsmonitor", "true")
    git(work, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    git(work, "config", "alias.x", "!touch x")
    (work / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    (work / ".git/hooks/pre-commit").chmod(0o755)
    for access in ("read", "full"):
        assert at(work, access) == GitFindings()
    assert at(work.parent) == GitFindings()


WAYS = {
    "core.fsmonitor": "{};false",
    "diff.external": "{}",
    "filter.e.clean": "{};cat",
    "diff.e.textconv": "{};cat",
}


@pytest.mark.slow
@pytest.mark.parametrize("key", WAYS)
def test_git_runs_none_of_what_a_folder_says_with_the_variables_and_runs_it_without(work: Path, key: str) -> None:
    (work / ".gitattributes").write_text("* filter=e diff=e\n")
    ran = work.parent / "ran"
    git(work, "config", key, WAYS[key].format(f"touch '{ran}'"))
    (found,) = at(work).found
    assert (found.says, found.ignored, key in found.name) == (True, True, True)
    use(work, override_variables(at(work).off, {}))
    assert not ran.exists()
    use(work)
    assert ran.exists()


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["post-index-change", "reference-transaction"])
@pytest.mark.parametrize("place", [".git/hooks", ".githooks"])
def test_git_runs_no_hook_that_status_would_run(work: Path, hook: str, place: str) -> None:
    ran = work.parent / "ran"
    (work / place).mkdir(exist_ok=True)
    (work / place / hook).write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    (work / place / hook).chmod(0o755)
    if place == ".githooks":
        git(work, "config", "core.hooksPath", place)
    (found,) = at(work).found
    assert (found.name, found.ignored) == (f"{place}/{hook}", True)
    env = override_variables(at(work).off, {})
    for words in (("status",), ("add", "-A"), ("update-ref", "refs/heads/x", "HEAD")):
        git(work, *words, env=env)
    assert not ran.exists()
    (work / "b.txt").write_text("")
    for words in (("add", "-A"), ("update-ref", "refs/heads/y", "HEAD")):
        git(work, *words)
    assert ran.exists()


@pytest.mark.slow
@pytest.mark.parametrize("is_common", [False, True], ids=["files", "commondir"])
@pytest.mark.parametrize("access", ["read", "full"])
def test_a_clones_lookalike_of_a_repository_without_directories_runs_nothing(
    work: Path, is_common: bool, access: Access
) -> None:
    ran, inner = work.parent / "ran", work / "sub"
    core = f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch '{ran}';false\"\n"
    own = "\tbare = false\n\tworktree = .\n"
    inner.mkdir()
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    place = inner / "hidden" if is_common else inner
    place.mkdir(exist_ok=True)
    for name in ("objects", "refs"):
        (place / name).write_text("#")
        (place / name).chmod(0o755)
    if is_common:
        (inner / "commondir").write_text("hidden")
        (place / "config").write_text(f"{core}[extensions]\n\tworktreeConfig = true\n")
        (inner / "config.worktree").write_text(f"[core]\n{own}")
    else:
        (place / "config").write_text(core + own)
    seen = at(inner, access, base=work)
    assert any("core.fsmonitor" in each.name for each in seen.found)
    assert seen.off["safe.bareRepository"] == "explicit"
    use(inner, override_variables(seen.off, {}))
    assert not ran.exists()
    use(inner)
    assert ran.exists(), "git does nothing of it, so this proves nothing"


@pytest.mark.slow
def test_the_submodule_of_a_work_tree_that_is_configured_elsewhere_is_found(work: Path) -> None:
    ran, elsewhere = work.parent / "ran", work / "inner"
    submodule = elsewhere / "s"
    submodule.mkdir(parents=True)
    git(submodule, "init", "-q")
    (submodule / "x").write_text("one\n")
    git(submodule, "add", "-A")
    git(submodule, "commit", "-qm", "x")
    git(work, "config", "core.worktree", "../inner")
    git(work, "add", "s")
    git(work, "commit", "-qm", "y")
    git(submodule, "config", "core.fsmonitor", f"touch '{ran}';false")
    seen = at(work)
    assert ["inner/s/.git/config" in each.name for each in seen.found] == [True]
    use(work, override_variables(seen.off, {}))
    assert not ran.exists()
    use(work)
    assert ran.exists(), "git does nothing of it, so this proves nothing"


@pytest.mark.slow
def test_a_directory_of_a_clone_that_looks_like_a_repository_is_none_with_the_variables(work: Path) -> None:
    ran = work.parent / "ran"
    inner = work / "sub"
    git(work, "init", "-q", "--bare", str(inner))
    (inner / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n"
        f"\tfsmonitor = \"touch '{ran}';false\"\n"
    )
    seen = at(inner, base=work)
    assert "sub/config" in seen.found[0].name
    assert seen.off["safe.bareRepository"] == "explicit"
    use(inner, override_variables(seen.off, {}))
    assert not ran.exists()
    use(inner)
    assert ran.exists()


@pytest.mark.slow
def test_what_is_included_counts_too(work: Path) -> None:
    (work / ".git/more").write_text("[include]\npath=most\n")
    (work / ".git/most").write_text("[core]\nfsmonitor=evil\n")
    git(work, "config", "include.path", "more")
    assert "core.fsmonitor" in at(work).found[0].name
    (work / ".git/most").write_text("[include]\npath=more\n")
    (found,) = at(work).found
    assert (found.ignored, "include each other" in found.name) == (False, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own\v", "own\tfile"])
def test_a_file_with_an_odd_blank_in_its_name_is_not_included_unseen(work: Path, name: str) -> None:
    ran = work.parent / "ran"
    for each in (name, name.replace("\t", " ")):
        (work / ".git" / each).write_text(f"[core]\n\tfsmonitor = \"touch '{ran}';false\"\n")
    with (work / ".git/config").open("a") as file:
        file.write(f"[include]\n\tpath = {name}\n")
    assert at(work).found
    use(work)
    assert ran.exists(), "git does nothing of it, so this proves nothing"


@pytest.mark.slow
def test_a_name_that_is_no_utf8_can_be_trusted_and_is_switched_off_as_it_stands_there(work: Path) -> None:
    (work / ".git/config").write_bytes(b'[filter "\xe1"]\nclean=evil\n')
    git_found = at(work)
    environ = {"HOME": str(work.parent)}
    ledger.trust(work, git_found.found, environ)
    assert ledger.standing_of(work, git_found.found, environ).trusted
    assert "filter.\\udce1.clean" in git_found.found[0].name
    assert [os.fsencode(key) for key in git_found.off] == [b"filter.\xe1.clean"]


@pytest.mark.slow
def test_files_that_include_many_others_are_no_long_wait(work: Path) -> None:
    for name, inner in ("config", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"):
        (work / ".git" / name).write_text(f"[include]\npath={inner}\n" * 12)
    (found,) = at(work).found
    assert (found.ignored, "too large, with what it includes" in found.name) == (False, True)


@pytest.mark.slow
def test_many_directories_of_hooks_are_not_all_looked_at(work: Path) -> None:
    (work / ".git/config").write_text("".join(f"[core]\nhooksPath={'./' * n}x\n" for n in range(99)))
    (found,) = at(work).found
    assert (found.ignored, "too many directories of hooks" in found.name) == (False, True)


@pytest.mark.slow
def test_a_work_tree_of_another_repository_is_looked_at_in_that(work: Path) -> None:
    git(work, "config", "core.fsmonitor", "evil")
    git(work, "worktree", "add", "-q", str(work.parent / "tree"))
    assert "core.fsmonitor" in at(work.parent / "tree").found[0].name


@pytest.fixture
def submodule(work: Path) -> Path:
    """A repository in the work tree that git knows of, and looks into."""
    inner = work / "deep" / "sub"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    (inner / "x.txt").write_text("one\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "x")
    git(work, "add", "deep/sub")
    git(work, "commit", "-qm", "y")
    (inner / "x.txt").write_text("two\n")
    return inner


@pytest.mark.slow
@pytest.mark.parametrize("key", ["core.fsmonitor", "filter.evil.clean", "hook", "split"])
def test_git_runs_nothing_of_a_submodule_with_the_variables_and_runs_it_without(
    work: Path, submodule: Path, key: str, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    if key == "hook":
        hook = submodule / ".git/hooks/post-index-change"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
        hook.chmod(0o755)
        (submodule / "x.txt").write_text("one\n")
    else:
        if key == "split":
            git(work, "update-index", "--split-index")
        git(submodule, "config", "core.fsmonitor" if key == "split" else key, f"touch {mark};cat")
        (submodule / ".git/info/attributes").write_text("* filter=evil\n")
    seen = at(work)
    assert [each.name for each in seen.found if each.name.startswith("deep/sub/.git/")]
    use(work, override_variables(seen.off, ENV))
    assert not mark.exists()
    os.utime(submodule / "x.txt", (1, 1))
    use(work)
    assert mark.exists(), "git does nothing of it, so this proves nothing"


PARTIAL = {
    "remote.x.uploadpack": ("/", "{}; false"),
    "core.sshCommand": ("ssh://example.invalid/x", "{}; false"),
    "core.gitProxy": ("git://example.invalid/x", "{}"),
    "remote.x.url": ("ext::{}", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("key", PARTIAL)
@pytest.mark.parametrize("by", ["extensions.partialClone", "remote.x.promisor"])
def test_git_fetches_what_is_missing_by_no_program_of_a_folder_with_the_variables(
    work: Path, key: str, by: str
) -> None:
    ran = work.parent / "ran"
    script = work / "run.sh"
    script.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    script.chmod(0o755)
    url, program = PARTIAL[key]
    git(work, "config", "core.repositoryformatversion", "1")
    git(work, "config", "remote.x.url", url.format(script))
    git(work, "config", "protocol.ext.allow", "always")
    git(work, "config", by, "x" if by.startswith("ext") else "true")
    if program:
        git(work, "config", key, program.format(script))
    (work / ".git/refs/heads").joinpath(git(work, "branch", "--show-current").strip()).write_text("1" * 40)
    seen = at(work)
    assert [each.ignored for each in seen.found] == [True] * len(seen.found) != []
    assert [each.ignored for each in at(work, "full").found] == [False] * len(seen.found)
    use(work, override_variables(seen.off, {}))
    assert not ran.exists()
    use(work)
    assert ran.exists()


@pytest.mark.slow
@pytest.mark.parametrize("key", ["core.alternateRefsCommand", "gc.recentObjectsHook", "credential.https://x.helper"])
def test_what_a_fetch_from_elsewhere_would_run_counts_in_a_partial_clone(work: Path, key: str) -> None:
    git(work, "config", "remote.x.url", "https://example.org/x.git")
    git(work, "config", key, "mine")
    hook = work / ".git/hooks/pre-auto-gc"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    assert at(work) == GitFindings()
    git(work, "config", "remote.x.promisor", "true")
    seen = at(work)
    assert [each.name for each in seen.found if not each.says] == [".git/hooks/pre-auto-gc"]
    assert [key.lower() in each.name.lower() for each in seen.found if each.says] == [True]
    assert (seen.off["core.hookspath"], seen.off["protocol.https.allow"]) == (os.devnull, "never")


@pytest.mark.slow
@pytest.mark.parametrize("url", ["https://example.org/x.git", "git@example.org:x.git", "ssh://example.org/x"])
def test_a_partial_clone_as_git_makes_it_has_nothing_to_trust(work: Path, url: str) -> None:
    for key, value in (
        ("remote.x.url", url),
        ("remote.x.promisor", "true"),
        ("remote.x.partialclonefilter", "blob:none"),
    ):
        git(work, "config", key, value)
    for access in ("read", "full"):
        assert at(work, access) == GitFindings()


@pytest.mark.slow
def test_a_program_that_only_a_fetch_would_run_is_nothing_to_trust(work: Path) -> None:
    for key in "core.sshCommand", "credential.helper", "remote.x.uploadpack":
        git(work, "config", key, "mine")
    assert at(work) == GitFindings()


@pytest.mark.slow
def test_an_index_that_is_none_needs_trust_and_is_the_same_thing_after_each_commit(work: Path) -> None:
    index = work / ".git/index"
    found = []
    for content in (b"DIRC\0\0\0\x09\0\0\0\x01" + b"\0\0\xe0\0" * 9, b"junk"):
        index.write_bytes(content)
        found.append(at(work).found)
    assert found[0] == found[1] and found[0][0].digest
    assert found[0][0].name == ".git/index is not read as git would read it: it is no index, or too large"
    assert not found[0][0].ignored
    index.unlink()
    os.mkfifo(index)
    assert at(work).found == found[0]


@pytest.mark.slow
def test_a_repository_above_the_folder_counts_but_not_the_persons_own(work: Path) -> None:
    git(work, "config", "core.fsmonitor", "evil")
    (work / "sub").mkdir()
    assert at(work / "sub").found
    assert findings_of_git(work / "sub", work / "sub", access="read", home=work) == GitFindings()


@pytest.mark.slow
def test_with_full_access_only_the_monitor_is_done_without(work: Path) -> None:
    for key, value in (("core.fsmonitor", "evil"), ("filter.e.clean", "evil")):
        git(work, "config", key, value)
    seen = at(work, "full")
    assert {each.name.rpartition("(")[2]: each.ignored for each in seen.found} == {
        "core.fsmonitor)": True,
        "filter.e.clean)": False,
    }
    assert seen.off == {"core.fsmonitor": "false"}


def test_the_variables_come_after_those_that_are_there() -> None:
    assert override_variables({"a.b": "c"}, {"GIT_CONFIG_COUNT": "2"}) == {
        "GIT_CONFIG_COUNT": "3",
        "GIT_CONFIG_KEY_2": "a.b",
        "GIT_CONFIG_VALUE_2": "c",
    }
    assert override_variables({"a.b": "c"}, {"GIT_CONFIG_COUNT": "junk"})["GIT_CONFIG_COUNT"] == "1"
    assert override_variables({}, {}) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["[core\nfsmonitor=x\n", "fsmonitor = x\n", '[core]\nfsmonitor = "x\n', "[core]\nfsmonitor = \\q\n", "\0"]
)
def test_what_can_not_be_read_as_git_would_read_it_needs_trust(work: Path, text: str) -> None:
    (work / ".git/config").write_text(text)
    (found,) = at(work).found
    assert (found.ignored, found.digest != "") == (False, True)


@pytest.mark.slow
def test_a_fifo_or_a_monster_for_a_configuration_needs_trust(work: Path) -> None:
    config = work / ".git/config"
    config.unlink()
    os.mkfifo(config)
    assert not at(work).found[0].ignored
    config.unlink()
    with config.open("wb") as file:
        file.truncate(8 << 30)
    assert not at(work).found[0].ignored


HEADS = ("[core]", '[filter "e"]', "[Core]", '[filter "a\\"b"]', "[diff.Ext]", "[x]")
WORDS = ("fsmonitor", "Clean", "external", "true", "evil;x", "a b", "é", "-")
SIGNS = ("\n", "\r\n", " ", "\t", "\v", "\f", "\\\n", "\\n", "\\\\", "\\q", '"', "=", "= ", "#", ";")
PIECES = st.sampled_from((*HEADS, *WORDS, *SIGNS))


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_keys_and_values_are_those_that_git_reads(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "gitconfig"
    file.write_bytes(text.encode())
    done = subprocess.run(
        ["git", "config", "--list", "--null", "--file", str(file)], env=ENV, capture_output=True, check=False
    )
    try:
        read = parse(text)
    except ValueError:
        return  # then the folder needs trust, whatever git makes of it
    if done.returncode != 0:
        return
    theirs = [entry.decode().partition("\n") for entry in done.stdout.split(b"\0")[:-1]]
    assert [key for key, _ in read] == [key for key, _, _ in theirs]
    for (_, mine), (_, given_, value) in zip(read, theirs, strict=True):
        same = (mine if given_ else "").replace("\t", " ") == value.replace("\t", " ").strip(" ")  # as older git has it
        assert same or (not given_ and mine == "true")


# -- repositories that no git has made ---------------------------------------------------------------------------------


def repository(folder: Path, config: str = "", **files: str) -> Path:
    """A git directory in the folder, as far as it is looked at."""
    inner = folder / ".git"
    for name in ("objects", "refs", "hooks"):
        (inner / name).mkdir(parents=True)
    (inner / "config").write_text(config)
    for name, text in files.items():
        (inner / name.replace("__", "/").replace("_", ".")).write_text(text)
    return inner


def told(folder: Path, access: Access = "read", *, home: Path = Path("/nonexistent")) -> list[tuple[str, bool, bool]]:
    """What is found: its name, whether it says it all, whether git can ignore it."""
    found = findings_of_git(folder, folder, access=access, home=home).found
    assert all(each.by == ("git",) and each.quiet for each in found)
    return [(each.name, each.says, each.ignored) for each in found]


RUNS = """
[core]
    fsmonitor = evil --watch
    fsmonitor = true
    pager = less
[diff]
    external = evil
[filter "lfs"]
    clean = git-lfs clean -- %f
    smudge = " git-lfs smudge -- %f"
[filter "Own.X"]
    clean = evil clean
    smudge =
    required = true
[hook "x"]
    command = evil hook
"""


@pytest.mark.parametrize("access", ["read", "full"])
def test_each_program_of_a_configuration_is_told_and_switched_off(tmp_path: Path, access: Access) -> None:
    repository(tmp_path, RUNS)
    assert told(tmp_path, access) == _RUNS[access]
    assert dict(at(tmp_path, access).off) == _OFF[access]


FETCHING = """
[extensions]
    partialclone = origin
[core]
    sshcommand = evil ssh
    gitproxy =
[credential "x"]
    helper = evil helper
[remote "origin"]
    url = {}
    uploadpack = evil pack
[protocol "tar"]
    allow = always
"""


@pytest.mark.parametrize("access", ["read", "full"])
def test_what_a_partial_clone_fetches_by_is_told_and_switched_off(tmp_path: Path, access: Access) -> None:
    inner = repository(tmp_path, FETCHING.format("../other"))
    for name in ("pre-auto-gc", "post-index-change", "pre-commit"):
        (inner / "hooks" / name).write_text("#!/bin/sh\n")
        (inner / "hooks" / name).chmod(0o755)
    assert told(tmp_path, access) == _PARTIAL[access]
    assert dict(at(tmp_path, access).off) == _PARTIAL_OFF[access]


@pytest.mark.parametrize(
    ("url", "is_found"),
    [
        ("https://example.org/x", False),
        ("http://example.org/x", False),
        ("ssh://example.org/x", False),
        ("git://example.org/x", False),
        ("me@example.org:x", False),
        ("host:x", False),
        ("ext::evil", True),
        ("../other", True),
        ("/other", True),
        ("file:///other", True),
        ("host://x", True),
    ],
)
def test_a_partial_clone_of_another_folder_runs_a_program_there(tmp_path: Path, url: str, is_found: bool) -> None:
    repository(tmp_path, f'[remote "o"]\n promisor = yes\n url = {url}\n')
    assert told(tmp_path) == (
        [(f".git/config has git fetch what is missing by {url!r} (remote.o.url)", True, True)] if is_found else []
    )


@pytest.mark.parametrize("value", ["false", "no", "off", "0", ""])
def test_a_clone_that_is_not_partial_fetches_nothing(tmp_path: Path, value: str) -> None:
    repository(tmp_path, f'[remote "o"]\n promisor = {value}\n url = ../other\n')
    assert told(tmp_path) == []
    assert at(tmp_path) == GitFindings()


def test_the_configuration_of_a_work_tree_is_read_too_with_what_both_include(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/own").write_text("[core]\nfsmonitor = mine\n")
    (tmp_path / "work").mkdir()
    conditional = '[includeIf "gitdir:x"]\npath = more\n'
    repository(
        tmp_path / "work", "[include]\npath = ~/own\n", config_worktree=conditional, more="[diff]\nexternal = d\n"
    )
    assert told(tmp_path / "work", home=tmp_path / "home") == [
        (".git/config has git run 'mine' (core.fsmonitor)", True, True),
        (".git/config.worktree has git run 'd' (diff.external)", True, True),
    ]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("[include]\npath = config\n", "its files include each other"),
        ("[include]\npath = ~other/x\n", "the path '~other/x'"),
        ("[include]\npath = %(prefix)/x\n", "the path '%(prefix)/x'"),
        ("[include]\npath = a\tb\n", "the path 'a\\tb'"),
        ("[core]\nworktree = a\rb\n", "the path 'a\\rb'"),
        ("[core]\nhookspath = :(optional)x\n", "the path ':(optional)x'"),
        ("[core]\n" + "".join(f"hookspath = h{number}\n" for number in range(10)), "too many directories of hooks"),
        ("".join(f'[filter "{number}"]\nclean = x\n' for number in range(101)), "too many settings"),
        ("x" * (256 * 1024 + 1), "it is too large, with what it includes"),
        ("[core\n", "no section at 0"),
    ],
    ids=range(10),
)
def test_a_configuration_that_is_not_read_whole_is_told(tmp_path: Path, config: str, why: str) -> None:
    repository(tmp_path, config)
    (*_, last) = [name for name, _, _ in told(tmp_path)]
    assert last == f".git/config is not read as git would read it: {why}"


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ("[core]\n" + "".join(f"hookspath = h{number}\n" for number in range(9)), 0),
        ("".join(f'[filter "{number}"]\nclean = x\n' for number in range(100)), 100),
        ("#" * (256 * 1024), 0),
    ],
    ids=range(3),
)
def test_a_configuration_at_its_bounds_is_read_whole(tmp_path: Path, config: str, count: int) -> None:
    repository(tmp_path, config)
    assert len(told(tmp_path)) == count


def test_a_configuration_that_is_no_file_is_told(tmp_path: Path) -> None:
    inner = repository(tmp_path)
    (inner / "config").unlink()
    assert told(tmp_path) == []
    (inner / "config").mkdir()
    assert told(tmp_path) == [(".git/config is not read as git would read it: it is no file", True, False)]


def test_a_git_directory_elsewhere_with_its_configuration_in_common_is_read(tmp_path: Path) -> None:
    work, tree = tmp_path / "work", tmp_path / "main/.git/worktrees/w"
    work.mkdir()
    tree.mkdir(parents=True)
    (work / ".git").write_text("gitdir: ../main/.git/worktrees/w\n")
    (tree / "commondir").write_text("../..\n")
    (tmp_path / "main/.git/config").write_text("[core]\nfsmonitor = evil\n")
    assert told(work) == [("../main/.git/config has git run 'evil' (core.fsmonitor)", True, True)]


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: ", "nothing"])
def test_a_file_that_names_no_git_directory_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    assert at(tmp_path) == GitFindings()


@pytest.mark.parametrize("data", [b"gitdir: x\0y", b"gitdir: x" + b"\n" * 17_000, b"gitdir: \xff"])
def test_a_file_that_git_reads_and_beam_can_not_needs_trust(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".git").write_bytes(data)
    assert told(tmp_path) == [(".git is not read as git would read it: it is too large, or no text", True, False)]
    (tmp_path / ".git").unlink()
    repository(tmp_path, commondir="").joinpath("commondir").write_bytes(data)
    assert told(tmp_path) == [
        (".git/commondir is not read as git would read it: it is too large, or no text", True, False)
    ]


def test_a_git_directory_with_a_blank_in_its_name_is_that_one(tmp_path: Path) -> None:
    (tmp_path / " x").mkdir()
    (tmp_path / " x/config").write_text("[core]\nfsmonitor = evil\n")
    (tmp_path / ".git").write_text("gitdir:  x\n")
    assert told(tmp_path) == [(" x/config has git run 'evil' (core.fsmonitor)", True, True)]


def test_a_folder_that_looks_like_a_bare_repository_is_one(tmp_path: Path) -> None:
    inner = repository(tmp_path, "[core]\nfsmonitor = evil\n")
    found = findings_of_git(inner, inner, access="read", home=Path("/nonexistent"))
    assert found.found[0].name == "config has git run 'evil' (core.fsmonitor)"
    assert found.off == {"core.fsmonitor": "false", "safe.bareRepository": "explicit"}
    (inner / "refs").rmdir()
    assert findings_of_git(inner, inner, access="read", home=Path("/nonexistent")).off == {"core.fsmonitor": "false"}


def linked(*names: str) -> bytes:
    data = b"DIRC" + (2).to_bytes(4, "big") + len(names).to_bytes(4, "big")
    for name in names:
        one = bytes(24) + (0o160000).to_bytes(4, "big") + bytes(34) + name.encode()
        data += one + bytes(8 - len(one) % 8)
    return data + bytes(20)


def test_repositories_in_each_other_are_all_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(tmp_path)
    (tmp_path / ".git/index").write_bytes(linked("a", "none"))
    (tmp_path / ".git/sharedindex.1").write_bytes(linked("b"))
    (tmp_path / ".git/sharedindex.2").write_bytes(b"no index")
    for name in ("a", "b", "a/c"):
        (tmp_path / name).mkdir()
        repository(tmp_path / name, f"[core]\nfsmonitor = evil-{name}\n")
    (tmp_path / "a/.git/index").write_bytes(linked("c"))
    assert told(tmp_path) == [
        (".git/sharedindex.2 is not read as git would read it: it is no index, or too large", True, False),
        ("b/.git/config has git run 'evil-b' (core.fsmonitor)", True, True),
        ("a/.git/config has git run 'evil-a' (core.fsmonitor)", True, True),
        ("a/c/.git/config has git run 'evil-a/c' (core.fsmonitor)", True, True),
    ]
    monkeypatch.setattr(git_config, "_MAX_REPOSITORIES", 2)
    assert told(tmp_path) == [
        (".git/sharedindex.2 is not read as git would read it: it is no index, or too large", True, False),
        ("b/.git/config has git run 'evil-b' (core.fsmonitor)", True, True),
        ("b/.git/index is not read as git would read it: too many repositories are in each other", True, False),
        ("a/.git/config has git run 'evil-a' (core.fsmonitor)", True, True),
        ("a/.git/index is not read as git would read it: too many repositories are in each other", True, False),
    ]


@pytest.mark.parametrize(
    ("environ", "first"),
    [
        ({}, 0),
        ({"GIT_CONFIG_COUNT": "2"}, 2),
        ({"GIT_CONFIG_COUNT": "x"}, 0),
        ({"GIT_CONFIG_COUNT": "100000"}, 0),
        ({"GIT_CONFIG_COUNT": "²"}, 0),
    ],
)
def test_the_variables_are_numbered_after_those_of_the_environment(environ: dict[str, str], first: int) -> None:
    assert override_variables({}, environ) == {}
    assert override_variables({"a.b": "c", "d.e": ""}, environ) == {
        "GIT_CONFIG_COUNT": str(first + 2),
        f"GIT_CONFIG_KEY_{first}": "a.b",
        f"GIT_CONFIG_VALUE_{first}": "c",
        f"GIT_CONFIG_KEY_{first + 1}": "d.e",
        f"GIT_CONFIG_VALUE_{first + 1}": "",
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("\ufeff[a]\r\nb = c\r\n", [("a.b", "c")]),
        ('[A.B "C d\\"\\\\"] # x\nE-1', [('a.b.C d"\\.e-1', "true")]),
        ("[a]b\n[a] c ; x\n d # x\n e", [("a.b", "true"), ("a.c", "true"), ("a.d", "true"), ("a.e", "true")]),
        ("[a]\nb = c # x\nd = e;x\nf =", [("a.b", "c"), ("a.d", "e"), ("a.f", "")]),
        ('[a]\nb = " c # " d\ne = \\t\\n\\b\\\\\\"', [("a.b", " c #  d"), ("a.e", '\t\n\b\\"')]),
        ("[a]\nb = c\\\n d\ne = f", [("a.b", "c d"), ("a.e", "f")]),
        ('[a]\nb = \tc\td\ve\v \t\nf="\t"\ng = \fx', [("a.b", "c\td\ve\v"), ("a.f", "\t"), ("a.g", "\fx")]),
        (
            '[a]\nb =  " c "  # x\nd = " "\ne = ""  f \n g = h \\\n',
            [("a.b", " c "), ("a.d", " "), ("a.e", "f"), ("a.g", "h ")],
        ),
        ("# x\n; y\n\v\f\t[ a ]\nb=1", [("a.b", "1")]),
        ("# x", []),
    ],
)
def test_a_configuration_is_read_as_git_reads_it(text: str, found: list[tuple[str, str]]) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\0", "it holds a NUL"),
        ("[a", "no section at 0"),
        ("[a]\n[b c]", "no section at 4"),
        ("a = b", "no key at 0"),
        ("[a]\n1 = b", "no key at 4"),
        ("[a]\nb c", "no = at 6"),
        ('[a]\nb = "c\nd"', "a quote that does not end"),
        ('[a]\nb = "c', "a quote that does not end"),
        ("[a]\nb = \\x", "no escape at 9"),
        ("[a]\nb = \\", "no escape at 9"),
    ],
)
def test_what_git_would_refuse_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(why) + "$"):
        parse(text)


_OFF = {
    "read": {
        "core.fsmonitor": "false",
        "diff.external": "",
        "filter.lfs.smudge": "",
        "filter.Own.X.clean": "",
        "hook.x.command": "",
    },
    "full": {"core.fsmonitor": "false"},
}


_PARTIAL = {
    "read": [
        (".git/config has git fetch what is missing by 'evil ssh' (core.sshcommand)", True, True),
        (".git/config has git fetch what is missing by 'evil helper' (credential.x.helper)", True, True),
        (".git/config has git fetch what is missing by '../other' (remote.origin.url)", True, True),
        (".git/config has git fetch what is missing by 'evil pack' (remote.origin.uploadpack)", True, True),
        (".git/hooks/post-index-change", False, True),
        (".git/hooks/pre-auto-gc", False, True),
    ],
    "full": [
        (".git/config has git fetch what is missing by 'evil ssh' (core.sshcommand)", True, False),
        (".git/config has git fetch what is missing by 'evil helper' (credential.x.helper)", True, False),
        (".git/config has git fetch what is missing by '../other' (remote.origin.url)", True, False),
        (".git/config has git fetch what is missing by 'evil pack' (remote.origin.uploadpack)", True, False),
        (".git/hooks/post-index-change", False, False),
        (".git/hooks/pre-auto-gc", False, False),
    ],
}


_PARTIAL_OFF = {
    "read": {
        "protocol.allow": "never",
        "protocol.ext.allow": "never",
        "protocol.file.allow": "never",
        "protocol.git.allow": "never",
        "protocol.http.allow": "never",
        "protocol.https.allow": "never",
        "protocol.ssh.allow": "never",
        "protocol.tar.allow": "never",
        "core.hookspath": "/dev/null",
    },
    "full": {},
}


_RUNS = {
    "read": [
        (".git/config has git run 'evil --watch' (core.fsmonitor)", True, True),
        (".git/config has git run 'evil' (diff.external)", True, True),
        (".git/config has git run ' git-lfs smudge -- %f' (filter.lfs.smudge)", True, True),
        (".git/config has git run 'evil clean' (filter.Own.X.clean)", True, True),
        (".git/config has git run 'evil hook' (hook.x.command)", True, True),
    ],
    "full": [
        (".git/config has git run 'evil --watch' (core.fsmonitor)", True, True),
        (".git/config has git run 'evil' (diff.external)", True, False),
        (".git/config has git run ' git-lfs smudge -- %f' (filter.lfs.smudge)", True, False),
        (".git/config has git run 'evil clean' (filter.Own.X.clean)", True, False),
        (".git/config has git run 'evil hook' (hook.x.command)", True, False),
    ],
}


def test_a_configuration_with_bytes_that_are_no_utf_8_is_read_too(tmp_path: Path) -> None:
    inner = repository(tmp_path)
    (inner / "config").write_bytes(b"[core]\nfsmonitor = evil\xff\n")
    assert told(tmp_path) == [(".git/config has git run 'evil\\udcff' (core.fsmonitor)", True, True)]


@pytest.mark.parametrize(
    "key",
    [
        "core.fsmonitor",
        "diff.external",
        "gpg.program",
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "diff.x.command",
        "diff.x.textconv",
        "gpg.ssh.program",
        "hook.x.command",
        "lfs.extension.x.clean",
        "lfs.extension.x.smudge",
        "lfs.customtransfer.x.path",
    ],
)
def test_each_setting_by_which_git_runs_a_program_is_found(tmp_path: Path, key: str) -> None:
    section, _, name = key.rpartition(".")
    head, _, middle = section.partition(".")
    repository(tmp_path, f'[{head} "{middle}"]\n{name} = evil\n' if middle else f"[{head}]\n{name} = evil\n")
    assert told(tmp_path) == [(f".git/config has git run 'evil' ({key})", True, True)]


@pytest.mark.parametrize(
    "key",
    [
        "core.sshcommand",
        "core.gitproxy",
        "core.askpass",
        "core.alternaterefscommand",
        "credential.helper",
        "credential.x.helper",
        "gc.recentobjectshook",
        "remote.x.uploadpack",
        "remote.x.vcs",
        "url.x.insteadof",
    ],
)
def test_each_setting_by_which_a_partial_clone_runs_a_program_is_found(tmp_path: Path, key: str) -> None:
    section, _, name = key.rpartition(".")
    head, _, middle = section.partition(".")
    text = f'[{head} "{middle}"]\n{name} = evil\n' if middle else f"[{head}]\n{name} = evil\n"
    repository(tmp_path, f"[extensions]\npartialclone = x\n{text}")
    assert told(tmp_path) == [(f".git/config has git fetch what is missing by 'evil' ({key})", True, True)]
