"""Records what a git work tree contains, so that it can be compared with the same tree later.

A snapshot is a git tree in a store of beam's own. git runs with that store as its repository: the folder's own git
configuration, hooks and filters have no effect. Objects that the folder's repository has are read from there, and not
stored again. Files that git ignores are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from beam.base import files
from beam.base.errors import BeamError, ExitCode, UnsupportedError
from beam.base.surrogates import escape_surrogates
from beam.model.events import WorkTreeRecorded
from beam.process.environment import absolute_folders
from beam.root.git_place import GitPlace, git_directory, git_place

_LARGEST_INDEX = 64 << 20
_LARGEST_FILE_KIB = 64 << 10  # a larger file in the work tree makes the snapshot fail
_TIME_S = 5.0
_COMPARE_S = 60.0
_GITLINK = b"160000 "  # how `ls-files -s` begins the entry of a repository in the work tree
# A repository may name a program that git runs to fetch what is missing: nothing is fetched (the second is git 2.45's).
FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")
FORGET = ("update-index", "-z", "--force-remove", "--stdin")
NO_FETCH = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
_CONFIG = {
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.looseCompression": "1",
    "core.safecrlf": "false",
    "core.quotePath": "false",
    "advice.addEmbeddedRepo": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "diff.ignoreSubmodules": "all",
}


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A file that differs: its path below the work tree, and how many lines were added and removed (null: it is not
    text)."""

    path: str
    added: int | None
    removed: int | None


class Changes(Struct, frozen=True, kw_only=True):
    """How two snapshots differ. `patch` is a unified diff, as bytes: a file may have any encoding."""

    files: tuple[ChangedFile, ...]
    patch: bytes


class PassedOver(Struct, frozen=True, kw_only=True):
    """Files of an index that git does not look at, as paths: marked `assume-unchanged`, and `skip-worktree`; of the
    latter those that are not there, as in a sparse checkout, are in `absent`."""

    assumed: frozenset[bytes]
    skipped: frozenset[bytes]
    absent: frozenset[bytes]

    def unmark(self) -> list[tuple[tuple[str, ...], bytes]]:
        """Return the arguments of `git update-index`, and its stdin, that remove the marks of the first two."""
        marks = (("--no-assume-unchanged", self.assumed), ("--no-skip-worktree", self.skipped))
        return [((mark, "-z", "--stdin"), b"\0".join(sorted(paths))) for mark, paths in marks if paths]


def passed_over(listing: bytes, folder: Path) -> PassedOver:
    """Return the marked files of what `git ls-files -v -z` printed in that folder.

    Whoever may write the index can mark a file, so that a change of it is in no diff.
    """
    entries = [(entry[:1], entry[2:]) for entry in listing.split(b"\0") if entry[:1].islower() or entry[:1] == b"S"]
    skipped = frozenset(path for tag, path in entries if tag in b"Ss")
    absent = frozenset(path for path in skipped if not os.path.lexists(folder / os.fsdecode(path)))
    assumed = frozenset(path for tag, path in entries if tag.islower())
    return PassedOver(assumed=assumed, skipped=skipped - absent, absent=absent)


def repositories_in(listing: bytes) -> dict[bytes, bytes]:
    """Return the path and the commit of each repository in the work tree that `git ls-files -s -z` printed.

    `git add` runs `git status` in each that is in the index, with that one's own configuration; one that is not in
    there is only added.
    """
    entries = (entry.partition(b"\t") for entry in listing.split(b"\0") if entry.startswith(_GITLINK))
    return {path: head.split(b" ")[1] for head, _, path in entries}


class SnapshotError(BeamError):
    """No snapshot could be made or compared; a turn goes on without."""

    exit_code = ExitCode.FAILED
    kind = "snapshot"


