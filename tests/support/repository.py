"""A git repository in a test's scratch place, where most people run agents and a CLI shows screens of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_FILE = "README.md"
WHO = "[user]\n\tname = A Person\n\temail = person@example.com\n[init]\n\tdefaultBranch = main\n"


def configure_git(home: Path) -> None:
    """Gives this HOME a name to commit with, as aider does."""
    (home / ".gitconfig").write_text(WHO)


def make_repository(folder: Path, home: Path) -> None:
    """Makes the folder a git repository with one commit; no git settings of the machine or the caller count."""
    configure_git(home)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8"}
    (folder / _FILE).write_text("A project.\n")
    _git(folder, env, "init", "--quiet")
    _git(folder, env, "add", _FILE)
    _git(folder, env, "commit", "--quiet", "--no-verify", "--message", "Begin")


def is_in_repository(folder: Path) -> bool:
    """Whether the folder lies in a git work tree."""
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))


def files(folder: Path) -> list[str]:
    """What stands in the folder beside what it was made with, sorted."""
    return sorted(path.name for path in folder.iterdir() if path.name not in (".git", _FILE))


def content(folder: Path) -> dict[str, tuple[int, str | bytes]]:
    """Every file and link of the folder, git's own left out: its kind and permissions, and its content."""
    found: dict[str, tuple[int, str | bytes]] = {}
    for path in folder.rglob("*"):
        if ".git" not in path.relative_to(folder).parts and (path.is_symlink() or path.is_file()):
            data = str(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(folder))] = (path.lstat().st_mode, data)
    return found


def _git(folder: Path, env: Mapping[str, str], *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], env=env, check=True, stdin=subprocess.DEVNULL)


def make_hostile_repository(folder: Path, mark: Path, way: str) -> None:
    """Makes the folder a repository whose configuration has git run a program that makes `mark`, as an agent could.

    `way` is "fetch" (text files alone: git would fetch its commit by a program) or "filter" (git would clean a file).
    """
    program = f"touch '{mark}'; {'cat' if way == 'filter' else 'false'}"
    if way == "filter":
        env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        folder.mkdir()
        (folder / "one").write_text("1\n")
        for words in (
            ("init", "-q"),
            ("add", "one"),
            (*who, "commit", "-qm", "x"),
            ("config", "filter.x.clean", program),
        ):
            _git(folder, env, *words)
        (folder / ".gitattributes").write_text("* filter=x\n")
        os.utime(folder / "one", (1, 1))
        return
    for name in ("objects", "refs/heads"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git/refs/heads/main").write_text("1" * 40)
    (folder / ".git/config").write_text(
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = x\n"
        f'[remote "x"]\n\turl = /\n\tpromisor = true\n\tuploadpack = "{program} #"\n'
    )
