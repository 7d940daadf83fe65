"""Takes back what changed in a work tree during a turn: writes the files as the snapshot before the turn has them.

`plan` decides what happens with each file and is pure. A file is written only if it is still what was planned with.
The journal gets one event before the first file is written, so that an undo can be taken back, and done again if it
was cut short.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from beam.agents import registry
from beam.api.diff import record_before, work_tree_of
from beam.api.lock_wait import acquire_agent_lock, in_turn_error, wait_for_lock
from beam.api.overlapping import SeenTurn, turns_in
from beam.api.status import folder_of
from beam.base.clock import run_async
from beam.base.errors import BeamError, NotFoundError, RefusedFileError, UnfinishedError
from beam.base.faults import crash_point
from beam.base.typed_values import escape_surrogates
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.model.events import AnyEvent
from beam.root.paths import AgentPaths
from beam.store.reader import Reader
from beam.store.segment import read_state
from beam.turns.snapshot import WorkTree
from beam.worktree.restore import Folder, disk_error
from beam.worktree.snapshots import Difference, TreeFile

if TYPE_CHECKING:
    from beam.broker.holder.lease import AgentLease

Left = Literal[
    "not_named",
    "not_told",
    "other_turn",
    "changed_since",
    "unknown_since",
    "kept",
    "ignored",
    "filter",
    "repository",
    "outside",
    "failed",
]
FORCED: tuple[Left, ...] = ("not_named", "not_told", "other_turn", "changed_since", "unknown_since")
_REPOSITORY = b"160000"
_FILES_AT_ONCE = 50  # whose content is held in memory


class UndoneFile(Struct, frozen=True, kw_only=True):
    """One file of an undo, by its path in the work tree. `action`: its content is restored, it is removed, or it is
    left as it is. `left` says why it is left, null if it is not:

    `not_named` (the agent's CLI did not name the file as changed), `not_told` (it never says in this mode which files
    it changed), `other_turn` (the turn of the agent `detail` was at it, too), `changed_since` (the turn),
    `unknown_since` (nobody recorded how the turn left it), `kept` (the CLI keeps its session in it, or a cache),
    `ignored` (by git), `filter` (git converts its content by a filter), `repository` (it is a repository of its own, or
    in one), `outside` (of the work tree), `failed` (`detail` says why it could not be written).
    """

    path: str
    action: Literal["restore", "remove", "leave"]
    left: Left | None = None
    detail: str = ""


class UndoResult(Struct, frozen=True, kw_only=True):
    """What `beam undo` did, or with `dry_run` would do, with the files of the work tree `folder` that changed in the
    turn `turn`. `back` is the number of files that were as wanted already. `redo`: the undo itself was taken back.
    `other_id` is the message whose turn is the last one that changed files; "" if it is this one, or there is none."""

    agent: str
    folder: str
    turn: int | None
    files: tuple[UndoneFile, ...]
    back: int = 0
    redo: bool = False
    dry_run: bool = False
    other_id: str = ""


class Facts(Struct, frozen=True, kw_only=True):
    """What `plan` knows beside the snapshots: the paths that the agent's CLI named (null: all count as named), the
    paths that another turn named, by its agent, and the paths that the CLI keeps for itself, and that git ignores or
    converts. `tells`: the CLI says which files it changes, in the mode of the turn. `is_end_known`: it was recorded how
    the turn left the files."""

    named: Collection[str] | None
    tells: bool
    kept: Collection[bytes]
    others: Mapping[str, str]
    ignored: Collection[bytes]
    filtered: Collection[bytes]
    is_end_known: bool


class Step(Struct, frozen=True, kw_only=True):
    """What happens with one path: it is `now` that file of a snapshot, and becomes `wanted` (None: it does not exist),
    unless it is left."""

    path: bytes
    now: TreeFile | None
    wanted: TreeFile | None
    left: Left | None = None
    detail: str = ""

    def told(self) -> UndoneFile:
        """Return the step for the result."""
        action: Literal["restore", "remove", "leave"] = "restore" if self.wanted is not None else "remove"
        action = "leave" if self.left is not None else action
        return UndoneFile(path=_text(self.path), action=action, left=self.left, detail=self.detail)


class _Wanted(Struct, frozen=True, kw_only=True):
    """What to take back: the folder's files become as in the snapshot `to`, where they are as in the snapshot `end`
    (null: it was not made). `only` limits the paths. `started` is the record before the turn."""

    folder: str
    to: str
    end: str | None
    turn: int | None
    started: events.WorkTreeRecorded
    only: Collection[str] | None = None


async def undo(
    context: RootContext,
    paths: AgentPaths,
    *,
    message_id: str | None,
    redo: bool,
    all_files: bool,
    dry_run: bool,
    by: str,
) -> UndoResult:
    """Take back the files that changed in the turn of the message `message_id`, or in the agent's last turn; with
    `redo`, take back the last undo. Return what was done with each file.

    Raises NotFoundError if no snapshot was made or nothing was undone, UnfinishedError while a turn runs there,
    GitError, and DiskError if the disk took no more: then another undo does the rest.
    """
    if dry_run:
        return await _undo(context, paths, None, message_id, redo=redo, all_files=all_files, by=by)
    async with _leased(context, paths, by) as lease:
        return await _undo(context, paths, lease, message_id, redo=redo, all_files=all_files, by=by)


def plan(
    wanted: Sequence[Difference], since: Sequence[Difference], facts: Facts, *, all_files: bool
) -> tuple[list[Step], int]:
    """Return what happens with each file, and how many files are as wanted already.

    `wanted` are the differences between the files as they should be and as the turn left them, `since` those between
    the latter and now.
    """
    later = {each.path: each.after for each in since}
    steps, back = [], 0
    for each in wanted:
        now = later.get(each.path, each.after)
        if now == each.before:
            back += 1
            continue
        left, detail = _why_left(each, facts, is_changed=each.path in later)
        if all_files and left in FORCED:
            left, detail = None, ""
        steps.append(Step(path=each.path, now=now, wanted=each.before, left=left, detail=detail))
    return steps, back


def _why_left(each: Difference, facts: Facts, *, is_changed: bool) -> tuple[Left | None, str]:
    if _REPOSITORY in (each.before and each.before.mode, each.after and each.after.mode):
        return "repository", ""
    if each.path in facts.kept:
        return "kept", ""
    if each.path in facts.ignored:
        return "ignored", ""
    if each.path in facts.filtered:
        return "filter", ""
    if is_changed:
        return "changed_since", ""
    name = _text(each.path)
    if name in facts.others:
        return "other_turn", facts.others[name]
    if facts.named is not None and name not in facts.named:
        return ("not_named" if facts.tells or facts.named else "not_told"), ""
    return (None, "") if facts.is_end_known else ("unknown_since", "")


async def _undo(
    context: RootContext,
    paths: AgentPaths,
    lease: AgentLease | None,
    message_id: str | None,
    *,
    redo: bool,
    all_files: bool,
    by: str,
) -> UndoResult:
    """Return what was done. Without a lease, change nothing, and return what would be done."""
    journal = Reader(paths.journal, 0).poll()
    what = _undone(paths, journal, message_id) if redo else _turn_to_undo(paths, journal, message_id)
    seen = turns_in(context, what.folder, what.started.ts, paths, what.turn)
    _check_idle(seen, what.folder)
    tree = work_tree_of(context, paths, what.folder)
    now = await tree.take_with_copied_index(paths.agent)
    changed = [
        each
        for each in await tree.differences(what.to, what.end or now)
        if what.only is None or _text(each.path) in what.only
    ]
    since = await tree.differences(what.end or now, now)
    named = _named_paths(
        context, paths.agent, what.folder, {name for turn in seen if turn.is_own for name in turn.named}
    )
    inside = {path for path in named.values() if path is not None}
    tells, keeps = _claims(journal, what.turn)
    facts = Facts(
        named=None if redo else inside | await _moved(tree, what.to, what.end or now, changed, inside),
        tells=tells,
        kept={each.path for each in changed if keeps and re.fullmatch(keeps, _text(each.path))},
        others={} if redo else _other_paths(context, what.folder, seen),
        ignored=await _ignored(tree, paths.agent, what.to, changed, since, list(inside)),
        filtered=await tree.files_of_filters([each.path for each in changed]),
        is_end_known=what.end is not None,
    )
    steps, back = plan(changed, since, facts, all_files=all_files)
    result = UndoResult(
        agent=paths.agent, folder=what.folder, turn=what.turn, files=(), back=back, redo=redo, dry_run=lease is None
    )
    if not changed and not redo and message_id is None:
        result = replace(result, other_id=_last_changing(journal))
    if lease is not None and any(step.left is None for step in steps):
        _record(lease, what, now, steps, redo=redo, by=by)
        steps = await _write(tree, Path(what.folder), steps)
    unrecorded = [] if redo else list(_unrecorded(what.folder, named, changed, facts.ignored))
    return replace(result, files=(*(step.told() for step in steps), *unrecorded))


def _turn_to_undo(paths: AgentPaths, journal: list[AnyEvent], message_id: str | None) -> _Wanted:
    before = record_before(paths, journal, message_id=message_id)
    ends = [
        event
        for event in journal
        if isinstance(event, events.WorkTreeRecorded) and event.at == "end" and event.turn == before.turn
    ]
    end = ends[-1].tree if ends else None
    return _Wanted(folder=before.folder, to=before.tree or "", end=end, turn=before.turn, started=before)


def _undone(paths: AgentPaths, journal: list[AnyEvent], message_id: str | None) -> _Wanted:
    """Return what takes back the last undo that was not taken back. Raises NotFoundError if there is none."""
    turn = None if message_id is None else record_before(paths, journal, message_id=message_id).turn
    undos: list[events.WorkTreeUndone] = []
    for event in journal:
        if isinstance(event, events.WorkTreeUndone) and turn in (None, event.of):
            undos = undos[:-1] if event.redo else [*undos, event]
    if not undos:
        raise NotFoundError(
            f"no undo of {paths.agent} can be taken back", f"beam log {paths.agent}", subject=paths.agent
        )
    last = undos[-1]
    started = events.WorkTreeRecorded(folder=last.folder, tree=last.to, ts=last.ts, turn=last.of)
    return _Wanted(folder=last.folder, to=last.tree, end=last.to, turn=last.of, started=started, only=set(last.files))


def _claims(journal: list[AnyEvent], turn: int | None) -> tuple[bool, str]:
    """Return whether the CLI that ran the turn says which files it changes, in the mode of the turn, and the expression
    for the files that it keeps for itself."""
    for event in journal:
        if isinstance(event, events.TurnStarted) and event.turn == turn:
            with contextlib.suppress(BeamError):  # the package with this adapter is not installed any more
                card = registry.adapter(event.adapter).card
                return any(can.edits for face, can in card.faces.items() if face == event.via), card.keeps
    return True, ""


def _last_changing(journal: list[AnyEvent]) -> str:
    """Return the message of the last turn that changed files; "" if there is none."""
    before: dict[int | None, str | None] = {}
    found = ""
    for event in journal:
        if isinstance(event, events.WorkTreeRecorded):
            if event.at == "start":
                before[event.turn] = event.tree
            elif event.tree is not None and before.get(event.turn) not in (None, event.tree):
                found = event.message_id or ""
    return found


# -- who was at which file ---------------------------------------------------------------------------------------------


def _check_idle(seen: Sequence[SeenTurn], folder: str) -> None:
    for turn in seen:
        if turn.is_running:
            raise UnfinishedError(
                f"{turn.agent} is in a turn in {folder}", "wait for it, or interrupt it", subject=turn.agent
            )


def _named_paths(context: RootContext, agent: str, folder: str, names: Collection[str]) -> dict[str, str | None]:
    """Return the path in the work tree of each name that the agent's CLI gave a file; None for one outside of it."""
    base = str(context.home.project)
    with contextlib.suppress(BeamError):  # it is not declared any more
        base = folder_of(context, context.config.resolve(agent).settings)
    top = os.path.realpath(folder)
    found: dict[str, str | None] = {}
    for name in sorted(names):  # relative to the agent's folder, or absolute, and without links
        path = os.path.normpath(os.path.join(base, name))  # noqa: PTH118 - any text may be a path here
        found[name] = path[len(top) + 1 :] if path.startswith(f"{top}/") else None
    return found


