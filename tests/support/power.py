"""A file system on paper: it records what a process writes, renames, removes and syncs under one directory, and says
which trees a power cut may leave.

What was synced stays. Of the rest any part may be there: every subset of the new and removed names, each in its order;
of each file's writes a beginning, the next one torn or zeros in its place. A rename may have made the new name and kept
the old one, never lost both. Must not know: what beam writes.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import pytest


@dataclass(eq=False)
class Node:
    """A file or a directory, as the running process sees it."""

    is_directory: bool
    names: dict[str, Node] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)


@dataclass(eq=False)
class Step:
    """One change of a directory's names, or one write. `after` must be there before this one can be."""

    node: Node
    at: int
    name: str = ""
    child: Node | None = None
    is_gone: bool = False
    offset: int = 0
    data: bytes = b""
    synced_at: int | None = None
    after: Step | None = None


@dataclass
class Mark:
    """Something that the outside saw: from here on it can't be taken back."""

    at: int
    what: str
    value: Any


class Disk:
    """Records while it is `recording`."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.root = Node(is_directory=True)
        self.steps: list[Step] = []
        self.marks: list[Mark] = []
        self.now = 0
        self._handles: dict[int, tuple[Node, int]] = {}

    # -- recording -------------------------------------------------------------------------------------------------

    def mark(self, what: str, value: Any = None) -> None:
        """The outside has seen this."""
        self.now += 1
        self.marks.append(Mark(self.now, what, value))

    def record(self, patch: pytest.MonkeyPatch) -> None:
        """From now on every call is recorded. Syncs cost nothing meanwhile."""
        notes = {
            "open": self._opened,
            "close": self._closed,
            "write": self._wrote,
            "pwrite": self._wrote_at,
            "fsync": self._synced,
            "rename": self._renamed,
            "unlink": self._removed,
            "rmdir": self._removed,
            "mkdir": self._made,
        }
        for name, note in notes.items():
            patch.setattr(os, name, self._recorded(getattr(os, name), note))
        patch.setattr(os, "replace", os.rename)
        patch.setattr(os, "remove", os.unlink)

    @staticmethod
    def _recorded(real: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = None if real.__name__ == "fsync" else real(*args, **kwargs)
            note(result, *args, **kwargs)
            return result

        return call

    def _find(self, path: Any, dir_fd: int | None = None) -> tuple[Node, str] | None:
        """The directory and the name in it; None outside."""
        if isinstance(path, int):
            return None
        full = Path(os.fsdecode(path))
        if dir_fd is not None:
            full = Path(f"/proc/self/fd/{dir_fd}").readlink() / full
        if not full.is_relative_to(self.top) or full == self.top:
            return None
        *folders, name = full.relative_to(self.top).parts
        node = self.root
        for folder in folders:
            node = node.names[folder]
        return node, name

    def _step(self, node: Node, **fields: Any) -> Step:
        self.now += 1
        step = Step(node, self.now, **fields)
        self.steps.append(step)
        return step

    def _opened(self, handle: int, path: Any, flags: int, mode: int = 0, *, dir_fd: int | None = None) -> None:
        where = self._find(path, dir_fd)
        self._handles.pop(handle, None)
        if where is None:
            if not isinstance(path, int) and Path(os.fsdecode(path)) == self.top:
                self._handles[handle] = self.root, os.fstat(handle).st_ino
            return
        node = where[0].names.get(where[1])
        if node is None:
            node = self._new(where, is_directory=False)
            assert node is not None
        self._handles[handle] = node, os.fstat(handle).st_ino

    def _node(self, handle: int) -> Node | None:
        """What the handle is open on; a number that was closed unseen and given anew is another file's."""
        node, inode = self._handles.get(handle, (None, 0))
        return node if node is not None and os.fstat(handle).st_ino == inode else None

    def _made(self, _: None, path: Any, mode: int = 0, *, dir_fd: int | None = None) -> None:
        self._new(self._find(path, dir_fd), is_directory=True)

    def _new(self, where: tuple[Node, str] | None, *, is_directory: bool) -> Node | None:
        if where is None:
            return None
        folder, name = where
        child = folder.names[name] = Node(is_directory=is_directory)
        self._step(folder, name=name, child=child)
        return child

    def _renamed(self, _: None, source: Any, target: Any, **kwargs: Any) -> None:
        old, new = self._find(source), self._find(target)
        if old is None or new is None:
            return
        child = old[0].names.pop(old[1])
        new[0].names[new[1]] = child
        made = self._step(new[0], name=new[1], child=child)
        self._step(old[0], name=old[1], child=child, is_gone=True, after=made)

    def _removed(self, _: None, path: Any, *, dir_fd: int | None = None) -> None:
        where = self._find(path, dir_fd)
        if where is not None:
            self._step(where[0], name=where[1], child=where[0].names.pop(where[1]), is_gone=True)

    def _wrote(self, count: int, handle: int, data: Any) -> None:
        node = self._node(handle)
        if node is not None:
            self._put(node, len(node.data), bytes(data)[:count])

    def _wrote_at(self, count: int, handle: int, data: bytes, offset: int) -> None:
        node = self._node(handle)
        if node is not None:
            self._put(node, offset, data[:count])

    def _put(self, node: Node, offset: int, data: bytes) -> None:
        _overwrite(node.data, offset, data)
        self._step(node, offset=offset, data=data)

    def _synced(self, _: None, handle: int) -> None:
        self.now += 1
        node = self._node(handle)
        for step in self.steps:
            if step.node is node and step.synced_at is None:
                step.synced_at = self.now

    def _closed(self, _: None, handle: int) -> None:
        self._handles.pop(handle, None)

    # -- what a power cut leaves -------------------------------------------------------------------------------------

    def cuts(self) -> list[int]:
        """Every moment at which the power may go."""
        return sorted({0, *(step.at for step in self.steps), *(mark.at for mark in self.marks)})

    def outstanding(self, cut: int) -> int:
        """How many changes are not on disk for sure at that moment."""
        return sum(step.at <= cut and not _is_synced(step, cut) for step in self.steps)

    def states(self, cut: int, most: int, chance: random.Random) -> Iterator[dict[str, bytes | None]]:
        """The trees that the disk may hold: all of them, or `most` by chance where there are more.

        A tree is path → content, None for a directory.
        """
        done = [step for step in self.steps if step.at <= cut]
        choices = [*self._choices_of_names(done, cut), *self._choices_of_data(done, cut)]
        if prod(map(len, choices)) <= most:
            picks: Iterator[tuple[Any, ...]] = itertools.product(*choices)
        else:
            whole = [tuple(choice[0] for choice in choices), tuple(choice[-1] for choice in choices)]
            drawn = (tuple(chance.choice(choice) for choice in choices) for _ in range(most - 2))
            picks = itertools.chain(whole, drawn)
        for pick in picks:
            applied: dict[Step, bytes] = {}
            for part in pick:
                applied.update(part)
            yield self._tree([(step, applied[step]) for step in done if step in applied])

    @staticmethod
    def _choices_of_names(done: list[Step], cut: int) -> Iterator[list[dict[Step, bytes]]]:
        """For each change of a name: there or not; the two halves of a rename in their order."""
        follower = {step.after: step for step in done if step.after is not None}
        for step in done:
            if not step.name or step.after is not None:
                continue
            half, both = {step: b""}, {step: b""}
            options: list[dict[Step, bytes]] = [] if _is_synced(step, cut) else [{}]
            gone = follower.get(step)
            if gone is None:
                options.append(half)
            else:
                both[gone] = b""
                options += [both] if _is_synced(gone, cut) else [half, both]
                if _is_synced(gone, cut) and len(options) == 2:
                    options = [both]  # the old name's end is on disk, and with it the new name
            yield options

    @staticmethod
    def _choices_of_data(done: list[Step], cut: int) -> Iterator[list[dict[Step, bytes]]]:
        """For each file: so many of its writes, the next one torn, or zeros."""
        files: dict[Node, list[Step]] = {}
        for step in done:
            if not step.name:
                files.setdefault(step.node, []).append(step)
        for writes in files.values():
            firm = {step: step.data for step in writes if _is_synced(step, cut)}
            loose = [step for step in writes if not _is_synced(step, cut)]
            options = [dict(firm)]
            for count, step in enumerate(loose):
                before = firm | {each: each.data for each in loose[:count]}
                size = len(step.data)
                torn = {1, size // 2, size - 1} & set(range(1, size))
                options += [before | {step: step.data[:kept]} for kept in sorted(torn)]
                options.append(before | {step: bytes(size)})
                options.append(before | {step: step.data})
            yield options

    def _tree(self, applied: list[tuple[Step, bytes]]) -> dict[str, bytes | None]:
        names: dict[Node, dict[str, Node]] = {}
        contents: dict[Node, bytearray] = {}
        for step, data in applied:
            if not step.name:
                _overwrite(contents.setdefault(step.node, bytearray()), step.offset, data)
            elif not step.is_gone:
                assert step.child is not None
                names.setdefault(step.node, {})[step.name] = step.child
            elif names.get(step.node, {}).get(step.name) is step.child:
                del names[step.node][step.name]
        found: dict[str, bytes | None] = {}

        def walk(node: Node, prefix: str) -> None:
            for name, child in names.get(node, {}).items():
                if child.is_directory:
                    found[prefix + name] = None
                    walk(child, f"{prefix}{name}/")
                else:
                    found[prefix + name] = bytes(contents.get(child, b""))

        walk(self.root, "")
        return found


def _is_synced(step: Step, cut: int) -> bool:
    return step.synced_at is not None and step.synced_at <= cut


def _overwrite(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def lay(top: Path, tree: dict[str, bytes | None]) -> None:
    """Makes the tree there."""
    for path, content in tree.items():
        if content is None:
            (top / path).mkdir(mode=0o700)
        else:
            (top / path).write_bytes(content)
            (top / path).chmod(0o600)
