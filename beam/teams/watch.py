"""Watches the user's Claude Code teams and returns the events in them (`Teams`).

The module reads changed files, transcripts, hook calls and the process table, passes them to `diff`, and orders the
resulting events. No file of Claude Code is written or locked.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from beam.agents.claude import history
from beam.base.clock import rfc3339
from beam.model.events import Event, Notice
from beam.process import table, tree
from beam.root.paths import state_dir, user_home
from beam.secrets.redact import redact_event
from beam.teams import disk, model
from beam.teams.changes import Changes
from beam.teams.diff import STARTING_NS, Diff, Team
from beam.teams.disk import FileSnapshot, TeamFile
from beam.teams.reorder import ReorderBuffer
from beam.teams.spool import Spool
from beam.teams.tails import Tail, Tails, lines

RETRY_NS = (40_000_000, 160_000_000, 1_000_000_000)
LIVENESS_NS = 1_000_000_000
UNCLAIMED_NS = 500_000_000
LEAVING_NS = 1_000_000_000  # a lead that goes leaves the register first, and removes its team a moment later
_NEVER_NS = 2**63


class _Retry(Struct):
    """A file that could not be parsed, and is read again at `due_ns` (0: not planned). `times` counts the retries;
    `ticket` is the file's position in the order of observations."""

    file: TeamFile
    due_ns: int
    ticket: int
    times: int = 0


def homes(environ: Mapping[str, str], extra: Sequence[str] = ()) -> tuple[str, ...]:
    """Return Claude Code's configuration directories: the ones in `extra` or, without any, the one that Claude Code
    would use."""
    if extra:
        return tuple(dict.fromkeys(str(Path(one).expanduser().absolute()) for one in extra))
    configured = environ.get("CLAUDE_CONFIG_DIR")
    return (str(Path(configured).absolute()) if configured else str(user_home(environ) / ".claude"),)


def spool_dir(environ: Mapping[str, str]) -> Path:
    """Return the directory in which `beam team hook` records hook calls."""
    return state_dir(environ) / "hooks"