async def _moved(
    tree: WorkTree, before: str, after: str, changed: Sequence[Difference], named: Collection[str]
) -> set[str]:
    """Return both names of each file that was moved, if the CLI named one of them: some CLIs name only one."""
    paths = {_text(each.path) for each in changed}
    if not paths & set(named) or not paths - set(named):
        return set()
    pairs = [{_text(path) for path in pair} for pair in await tree.moves(before, after)]
    return {name for pair in pairs if pair & set(named) for name in pair}


def _other_paths(context: RootContext, folder: str, seen: Sequence[SeenTurn]) -> dict[str, str]:
    """Return the agent of each path in the work tree that another turn named while the turn ran."""
    ended = next((turn.ended for turn in seen if turn.is_own), None)
    found: dict[str, str] = {}
    for turn in seen:
        if not turn.is_own and (ended is None or turn.began <= ended):
            named = _named_paths(context, turn.agent, folder, turn.named)
            found |= {path: turn.agent for path in named.values() if path is not None}
    return found


async def _ignored(
    tree: WorkTree, agent: str, to: str, changed: Sequence[Difference], since: Sequence[Difference], named: list[str]
) -> set[bytes]:
    """Return the paths that git ignores now, or ignored before the turn. Only a change of the rules makes a file that
    git ignored one that it does not."""
    paths = [each.path for each in changed]
    rules = b".gitignore"
    has_rules = any(path.rpartition(b"/")[2] == rules for path in (*paths, *(each.path for each in since)))
    return await tree.ignored(to if has_rules else None, list({*paths, *map(os.fsencode, named)}), agent)