class WorkTree:
    """A git work tree, and the store for its snapshots. `environ` is searched for git."""

    def __init__(self, store: Path, place: GitPlace, environ: Mapping[str, str]) -> None:
        self._store, self._folder = store, Path(place.work_tree)
        self._repository = place.repository
        self._environ = environ

    @property
    def folder(self) -> str:
        """Return the work tree's path."""
        return str(self._folder)

    @classmethod
    def of(cls, store: Path, folder: Path, environ: Mapping[str, str]) -> WorkTree:
        """Return the work tree around a folder. Raises UnsupportedError outside of one."""
        place = git_place(folder)
        if place is None:
            raise UnsupportedError(f"{escape_surrogates(str(folder))} is in no git work tree", "git init")
        return cls(store, place, environ)

    async def take(self, agent: str) -> str:
        """Return the tree (an object id) that has the work tree's content now. Raises SnapshotError, DiskError.

        The agent's index stays in the store, so that the next snapshot reads only files that changed.
        """
        self._make_store()
        return await self._tree(self._index(agent))

    async def take_beside(self, agent: str) -> str:
        """Do the same and leave the agent's index alone, which a turn may use. Raises SnapshotError, DiskError."""
        self._make_store()
        beside = self._store / f"index-{agent}.{os.getpid()}.tmp"
        self._seed(beside, self._index(agent))
        try:
            return await self._tree(beside)
        finally:
            for left in (beside, beside.with_name(f"{beside.name}.lock")):
                with contextlib.suppress(OSError):
                    left.unlink(missing_ok=True)

    async def compare(self, before: str, after: str) -> Changes:
        """Return how two snapshots differ. Raises SnapshotError, also if one of them is gone."""
        words = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=all")
        numbers = await self._git(*words, "--numstat", "-z", before, after, within_s=_COMPARE_S)
        patch = await self._git(*words, "--patch", before, after, within_s=_COMPARE_S)
        return Changes(files=tuple(map(_changed, numbers.rstrip(b"\0").split(b"\0"))) if numbers else (), patch=patch)

    def _index(self, agent: str) -> Path:
        return self._store / f"index-{agent}"

    def _make_store(self) -> None:
        if (self._store / "HEAD").exists():
            return
        for name in ("objects", "refs"):
            files.make_directory(self._store / name)
        files.replace(self._store / "config", b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        files.replace(self._store / "HEAD", b"ref: refs/heads/none\n")

    def _seed(self, index: Path, *others: Path) -> None:
        """Begin an index with what is known of the files' times, so that not every file must be read."""
        directory = git_directory(self._folder)
        for other in (*others, *([directory / "index"] if directory is not None else [])):
            with contextlib.suppress(OSError, BeamError):
                files.replace(index, files.read(other, _LARGEST_INDEX))
                return

    async def _tree(self, index: Path) -> str:
        if not index.exists():
            self._seed(index)
            await self._watch_every_file(index)
        try:
            await self._leave_repositories(index)
            await self._git("add", "--all", "--", ".", index=index)
        except SnapshotError:  # an index of another kind, one that a killed git left locked, or an empty repository
            for left in (index, index.with_name(f"{index.name}.lock")):
                left.unlink(missing_ok=True)
            found = (await self._git("ls-files", "--others", "-z", index=index)).split(b"\0")
            paths = [b".", *(b":(exclude,literal)" + path for path in found if path.endswith(b"/"))]
            await self._git("add", "--all", *FROM_STDIN, index=index, stdin=b"\0".join(paths))
        return (await self._git("write-tree", index=index)).decode().strip()

    async def _leave_repositories(self, index: Path) -> None:
        """Take repositories in the work tree out of the index, so that git does not look into them."""
        found = repositories_in(await self._git("ls-files", "-s", "-z", index=index))
        if found:
            await self._git(*FORGET, index=index, stdin=b"\0".join(found))

    async def _watch_every_file(self, index: Path) -> None:
        """Take the marks out of a new index by which git would not look at a file that is there."""
        with contextlib.suppress(SnapshotError):  # no index, or one of another kind
            marks = passed_over(await self._git("ls-files", "-v", "-z", index=index), self._folder)
            for words, paths in marks.unmark():
                await self._git("update-index", *words, index=index, stdin=paths)

    async def _git(
        self, *words: str, index: Path | None = None, within_s: float = _TIME_S, stdin: bytes | None = None
    ) -> bytes:
        git = shutil.which("git", path=absolute_folders(self._environ.get("PATH", os.defpath)))
        if git is None:
            raise SnapshotError("git is not installed", "install git", kind="not_installed")
        config = [word for key, value in _CONFIG.items() for word in ("-c", f"{key}={value}")]
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            f'ulimit -f {_LARGEST_FILE_KIB * 2}; exec "$@"',  # in blocks of 512 bytes
            "sh",
            git,
            *config,
            *words,
            cwd=self._folder,
            env=self._variables(index),
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(stdin), within_s)
        except TimeoutError:
            raise SnapshotError(f"git {words[0]} took longer than {within_s:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            last = err.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
            raise SnapshotError(f"git {words[0]}: {last[0]}")
        return out

    def _variables(self, index: Path | None) -> dict[str, str]:
        escaped = f"{self._repository}/objects".replace("\\", "\\\\").replace('"', '\\"')
        found = {
            "PATH": absolute_folders(self._environ.get("PATH", os.defpath)),
            "HOME": str(self._store),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            **NO_FETCH,
            "GIT_DIR": str(self._store),
            "GIT_WORK_TREE": str(self._folder),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{escaped}"',
        }
        return found if index is None else {**found, "GIT_INDEX_FILE": str(index)}


async def recorded(
    store: Path, folder: Path, environ: Mapping[str, str], agent: str, *, beside: bool
) -> WorkTreeRecorded:
    """Return the event that says what the work tree around the folder contains. A failure is its `reason`.

    `beside`: another turn of the agent may run at the same time.
    """
    name = str(folder)
    try:
        tree = WorkTree.of(store, folder, environ)
        name = tree.folder
        return WorkTreeRecorded(folder=name, tree=await (tree.take_beside if beside else tree.take)(agent))
    except BeamError as error:
        return WorkTreeRecorded(folder=escape_surrogates(name), reason=str(error))


def _changed(line: bytes) -> ChangedFile:
    added, removed, path = line.decode("utf-8", "surrogateescape").split("\t", 2)
    return ChangedFile(path=escape_surrogates(path), added=_number(added), removed=_number(removed))


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