class Teams:
    """The teams of the given homes (configuration directories of Claude Code).

    `poll` returns the events since the last call, and never waits; `wake` is set when there may be new events. Events
    from before `since_ns` (default: now) are left out. With `with_gone`, events of teams that no longer exist are
    included. `spool` is the directory of hook calls.

    Changes of .jsonl files below the directories in `also` set `wake`, too, so that one thread can wait for teams and
    for these files.
    """

    def __init__(
        self,
        homes: Sequence[str],
        *,
        spool: Path | None = None,
        also: Sequence[Path] = (),
        since_ns: int | None = None,
        with_gone: bool = False,
        poll_only: bool = False,
        wake: threading.Event | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.homes = tuple(homes)
        self.wake = wake or threading.Event()
        self.diff = Diff(_NEVER_NS if since_ns is None else since_ns // 1000 * 1000)
        self._now = now
        self._since_ns = since_ns
        self._with_gone = with_gone
        self._since = "~" if since_ns is None else rfc3339(since_ns)
        self._is_begun = False
        self._began_ns = now()
        self._order = ReorderBuffer()
        self._spool = Spool(spool)
        self._changes = Changes(
            self.homes,
            others=[str(path) for path in (*([] if spool is None else [spool]), *also)],
            poll_only=poll_only,
            wake=self.wake,
        )
        self._tails = {home: Tails(home, self.diff, began_ns=self._began_ns) for home in self.homes}
        self._retries: dict[str, _Retry] = {}
        self._large: set[str] = set()
        self._unclaimed: list[tuple[str, model.HookCall, int]] = []
        self._liveness_ns = 0
        self._leaving: dict[tuple[str, int], int] = {}
        self._is_session_new = True
        self._known: frozenset[tuple[str, str, str]] = frozenset()
        self._start()

    def close(self) -> None:
        """Stop watching."""
        self._changes.close()

    def watch_also(self, folder: Path) -> None:
        """Watch one more directory: from now on, changes of .jsonl files below it set `wake`, too."""
        self._changes.watch_directory(str(folder))

    @property
    def trouble(self) -> str:
        """Return the error that prevents the use of the system's change notifications; "" if there is none."""
        return self._changes.error

    def poll(self) -> list[Event]:
        """Return the events since the last call, in order."""
        self.wake.clear()
        now_ns = self._now()
        snapshot, files = self._changes.take_reported()
        for one in snapshot:
            retry = self._retries.get(one.file.path)
            self._push(self._apply_file(one), ticket=retry.ticket if retry is not None else None)
        self._retry_files(now_ns)
        self._apply_hooks(now_ns)
        self._apply_transcripts(files)
        if now_ns - self._liveness_ns >= LIVENESS_NS:
            self._liveness_ns = now_ns
            self._check_liveness(now_ns)
        return self._order.due(self._now())

    def has_session(self, session_id: str, path: str) -> bool:
        """Return whether the events of a team already include this session: it leads a team, or its transcript at
        `path` is followed."""
        teams = (team for team in self.diff.teams.values() if team.roster is not None)
        return any(tails.follows(path) for tails in self._tails.values()) or any(
            team.session_id == session_id for team in teams
        )

    def take_held_events(self) -> list[Event]:
        """Return the events that are still held back so that they can be put in order."""
        return self._order.all()

    def last_lines(self, team: Team) -> list[tuple[str, history.TranscriptLine]]:
        """Return (member, line) for the last lines of each member's transcript, in the order of their times."""
        return [(tail.member, line) for tail, line in lines(self._tails[team.home].end_tails(team))]

    def wait(self, timeout: float) -> None:
        """Wait until there may be new events for `poll`, at most `timeout` seconds."""
        if self._order.is_holding:
            timeout = min(timeout, 0.004)
        elif self._retries or self._unclaimed:
            timeout = min(timeout, 0.04)
        self.wake.wait(timeout)

    # -- the start -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._spool.begin(self._since_ns)
        self._changes.start()
        snapshot, _ = self._changes.take_reported()
        rank = {"session": 0, "config": 1, "task": 2, "inbox": 3}
        first = sorted(snapshot, key=lambda one: (rank[one.file.kind], one.at_ns))
        known = [one for one in first if rank[one.file.kind] < 2]
        self._push(event for one in known for event in self._apply_file(one))
        self._check_liveness(self._began_ns)
        self._follow()
        self._push(event for one in first[len(known) :] for event in self._apply_file(one))
        self.diff.begin(self._began_ns)
        self._is_begun = True

    def _follow(self) -> None:
        """Follow the existing transcripts. If a start time was requested, apply their lines since that time, in the
        order of the lines' times."""
        found: list[Tail] = []
        for tails in self._tails.values():
            found += tails.find(since_ns=self._since_ns, is_new=False)
            if self._since_ns is not None and self._with_gone:
                found += tails.find_gone(self._since_ns)
        self._push_lines(found if self._since_ns is not None else [])

    def _push_lines(self, changed: Iterable[Tail]) -> None:
        for tail, line in lines(changed):
            team = self.diff.team(tail.home, tail.team)
            self._push(self.diff.line(team, tail.member, line, is_member=tail.is_member))

    # -- news ----------------------------------------------------------------------------------------------------------

    def _push(self, events: Iterable[Event], *, ticket: int | None = None) -> None:
        """Add events to the buffer that orders them, without the secrets in their texts. During the initial reading,
        events from before the requested time are left out."""
        wanted_events = [redact_event(event)[0] for event in events if self._is_begun or event.ts >= self._since]
        self._order.push(wanted_events, self._now(), ticket=ticket)

    def _apply_file(self, snapshot: FileSnapshot) -> list[Event]:
        file, data, at_ns = snapshot.file, snapshot.data, snapshot.at_ns
        if snapshot.is_large:
            return self._too_large(file, at_ns)
        if data is None:
            return self._missing(file, at_ns)
        home, group, name = file.home, file.group, file.name
        match file.kind:
            case "config" if (roster := model.roster(data)) is not None:
                self._retries.pop(file.path, None)
                return self.diff.config(home, group, roster, at_ns)
            case "inbox" if (mails := model.inbox(data)) is not None:
                self._retries.pop(file.path, None)
                return self.diff.inbox(home, group, name, mails, at_ns)
            case "task" if (task := model.task(data)) is not None:
                self._retries.pop(file.path, None)
                return self.diff.task(home, group, task, at_ns)
            case "session" if (session := model.session(data)) is not None:
                self._retries.pop(file.path, None)
                self._leaving.pop((home, session.pid), None)
                self._liveness_ns, self._is_session_new = 0, True
                return self.diff.session(home, session)
        self._look_again(file)
        return []

    def _too_large(self, file: TeamFile, at_ns: int) -> list[Event]:
        """Return a notice that the file is too large to read, but only the first time. The last known content stays
        valid."""
        if file.path in self._large or not file.group:
            return []
        self._large.add(file.path)
        text = f"{file.path} is larger than {disk.LARGEST >> 20} MiB: what it says is not shown until it is smaller"
        return [self.diff.team(file.home, file.group).tell.body(Notice(text=text, code="too_large"), at_ns, "")]

    def _missing(self, file: TeamFile, at_ns: int) -> list[Event]:
        if file.kind == "task":
            return self.diff.task_gone(file.home, file.group, file.name, at_ns)
        if file.kind == "session":
            self._leaving[file.home, int(file.name)] = self._now()
            return []
        if not os.path.isdir(f"{file.home}/teams/{file.group}"):  # noqa: PTH112 - pathlib's may raise
            self._retries.pop(file.path, None)
            return self.diff.team_gone(file.home, file.group, at_ns)
        known = self._retries.get(file.path)
        if known is None or known.times == 0:
            self._look_again(file)
            return []
        if file.kind == "inbox":
            return self.diff.inbox_gone(file.home, file.group, file.name, at_ns)
        self.diff.config_gone(file.home, file.group, at_ns)
        return []

    def _look_again(self, file: TeamFile) -> None:
        retry = self._retries.setdefault(file.path, _Retry(file, 0, self._order.ticket()))
        if retry.times < len(RETRY_NS):
            retry.due_ns = self._now() + RETRY_NS[retry.times]

    def _retry_files(self, now_ns: int) -> None:
        for path, retry in list(self._retries.items()):
            if not retry.due_ns or retry.due_ns > now_ns:
                continue
            retry.due_ns, retry.times = 0, retry.times + 1
            snapshot, _ = disk.read(retry.file, now_ns)
            self._push(self._apply_file(snapshot), ticket=retry.ticket)
            if not retry.due_ns:
                self._retries.pop(path, None)

    def _apply_transcripts(self, files: list[str]) -> None:
        known = frozenset((t.home, t.name, t.session_id) for t in self.diff.teams.values() if t.roster is not None)
        if known != self._known:
            self._known = known
            for tails in self._tails.values():
                tails.on_other_teams()
            files = ["*"]
        if not files:
            return
        for home, tails in self._tails.items():
            self._push_lines(tails.changed([path for path in files if path == "*" or path.startswith(home + "/")]))

    def _apply_hooks(self, now_ns: int) -> None:
        """Apply new hook calls. A call whose team is not known yet is kept for half a second and tried again."""
        waiting = [*self._unclaimed, *((home, call, now_ns) for home in self.homes for call in self._spool.calls(home))]
        self._unclaimed = []
        for home, call, came_ns in waiting:
            events = self.diff.hook(home, call, may_guess=now_ns - came_ns > UNCLAIMED_NS)
            if events is not None:
                self._push(events)
            elif now_ns - came_ns <= UNCLAIMED_NS:
                self._unclaimed.append((home, call, came_ns))

    # -- processes -----------------------------------------------------------------------------------------------------

    def _check_liveness(self, now_ns: int) -> None:
        for home, pid in [key for key, since_ns in self._leaving.items() if now_ns - since_ns >= LEAVING_NS]:
            del self._leaving[home, pid]
            self.diff.session_gone(home, pid)
        self._push(check_leads(self.diff, now_ns, every=self._is_session_new))
        self._is_session_new = False
        for team in list(self.diff.teams.values()):  # its configuration disappeared first, its directory later
            if team.config_gone_ns and team.roster is not None and not _has_folder(team):
                self._push(self.diff.team_gone(team.home, team.name, now_ns))
        hot: dict[str, set[str]] = {home: set() for home in self.homes}
        for team in self.diff.teams.values():
            if team.roster is not None and team.is_live:
                hot[team.home] |= {team.name, model.inbox_name(team.roster.name)}
        self._changes.hot = {home: frozenset(groups) for home, groups in hot.items()}


def check_leads(diff: Diff, now_ns: int, *, every: bool = True) -> list[Event]:
    """Check whether the lead of each team is alive, and return the resulting events. Without `every`, teams that are
    already stale are not checked."""
    events: list[Event] = []
    for team in list(diff.teams.values()):
        if team.roster is None or (team.is_stale and not every and not team.config_gone_ns):
            continue
        if team.roster.made_by:  # no process leads it
            events += diff.tick(team, now_ns)
            continue
        session = diff.lead_of(team)
        if session is not None and _is_alive(session):
            if team.lead_pid != session.pid or team.is_stale or team.session_id != session.session_id:
                events += diff.lead_lives(team, session)
        elif (
            not team.is_stale
            and (team.lead_pid is not None or now_ns - team.roster.created_ns > STARTING_NS)
            and _has_folder(team)  # else it ended normally, which is reported soon
        ):
            events += diff.lead_died(team, now_ns, orphans=_orphans(team))
        events += diff.tick(team, now_ns)
    return events


def _has_folder(team: Team) -> bool:
    return os.path.isdir(f"{team.home}/teams/{team.name}")  # noqa: PTH112 - pathlib's may raise


def _is_alive(session: model.Session) -> bool:
    ticks = tree.start_ticks(session.pid)
    return ticks is not None and (not table.LINUX or not session.start or ticks == session.start)


def _orphans(team: Team) -> dict[str, int | None]:
    """Return the members whose own process may still run, with the pid of that process (None if the system does not
    tell).

    A process is recognised by the member's id in its arguments. A forked child has the same arguments until it executes
    another program, so the oldest such process is the member's.
    """
    apart = [member for member in team.members.present.values() if member.has_own_process]
    oldest: dict[str, tuple[int, int]] = {}
    if not table.LINUX:
        return {member.name: None for member in apart}
    for pid in table.pids() if apart else ():
        words = table.read_file(f"/proc/{pid}/cmdline").split(b"\0")
        ticks = tree.start_ticks(pid) if b"--agent-id" in words else None
        if ticks is None:
            continue
        agent_id = words[words.index(b"--agent-id") + 1 : words.index(b"--agent-id") + 2]
        for member in apart:
            if agent_id == [member.agent_id.encode()]:
                oldest[member.name] = min(oldest.get(member.name, (ticks, pid)), (ticks, pid))
    return {name: pid for name, (_, pid) in oldest.items()}
