"""Moves agents from another root of a folder into the folder's own root, after a person has seen everything that they
would run.

Anybody may have written the files of the other root. So each file is copied, never linked or renamed, because a renamed
file could keep a second name (a hard link) in a place where an agent may write. The copy is compared with the state
that the person saw.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from beam.api.root import hold_agents, is_replaced, path_text, remove_contents
from beam.base import files
from beam.base.directory_tree import remove_tree
from beam.base.errors import BeamError, CorruptError, DiskError, UnfinishedError
from beam.config.file import read_bytes
from beam.config.resolve import AGENT_JSON
from beam.model.message import Message, Options, decode
from beam.root import directories, discovery
from beam.root.paths import AgentPaths, RootPaths
from beam.store.queue import MESSAGE_BYTES, Queue
from beam.store.segment import read_state
from beam.trust import ledger

_MAX_ENTRIES = 200_000  # of one agent; a root that beam made stays far below
_MAX_BYTES = 4 << 30
_MAX_DEPTH = 32
_PIECE = 1 << 20
# Requests are valid only for a moment, and asks are made again from the journal.
_SKIPPED_NAMES = frozenset({"terminal.sock", "scratch", "put.lock", "lock", "reserve", "control", "asks"})


class Waiting(Struct, frozen=True, kw_only=True):
    """A waiting message that would run after the adoption: its sender, its text, the access that it requests, and the
    files that it attaches (`attach`). `more` has its other fields whose values differ from the defaults, such as its
    rules; `digest` is the SHA-256 digest of its file."""

    sender: str
    text: str
    access: str | None
    attach: tuple[str, ...]
    more: dict[str, Any] = {}
    digest: str = ""


class Finding(Struct, frozen=True, kw_only=True):
    """One agent in a root whose agents may be adopted. `settings` is its agent.json as text, null if it has none;
    `session` is the session that its next turn continues; `waiting` has its waiting messages; `taken`: this folder's
    own root already has an agent of that name."""

    agent: str
    settings: str | None
    session: str | None
    waiting: tuple[Waiting, ...]
    taken: bool


class Candidate(Struct, frozen=True, kw_only=True):
    """A root whose agents may be adopted. `why` is the reason for assuming that the root belongs to this folder."""

    root: Path
    why: str
    agents: tuple[Finding, ...]


def candidates(here: RootPaths, folder: Path, environ: Mapping[str, str]) -> list[Candidate]:
    """Return the roots from which `adopt` can take agents; `folder` is the caller's project folder.

    Raises DiskError if a root contains something that beam does not make.
    """
    found = [(root, why) for root, why in _other_roots(here, folder, environ)]
    return [Candidate(root=root, why=why, agents=_survey(RootPaths(root, folder), here)) for root, why in found]


def _other_roots(here: RootPaths, folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for other in discovery.roots_of_same_folder(here, environ):
        yield other.root, f"it is of this very folder, under the name {path_text(other.project)}"
    if here.exists():
        if not os.path.isdir(here.project):  # noqa: PTH112 - Path.is_dir raises where it may not look
            yield here.root, f"it is of {path_text(here.project)}, which is gone; it would be of {path_text(folder)}"
        elif is_replaced(here):
            yield here.root, f"it was made for another folder that was at {path_text(here.project)}"


def adopt(here: RootPaths, candidate: Candidate, folder: Path, environ: Mapping[str, str]) -> list[str]:
    """Copy the agents of a candidate into this root (`here`), and remove them from the candidate's root. Return a line
    about each agent.

    An agent whose name is taken here stays in the candidate's root. If the candidate is this root itself, the root is
    only assigned to `folder`. Raises UnfinishedError if a process holds one of the agents, or if an agent was changed
    since the person saw it; DiskError.
    """
    directories.check_owner(here, uid=os.geteuid())
    if candidate.root == here.root:
        return [_assign_root(here, folder)]
    source = RootPaths(candidate.root, here.project)
    adoptable = [found for found in candidate.agents if not found.taken]
    with contextlib.ExitStack() as held:
        hold_agents(source, [source.agent(found.agent) for found in adoptable], held)
        discovery.create(here)
        hold_agents(here, [here.agent(found.agent) for found in adoptable], held)
        copies = {found.agent: _copy_agent(source, here, found) for found in adoptable}
        for agent, copy in copies.items():
            _exchange(source.agent(agent), copy, here.agent(agent), environ)
        done = [f"adopted {agent}" for agent in copies]
        done += [
            f"left {found.agent}: this folder has an agent of that name" for found in candidate.agents if found.taken
        ]
        if not source.agents():
            done.append(remove_contents(source))
    return done


def _assign_root(here: RootPaths, folder: Path) -> str:
    discovery.record_project(here.root, folder)
    return f"{path_text(here.root)} is of {path_text(folder)} now"


def _copy_agent(source: RootPaths, here: RootPaths, found: Finding) -> Path:
    """Copy the agent into this root, under a name that no agent can have, and return the directory of the copy. Raises
    UnfinishedError if the agent was changed since the person saw it."""
    copy = here.agent(found.agent).dir.with_name(f".{found.agent}.adopted")
    with files.disk_action("remove", copy), contextlib.suppress(FileNotFoundError):
        remove_tree(copy)  # left by an `adopt` that was killed
    _copy(source.agent(found.agent).dir, copy, _CopyLimits())
    if _inspect_agent(AgentPaths(found.agent, copy), taken=False) != found:
        with files.disk_action("remove", copy):
            remove_tree(copy)
        raise UnfinishedError(
            f"{found.agent} in {path_text(source.root)} was changed since it was shown",
            "look at it again: beam doctor --adopt",
            subject=found.agent,
        )
    return copy


def _exchange(old: AgentPaths, copy: Path, new: AgentPaths, environ: Mapping[str, str]) -> None:
    """Move the copy to the new agent's directory and remove the old agent.

    A crash between the two renames leaves both agents; the next `adopt` then reports that the name is taken.
    """
    own = read_bytes(old.dir / AGENT_JSON)
    is_vouched = own is not None and ledger.is_remembered(old.dir / AGENT_JSON, _digest(own), environ)
    files.move(copy, new.dir)
    aside = old.dir.with_name(f".{old.agent}.adopted")
    files.move(old.dir, aside)
    if own is not None and is_vouched:
        ledger.remember_file(new.dir / AGENT_JSON, _digest(own), environ)
    with files.disk_action("remove", aside):
        remove_tree(aside)


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


# -- what is there -----------------------------------------------------------------------------------------------------


def _survey(source: RootPaths, here: RootPaths) -> tuple[Finding, ...]:
    taken = set(here.agents()) if source.root != here.root else set()
    directories.check_owner(source, uid=os.geteuid())
    found = []
    for name in source.agents():
        directories.check_paths(source, source.agent(name))
        found.append(_inspect_agent(source.agent(name), taken=name in taken))
    return tuple(found)


def _inspect_agent(paths: AgentPaths, *, taken: bool) -> Finding:
    try:
        settings = files.read(paths.dir / AGENT_JSON, 1 << 20).decode("utf-8", "replace")
    except FileNotFoundError:
        settings = None
    return Finding(
        agent=paths.agent,
        settings=settings,
        session=_session(paths),
        waiting=tuple(found for each in (paths, *paths.lanes()) for found in _waiting_messages(each)),
        taken=taken,
    )


def _session(paths: AgentPaths) -> str | None:
    try:
        state = read_state(paths.journal)
    except CorruptError as error:
        return f"unknown: {error.message}"
    found = state.session or state.fork
    return None if found is None else f"{found.session_id} ({found.adapter})"


def _waiting_messages(paths: AgentPaths) -> Iterator[Waiting]:
    queue = Queue(paths.queue, paths.put_lock)
    for entry in (*queue.entries("new"), *queue.entries("cur")):
        try:
            data = files.read(queue.path(entry), MESSAGE_BYTES)
            message = decode(data)
        except CorruptError as error:  # given up on as soon as it is claimed
            yield Waiting(sender="?", text=f"no message: {error.message}", access=None, attach=())
            continue
        yield Waiting(
            sender=message.sender,
            text=message.text,
            access=message.options.access,
            attach=message.payload.attach,
            more=_unusual_fields(message),
            digest=_digest(data),
        )


def _unusual_fields(message: Message) -> dict[str, Any]:
    """Return the message's options (except its access) and its fields `type`, `reply`, `reply_to` and `actor`, each
    only if its value is not the default."""
    usual = to_builtins(Options())
    found = {name: value for name, value in to_builtins(message.options).items() if value != usual.get(name)}
    found.pop("access", None)
    given = {"type": message.type, "reply": message.reply, "reply_to": message.reply_to, "actor": message.actor}
    shown = {"type": "message", "reply": "none", "reply_to": None, "actor": None}
    return found | {name: value for name, value in given.items() if value != shown[name]}


# -- copying -----------------------------------------------------------------------------------------------------------


class _CopyLimits:
    """The number of files and bytes that the copy of one agent may still take."""

    def __init__(self) -> None:
        self.entries = _MAX_ENTRIES
        self.bytes = _MAX_BYTES

    def count_file(self, path: Path, size: int) -> None:
        """Count one more file of this size. Raises DiskError if a limit is exceeded."""
        self.entries -= 1
        self.bytes -= size
        if self.entries < 0:
            raise _not_adoptable(path, f"is one file too many: {_MAX_ENTRIES} of one agent are adopted at the most")
        if self.bytes < 0:
            raise _not_adoptable(path, f"has {size} bytes: {_MAX_BYTES} of one agent are adopted at the most")


def _not_adoptable(path: Path, what: str) -> BeamError:
    return DiskError(f"{path_text(path)} {what}", "remove it, or the whole root", subject=path_text(path))


def _copy(source: Path, target: Path, limits: _CopyLimits, depth: int = 0) -> None:
    """Copy a directory with its subdirectories and regular files; leave out sockets, and the entries named in
    `_SKIPPED_NAMES`.

    Raises DiskError for a link, or anything else that beam does not make.
    """
    if depth > _MAX_DEPTH:
        raise _not_adoptable(source, f"is nothing that beam made: it lies {depth} folders deep")
    with files.disk_action("copy", source):
        target.mkdir(0o700)
        for name in files.names(source):
            path = source / name
            found = path.lstat()
            limits.count_file(path, found.st_size)
            if name in _SKIPPED_NAMES or stat.S_ISSOCK(found.st_mode):
                continue
            if stat.S_ISDIR(found.st_mode):
                _copy(path, target / name, limits, depth + 1)
            elif stat.S_ISREG(found.st_mode):
                _copy_file(path, target / name, found.st_size)
            else:
                raise _not_adoptable(path, "is nothing that beam made")
    files.sync_directory(target)


def _copy_file(source: Path, target: Path, size: int) -> None:
    """Copy a file of `size` bytes; long runs of zero bytes become holes in the copy. Raises DiskError if the file is
    longer than `size`."""
    with files.open_reader(source) as reader:
        handle = files.open_to_write(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(handle, "wb") as writer:
            left = size
            while left and (piece := reader.read(min(left, _PIECE))):
                left -= len(piece)
                if piece.count(0) == len(piece):
                    writer.seek(len(piece), os.SEEK_CUR)
                else:
                    writer.write(piece)
            if reader.read(1):
                raise _not_adoptable(source, "became longer while it was copied")
            writer.truncate(size - left)
            writer.flush()
            os.fsync(writer.fileno())
