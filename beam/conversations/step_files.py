"""The files of a run: records what its steps change, and applies the recorded changes in a replay."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from beam.base import files
from beam.base.errors import DiskError, UsageError
from beam.conversations.changes import FolderChanges
from beam.conversations.expect import Changes, FoundFile
from beam.conversations.facts import TurnFacts
from beam.conversations.recording import Recorder, Replay
from beam.conversations.scenario import Scenario
from beam.turns.outcome import is_blank

_MAX_FILE = 1 << 20


def real_paths(scenario: Scenario) -> dict[str, str]:
    """Return where the paths of the files in the scenario's prompts lead now."""
    parts = (part for step in scenario.all_steps() for part in getattr(step, "prompt", ()))
    return {part.value: os.path.realpath(part.value) for part in parts if part.kind == "file"}


class StepFiles:
    """The files in the folder where the agents work.

    `restores`: the changes of the files are recorded, and applied again in a replay. `before` is the snapshot from when
    the run began; "" if git can't be used here, and `unknown_changes` says why. `real_paths` is where the paths of the
    prompts' files led when the run began.
    """

    def __init__(
        self,
        folder: Path,
        changes: FolderChanges,
        *,
        recorder: Recorder | None,
        replay: Replay | None,
        restores: bool,
        real_paths: Mapping[str, str],
    ) -> None:
        self._folder = folder
        self._changes = changes
        self._recorder = recorder
        self._replay = replay
        self.restores = restores
        self.before = ""
        self.unknown_changes = Changes()
        self._real_paths = real_paths

    async def begin(self) -> None:
        """Take a snapshot of the files before the first step."""
        try:
            is_in_repository = await asyncio.to_thread(self._changes.is_in_repository)
        except UsageError as error:
            self.unknown_changes = Changes(why=f"{error.message} ({error.hint})")
            return
        if is_in_repository:
            self.before = await asyncio.to_thread(self._changes.snapshot)

    @property
    def keeps_changes(self) -> bool:
        """Return whether the steps' changes of the files are recorded, or applied again."""
        return self.restores and (self._recorder or self._replay) is not None

    async def snapshot(self) -> str:
        """Return a snapshot of the files now; "" outside of a git repository."""
        return await asyncio.to_thread(self._changes.snapshot) if self.before else ""

    async def changes(self, before: str, turns: Sequence[TurnFacts]) -> Changes:
        """Return the changes of the files since the snapshot `before`, and what the agents of these turns name besides.
        If there is no snapshot, git is not asked."""
        named = _named_files(turns, os.path.realpath(self._folder))
        if not before:
            return msgspec.structs.replace(self.unknown_changes, named=tuple(named))
        now = await asyncio.to_thread(self._changes.snapshot)
        found = await asyncio.to_thread(self._changes.changes, before, now)
        beside = {name: is_gone for name, is_gone in named.items() if name not in found.paths}
        seen = await asyncio.to_thread(self._changes.known_files) if beside else frozenset()
        unseen = (name for name, is_gone in beside.items() if name not in seen and (is_gone or self._has_file(name)))
        return msgspec.structs.replace(found, named=tuple(unseen))

    async def diff(self) -> str:
        """Return what changed since the run began, as a patch or a sentence that says why there is none."""
        if not self.before:
            return f"({self.unknown_changes.why}, so nobody knows what was changed)"
        now = await asyncio.to_thread(self._changes.snapshot)
        text = await asyncio.to_thread(self._changes.diff, self.before, now)
        return text or "(no file was changed)"

    async def snapshot_to_keep(self) -> str:
        """Return a snapshot for `keep`; "" if changes are neither recorded nor applied again."""
        return await self.snapshot() if self.keeps_changes else ""

    async def keep(self, step: str, before: str) -> None:
        """Record how the files changed since the snapshot `before`; in a replay, apply the recorded changes instead."""
        if not self.restores or not before:
            return
        if self._replay is not None and not self._replay.needs_agents:
            path = self._replay.folder / f"{step}.patch"
            try:
                patch = files.read(path, 64 << 20, follow=True)
            except FileNotFoundError:
                return
            wrong = await asyncio.to_thread(self._changes.apply, patch)
            if wrong:
                raise UsageError(f"the recorded changes of step {step} don't fit: {wrong}", "record it again")
        elif self._recorder is not None:
            now = await asyncio.to_thread(self._changes.snapshot)
            patch = await asyncio.to_thread(self._changes.patch, before, now)
            path = self._recorder.folder / f"{step}.patch"
            if patch or path.exists():
                files.make_directory(path.parent)
                files.replace(path, patch)

    def _has_file(self, name: str) -> bool:
        try:
            return _has_name(self._folder / name)
        except OSError:  # nobody can tell
            return True

    def find_file(self, path: str) -> FoundFile:
        """Return what is at a path of the folder. The text of a directory is ""; that of a file is read if the file is
        in the folder."""
        target = self._folder / path
        try:
            is_there = _has_name(target)
            if not is_there:
                return FoundFile()
            if not Path(os.path.realpath(target)).is_relative_to(os.path.realpath(self._folder)):
                return FoundFile(is_there=True, problem="leads out of the folder")
            if not target.exists():
                return FoundFile(is_there=True, problem="is a link that leads nowhere")
        except (OSError, ValueError) as error:
            return FoundFile(is_there=True, problem=f"can't be looked at: {error}")
        try:
            text = "" if target.is_dir() else files.read(target, _MAX_FILE, follow=True).decode("utf-8", "replace")
        except (OSError, DiskError) as error:
            return FoundFile(is_there=True, is_inside=True, problem=f"can't be read: {error}")
        return FoundFile(is_there=True, is_inside=True, text=text)

    def prompt_file_text(self, path: str) -> str:
        """Return the text of a file for a prompt. Raises UsageError if the file is gone or blank, or if a link on its
        path was changed since the run began."""
        if os.path.realpath(path) != self._real_paths[path]:
            what = f"{path} led to {self._real_paths[path]} when the run began, and leads elsewhere now"
            raise UsageError(what, "an agent may have put a link there", subject=path)
        try:
            text = files.read(Path(self._real_paths[path]), _MAX_FILE).decode("utf-8", "replace")
        except FileNotFoundError as error:
            raise UsageError(f"{path} is gone", "it was there when the run began", subject=path) from error
        if is_blank(text):  # an agent may find nothing to be right
            raise UsageError(f"{path} is empty", "nobody is asked about nothing", subject=path)
        return text


def _named_files(turns: Sequence[TurnFacts], folder: str) -> dict[str, bool]:
    """Return the files that the agents of these turns name as changed, relative to the folder if they are in there.
    The value says whether the file was there before and was deleted."""
    found: dict[str, list[str]] = {}
    for turn in turns:
        for file in turn.files:
            path = os.path.normpath(os.path.join(turn.cwd or folder, file.path))  # noqa: PTH118 - any text may be a path
            found.setdefault(path.removeprefix(folder.rstrip("/") + "/"), []).append(file.kind)
    return {name: kinds[0] != "add" and kinds[-1] == "delete" for name, kinds in found.items()}


def _has_name(path: Path) -> bool:
    """Return whether something has this path, be it a link that leads nowhere. Raises OSError if nobody can tell."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError:  # no file has a name with a NUL character
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise
    return True
