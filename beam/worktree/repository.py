"""Calls of git in a folder's own repository, which run no program that its configuration names.

If the folder is trusted, git may run the programs that the configuration named when the repository was first looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from beam.base.errors import UsageError
from beam.root.user_dirs import user_home
from beam.trust import git_config, ledger
from beam.worktree import git
from beam.worktree.calls import Call, Calls, GitError, inside
from beam.worktree.index import succeeds

R = TypeVar("R")

_ONLY_LOOKS = frozenset({"config", "rev-parse", "ls-files"})
_TIME_S = 120.0


class Repository:
    """The repository around a folder. The programs that git is configured to run there run only if the project folder
    is trusted, and only if they were configured when this object was made."""

    def __init__(self, folder: Path, environ: Mapping[str, str], *, project: Path | None = None) -> None:
        self.folder = folder
        self.project = project or folder  # whose trust counts
        self.environ = environ
        self._at_first = frozenset((each.name, each.digest) for each in self._look().found)

    def call(self, *words: str, stdin: bytes | None = None) -> Call:
        """Return a call of git, after a check of which programs git would run now."""
        without = {} if words[0] in _ONLY_LOOKS else self._without_programs()
        return inside(self.folder, self.environ, without, *words, within_s=_TIME_S, stdin=stdin)

    def run(self, calls: Calls[R]) -> R:
        """Run calls to their end and return their result. Raises UsageError."""
        try:
            return git.run_blocking(calls)
        except GitError as error:
            hint = error.hint or "look at it with git status"
            raise UsageError(error.message, hint, subject=str(self.folder)) from error

    def says(self, *words: str, stdin: bytes | None = None) -> str:
        """Return what git prints. Raises UsageError."""
        return self.run(self._printed(*words, stdin=stdin)).decode("utf-8", "replace").rstrip("\n")

    def does(self, *words: str) -> bool:
        """Return whether git ends with exit code 0. Raises UsageError if it did not run, or not to its end."""
        return self.run(succeeds(self.call, *words))

    def _printed(self, *words: str, stdin: bytes | None) -> Calls[bytes]:
        return (yield self.call(*words, stdin=stdin))

    def _look(self) -> git_config.Git:
        return git_config.look(self.project, self.folder, access="read", home=user_home(self.environ))

    def _without_programs(self) -> dict[str, str]:
        """Return the environment variables that keep git from running programs of the repository's own configuration;
        none if the folder is trusted and the configuration names nothing new."""
        now = self._look()
        is_as_before = {(each.name, each.digest) for each in now.found} <= self._at_first
        if is_as_before and ledger.standing_of(self.project, now.found, self.environ).trusted:
            return {}
        return git_config.variables(now.off, self.environ)