def _unrecorded(
    folder: str, named: Mapping[str, str | None], changed: Sequence[Difference], ignored: Collection[bytes]
) -> Iterator[UndoneFile]:
    """Yield the files that the CLI named and no snapshot has."""
    known = {_text(each.path) for each in changed}
    for name, path in named.items():
        if path is None:
            yield UndoneFile(path=name, action="leave", left="outside")
        elif path not in known:
            left: Left = "ignored" if os.fsencode(path) in ignored else "repository"
            if left == "ignored" or _is_nested(Path(folder, path), Path(folder)):
                yield UndoneFile(path=path, action="leave", left=left)


def _is_nested(path: Path, top: Path) -> bool:
    """Return whether the path lies in a repository of its own in the work tree `top`."""
    return any(os.path.lexists(above / ".git") for above in path.parents if above.is_relative_to(top) and above != top)


# -- writing -----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _leased(context: RootContext, paths: AgentPaths, by: str) -> AsyncIterator[AgentLease]:
    """Hold the agent inside the context, so that no turn of it begins. A process that is kept for its next turn ends.

    Raises UnfinishedError while a turn runs, or if the agent is blocked.
    """
    from beam.broker.asking.requests import request
    from beam.broker.holder.lease import AgentLease

    if read_state(paths.journal).kept is not None:
        await run_async(request(context, paths, "close", by=by))
    (await run_async(acquire_agent_lock(context, paths, by=by))).release()  # a broker leaves it for a moment
    lease = wait_for_lock(lambda: AgentLease.acquire(context, paths))
    if lease is None:
        raise in_turn_error(paths)
    try:
        if lease.blocked is not None:
            raise UnfinishedError(
                f"{paths.agent} is blocked: {lease.blocked}", "end those processes first", subject=paths.agent
            )
        yield lease
    finally:
        lease.hand_over()


