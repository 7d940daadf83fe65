"""A file system on paper: it records what a process writes, renames, removes and syncs under one directory, and says
which trees a power cut may leave.

What was synced stays. Of the rest any part may be there: every subset of the new and removed names, each in its order;
of each file every subset of the pages that were written, with zeros or what was there before in place of the rest,
lengthened or not, or cut in the middle of a write. A rename may have made the new name and kept the old one, never lost
both. Must not know: what beam writes.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PAGE = 4096  # bytes that reach the disk together
MAX_PAGES = 12  # of one file, of which every subset is tried
Tree = dict[str, bytes | None]  # path → content, None for a directory
_NOTHING = (b"",)


@dataclass(eq=False)
class Node:
    """A file or a directory, as the running process sees it."""

    is_directory: bool
    names: dict[str, Node] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)


@dataclass(eq=False)
class Step:
    """One change of a directory's names, or one write. `after` must be there before this one can be; one that
    `is_atomic` is there whole or not at all."""

    node: Node
    at: int
    name: str = ""
    child: Node | None = None
    is_gone: bool = False
    offset: int = 0
    data: bytes = b""
    is_atomic: bool = False
    synced_at: int | None = None
    after: Step | None = None


@dataclass
class Mark:
    """Something that the outside saw: from here on it can't be taken back."""

    at: int
    what: str
    value: Any


