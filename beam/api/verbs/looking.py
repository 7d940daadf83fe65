"""Methods to read agents' states, events, journals and terminals, and to check and clean up a root."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from beam.api.methods import agent_names, check_is_number, check_is_text, coroutine_verb, time_ns
from beam.api.verbs.opened import OpenedRoot
from beam.base.clock import rfc3339
from beam.base.errors import BeamError, UnsupportedError, UsageError
from beam.root import discovery

if TYPE_CHECKING:
    from pathlib import Path

    from beam.api.attach import Attached
    from beam.api.diff import WorkTreeDiff
    from beam.api.doctor import Check
    from beam.api.foreign import ForeignSessions
    from beam.api.gc import CollectResult
    from beam.api.report import ReportLine
    from beam.api.search import SearchResult
    from beam.api.smoke import SmokeResult
    from beam.api.status import AgentStatus
    from beam.api.undo import UndoResult
    from beam.api.usage import UsageLine
    from beam.api.watch import Placed
    from beam.broker.inbox.context import RootContext
    from beam.foreign.standing import ForeignStatus
    from beam.model.events import AnyEvent
    from beam.model.hand_over import ContextMode
    from beam.root.paths import RootPaths
    from beam.teams.watch import Teams


class LookVerbs(OpenedRoot):
    """Read agents' states and events, and check a root."""

    def status(self, agents: Sequence[str] = (), *, all: bool = False) -> list[AgentStatus]:
        """Return the state of each of these agents. Without `agents`, return that of all agents but those of scenarios
        that are at rest and left no dead letter; with `all`, of these, too."""
        from beam.api import status

        lines = [status.status_of(self.context, self.context.agent_paths(name)) for name in self._names(agents)]
        return lines if agents or all else [line for line in lines if not line.is_left_over]

    def status_all(self) -> list[tuple[Path, list[AgentStatus]]]:
        """Return (project folder, the state of each of its agents) for every root of this user that has agents."""
        from beam.api import status

        roots = discovery.known_roots(self.environ)
        found = []
        for home in roots if self.home in roots else [self.home, *roots]:
            context = self.context if home == self.home else self._context_of(home)
            lines = [status.status_of(context, home.agent(name)) for name in home.agents()]
            if lines:
                found.append((home.project, lines))
        return found

    def agents_elsewhere(self) -> int:
        """Return how many agents this user's other roots have."""
        return sum(len(home.agents()) for home in discovery.known_roots(self.environ) if home != self.home)

    def _context_of(self, home: RootPaths) -> RootContext:
        """Return another root's context, with the agents that its own files declare, if they can be read."""
        from beam.config.resolve import load

        other = structs.replace(self.context, home=home, environ={})
        try:
            return structs.replace(other, config=load(home, environ=self.environ, adapters=other.config.adapters))
        except BeamError:
            return other

    def foreign(self, own: Sequence[AgentStatus] = ()) -> list[ForeignStatus]:
        """Return the living sessions that beam did not start. Sessions of the agents in `own` that run a turn are left
        out."""
        from beam.api.foreign import foreign_status

        ids = [(line.adapter, line.session_id) for line in own if line.running is not None and line.session_id]
        return foreign_status(self.environ, ids)

    def events(self, agent: str, *, after: int = 0) -> Iterator[AnyEvent]:
        """Yield the agent's events so far, in order. With `after`, yield only events with a higher number."""
        from beam.store.reader import Reader

        paths = self._existing_paths(agent)
        yield from Reader(paths.journal, after).poll()

    def last_events(self, agent: str, size: int) -> tuple[list[AnyEvent], bool]:
        """Return the events in about the last `size` bytes of the agent's journal, and whether these are all of it.

        Damage before these bytes is not noticed.
        """
        from beam.store.reader import last_events

        return last_events(self._existing_paths(agent).journal, size)

    def history(self, agent: str, context: ContextMode = "recent") -> str:
        """Return the conversation in the agent's session, as a quote for the prompt of another agent.

        With the `context` `recent`, the quote has the last exchanges; with `full`, it has more exchanges and the tool
        calls; with `summary`, it has one or two lines of each exchange. Every line of an agent's words is marked as
        quoted, and the size is limited. Raises NotFoundError for an agent without a history, UsageError if the caller
        is an agent.
        """
        from beam.model.hand_over import mode_of, quote

        self.check_person("hands over an agent's history")
        return quote(agent, self.events(agent), mode_of(context))

    @coroutine_verb
    async def diff(
        self, agent: str | None = None, *, message_id: str | None = None, turn: int | None = None, session: bool = False
    ) -> WorkTreeDiff:
        """Return the changes in the agent's work tree since its last turn began; without an agent, since the last turn
        of all agents.

        With `turn`, return the changes since the turn of that number began; with `session`, since the first turn of the
        agent's session; with a `message_id` in place of the agent, since the turn of that message. Raises NotFoundError
        if no snapshot was made for that turn, UsageError, UnsupportedError inside a turn.
        """
        from beam.api.diff import diff, last_recorded

        if self.turn is not None:
            raise UnsupportedError("inside a turn beam compares no work trees", "git diff")
        if message_id is not None:
            paths, message_id = self._find(message_id)
        elif agent is None:
            if session or turn is not None:
                raise UsageError("a turn or a session is that of an agent", "name the agent")
            paths = last_recorded(self.context)
        else:
            paths = self._existing_paths(agent)
            paths = paths if session or turn is not None else last_recorded(self.context, [paths.agent])
        return await diff(self.context, paths, message_id=message_id, turn=turn, session=session)

    @coroutine_verb
    async def undo(
        self,
        agent: str | None = None,
        *,
        message_id: str | None = None,
        redo: bool = False,
        all_files: bool = False,
        dry_run: bool = False,
    ) -> UndoResult:
        """Take back the files that changed during the agent's last turn, or during the turn of a `message_id`; without
        both, during the last turn of all agents. With `redo`, take back the last undo.

        A file is left if the agent's CLI did not name it as changed, if another turn was at it, or if it changed since;
        `all_files` takes back these, too. Files that git ignores are never touched. With `dry_run` nothing changes.
        Raises NotFoundError if no snapshot was made for that turn, UnfinishedError while a turn runs, GitError.
        """
        self.check_person("takes back changes")
        from beam.api.diff import last_recorded
        from beam.api.undo import undo
        from beam.model.events import WorkTreeRecorded, WorkTreeUndone

        if message_id is not None:
            paths, message_id = self._find(message_id)
        else:
            names = [self._existing_paths(agent).agent] if agent is not None else None
            paths = last_recorded(self.context, names, WorkTreeUndone if redo else WorkTreeRecorded)
        return await undo(
            self.context, paths, message_id=message_id, redo=redo, all_files=all_files, dry_run=dry_run, by=self.me
        )

    def watch(self, agents: Sequence[str] = (), *, follow: bool = True, history: bool = False) -> Iterator[AnyEvent]:
        """Yield the events of these agents as they are written. Without `agents`, yield the events of all agents,
        including agents that appear later.

        With `history`, all events so far come first. Without `follow`, the iterator ends instead of waiting for new
        events. Raises NotFoundError for an unknown agent, and CorruptError for a damaged journal, after the events of
        the other journals.
        """
        from beam.api.watch import watch_root

        names = self._existing_names(agents)
        for batch in watch_root(self.context, agents=names, follow=follow, history=history):
            yield from (placed.event for placed in batch)

    def stream_all(
        self,
        teams: Teams,
        *,
        follow: bool = True,
        history: bool = False,
        recent: bool = False,
        foreign: ForeignSessions | None = None,
    ) -> Iterator[list[Placed]]:
        """Return batches of the events of all this user's roots as they are written. Each event comes with its root,
        and a batch may be empty.

        With `history`, all events so far come first; with `recent`, the newest ones of each agent. Without `follow`,
        the iterator ends instead of waiting for new events. `teams` adds the events of Claude Code's agent teams,
        `foreign` adds the events of sessions that beam did not start.
        """
        from beam.api.watch import watch_roots

        found: list[RootPaths] = []
        looked = 0.0

        def here() -> list[RootPaths]:
            nonlocal found, looked
            if not looked or self._clock.monotonic() - looked >= 1:
                looked = self._clock.monotonic()
                known = discovery.known_roots(self.environ)
                found = known if self.home in known else [self.home, *known]
            return found

        return watch_roots(
            here, self.context, follow=follow, history=history, recent=recent, teams=teams, foreign=foreign
        )

    def usage(self, agents: Sequence[str] = ()) -> list[UsageLine]:
        """Return the usage of each agent so far, by model, from its journals; the last line is the sum."""
        from beam.api import usage

        return usage.usage_lines(self.context, self._names(agents))

    def search(
        self,
        text: str,
        agents: Sequence[str] = (),
        *,
        since: str | None = None,
        until: str | None = None,
        limit: int = 20,
        every_root: bool = False,
    ) -> SearchResult:
        """Return the newest `limit` events of these agents (default: of all agents) that contain all words of the text.

        Words in quotes (`"two words"`) must stand side by side; `wor*` matches each word that begins with `wor`.
        `since` and `until` limit the time of the events (RFC 3339). `every_root` also searches the agents of all other
        folders. Raises UsageError for a text without a word, or inside a turn, NotFoundError, DiskError.
        """
        from beam.api.search import search

        self.check_person("searches what others said")
        check_is_text(text=text)
        names = list(agent_names(agents)) if every_root else self._existing_names(agents)
        known = discovery.known_roots(self.environ) if every_root else []
        return search(
            known if self.home in known else [self.home, *known],
            text,
            environ=self.environ,
            agents=names,
            begin_ns=0 if since is None else time_ns("since", since),
            end_ns=None if until is None else time_ns("until", until),
            limit=limit,
        )

    def report(self, agents: Sequence[str] = (), *, since: str = "") -> list[ReportLine]:
        """Return a line for each agent and model about the turns that ended at `since` (RFC 3339) or later: their
        number, failures, cost and waiting times. The last line is the sum. Raises UsageError for an invalid `since`."""
        from beam.api import report

        begin = rfc3339(time_ns("since", since)) if since else ""  # the form of the events: they are compared as text
        return report.report(self.context, self._names(agents), since=begin)

    def activity(self, agents: Sequence[str] = (), *, days: int = 14) -> dict[str, list[int]]:
        """Return the number of tokens of each agent on each of the last `days` days, today last."""
        from beam.api import report

        return report.activity(self.context, self._names(agents), now_ns=self._clock.now_ns(), days=days)

    def folder(self, agent: str) -> str:
        """Return the folder where the agent works. Raises NotFoundError, ConfigError."""
        from beam.api.status import folder_of

        return folder_of(self.context, self.context.config.resolve(agent).settings)

    def running(self, agent: str) -> list[str]:
        """Return the ids of the agent's messages whose turns run, first the message in the agent's own session.

        Raises UsageError if no turn runs.
        """
        from beam.api import status

        found = status.running_ids(self._existing_paths(agent))
        if not found:
            raise UsageError(f"{agent} is not in a turn", "beam status", subject=agent)
        return found

    def agent_of(self, name: str) -> str:
        """Return the name of the agent whose journal is meant: this one or, if it has none, its only session
        AGENT@NAME, such as that of a scenario. Raises NotFoundError, UsageError if several sessions fit."""
        session = self._only_session(name) if name not in self.home.agents() else None
        return session or self._existing_paths(name).agent

    def find_message(self, message_id: str) -> tuple[str, str]:
        """Return the message's agent and whole id. Raises NotFoundError, and UsageError for an ambiguous ending."""
        paths, whole = self._find(message_id)
        return paths.agent, whole

    def message_ids(self, limit: int) -> list[str]:
        """Return the ids of messages in this root, the newest first, at most `limit`."""
        from beam.api import find

        found = {known for _, known in find.message_ids(self.context)}
        return sorted(found, key=lambda each: each.rpartition("-")[2], reverse=True)[:limit]

    def attach(self, agent: str) -> Attached:
        """Connect to the agent's terminal.

        Raises NotFoundError if the agent has no terminal now, UnsupportedError if its turn runs in a mode without a
        terminal.
        """
        self.check_person("attaches to an agent's terminal")
        from beam.api.attach import attach

        return attach(self.context, self._existing_paths(agent))

    def verify(self, agent: str) -> list[str]:
        """Return a line for each problem in the agent's journal."""
        from beam.api.verify import find_damage

        return find_damage(self._existing_paths(agent).journal)

    def gc(
        self,
        *,
        older_than: float = 30 * 86400.0,
        keep_bytes: int | None = None,
        dead: bool = False,
        dry_run: bool = False,
    ) -> CollectResult:
        """Remove finished files older than `older_than` seconds. With `keep_bytes`, also remove younger finished files,
        the oldest first, until the root has at most that size.

        Return the removed files; with `dry_run`, return them without removing them. Keeps everything that waits or
        runs, dead letters (unless `dead`), and all files of held agents.
        """
        self.check_person("removes what is over")
        check_is_number(older_than=older_than, keep_bytes=keep_bytes)
        from beam.api import gc

        if not dry_run:
            from beam.teams import spool
            from beam.teams.watch import spool_dir

            spool.sweep(spool_dir(self.environ), self._clock.now_ns())
        return gc.collect(self.context, older_than=older_than, keep_bytes=keep_bytes, dead=dead, dry_run=dry_run)

    def doctor(self, names: Sequence[str] = (), *, all: bool = False) -> Generator[Check, None, None]:
        """Check the root, its journals and its agents' CLIs, or only the named agents. Yield each result when it is
        known.

        With `all`, also check each CLI that beam was never tested with. Raises NotFoundError for an unknown name.
        """
        from beam.api.doctor import checks

        return checks(self.context, names, every=all)

    def smoke(self, names: Sequence[str] = ()) -> Generator[SmokeResult, None, None]:
        """Run a real turn of each installed CLI, or of the named ones, against a scripted model, in a scratch HOME.

        Yield each result as the CLI ends. Raises NotFoundError for an unknown adapter, UnsupportedError for one without
        a CLI that uses a model.
        """
        from beam.api import smoke

        off = self.context.config.disabled
        return smoke.smoke(self.environ, names or [name for name in smoke.smoke_test_names() if name not in off])
