"""Follows the transcripts of teams' members: finds out which member each file belongs to, and reads its new lines.

A transcript can be gigabytes long. It is therefore read in pieces, and the place where reading begins is searched from
its end. Does not depend on the meaning of the lines.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from beam.agents.base import native
from beam.agents.claude import history, spliced
from beam.agents.fields import Object, string
from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import DiskError
from beam.model.events import Notice
from beam.teams import disk
from beam.teams.diff import Diff, Team
from beam.teams.model import LEAD, when_ns

CHUNK = 1 << 20
PIECE = 4 * CHUNK
LONGEST = 64 * CHUNK  # of a line: one with pictures in it has some megabytes
SNIFF = 64 * 1024
EARLIER_NS = 5_000_000_000
_SPAWNING_TOOLS = ("Agent", "Task")  # the calls that start a subagent


class Tail(Struct):
    """One followed transcript: a member's own or, if `is_member` is False, that of a subagent.

    `parent` is the id of the tool call that started the subagent; `callers` maps the ids of such calls to the members
    that made them. Reading continues at `offset`, and `rest` is the incomplete line before it. `skips`: the line at
    `offset` is skipped because its beginning was not read. Lines with a time before `since` are left out. `lost` is the
    number of lines, or pieces of lines, that can't be read, which a notice says once; `at` is the time of the last line
    that could be.
    """

    path: str
    home: str
    team: str
    member: str
    is_member: bool = True
    parent: str | None = None
    offset: int = 0
    rest: bytes = b""
    skips: bool = False
    since: str = ""
    callers: dict[str, str] = {}
    lost: int = 0
    is_loss_told: bool = False
    at: str = ""

    def read(self) -> list[bytes]:
        """Return complete lines that were added since the last call; [] if there are none. One call reads only a part
        of a large file; call this method until it returns []."""
        while True:
            try:
                with files.open_reader(self.path, follow=True) as file:
                    if os.fstat(file.fileno()).st_size <= self.offset:
                        return []
                    file.seek(self.offset)
                    data = file.read(PIECE)
            except (OSError, DiskError):
                return []
            self.offset += len(data)
            *ends, rest = data.split(b"\n")
            found = [self.rest + ends[0], *ends[1:]] if ends else []
            self.rest = rest if ends else self.rest + rest
            if found and self.skips:
                self.skips = False
                del found[0]
            if len(self.rest) > LONGEST:
                self.rest, self.skips, self.lost = b"", True, self.lost + 1
            if found:
                return found

    def begin(self, since_ns: int | None) -> None:
        """Set the place where reading begins. With `since_ns` None it is the end of the file, with 0 the beginning;
        otherwise it is a place before the first line that is not older than `since_ns`, or the end if the file is
        older."""
        self.rest, self.skips = b"", False
        try:
            with files.open_reader(self.path, follow=True) as file:
                found = os.fstat(file.fileno())
                self.offset, step = found.st_size, CHUNK
                if since_ns is not None and found.st_mtime_ns >= since_ns:
                    while self.offset > 0:
                        self.offset = max(0, found.st_size - step) if since_ns else 0
                        if self.offset and _is_older(file, self.offset, since_ns):
                            break
                        step *= 2
                if self.offset:
                    file.seek(self.offset - 1)
                    self.offset += len(rest := file.readline(CHUNK)) - 1
                    self.skips = not rest.endswith(b"\n")
        except (OSError, DiskError):
            return


def lines(tails: Iterable[Tail]) -> Iterator[tuple[Tail, history.TranscriptLine]]:
    """Yield (transcript, line) for each line that was added to these transcripts, in the order of the lines' times."""
    for tail, line in heapq.merge(*map(_lines, tails), key=lambda one: one[1].at):
        if tail.is_member:
            tail.callers.update((call.call_id, tail.member) for call in line.called if call.name in _SPAWNING_TOOLS)
        elif tail.parent is not None:
            tail.member = tail.callers.get(tail.parent, tail.member)
        yield tail, line


