"""Calls git in a folder's own repository without running programs that the repository's configuration names.

There is one exception: in a trusted folder, git may run the programs that were configured when the `Repository` object
was created.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from beam.base.errors import UsageError
from beam.root.paths import user_home
from beam.trust import git_config, ledger
from beam.worktree import git
from beam.worktree.calls import GitCall, GitCalls, GitError, call_in_folder
from beam.worktree.index import succeeds

R = TypeVar("R")

_SAFE_COMMANDS = frozenset({"config", "rev-parse", "ls-files"})
_TIME_S = 120.0


class Repository:
    """The git repository that contains `folder`. git runs programs that the repository's configuration names only if
    the project folder is trusted and no such program was added since this object was created."""

    def __init__(self, folder: Path, environ: Mapping[str, str], *, project: Path | None = None) -> None:
        self.folder = folder
        self.project = project or folder  # whose trust counts
        self.environ = environ
        self._initial_programs = frozenset((each.name, each.digest) for each in self._find_programs().found)

    def call(self, *words: str, stdin: bytes | None = None) -> GitCall:
        """Return a call of git in the folder. For a git command that may run programs, first check which programs are
        configured now, and disable them unless they may run."""
        without = {} if words[0] in _SAFE_COMMANDS else self._disabling_variables()
        return call_in_folder(self.folder, self.environ, without, *words, within_s=_TIME_S, stdin=stdin)

    def run(self, calls: GitCalls[R]) -> R:
        """Run all calls that the generator yields and return the result of the generator. Raises UsageError if a call
        of git fails."""
        try:
            return git.run_blocking(calls)
        except GitError as error:
            hint = error.hint or "look at it with git status"
            raise UsageError(error.message, hint, subject=str(self.folder)) from error

    def output(self, *words: str, stdin: bytes | None = None) -> str:
        """Return the standard output of git as text, without newlines at its end. Raises UsageError if git fails."""
        return self.run(self._call_output(*words, stdin=stdin)).decode("utf-8", "replace").rstrip("\n")

    def succeeds(self, *words: str) -> bool:
        """Return whether git ends with exit code 0. Raises UsageError if git is not installed, did not run to its end,
        or refuses the repository."""
        return self.run(succeeds(self.call, *words))

    def _call_output(self, *words: str, stdin: bytes | None) -> GitCalls[bytes]:
        return (yield self.call(*words, stdin=stdin))

    def _find_programs(self) -> git_config.GitFindings:
        return git_config.findings_of_git(self.project, self.folder, access="read", home=user_home(self.environ))

    def _disabling_variables(self) -> dict[str, str]:
        """Return the environment variables that keep git from running programs named in the repository's configuration.
        Return an empty dict if the folder is trusted and no such program was added since this object was created."""
        now = self._find_programs()
        is_as_before = {(each.name, each.digest) for each in now.found} <= self._initial_programs
        if is_as_before and ledger.standing_of(self.project, now.found, self.environ).trusted:
            return {}
        return git_config.override_variables(now.off, self.environ)