def _record(lease: AgentLease, what: _Wanted, now: str, steps: Sequence[Step], *, redo: bool, by: str) -> None:
    """Record what is about to be written, on disk."""
    crash_point("undo.before")
    body = events.WorkTreeUndone(
        folder=what.folder,
        tree=now,
        to=what.to,
        of=what.turn,
        files=tuple(_text(step.path) for step in steps if step.left is None),
        redo=redo,
        by=by,
    )
    lease.log.record(body, sync=True)
    crash_point("undo.recorded")


async def _write(tree: WorkTree, folder: Path, steps: Sequence[Step]) -> list[Step]:
    """Carry the steps out: files are removed first, because a folder may take the place of one. Return the steps with
    the reasons of those that failed."""
    done = {step.path: step for step in steps}
    due = sorted((step for step in steps if step.left is None), key=lambda step: step.wanted is not None)
    with Folder(folder) as place:
        for at in range(0, len(due), _FILES_AT_ONCE):
            part = due[at : at + _FILES_AT_ONCE]
            contents = await tree.contents(sorted({step.wanted.object for step in part if step.wanted is not None}))
            for step in part:
                try:
                    done[step.path] = _carry_out(place, step, contents)
                except (OSError, RefusedFileError) as error:
                    if isinstance(error, OSError) and (full := disk_error(folder, error)) is not None:
                        left = sum(each.left is None for each in due) - due.index(step)
                        full.hint = f"{left} of {len(due)} files are as they were; free some space, then do it again"
                        raise full from error
                    why = str(error.strerror if isinstance(error, OSError) else error)
                    done[step.path] = replace(step, left="failed", detail=why)
                crash_point("undo.written")
    return list(done.values())


def _carry_out(place: Folder, step: Step, contents: Mapping[bytes, bytes]) -> Step:
    if not place.has(step.path, step.now):
        return replace(step, left="changed_since")
    if step.wanted is None:
        place.remove(step.path)
    else:
        place.write(step.path, step.wanted, contents[step.wanted.object])
    return step


def _text(path: bytes) -> str:
    text: str = escape_surrogates(os.fsdecode(path))
    return text