def _lines(tail: Tail) -> Iterator[tuple[Tail, history.TranscriptLine]]:
    while added := tail.read():
        for data in added:
            for line in _lines_of(tail, data):
                if not line.at or line.at >= tail.since:
                    yield tail, line
        if tail.lost and tail.at and not tail.is_loss_told:
            tail.is_loss_told = True
            text = f"lines that can't be read were left out ({tail.path})"
            yield tail, history.TranscriptLine(kind="", at=tail.at, bodies=(Notice(text=text, code="unreadable"),))


def _lines_of(tail: Tail, data: bytes) -> Iterator[history.TranscriptLine]:
    """Yield the line, or the whole records in a line that two writers spliced. What is lost is counted."""
    line = history.read(data, parent=tail.parent)
    if line is None:
        return
    if line.kind or native(data) is not None:
        tail.at = max(tail.at, line.at)
        yield line
        return
    whole, lost = spliced.records(data, [Path(tail.path).stem, *Path(tail.path).parts[-3:-2]])
    for record in whole:
        yield from _lines_of(tail, record)
    tail.lost += lost


def _is_older(file: BinaryIO, offset: int, since_ns: int) -> bool:
    """Return whether the first line after the offset that has a time is older than `since_ns`."""
    file.seek(offset)
    file.readline(CHUNK)
    while file.tell() < offset + CHUNK:
        read = history.read(file.readline(CHUNK))
        if read is None:
            return False
        if when := when_ns(read.at):
            return when < since_ns
    return False