Names = dict[tuple[Node, str], Node]  # directory and name → what is there
Contents = dict[Node, list[bytes]]
Change = tuple[Step, Step | None]  # a name that comes or goes, and the old name's end of a rename


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
            "posix_fallocate": self._allocated,
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

    def _renamed(
        self, _: None, source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        old, new = self._find(source, src_dir_fd), self._find(target, dst_dir_fd)
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

    def _allocated(self, _: None, handle: int, offset: int, size: int) -> None:
        node = self._node(handle)
        if node is not None:
            self._put(node, offset, bytes(size), is_atomic=True)

    def _put(self, node: Node, offset: int, data: bytes, *, is_atomic: bool = False) -> None:
        _overwrite(node.data, offset, data)
        self._step(node, offset=offset, data=data, is_atomic=is_atomic)

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
        loose = [step for step in self.steps if step.at <= cut and not _is_synced(step, cut) and step.after is None]
        return sum(1 if step.name else len(list(_pages(step))) for step in loose)

    def states(self, cut: int, chance: random.Random, *, upto: int, drawn: int) -> Iterator[Tree]:
        """The trees that the disk may hold: all of them where at most `upto` changes are outstanding, so many that are
        `drawn` by chance elsewhere. Two may be equal."""
        done = [step for step in self.steps if step.at <= cut]
        names = _outcomes_of_names(done, cut)
        contents = _contents_of_files(done, cut)
        if self.outstanding(cut) <= upto:
            for pick in itertools.product(*names):
                yield from self._with_contents(self._layout(pick), contents)
            return
        yield self._one(names, contents, lambda choices: choices[0])
        yield self._one(names, contents, lambda choices: choices[-1])
        for _ in range(drawn - 2):
            yield self._one(names, contents, chance.choice)

    def _one(self, names: list[list[Names]], contents: Contents, choose: Callable[[Any], Any]) -> Tree:
        layout = self._layout([choose(outcomes) for outcomes in names])
        return {
            path: None if node.is_directory else choose(contents.get(node, _NOTHING)) for path, node in layout.items()
        }

    @staticmethod
    def _with_contents(layout: dict[str, Node], contents: Contents) -> Iterator[Tree]:
        tree: Tree = {path: None for path, node in layout.items() if node.is_directory}
        files = [path for path, node in layout.items() if not node.is_directory]
        for pick in itertools.product(*(contents.get(layout[path], _NOTHING) for path in files)):
            yield tree | dict(zip(files, pick, strict=True))

    def _layout(self, pick: Iterable[Names]) -> dict[str, Node]:
        """What is under which path, parents first."""
        names: dict[Node, dict[str, Node]] = {}
        for part in pick:
            for (folder, name), child in part.items():
                names.setdefault(folder, {})[name] = child
        found: dict[str, Node] = {}

        def walk(node: Node, prefix: str) -> None:
            for name, child in names.get(node, {}).items():
                found[prefix + name] = child
                if child.is_directory:
                    walk(child, f"{prefix}{name}/")

        walk(self.root, "")
        return found


# -- names -----------------------------------------------------------------------------------------------------------


def _outcomes_of_names(done: list[Step], cut: int) -> list[list[Names]]:
    """For each set of names that changes connect: what of them may be there. Nothing first, everything done last."""
    follower = {step.after: step for step in done if step.after is not None}
    sets: list[tuple[set[tuple[Node, str]], list[Change]]] = []
    for step in done:
        if not step.name or step.after is not None:
            continue
        change = (step, follower.get(step))
        keys, changes = {(each.node, each.name) for each in change if each is not None}, [change]
        for other in [each for each in sets if not each[0].isdisjoint(keys)]:
            sets.remove(other)
            keys, changes = keys | other[0], other[1] + changes
        sets.append((keys, changes))
    return [_outcomes(changes, cut) for _, changes in sets]


def _outcomes(changes: list[Change], cut: int) -> list[Names]:
    found: dict[frozenset[Any], Names] = {}
    for pick in itertools.product(*(_choices_of_a_change(*change, cut) for change in changes)):
        names: Names = {}
        for step in sorted(itertools.chain.from_iterable(pick), key=lambda step: step.at):
            key = step.node, step.name
            if not step.is_gone:
                assert step.child is not None
                names[key] = step.child
            elif names.get(key) is step.child:
                del names[key]
        whole = frozenset(names.items())
        found.setdefault(whole, names)
    return [names for key, names in found.items() if key != whole] + [found[whole]]


def _choices_of_a_change(step: Step, gone: Step | None, cut: int) -> list[tuple[Step, ...]]:
    """There or not; the two halves of a rename in their order."""
    if gone is None:
        return [(step,)] if _is_synced(step, cut) else [(), (step,)]
    if _is_synced(gone, cut):  # the old name's end is on disk, and with it the new name
        return [(step, gone)]
    return [(step,), (step, gone)] if _is_synced(step, cut) else [(), (step,), (step, gone)]


# -- contents --------------------------------------------------------------------------------------------------------


def _contents_of_files(done: list[Step], cut: int) -> Contents:
    """For each file that was written: what may be in it."""
    files: dict[Node, list[Step]] = {}
    for step in done:
        if not step.name:
            files.setdefault(step.node, []).append(step)
    return {
        node: _contents(
            [step for step in writes if _is_synced(step, cut)], [step for step in writes if not _is_synced(step, cut)]
        )
        for node, writes in files.items()
    }


def _contents(firm: list[Step], loose: list[Step]) -> list[bytes]:
    """Every content that may be left of a file, nothing of what is loose first, all of it last.

    Of the pages of all loose writes any subset is there; what is not is what was there before, or zeros. The file may
    have been lengthened for what is not there. Or it ends in the middle of a write.
    """
    before = bytearray()
    for step in firm:
        _overwrite(before, step.offset, step.data)
    found = {bytes(before): None}
    whole = bytearray(before)
    for step in loose:
        size = len(step.data)
        for kept in sorted({1, size // 2, size - 1} & set(range(1, 0 if step.is_atomic else size))):
            torn = bytearray(whole)
            _overwrite(torn, step.offset, step.data[:kept])
            found[bytes(torn)] = None
        _overwrite(whole, step.offset, step.data)
        found[bytes(whole)] = None
    pages = [page for step in loose for page in _pages(step)]
    subsets: Iterable[tuple[bool, ...]]
    if len(pages) <= MAX_PAGES:
        subsets = itertools.product((False, True), repeat=len(pages))
    else:  # each one alone lost, or alone there; and the last ones lost in a row
        one = [tuple(number == at for number in range(len(pages))) for at in range(len(pages))]
        subsets = [*one, *(tuple(not each for each in mask) for mask in one)]
    for mask in subsets:
        content = bytearray(before)
        for is_there, (offset, data) in zip(mask, pages, strict=True):
            if is_there:
                _overwrite(content, offset, data)
        found[bytes(content)] = None
        found[bytes(content.ljust(len(whole), b"\0"))] = None
    found.pop(bytes(whole))
    return [*found, bytes(whole)]


def _pages(step: Step) -> Iterator[tuple[int, bytes]]:
    """A write as one of each page."""
    if step.is_atomic:
        yield step.offset, step.data
        return
    begin, end = step.offset, step.offset + len(step.data)
    while begin < end:
        stop = min(end, begin - begin % PAGE + PAGE)
        yield begin, step.data[begin - step.offset : stop - step.offset]
        begin = stop


def _is_synced(step: Step, cut: int) -> bool:
    return step.synced_at is not None and step.synced_at <= cut


def _overwrite(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def lay(top: Path, tree: Tree) -> None:
    """Makes the tree there."""
    for path, content in tree.items():
        full = f"{top}/{path}"
        if content is None:
            os.mkdir(full, 0o700)  # noqa: PTH102 - a hundred thousand trees are laid, of fifty paths each
            continue
        handle = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(handle, content)
        os.close(handle)
