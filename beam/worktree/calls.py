"""Builds calls of git: the program, its configuration and its environment. Runs none of them.

A call from `call_in_private_repository` runs in a git directory that belongs to beam; git configuration of the person
or of a folder has no effect there. A call from `call_in_folder` runs in the folder's own repository, with the person's
configuration. Code that needs several calls is a generator that yields them; `beam.worktree.git` runs the generator.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct

from beam.base import own_program
from beam.base.errors import BeamError, ExitCode

R = TypeVar("R")
USAGE_EXIT_CODE = 129  # git's exit code for an option that it does not know
# A repository may name a program that git runs to fetch missing objects. These variables prevent that (the second one
# needs git 2.45).
NO_FETCH = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
_CONFIG_ALWAYS = {
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.ignoreStat": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "false",
    "advice.addEmbeddedRepo": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_CONFIG_PRIVATE = _CONFIG_ALWAYS | {
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.looseCompression": "1",
    "core.safecrlf": "false",
    "submodule.recurse": "false",
    "diff.ignoreSubmodules": "all",
}
_CONFIG_INSIDE = _CONFIG_ALWAYS | {"commit.gpgSign": "false", "user.name": "beam", "user.email": "beam@localhost"}


class GitError(BeamError):
    """A call of git failed. `code` is git's exit code, or None if git is not installed, did not run to its end, or
    refuses the repository because of its owner."""

    exit_code = ExitCode.FAILED
    kind = "snapshot"
    code: int | None = None


class GitCall(Struct, frozen=True, kw_only=True):
    """One call of git. `word` is the git command, for messages. `within_s` is the time limit in seconds. `largest_kib`
    limits the size of each file that git writes (0: no limit). `asks`: exit code 1 is the answer "no" and never counts
    as a full disk; for any other exit code, the disk counts as full only if git's error output says so."""

    argv: tuple[str, ...]
    word: str
    cwd: Path
    env: Mapping[str, str]
    stdin: bytes | None = None
    within_s: float
    largest_kib: int = 0
    asks: bool = False


GitCalls = Generator[GitCall, bytes, R]


class GitCallBuilder(Protocol):
    """A function that builds a call of git with the arguments `words`. The function determines the folder, the index
    and the time limit."""

    def __call__(self, *words: str, stdin: bytes | None = None) -> GitCall: ...


class PrivateRepository(Struct, frozen=True, kw_only=True):
    """A git directory that belongs to beam, and the work tree whose content it stores. `objects` is the object
    directory of the work tree's own repository; git reads existing objects from there. None: it has no repository."""

    directory: Path
    work_tree: Path
    objects: Path | None
    environ: Mapping[str, str]


def call_in_private_repository(
    place: PrivateRepository,
    *words: str,
    cwd: Path,
    within_s: float,
    index: Path | None = None,
    stdin: bytes | None = None,
    largest_kib: int = 0,
) -> GitCall:
    """Return a call of git in the git directory of `place`, without the person's and the folder's git configuration.
    Raises GitError if git is not installed."""
    env = {
        "PATH": own_program.search_path(place.environ),
        "HOME": str(place.directory),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **NO_FETCH,
        "GIT_DIR": str(place.directory),
        "GIT_WORK_TREE": str(place.work_tree),
    }
    if place.objects is not None:
        escaped = str(place.objects).replace("\\", "\\\\").replace('"', '\\"')
        env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{escaped}"'
    if index is not None:
        env["GIT_INDEX_FILE"] = str(index)
    return GitCall(
        argv=(_program(env), *_options(_CONFIG_PRIVATE), *words),
        word=words[0],
        cwd=cwd,
        env=env,
        stdin=stdin,
        within_s=within_s,
        largest_kib=largest_kib,
    )


def call_in_folder(
    folder: Path,
    environ: Mapping[str, str],
    without: Mapping[str, str],
    *words: str,
    within_s: float,
    stdin: bytes | None = None,
) -> GitCall:
    """Return a call of git in the folder's own repository, with the person's git configuration. `without` has the
    environment variables that keep git from running programs named in the repository's configuration. Raises GitError
    if git is not installed."""
    env = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    env |= {name: value for name, value in environ.items() if name.startswith("GIT_CONFIG_")}
    env["PATH"] = own_program.search_path(environ)
    env |= {**NO_FETCH, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **without}
    # A sparse checkout leaves files out of a new work tree, but it does not keep a file out of a commit that is there.
    config = _CONFIG_INSIDE if words[0] == "worktree" else _CONFIG_INSIDE | {"core.sparseCheckout": "false"}
    argv = (_program(env), *_options(config), *words)
    return GitCall(argv=argv, word=words[0], cwd=folder, env=env, stdin=stdin, within_s=within_s)


def _program(env: Mapping[str, str]) -> str:
    found = shutil.which("git", path=env["PATH"])
    if found is None:
        raise GitError("git is not installed", "install git", kind="not_installed")
    return found


def _options(config: Mapping[str, str]) -> list[str]:
    return [word for key, value in config.items() for word in ("-c", f"{key}={value}")]
