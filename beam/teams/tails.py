"""The transcripts of teams' members: which file is whose, and the lines that were added to it.

A transcript may be hundreds of megabytes: it is read from its end. Must not know: what the lines mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from beam.agents.claude.history import Line, projects, where
from beam.agents.claude.history import read as read_line
from beam.agents.fields import Object, string
from beam.clock import rfc3339
from beam.teams import disk
from beam.teams.diff import Diff, Team
from beam.teams.model import LEAD, when_ns

CHUNK = 1 << 20
SNIFF = 64 * 1024
EARLIER_NS = 5_000_000_000
FURTHEST = 64 * CHUNK  # how far back one transcript is read at most


class Tail(Struct):
    """One transcript: `offset` is where the next line begins, `rest` the beginning of one that is not whole yet."""

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

    def read(self) -> list[bytes]:
        """The whole lines that were added."""
        try:
            size = Path(self.path).stat().st_size
            if size <= self.offset:
                return []
            with Path(self.path).open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except OSError:
            return []
        self.offset += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        if self.skips and lines:
            self.skips = False
            del lines[0]
        return lines

    def begin(self, since_ns: int | None) -> None:
        """Goes to the end, or as far back from it as lines are not older than `since_ns`."""
        try:
            size = Path(self.path).stat().st_size
            self.offset, self.skips = size, False
            with Path(self.path).open("rb") as file:
                if since_ns is not None:
                    while self.offset > 0 and size - self.offset < FURTHEST:
                        self.offset = max(0, self.offset - CHUNK)
                        file.seek(self.offset)
                        if self._is_older(file.read(CHUNK), since_ns):
                            break
                if self.offset:
                    file.seek(self.offset - 1)
                    self.skips = file.read(1) != b"\n"
        except OSError:
            return

    def _is_older(self, data: bytes, since_ns: int) -> bool:
        for line in data.split(b"\n")[1:-1]:
            read = read_line(line)
            when = when_ns(read.at) if read is not None else 0
            if when:
                return when < since_ns
        return False


class Tails:
    """The transcripts of all teams of one home."""

    def __init__(self, home: str, diff: Diff, *, began_ns: int) -> None:
        self._began_ns = began_ns
        self._home = home
        self._diff = diff
        self._tails: dict[str, Tail] = {}
        self._others: dict[str, int] = {}
        self._folders: dict[tuple[str, str], str] = {}
        self._before = frozenset(Path(path).stem for path in _transcripts(home, 0))

    def find(self, *, since_ns: int | None, is_new: bool, only: Team | None = None) -> list[Tail]:
        """The transcripts of living teams (with `since_ns`, of all) that are not followed yet, and follows them.

        What `is_new` was made since the last look, and is read from its beginning.
        """
        found: list[Tail] = []
        teams = [only] if only is not None else list(self._diff.teams.values())
        for team in [team for team in teams if team.home == self._home and team.roster is not None]:
            if team.is_stale and since_ns is None:
                continue
            folder = self._folder(team)
            if folder is None:
                continue
            created_ns = team.roster.created_ns if team.roster else 0
            paths = [f"{folder}/{team.session_id}.jsonl"]
            below = f"{folder}/{team.session_id}/subagents"
            paths += [f"{below}/{name}" for name in disk.names(below) if name.endswith(".jsonl")]
            if any(member.is_apart for member in (team.roster.members if team.roster else ())) or since_ns is not None:
                paths += list(_recent(folder, created_ns))
            for path in paths:
                tail = self._adopt(path)
                if tail is not None:
                    if not is_new:
                        tail.begin(since_ns)
                        tail.since = ""
                    found.append(tail)
        return found

    def changed(self, paths: list[str]) -> Iterator[tuple[Tail, Line]]:
        """The lines that were added to these transcripts ("*": to any)."""
        if "*" in paths:
            self.find(since_ns=None, is_new=True)
            for path in _transcripts(self._home, self._began_ns):
                if path not in self._tails and self._session_of(path) not in self._before:
                    self._adopt(path)
                    below = Path(path.removesuffix(".jsonl"), "subagents")
                    for name in [name for name in disk.names(str(below)) if name.endswith(".jsonl")]:
                        self._adopt(f"{below}/{name}")
            paths = list(self._tails)
        for path in paths:
            tail = self._tails.get(path)
            if tail is None and path.endswith(".jsonl") and path.startswith(self._home + "/"):
                tail = self._adopt(path)
            if tail is not None:
                yield from self.lines(tail)

    def lines(self, tail: Tail) -> Iterator[tuple[Tail, Line]]:
        """The lines that were added to one."""
        for data in tail.read():
            line = read_line(data, parent=tail.parent)
            if line is not None and (not line.at or line.at >= tail.since):
                yield tail, line

    def forget_others(self) -> None:
        """There are other teams now: looks at every unknown transcript again."""
        self._others.clear()

    def _folder(self, team: Team) -> str | None:
        lead = team.roster.lead if team.roster else None
        key = (team.name, team.session_id)
        if key in self._folders:
            return self._folders[key]
        paths = where(self._home, lead.cwd if lead else "", team.session_id)
        if not paths:
            return None
        folder = str(Path(paths[0]).parent)
        if not Path(paths[0]).exists():
            root = projects(self._home)
            folder = next(
                (
                    f"{root}/{name}"
                    for name in disk.names(root)
                    if Path(root, name, f"{team.session_id}.jsonl").exists()
                ),
                folder,
            )
            if not Path(folder).is_dir():
                return None
        self._folders[key] = folder
        return folder

    def _adopt(self, path: str) -> Tail | None:
        """Follows a member's transcript from when its team began; None if it is none, or is followed already."""
        if path in self._tails:
            return None
        tail = self._below(path) if Path(path).parent.name == "subagents" else self._alone(path)
        if tail is not None:
            self._tails[path] = tail
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

    def _below(self, path: str) -> Tail | None:
        session_id = Path(path).parent.parent.name
        meta = _meta(path)
        name = string(meta, "name")
        is_member = string(meta, "taskKind") == "in_process_teammate"
        team = self._team_of(session_id)
        if team is None and is_member and string(meta, "teamName"):
            team = self._diff.team(self._home, string(meta, "teamName"))
            team.session_id = team.session_id or session_id
        if team is None or not meta:
            return None
        lead = team.roster.lead if team.roster else None
        return Tail(
            path=path,
            home=self._home,
            team=team.name,
            member=name if is_member else lead.name if lead else LEAD,
            is_member=is_member,
            parent=None if is_member else string(meta, "toolUseId") or string(meta, "description") or "subagent",
        )

    def _team_of(self, session_id: str) -> Team | None:
        teams = [team for team in self._diff.teams.values() if team.home == self._home]
        return next((team for team in teams if team.session_id == session_id), None)

    def _alone(self, path: str) -> Tail | None:
        team = self._team_of(Path(path).stem)
        if team is not None:
            lead = team.roster.lead if team.roster else None
            return Tail(path=path, home=self._home, team=team.name, member=lead.name if lead else LEAD)
        if self._others.get(path, -1) >= SNIFF:
            return None
        try:
            with Path(path).open("rb") as file:
                data = file.read(SNIFF)
        except OSError:
            return None
        for raw in data.split(b"\n")[:-1]:
            line = read_line(raw)
            if line is not None and line.team and line.member:
                return Tail(path=path, home=self._home, team=line.team, member=line.member)
            spawned = next((back.record for back in line.returned if _is_spawn(back.record)), {}) if line else {}
            if spawned:
                name = string(spawned, "team_name")
                self._diff.team(self._home, name).session_id = Path(path).stem
                return Tail(path=path, home=self._home, team=name, member=LEAD)
        self._others[path] = len(data)
        return None


def _transcripts(home: str, since_ns: int) -> Iterator[str]:
    """The sessions' transcripts that were written to since."""
    for folder in disk.names(projects(home)):
        yield from _recent(f"{projects(home)}/{folder}", since_ns)


def _is_spawn(record: Object) -> bool:
    return string(record, "status") == "teammate_spawned" and bool(string(record, "team_name"))


def _recent(folder: str, since_ns: int) -> Iterator[str]:
    for entry in disk.entries(folder):
        try:
            if entry.name.endswith(".jsonl") and entry.stat().st_mtime_ns >= since_ns:
                yield entry.path
        except OSError:
            continue


def _meta(path: str) -> Object:
    from beam.agents.base import document

    try:
        with Path(path.removesuffix(".jsonl") + ".meta.json").open("rb") as file:
            value = document(file.read(SNIFF))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
