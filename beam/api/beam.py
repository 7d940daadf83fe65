"""`Beam`: the typed verbs. Each has one implementation; where it waits, `.aio` is the same in an event loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from beam.agents import registry
from beam.api.both import coroutine_verb, waiting_verb
from beam.api.inside import TurnAround, turn_around
from beam.base.clock import Clock, SystemClock
from beam.base.errors import DiskError, NotFoundError, UsageError
from beam.base.steps import Steps, finished
from beam.broker.agent_requests import carry_out
from beam.broker.compose import HUMAN, Caller, compose
from beam.broker.context import RootContext
from beam.config.resolve import load, settled
from beam.model.message import NAME, Access, Message, Options, SessionContext
from beam.root import discovery, ownership, paths
from beam.root.paths import AgentPaths

if TYPE_CHECKING:
    from beam.api import look
    from beam.api.adopt import Candidate
    from beam.api.asks import AskLine
    from beam.api.attach import Attached
    from beam.api.broker import BrokerStatus
    from beam.api.doctor import Check
    from beam.api.gc import Collected
    from beam.api.progress import Progress, Watched
    from beam.api.root import RootLine
    from beam.api.sessions import SessionLine
    from beam.api.smoke import Smoked
    from beam.api.trusting import Looked
    from beam.api.usage import UsageLine
    from beam.api.waits import Until
    from beam.api.watch import Placed
    from beam.model.events import AnyEvent, Event
    from beam.model.outcome import Outcome
    from beam.model.settings import AgentSettings
    from beam.store.control import Verb
    from beam.teams.watch import Teams


class Beam:
    """One root of beam, as one process sees it.

    `root` is a directory of beam's own; left out, it is found as the command line finds it: `$BEAM_ROOT`, else the one
    of the project folder around `cwd`. Reading verbs create nothing.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.environ = settled(os.environ if environ is None else environ)
        self._root = None if root is None else str(root)
        self._cwd = cwd or Path.cwd()
        self._clock = clock or SystemClock()
        self.trusted_by_variable = False  # whether the last message may run only because of BEAM_TRUST=1

    @cached_property
    def home(self) -> paths.RootPaths:
        """The root, found when it is needed: what an agent asks for in its turn touches none. Raises UsageError."""
        return discovery.find(self._root, cwd=self._cwd, environ=self.environ)

    @cached_property
    def turn(self) -> TurnAround | None:
        """The turn of an agent in which this process runs; None for a person's."""
        return turn_around(self.environ)

    @cached_property
    def context(self) -> RootContext:
        """The root with its configuration, checked. Raises ConfigError, DiskError."""
        ownership.check_owner(self.home, uid=os.geteuid())
        config = load(self.home, environ=self.environ, adapters=registry.NAMES)
        ownership.check_filesystem(self.home, allow_fs=config.allow_fs)
        return RootContext(home=self.home, config=config, clock=self._clock, environ=self.environ, carry_out=carry_out)

    # -- talk ------------------------------------------------------------------------------------------------------

    def message(
        self,
        agent: str,
        text: str,
        *,
        wait: bool = True,
        sender: str | None = None,
        attach: Sequence[Path] = (),
        options: Options = Options(),
        key: str | None = None,
        deadline: float | None = None,
        replies: int | None = None,
    ) -> Message:
        """The message that `send` would put, checked against everything that can be known before it is put. `replies`:
        how many answers are routed, in turn, where the sender is an agent (null: what the limits say).

        Raises NotFoundError (no such agent; its CLI is missing), UntrustedError, UsageError, LimitError, DiskError.
        """
        from beam.broker.put import check_receiver
        from beam.turns.request import granted_access

        if self.turn is not None:
            return self.turn.message(
                agent,
                text,
                wait=wait,
                sender=sender,
                attach=attach,
                options=options,
                key=key,
                deadline=deadline,
                replies=replies,
                clock=self._clock,
            )
        if self.is_agent:
            raise UsageError(
                f"BEAM_AGENT is {self.me}, and this process is in no turn of an agent",
                "unset BEAM_AGENT if you are not inside an agent",
            )
        context = self.context
        discovery.check_folder(self.home, self.environ)
        configured = context.resolve(agent).settings.access
        access = granted_access(configured, options.access, at_most="read" if context.is_exposed else None)
        self.trusted_by_variable = check_receiver(context, agent, access).by_variable
        if options.once and key is not None:
            raise UsageError("--once and --key don't go together", "a throw-away session has no first outcome to give")
        self._check_access(options.access)
        return compose(
            agent,
            text,
            caller=Caller(),
            wait=wait,
            clock=self._clock,
            limits=context.limits,
            sender=sender,
            attach=attach,
            options=options,
            key=key,
            deadline=deadline,
            replies=replies,
            session_context=self._context(sender or HUMAN),
        )

    def _check_access(self, access: Access | None) -> None:
        """Refuses what a root that agents may write would lower: it is not done in silence where a person said it."""
        if access in (None, "read"):
            return
        where = discovery.exposed(self.home, self.environ)
        if where is not None:
            raise UsageError(
                f"--access {access} is not given in the root {self.home.root}: it lies in {where}, where agents may "
                "write messages in your name",
                "keep the root elsewhere (no --root, or one outside; BEAM_STATE), or leave --access out",
                subject=str(self.home.root),
            )

    def _context(self, sender: str) -> SessionContext:
        if sender == HUMAN or not NAME.match(sender) or sender not in self.home.agents():
            return SessionContext()
        from beam.store.journal import read_state

        state = read_state(self.home.agent(sender).journal)
        return SessionContext(
            session_id=state.session.session_id if state.session else None, turn_number=state.turn or None
        )

    def _place(self, message: Message) -> AgentPaths:
        lane = message.id.rpartition("-")[2] if message.options.once else None
        return self.context.place(message.to, lane)

    @waiting_verb
    def put(self, message: Message) -> Steps[str]:
        """Puts the message into its queue and sees that somebody runs it; its id. It returns as soon as that is sure:
        at once where the agent is held or no broker serves, else after half a second at most."""
        from beam.broker import launch
        from beam.broker import registry as brokers
        from beam.broker.put import put

        if self.turn is not None:
            return (yield from self.turn.put(message, self._clock))
        place = self._place(message)
        put(self.context, place, message)
        if not self._is_mailbox(message.to):
            if place.lane is None:
                yield from brokers.yield_to_broker(self.context, place)
            launch.ensure(self.context, place)
        return message.id

    def _is_mailbox(self, agent: str) -> bool:
        return "mailbox" in registry.adapter(self.context.resolve(agent).settings.adapter).card.faces

    def waiting_reason(self, message: Message) -> str | None:
        """What a sender who waits should know: nobody runs this agent's messages by itself now. None where somebody
        does.
        """
        if self.turn is not None:
            return None
        if self._is_mailbox(message.to):
            return f"{message.to} is a mailbox; it answers when somebody does: beam recv {message.to}"
        from beam.broker import standing
        from beam.store.journal import read_state

        if read_state(self._place(message).journal).paused:
            return f"the queue of {message.to} is paused; beam queue resume {message.to}"
        why = standing.waiting_reason(self.context, self._place(message))
        return None if why is None else f"what waits for {message.to} does so until you trust the folder: {why}"

    def loader_variables(self, agent: str) -> list[str]:
        """Return the variables of the agent's settings that no process of it gets (`LD_PRELOAD` and the like)."""
        from beam.process.environment import LOADER

        return sorted(LOADER.intersection(self.context.resolve(agent).settings.env))

    def progress(self, message: Message | str) -> Callable[[], Progress | None] | None:
        """What says, each time it is called, which turn runs where this message (or the one of this id) waits; null
        inside a turn, whose process need not see the root, and whose agent need not be told."""
        if self.turn is not None:
            return None
        watched: Watched | None = None

        def where() -> AgentPaths:
            return self._place(message) if isinstance(message, Message) else self._find(message)[0]

        def look() -> Progress | None:
            nonlocal watched
            if watched is None:
                from beam.api.progress import Watched  # most turns are over before anybody looks

                watched = Watched(where, self._clock)
            return watched.look()

        return look

    @coroutine_verb
    async def deliver(self, message: Message, seen: Callable[[Event], None] | None = None) -> Outcome:
        """The outcome of a message made by `message`; its events go to `seen` as they are recorded."""
        from beam.api.send import send

        if self.turn is not None:
            return await self.turn.deliver(message, self._clock)
        return await send(self.context, self._place(message), message, seen)

    @coroutine_verb
    async def send(
        self,
        agent: str,
        text: str,
        *,
        sender: str | None = None,
        attach: Sequence[Path] = (),
        options: Options = Options(),
        key: str | None = None,
        deadline: float | None = None,
        seen: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """Sends a text and waits for the outcome. `deadline` is seconds until its turn must have begun.

        A failed turn is an outcome, not an error. Raises what `message` raises, and DiskError.
        """
        message = self.message(agent, text, sender=sender, attach=attach, options=options, key=key, deadline=deadline)
        return await self.deliver.aio(message, seen)

    @waiting_verb
    def wait(
        self, message_id: str, *, timeout: float | None = None, seen: Callable[[Event], None] | None = None
    ) -> Steps[Outcome]:
        """The outcome of a message, once it has one. Raises UnfinishedError after `timeout` seconds; nothing stops."""
        from beam.broker.follow import follow

        place, whole = self._find(message_id)
        outcome = yield from follow(self.context, place, whole, seen=seen, timeout=timeout, looks_only=self.is_agent)
        assert outcome is not None
        return outcome

    @waiting_verb
    def wait_several(
        self,
        message_ids: Sequence[str],
        *,
        only_first: bool = False,
        timeout: float | None = None,
        seen: Callable[[Event], None] | None = None,
        ended: Callable[[Outcome], None] | None = None,
    ) -> Steps[list[Outcome]]:
        """Wait for several messages and return their outcomes in the order in which they came; `ended` gets each.

        With `only_first` only the first one is waited for. Raises UnfinishedError after `timeout` seconds; nothing
        stops.
        """
        from beam.api.waits import several
        from beam.broker.follow import follow

        outcomes: list[Outcome] = []

        def came(_: int, outcome: Outcome | None) -> None:
            if outcome is not None:
                outcomes.append(outcome)
                if ended is not None:
                    ended(outcome)

        found = [self._find(each) for each in dict.fromkeys(message_ids)]
        waits = [
            follow(self.context, place, whole, seen=seen, timeout=timeout, looks_only=self.is_agent)
            for place, whole in {whole: (place, whole) for place, whole in found}.values()
        ]
        yield from several(waits, only_first=only_first, ended=came)
        return outcomes

    @waiting_verb
    def wait_until(
        self, agents: Sequence[str], until: Until, *, only_first: bool = False, timeout: float | None = None
    ) -> Steps[dict[str, Outcome | None]]:
        """Wait until these agents (with `only_first`: one of them) are `idle` or `asking`, or a turn of theirs has
        `finished`. Return those that are, with that turn's outcome.

        Raises UnfinishedError after `timeout` seconds, NotFoundError for an agent that was never used.
        """
        from beam.api.waits import several, state_of

        names = list(dict.fromkeys(agents))
        places = [self._existing(name) for name in names]
        found: dict[str, Outcome | None] = {}
        waits = [state_of(self.context, place, until, timeout=timeout, looks_only=self.is_agent) for place in places]
        yield from several(waits, only_first=only_first, ended=lambda at, outcome: found.update({names[at]: outcome}))
        return found

    def are_idle(self, agents: Sequence[str] = ()) -> bool:
        """Return whether no turn of these agents (none given: of all here) runs, and nothing waits for them."""
        from beam.api.waits import is_idle

        return all(is_idle(self.home.agent(name)) for name in agents or self.home.agents())

    def _find(self, message_id: str) -> tuple[AgentPaths, str]:
        from beam.api.look import find_place

        return find_place(self.context, message_id)

    def show(self, message_id: str) -> Outcome | look.Pending:
        """What is known of a message now."""
        from beam.api.look import shown

        return shown(*self._find(message_id))

    def recv(self, agent: str, *, lease: float | None = None) -> Message | None:
        """Takes the next message of a mailbox, for `lease` seconds; None if none waits."""
        self.check_person("takes messages of a mailbox")
        from beam.broker.mailbox import recv

        return recv(self.context, self.context.place(agent), lease)

    @waiting_verb
    def recv_wait(
        self, agent: str, *, lease: float | None = None, timeout: float | None = None
    ) -> Steps[Message | None]:
        """The same, waiting for one; None after `timeout` seconds."""
        began = self._clock.monotonic()
        while (message := self.recv(agent, lease=lease)) is None:
            if timeout is not None and self._clock.monotonic() - began >= timeout:
                return None
            yield 0.05
        return message

    def reply(self, message_id: str, text: str, *, failed: bool = False) -> Outcome:
        """Answers a message that `recv` took. With `failed` the text is the reason why there is no answer."""
        from beam.broker.mailbox import reply

        if self.turn is not None:
            answered: Outcome = finished(self.turn.reply(message_id, text, self._clock, failed=failed))
            return answered
        place, whole = self._find(message_id)
        return reply(self.context, place, whole, text, failed=failed)

    # -- see -------------------------------------------------------------------------------------------------------

    def events(self, agent: str, *, after: int = 0) -> Iterator[AnyEvent]:
        """The agent's events so far, after that seq, in order."""
        from beam.store.journal import Reader

        place = self._existing(agent)
        yield from Reader(place.journal, after).poll()

    def agent_of(self, name: str) -> str:
        """Return the name if it is an agent's. Raises NotFoundError."""
        return self._existing(name).agent

    def find_message(self, message_id: str) -> tuple[str, str]:
        """Return the message's agent and whole id. Raises NotFoundError, and UsageError for an ambiguous ending."""
        place, whole = self._find(message_id)
        return place.agent, whole

    def stream_all(self, teams: Teams, *, follow: bool = True, history: bool = False) -> Iterator[list[Placed]]:
        """Return batches of events of all roots that this user has, this one first, each event with its root, as they
        are written; an empty batch now and then.

        With `history` all events so far come first. Without `follow` it ends there. `teams` puts the events of Claude
        Code's agent teams among them.
        """
        from beam.api.watch import watch_roots

        found: list[paths.RootPaths] = []
        looked = 0.0

        def here() -> list[paths.RootPaths]:
            nonlocal found, looked
            if not looked or self._clock.monotonic() - looked >= 1:
                looked = self._clock.monotonic()
                known = discovery.known(self.environ)
                found = known if self.home in known else [self.home, *known]
            return found

        return watch_roots(here, self.context, follow=follow, history=history, teams=teams)

    def status(self, agents: Sequence[str] = ()) -> list[look.AgentStatus]:
        """Where each agent stands."""
        from beam.api import look

        return [look.status_of(self.context, self.context.place(name)) for name in self._names(agents)]

    def usage(self, agents: Sequence[str] = ()) -> list[UsageLine]:
        """What each agent used so far, by model, by what its journals say; the last line sums all up."""
        from beam.api import usage

        return usage.lines(self.context, self._names(agents))

    def _names(self, agents: Sequence[str]) -> list[str]:
        from beam.api import look

        return [self._existing(name).agent for name in agents] or look.agent_names(self.context)

    def folder(self, agent: str) -> str:
        """Where the agent works. Raises NotFoundError, ConfigError."""
        from beam.api.look import folder_of

        return folder_of(self.context, self.context.resolve(agent).settings)

    def running(self, agent: str) -> list[str]:
        """The ids of the messages whose turns run now, that of the agent's own session first. Raises UsageError if none
        does."""
        from beam.api import look

        found = look.running_ids(self._existing(agent))
        if not found:
            raise UsageError(f"{agent} is in no turn", "beam status", subject=agent)
        return found

    def verify(self, agent: str) -> list[str]:
        """Everything that is wrong in the agent's journal, a line each."""
        from beam.api.verify import damage

        return damage(self._existing(agent).journal)

    def gc(
        self,
        *,
        older_than: float = 30 * 86400.0,
        keep_bytes: int | None = None,
        dead: bool = False,
        dry_run: bool = False,
    ) -> Collected:
        """Removes what is over and older than that (seconds), then by size; what was removed. Nothing that waits, runs
        or was given up on (unless `dead`), and nothing of an agent that somebody holds."""
        self.check_person("removes what is over")
        from beam.api import gc

        if not dry_run:
            from beam.teams import spool
            from beam.teams.watch import spool_dir

            spool.sweep(spool_dir(self.environ), self._clock.now_ns())
        return gc.collect(self.context, older_than=older_than, keep_bytes=keep_bytes, dead=dead, dry_run=dry_run)

    def doctor(self, *, all: bool = False) -> list[Check]:
        """Checks of the root, its journals and its agents' CLIs; with `all` also of those never seen to run."""
        from beam.api.doctor import checks

        return list(checks(self.context, every=all))

    def smoke(self, names: Sequence[str] = ()) -> Generator[Smoked, None, None]:
        """A real turn of each installed CLI, or of those named, against a scripted model, in a scratch HOME: what each
        did, as it ends. Raises NotFoundError for no such adapter, UnsupportedError for one without a model."""
        from beam.api.smoke import smoke

        return smoke(self.environ, names)

    def _existing(self, agent: str) -> AgentPaths:
        if agent not in self.home.agents():
            self.context.resolve(agent)
        return self.context.place(agent)

    def attach(self, agent: str) -> Attached:
        """One's end of the agent's terminal. Raises NotFoundError where it has none now, UnsupportedError where its
        turn runs on another face."""
        from beam.api.attach import attach

        return attach(self.context, self._existing(agent))

    def check_person(self, what: str) -> None:
        """Raises UsageError where an agent calls: only a person does this. `what` says what, for the complaint."""
        if self.is_agent:
            raise UsageError(f"only a person {what}; this is a process of {self.me}", "use a shell of your own")

    # -- agents ----------------------------------------------------------------------------------------------------

    def agents(self, *, all: bool = False) -> list[look.AgentLine]:
        """The agents that are declared or were used here; with `all`, every adapter too: those that can be used here
        first, then those whose CLI is missing, then those that were never seen to run."""
        from beam.api import look

        declared = look.agent_names(self.context)
        lines = [look.agent_line(self.context, name) for name in declared]
        others = [look.agent_line(self.context, name) for name in registry.NAMES if name not in declared] if all else []
        return lines + sorted(others, key=lambda line: (line.face == "unverified", line.installed is None))

    def models(self) -> list[str]:
        """Return the models that agents here are set to or have run with, sorted."""
        from beam.api import look
        from beam.store.journal import read_state

        set_to = {line.model for line in self.agents() if line.model}
        used = {model for place in look.places(self.context) for model in read_state(place.journal).totals.by_model}
        return sorted(set_to | used)

    def message_ids(self, most: int) -> list[str]:
        """Return the ids of messages that are known here, the newest first, at most so many."""
        from beam.api import look

        found = {known for _, known in look.message_ids(self.context)}
        return sorted(found, key=lambda each: each.rpartition("-")[2], reverse=True)[:most]

    def agent(self, name: str) -> look.AgentShown:
        """Everything about one agent."""
        from beam.api import look

        return look.agent_shown(self.context, name)

    def add_agent(self, name: str, settings: AgentSettings) -> Path:
        """Declares an agent by command; the path of its agent.json. Raises UsageError if it is declared already."""
        self.check_person("declares agents")
        from beam.api import manage

        return manage.add(self.context, name, settings)

    def set_agent(self, name: str, changes: Mapping[str, str | None]) -> Path:
        """Changes settings of an agent by command; None takes one back."""
        self.check_person("changes agents")
        from beam.api import manage

        return manage.change(self.context, name, changes)

    def fork_agent(self, name: str, new: str) -> str:
        """Declares an agent with the settings of `name` whose first turn goes on in a copy of that one's session. The
        session's id. Raises NotFoundError (no session yet), UnsupportedError, UntrustedError, UsageError."""
        self.check_person("makes agents")
        from beam.api import manage

        return manage.fork(self.context, name, new, by=self.me)

    def remove_agent(self, name: str, *, purge: bool = False) -> str:
        """Takes an agent's agent.json away; with `purge` its queue and journal too. What was done, in words."""
        self.check_person("removes agents")
        from beam.api import manage

        return manage.remove(self.context, name, purge=purge)

    def sessions(self, agents: Sequence[str] = ()) -> list[SessionLine]:
        """Return the sessions of these agents and of their named sessions, or of all: current, earlier, archived."""
        from beam.api import sessions

        return sessions.sessions(self.context, [self._existing(name).agent for name in agents])

    @waiting_verb
    def resume_session(self, agent: str, session_id: str) -> Steps[str]:
        """Make the agent's next turn continue in an earlier session of its own; return the session's whole id."""
        self.check_person("chooses an agent's session")
        from beam.api import sessions

        return (yield from sessions.resume(self.context, self._existing(agent).agent, session_id, by=self.me))

    def adopt_session(self, name: str, session: str, settings: AgentSettings) -> str:
        """Declare an agent whose first turn continues in a session that its CLI has, `claude:ID`; what was done, in
        words. Of `claude@review` the settings are those of `claude`."""
        self.check_person("adopts a session")
        from beam.api import manage

        return manage.adopt_session(self.context, name, session, settings, by=self.me)

    @waiting_verb
    def rename_agent(self, agent: str, new: str) -> Steps[str]:
        """Give an agent, or a session of one, another name. What was done, in words."""
        self.check_person("renames agents")
        from beam.api import archive

        return (yield from archive.rename(self.context, agent, new, by=self.me))

    @waiting_verb
    def archive_agent(self, agent: str, *, restore: bool = False) -> Steps[str]:
        """Put an agent away, so that it takes no messages, or bring it back. What was done, in words."""
        self.check_person("archives agents")
        from beam.api import archive

        act = archive.restore if restore else archive.archive
        return (yield from act(self.context, agent, by=self.me))

    def unblock(self, agent: str) -> str:
        """Says that no process of the agent's last turn is left, where beam can't see (another host or container)."""
        self.check_person("says that processes are gone")
        from beam.api import manage

        return manage.unblock(self.context, self._existing(agent).agent)

    @waiting_verb
    def reset(self, agent: str) -> Steps[str]:
        """Puts the agent's session aside; the next turn starts another. The old session's id, or "no session"."""
        self.check_person("puts a session aside")
        from beam.broker.requests import request

        place = self._existing(agent)
        return (yield from request(self.context, place, "reset", by=self.me))

    # -- queue -----------------------------------------------------------------------------------------------------

    def queue(self, agents: Sequence[str] = ()) -> list[look.QueueItem]:
        """What lies in the queues of these agents, or of all."""
        from beam.api import look

        names = [self._existing(name).agent for name in agents] or self.home.agents()
        return list(look.queue_items(self.context, names))

    @waiting_verb
    def drop(self, message_id: str) -> Steps[str]:
        """Takes a message out of its queue; its outcome is `cancelled`."""
        self.check_person("drops messages")
        return (yield from self._request("drop", message_id))

    @waiting_verb
    def drop_dead(self, agents: Sequence[str] = ()) -> Steps[list[str]]:
        """Remove every dead letter of these agents, or of all; return the messages' ids."""
        self.check_person("drops messages")
        dead = [item.id for item in self.queue(agents) if item.box == "dead"]
        gone = []
        for message_id in dead:
            try:
                yield from self._request("drop", message_id)
            except NotFoundError:
                continue  # somebody else was quicker
            gone.append(message_id)
        return gone

    @waiting_verb
    def retry(self, message_id: str) -> Steps[str]:
        """Runs a dead letter again, as its next attempt."""
        self.check_person("retries messages")
        return (yield from self._request("retry", message_id))

    @waiting_verb
    def edit(self, message_id: str, text: str) -> Steps[str]:
        """Gives a waiting message another text."""
        self.check_person("edits messages")
        from beam.broker.compose import check_text, replace_surrogates

        text = replace_surrogates(text)
        check_text(text, self.context.limits)
        return (yield from self._request("edit", message_id, text=text))

    @waiting_verb
    def pause(self, agent: str) -> Steps[str]:
        """Claims nothing more from the agent's queue; a running turn goes on. What was done, in words."""
        self.check_person("pauses agents")
        from beam.broker.requests import request

        return (yield from request(self.context, self._existing(agent), "pause", by=self.me))

    @waiting_verb
    def resume(self, agent: str) -> Steps[str]:
        """Serves the agent's queue again. What was done, in words."""
        self.check_person("resumes agents")
        from beam.broker.requests import request

        return (yield from request(self.context, self._existing(agent), "resume", by=self.me))

    @waiting_verb
    def interrupt(self, message_id: str) -> Steps[str]:
        """Ends the turn of exactly this message, or withdraws it."""
        if self.turn is not None:
            return (yield from self.turn.interrupt(self._whole(message_id), self._clock))
        return (yield from self._request("interrupt", message_id))

    # -- decide ----------------------------------------------------------------------------------------------------

    def asks(self, agents: Sequence[str] = ()) -> list[AskLine]:
        """What these agents ask, or all, and nobody decided yet; oldest first."""
        from beam.api import asks

        return asks.open_asks(self.context, [self._existing(name).agent for name in agents] or None)

    @waiting_verb
    def approve(self, ask_id: str, *, always: bool = False) -> Steps[str]:
        """Allows what that ask is about; `always`: and the like from now on, where the agent offers that.

        Raises NotFoundError for one that is over, UnsupportedError for what the agent does not offer, UsageError inside
        an agent's turn: an agent's rights are not for agents to widen.
        """
        from beam.api import asks

        if self.is_agent:
            raise UsageError(
                f"{self.me} is an agent, and can't approve what another asks", "a person can: beam asks", subject=ask_id
            )
        return (yield from asks.decide(self.context, ask_id, "approve", by=self.me, always=always))

    @waiting_verb
    def deny(self, ask_id: str, *, message: str | None = None, stop: bool = False) -> Steps[str]:
        """Denies what that ask is about. `message` is for the agent; `stop` ends its turn."""
        from beam.api import asks

        if self.turn is not None:
            whole = asks.find(self.context, ask_id)[1]
            return (yield from self.turn.deny(whole, self._clock, message=message, stop=stop))
        return (yield from asks.decide(self.context, ask_id, "deny", by=self.me, message=message, stop=stop))

    def default_access(self, agent: str, via: str | None) -> Access | None:
        """The access of a message from a person who sits at a terminal and says nothing of it: `ask`, where the face
        that runs it can; null leaves it to the agent."""
        from beam.turns.request import face_of

        settings = self.context.resolve(agent).settings
        if settings.access is not None or self.is_agent or self.context.is_exposed:
            return None
        adapter = registry.adapter(settings.adapter)
        return "ask" if "ask" in adapter.card.faces[face_of(adapter, via)].access else None

    def _whole(self, message_id: str) -> str:
        """The whole id, where this process may read the root; else the words as they are."""
        try:
            return self._find(message_id)[1]
        except DiskError:
            return message_id

    def _request(self, verb: Verb, message_id: str, text: str | None = None) -> Steps[str]:
        from beam.broker.requests import request

        place, whole = self._find(message_id)
        return (yield from request(self.context, place, verb, whole, by=self.me, text=text))

    @property
    def is_agent(self) -> bool:
        """Whether an agent calls, inside its turn."""
        return self.turn is not None or bool(self.environ.get("BEAM_AGENT"))

    @property
    def me(self) -> str:
        """Who calls: an agent's name inside its turn, else `human`."""
        return self.turn.agent if self.turn is not None else self.environ.get("BEAM_AGENT") or HUMAN

    # -- broker ----------------------------------------------------------------------------------------------------

    def serve(
        self,
        *,
        cap: int | None = None,
        poll: float = 1.0,
        poll_only: bool = False,
        grace: float = 30.0,
        write: Callable[[str], object] | None = None,
    ) -> None:
        """Serves all agents of this root here, until a signal says to stop. `poll` and `grace` are seconds; `write`
        gets what the broker has to say, in whole lines (None: stderr)."""
        self.check_person("serves a root")
        from beam.api import broker

        broker.serve(self.context, cap=cap, poll=poll, poll_only=poll_only, grace=grace, write=write or sys.stderr.write)

    def start_broker(self, *, cap: int | None = None, poll: float = 1.0, poll_only: bool = False) -> int:
        """Starts a detached broker; its pid."""
        self.check_person("starts a broker")
        from beam.api import broker

        return broker.start(self.context, cap=cap, poll=poll, poll_only=poll_only).owner.pid

    def stop_broker(self, *, grace: float = 30.0) -> int:
        """Stops the broker: politely, after `grace` seconds at once. The pid it had."""
        self.check_person("stops a broker")
        from beam.api import broker

        return broker.stop(self.context, grace=grace).owner.pid

    def broker(self) -> BrokerStatus | None:
        """How this root's broker is; None where none runs."""
        from beam.api import broker

        return broker.status(self.context)

    def broker_skew(self) -> str | None:
        """What to say where a broker of another version serves this root; None where all is well."""
        if self.turn is not None or not (self.home.root / "broker.json").exists():
            return None
        from beam.api import broker

        return broker.skew(self.context)

    def broker_unit(self) -> str:
        """A systemd user unit for this root's broker."""
        from beam.api import broker

        return broker.unit(self.context)

    # -- set up ----------------------------------------------------------------------------------------------------

    def roots(self) -> list[RootLine]:
        """All roots of this user, with the folder that each belongs to."""
        from beam.api import root

        return root.lines(self.environ)

    def root_notes(self) -> list[str]:
        """What a person should know about where this root lies, a sentence each; mostly nothing."""
        old, project = self.home.project / discovery.OLD_NAME, self.home.root / discovery.PROJECT_JSON
        if os.path.lexists(project) and not os.path.lexists(old) and discovery.exposed(self.home, self.environ) is None:
            return []
        from beam.api import root

        return list(root.notes(self.home, self.environ))

    def adoptable(self) -> list[Candidate]:
        """Other roots of this folder, with all that `adopt` would take over, to be shown before."""
        from beam.api import adopt

        return adopt.candidates(self.home, self._folder, self.environ)

    def adopt(self, candidate: Candidate) -> list[str]:
        """Moves the agents of another root of this folder into this one; what was done, in words."""
        from beam.api import adopt

        self.check_person("adopts a root")
        return adopt.adopt(self.home, candidate, self._folder, self.environ)

    @property
    def _folder(self) -> Path:
        """The project folder around the current folder, whatever the root says."""
        return discovery.project_folder(Path(os.path.realpath(self._cwd)), self.environ)

    def remove_root(self, path: Path, *, sure: bool = False) -> str:
        """Removes a root of this user with all that it holds; with `sure` also where messages wait."""
        from beam.api import root

        self.check_person("removes a root")
        return root.remove(path, self.environ, sure=sure)

    def look_at_folder(self) -> Looked:
        """All that agents would obey in this folder, and what of it was trusted."""
        from beam.api import trusting

        if not self.home.project.is_dir():
            raise NotFoundError(f"there is no folder {self.home.project}", "", subject=str(self.home.project))
        return trusting.look(self.context)

    def trust(self, looked: Looked | None = None) -> Path:
        """From now on this folder's files may run code, as they were when they were looked at; the folder. What waited
        for that goes on."""
        from beam.api import trusting

        self.check_person("trusts a folder")
        trusting.trust(self.context, looked or self.look_at_folder())
        return self.home.project

    def untrust(self) -> Path:
        """Takes that back. The folder."""
        self.check_person("trusts folders")
        from beam.trust import ledger

        ledger.untrust(self.home.project, self.environ)
        return self.home.project