class Tails:
    """Finds and follows the transcripts of all teams of one home."""

    def __init__(self, home: str, diff: Diff, *, began_ns: int) -> None:
        self._began_ns = began_ns
        self._home = home
        self._diff = diff
        self._tails: dict[str, Tail] = {}
        self._others: dict[str, int] = {}
        self._folders: dict[tuple[str, str], str] = {}
        self._callers: dict[str, str] = {}
        self._before = frozenset(Path(path).stem for path in _transcripts(home, 0))

    def find(self, *, since_ns: int | None, is_new: bool, only: Team | None = None) -> list[Tail]:
        """Follow the transcripts of teams that are not followed yet, and return them. Teams whose lead is dead are
        included only with `since_ns`.

        If `is_new`, the files were created since the last call, and each is read from the time when its team began.
        Otherwise reading begins at `since_ns` (None: at the end of the file). `only` limits the search to one team.
        """
        found: list[Tail] = []
        recent: dict[str, list[tuple[str, int]]] = {}
        tried: set[str] = set()
        teams = [only] if only is not None else list(self._diff.teams.values())
        for team in [team for team in teams if team.home == self._home and team.roster is not None]:
            if team.is_stale and since_ns is None:
                continue
            folder = self._folder(team)
            if folder is None:
                continue
            created_ns = team.roster.created_ns if team.roster else 0
            paths = [f"{folder}/{team.session_id}.jsonl"]
            paths += _subagents(paths[0])  # also of a lead whose transcript is not there yet
            if (
                any(member.has_own_process for member in (team.roster.members if team.roster else ()))
                or since_ns is not None
            ):
                if folder not in recent:
                    recent[folder] = list(_transcript_times(folder))
                paths += [path for path, written_ns in recent[folder] if written_ns >= created_ns]
            for path in paths:
                if path in tried:
                    continue
                tried.add(path)
                tail = self._follow(path, is_new=is_new)
                if tail is not None:
                    paths += _subagents(path)
                    if not is_new:
                        tail.begin(since_ns)
                    found.append(tail)
        return found

    def find_gone(self, since_ns: int) -> list[Tail]:
        """Follow the transcripts that were written to since `since_ns` and belong to teams that no longer exist. Return
        them."""
        found = []
        written = list(_transcripts(self._home, since_ns))
        below = [path for one in written for path in _subagents(one)]
        for path in (*below, *written, *written, *below):  # each may show which team others belong to
            tail = self._follow(path, is_new=False)
            if tail is not None:
                tail.begin(since_ns)
                found.append(tail)
        return found

    def end_tails(self, team: Team) -> list[Tail]:
        """Return a new Tail near the end of each member's transcript. The followed ones keep their positions."""
        found = []
        for tail in [tail for tail in self._tails.values() if tail.team == team.name and tail.is_member]:
            try:
                offset = max(0, Path(tail.path).stat().st_size - SNIFF)
            except OSError:
                continue
            found.append(Tail(tail.path, tail.home, tail.team, tail.member, offset=offset, skips=offset > 0))
        return found

    def changed(self, paths: list[str]) -> list[Tail]:
        """Return the followed transcripts among the changed paths; the path "*" stands for all. A member's transcript
        that is not followed yet is followed from now on."""
        if "*" in paths:
            self.find(since_ns=None, is_new=True)
            for path in _transcripts(self._home, self._began_ns):
                if path not in self._tails and self._session_of(path) not in self._before:
                    self._follow(path)
                    for below in _subagents(path):
                        self._follow(below)
            return list(self._tails.values())
        found = []
        for path in paths:
            tail = self._tails.get(path)
            if tail is None and path.endswith(".jsonl") and path.startswith(self._home + "/"):
                tail = self._follow(path)
            if tail is not None:
                found.append(tail)
        return found

    def follows(self, path: str) -> bool:
        """Return whether the transcript is followed."""
        return path in self._tails

    def on_other_teams(self) -> None:
        """Take note that other teams are known than before. The transcripts that belonged to no team are checked again.
        A session whose team ended and that leads another one now, because it was resumed, speaks for that team."""
        self._others.clear()
        for path, tail in self._tails.items():
            is_of_lead = not tail.is_member or Path(path).parent.name != "subagents"
            team = self._team_of(self._session_of(path)) if is_of_lead else None
            if team is not None and self._diff.team(self._home, tail.team).is_ended:
                tail.team, tail.member = team.name, _lead_name(team)

    def _folder(self, team: Team) -> str | None:
        lead = team.roster.lead if team.roster else None
        key = (team.name, team.session_id)
        if key in self._folders:
            return self._folders[key]
        paths = history.transcript_paths(self._home, lead.cwd if lead else "", team.session_id)
        if not paths:
            return None
        folder = str(Path(paths[0]).parent)
        if not os.path.exists(paths[0]):  # noqa: PTH110 - pathlib's raises for a name that is too long
            root = history.projects_folder(self._home)
            folder = next(
                (
                    f"{root}/{name}"
                    for name in disk.names(root)
                    if os.path.exists(f"{root}/{name}/{team.session_id}.jsonl")  # noqa: PTH110
                ),
                folder,
            )
            if not os.path.isdir(folder):  # noqa: PTH112
                return None
        self._folders[key] = folder
        return folder

    def _follow(self, path: str, *, is_new: bool = True) -> Tail | None:
        """Follow the transcript at this path and return its tail. If `is_new`, it is read from the time when its team
        began.

        Return None if the file is not a team member's transcript, or is followed already.
        """
        if path in self._tails:
            return None
        tail = self._subagents_tail(path) if Path(path).parent.name == "subagents" else self._session_tail(path)
        if tail is None:
            return None
        self._tails[path] = tail
        tail.callers = self._callers
        if is_new:
            roster = self._diff.team(tail.home, tail.team).roster
            if roster is not None and roster.created_ns:
                tail.begin(roster.created_ns - EARLIER_NS)
                tail.since = rfc3339(roster.created_ns - EARLIER_NS)
            elif self._session_of(path) in self._before:
                tail.begin(None)
        return tail

    def _session_of(self, path: str) -> str:
        found = Path(path)
        return found.parent.parent.name if found.parent.name == "subagents" else found.stem

    def _subagents_tail(self, path: str) -> Tail | None:
        session_id = Path(path).parent.parent.name
        meta = _read_meta(path)
        name = string(meta, "name")
        is_member = string(meta, "taskKind") == "in_process_teammate"
        team = self._team_of(session_id)
        if team is None and is_member and string(meta, "teamName"):
            team = self._diff.team(self._home, string(meta, "teamName"))
            team.session_id = team.session_id or session_id
        whose = self._tails.get(str(Path(path).parent.parent) + ".jsonl")
        if team is None and whose is not None and meta:
            return self._make_subagent_tail(path, whose.team, whose.member, meta)
        if team is None or not meta:
            return None
        if is_member:
            return Tail(path=path, home=self._home, team=team.name, member=name)
        return self._make_subagent_tail(path, team.name, _lead_name(team), meta)

    def _make_subagent_tail(self, path: str, team: str, member: str, meta: Object) -> Tail:
        call_id = string(meta, "toolUseId") or string(meta, "description") or "subagent"
        return Tail(path=path, home=self._home, team=team, member=member, is_member=False, parent=call_id)

    def _team_of(self, session_id: str) -> Team | None:
        """Return the team that the session leads; of several, one that has not ended."""
        teams = [team for team in self._diff.teams.values() if team.home == self._home]
        led = [team for team in teams if team.session_id == session_id]
        return min(led, key=lambda team: team.is_ended, default=None)

    def _session_tail(self, path: str) -> Tail | None:
        session_id = Path(path).stem
        team = self._team_of(session_id) or self._diff.teams.get((self._home, f"session-{session_id[:8]}"))
        if team is not None and team.session_id in ("", session_id):
            return Tail(path=path, home=self._home, team=team.name, member=_lead_name(team))
        if self._others.get(path, -1) >= SNIFF:
            return None
        try:
            with files.open_reader(path, follow=True) as file:
                data = file.read(SNIFF)
        except (OSError, DiskError):
            return None
        for raw in data.split(b"\n")[:-1]:
            line = history.read(raw)
            if line is not None and line.team and line.member:
                return Tail(path=path, home=self._home, team=line.team, member=line.member)
            spawned = next((back.record for back in line.returned if _is_spawn(back.record)), {}) if line else {}
            if spawned:
                name = string(spawned, "team_name")
                self._diff.team(self._home, name).session_id = Path(path).stem
                return Tail(path=path, home=self._home, team=name, member=LEAD)
        self._others[path] = len(data)
        return None


