"""The git work trees of a run's repeats. Each repeat has its own work tree, and its changes are committed to a branch.

Does not depend on what happens in a work tree (`beam.conversations.run_worktree` makes and removes one).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from beam.base.errors import BeamError
from beam.broker.inbox.context import RootContext
from beam.conversations.changes import FolderChanges
from beam.conversations.result import WorktreeResult
from beam.conversations.run_worktree import RunWorktrees
from beam.conversations.scenario import Scenario, Worktree
from beam.root.paths import data_dir


class RepeatWorktrees:
    """The work trees of a run that repeats the scenario `times` times. There are none if the scenario asks for none."""

    def __init__(self, scenario: Scenario, context: RootContext, times: int) -> None:
        self._scenario = scenario
        self._context = context
        self._times = times

    @property
    def _folder(self) -> Path:
        return data_dir(self._context.environ) / "worktrees"

    async def check_branches(self, warn: Callable[[str], None]) -> None:
        """Remove the work trees of killed runs, and call `warn` for each. Then raise ConfigError if a branch that a
        repeat needs exists already."""
        wanted = self._scenario.worktree
        if wanted is None:
            return
        worktrees = self._run_worktrees()
        for branch in await asyncio.to_thread(worktrees.remove_leftovers, self._folder):
            warn(f"a run was killed before; what it changed is in the branch {branch}")
        names = [self._branch_of(wanted, number) for number in range(1, self._times + 1)] if wanted.branch else []
        for name in names:
            if await asyncio.to_thread(worktrees.has_commit, f"refs/heads/{name}"):
                what = f"there is a branch {name} already"
                raise self._scenario.source.error(("worktree", "branch"), what, "give it another name")

    async def add(self, number: int) -> RepeatWorktree | None:
        """Make the work tree for the repeat with this number and return it; None if the scenario asks for none."""
        wanted = self._scenario.worktree
        if wanted is None:
            return None
        mark = self._context.clock.random(4).hex()
        branch = self._branch_of(wanted, number) or f"beam/{self._scenario.name}-{mark}"
        path = self._folder / f"{self._scenario.name}-{mark}"
        worktrees = self._run_worktrees()
        changes = await asyncio.to_thread(worktrees.add, path, branch, wanted.start)
        return RepeatWorktree(worktrees, changes, path, branch, wanted)

    def _run_worktrees(self) -> RunWorktrees:
        """Return a new `RunWorktrees`. Its creation notes which programs git is configured to run in the folder."""
        home = self._context.home
        return RunWorktrees(home.project, self._context.environ, store=home.root)

    def _branch_of(self, wanted: Worktree, number: int) -> str:
        """Return the branch that the scenario names for the repeat with this number; "" if it names none."""
        return f"{wanted.branch}-{number}" if wanted.branch and self._times > 1 else wanted.branch


class RepeatWorktree:
    """The work tree of one repeat."""

    def __init__(
        self, worktrees: RunWorktrees, changes: FolderChanges, path: Path, branch: str, wanted: Worktree
    ) -> None:
        self._worktrees = worktrees
        self.changes = changes
        self._path = path
        self._branch = branch
        self._wanted = wanted
        self.lost = ""  # why the changes could not be committed

    def end(self, before: str) -> WorktreeResult:
        """Commit the changes to the branch, and remove the work tree unless it has to be kept. If the snapshot `before`
        is "", only remove the work tree."""
        if not before:
            self._worktrees.abandon(self._path)
            return WorktreeResult(branch=self._branch)
        try:
            return self._worktrees.end(self.changes, self._path, self._branch, self._wanted, before)
        except BeamError as error:
            with contextlib.suppress(BeamError):  # the first error is the one to report
                self._worktrees.unlock(self._path)
            self.lost = f"what the run changed stays in {self._path}: {error.message}"
            return WorktreeResult(branch=self._branch, path=str(self._path), diff=f"{error.message}\n")
