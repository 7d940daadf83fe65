"""Finds with git how the steps of a run changed the files. Checks, prompts and replays use the result.

Each run has its own directory for its snapshots. Git's ignore files outside of the folder are read when the snapshots
begin, so that later changes by an agent to these files have no effect.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from beam.base import files
from beam.base.errors import BeamError, UsageError
from beam.conversations.expect import Changes
from beam.process import owned
from beam.root.git_place import git_place
from beam.root.paths import user_home
from beam.secrets.redact import redact_beginning
from beam.worktree.repository import Repository
from beam.worktree.snapshots import Bounds, Snapshots

MAX_DIFF = 1 << 20
_MAX_IGNORED = 1 << 20
_DIRECTORY_PREFIX = ".run-"
_BOUNDS = Bounds(within_s=120.0)


class FolderChanges:
    """Takes snapshots of a folder in a git work tree, and compares them. The snapshots are stored below `store`, where
    no agent may write."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], *, store: Path, repository: Repository | None = None
    ) -> None:
        self.folder = folder
        self.repository = repository or Repository(folder, environ)
        self._environ = environ
        self._store = store
        self._directory: Path | None = None
        self._snapshots: Snapshots | None = None
        self._left_out: list[str] = []
        self._index_lock = threading.Lock()  # parallel steps take snapshots, and there is one index for them

    def leave_out(self, paths: Sequence[Path]) -> None:
        """Ignore these paths in all snapshots, because beam itself writes there."""
        top = self.folder.resolve()
        inside = [path.resolve().relative_to(top) for path in paths if path.resolve().is_relative_to(top)]
        self._left_out = [f":(exclude,literal){path}" for path in inside]

    def is_in_repository(self) -> bool:
        """Return whether the folder is in a git repository with a commit. Raises UsageError if git is not installed, or
        refuses the repository."""
        return self.repository.succeeds("rev-parse", "--verify", "-q", "HEAD^{commit}")

    def close(self) -> None:
        """Remove the snapshots."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = self._snapshots = None

    def snapshot(self) -> str:
        """Take a snapshot: return the id of a git tree with the folder's current files, without ignored files."""
        with self._index_lock:
            snapshots = self._own_snapshots()
            return self.repository.run(snapshots.write_tree(snapshots.directory / "index", self._left_out))

    def changes(self, before: str, after: str) -> Changes:
        """Return which files changed between two snapshots, and by how many lines. Paths are relative to the folder."""
        found = self.repository.run(self._own_snapshots().changed_files(before, after, "--relative"))
        return Changes(
            paths=tuple(file.path for file in found),
            added=sum(file.added or 0 for file in found),
            removed=sum(file.removed or 0 for file in found),
            known=True,
        )

    def known_files(self) -> frozenset[str]:
        """Return the files of the last snapshot, relative to the folder."""
        snapshots = self._own_snapshots()
        return self.repository.run(snapshots.known_files(snapshots.directory / "index"))

    def diff(self, before: str, after: str) -> str:
        """Return the changes between two snapshots as a patch for display, without secrets and cut at 1 MiB."""
        text = self.repository.run(self._own_snapshots().patch(before, after)).decode("utf-8", "replace").rstrip("\n")
        return redact_beginning(text, MAX_DIFF)

    def patch(self, before: str, after: str) -> bytes:
        """Return the changes between two snapshots as a complete patch for `apply`."""
        return self.repository.run(self._own_snapshots().patch(before, after, "--binary"))

    def apply(self, patch: bytes) -> str:
        """Apply a patch to the files. Return the error message, or "" if there was no error."""
        if not patch:
            return ""
        try:
            self.repository.output("apply", "--whitespace=nowarn", "-", stdin=patch)
        except UsageError as error:
            return error.message
        return ""

    def _own_snapshots(self) -> Snapshots:
        if self._snapshots is not None:
            return self._snapshots
        self.close()
        place = git_place(self.folder)
        if place is None:
            raise UsageError(f"{self.folder} is in no git work tree any more", subject=str(self.folder))
        ignored = self._ignore_rules(Path(place.repository))
        files.make_directory(self._store)
        self._remove_leftovers()
        with files.disk_action("make a folder in", self._store):
            self._directory = Path(tempfile.mkdtemp(prefix=_DIRECTORY_PREFIX, suffix=".tmp", dir=self._store))
        owned.claim_folder(self._directory)
        made = Snapshots(
            self._directory, place, self._environ, bounds=_BOUNDS, folder=self.folder, has_repositories=True
        )
        made.make_directory(ignored)
        self.repository.run(made.copy_index(self._directory / "index"))
        self._snapshots = made
        return made

    def _remove_leftovers(self) -> None:
        """Remove the directories in which killed runs left their snapshots."""
        for name in files.names(self._store):
            if name.startswith(_DIRECTORY_PREFIX) and owned.is_owner_alive(self._store / name) is False:
                shutil.rmtree(self._store / name, ignore_errors=True)

    def _ignore_rules(self, repository: Path) -> bytes:
        """Return the content of the two files that name ignored files for git besides `.gitignore`: the user's
        (`core.excludesFile`) and the repository's (`info/exclude`)."""
        try:
            own = Path(self.repository.output("config", "--type=path", "--get", "core.excludesFile"))
        except UsageError:
            own = Path(self._environ.get("XDG_CONFIG_HOME") or user_home(self._environ) / ".config") / "git/ignore"
        found = b""
        for path in (own, repository / "info/exclude"):
            with contextlib.suppress(OSError, BeamError, ValueError):
                found += files.read(path, _MAX_IGNORED, follow=True) + b"\n"
        return found