def _lead_name(team: Team) -> str:
    lead = team.roster.lead if team.roster else None
    return lead.name if lead else LEAD


def _transcripts(home: str, since_ns: int) -> Iterator[str]:
    """Yield the paths of the sessions' transcripts that were written to since `since_ns`."""
    for folder in disk.names(history.projects_folder(home)):
        for path, written_ns in _transcript_times(f"{history.projects_folder(home)}/{folder}"):
            if written_ns >= since_ns:
                yield path


def _subagents(path: str) -> list[str]:
    """Return the paths of the transcripts of a session's subagents, including in-process members. `path` is the
    session's own transcript."""
    folder = f"{path.removesuffix('.jsonl')}/subagents"
    return [f"{folder}/{name}" for name in disk.names(folder) if name.endswith(".jsonl")]


def _is_spawn(record: Object) -> bool:
    return string(record, "status") == "teammate_spawned" and bool(string(record, "team_name"))


def _transcript_times(folder: str) -> Iterator[tuple[str, int]]:
    """Yield (path, time of the last write in nanoseconds) for each transcript in a folder."""
    for entry in disk.entries(folder):
        try:
            if entry.name.endswith(".jsonl"):
                yield entry.path, entry.stat().st_mtime_ns
        except OSError:
            continue


def _read_meta(path: str) -> Object:
    from beam.agents.base import document

    try:
        with files.open_reader(path.removesuffix(".jsonl") + ".meta.json", follow=True) as file:
            value = document(file.read(SNIFF))
    except (OSError, DiskError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
