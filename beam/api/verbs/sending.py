"""Methods to make a message, check it, put it into its queue, and wait for its outcome."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType, structs

from beam.agents import registry
from beam.api.both import coroutine_verb, waiting_verb
from beam.api.verbs.opened import OpenedRoot, ignore
from beam.base.errors import NotFoundError, UnfinishedError, UnsupportedError, UsageError
from beam.base.steps import Steps, sleeping
from beam.broker.compose import HUMAN, Caller, compose
from beam.model.message import NAME, Access, Message, Options, SessionContext, with_fields
from beam.model.rule_lists import RuleLists
from beam.process.environment import fingerprint
from beam.root import discovery
from beam.root.paths import AgentPaths

if TYPE_CHECKING:
    from typing import Unpack

    from beam.api.deciding import OnAsk
    from beam.api.progress import Progress, Watched
    from beam.api.stream import Stream
    from beam.broker.put import Receiver
    from beam.conversations.recording import Recorder, ReplayMode
    from beam.model.events import Event
    from beam.model.message import OptionFields
    from beam.model.outcome import Outcome
    from beam.store.segment import Fold


class SendVerbs(OpenedRoot):
    """Send messages to agents."""

    _recorder: Recorder | None = None  # of `use_recording`
    _fold: Fold  # what `notes` read of an agent's journal, for the `deliver` that follows

    def message(
        self,
        agent: str,
        text: str,
        *,
        wait: bool = True,
        sender: str | None = None,
        attach: Sequence[Path] = (),
        options: Options | None = None,
        key: str | None = None,
        deadline: float | None = None,
        replies: int | None = None,
        **more: Unpack[OptionFields],
    ) -> Message:
        """Return the message that `send` would send, after all checks that are possible before sending.

        Takes the parameters of `send`, and `wait`: whether the sender waits for the answer. `replies` is how many
        successive answers are routed if the sender is an agent (None: as the limits say).

        Raises NotFoundError (no such agent; its CLI is missing), UntrustedError, UsageError, LimitError, DiskError, and
        TypeError for a keyword that is no field of `Options`.
        """
        from beam.broker.put import find_receiver

        wanted = with_fields(options, more, known=("sender", "attach", "options", "key", "deadline"))
        if self.is_agent and wanted.keep is not UNSET:
            self.check_person("keeps an agent's process")
        if self.turn is not None:
            return self.turn.message(
                agent,
                text,
                wait=wait,
                sender=sender,
                attach=attach,
                options=wanted,
                key=key,
                deadline=deadline,
                replies=replies,
                clock=self._clock,
            )
        if self.is_agent:
            raise UsageError(
                f"BEAM_AGENT is {self.me}, but this process does not belong to an agent's turn",
                "unset BEAM_AGENT if you are not inside an agent",
            )
        context = self.context.at_once()
        discovery.check_folder(self.home, self.environ)
        receiver = find_receiver(context, agent, wanted.access)
        if wanted.once and key is not None:
            raise UsageError(
                "--once and --key don't go together",
                "a --once message has a session of its own each time, and no first outcome to return",
            )
        self._check_access(wanted.access)
        self._check_rules(wanted.rules)
        if wanted.keep is not UNSET:
            self._check_keep(receiver, wanted, attaches=bool(attach))
        made = compose(
            agent,
            text,
            caller=Caller(),
            wait=wait,
            clock=self._clock,
            limits=context.config.limits,
            sender=sender,
            attach=attach,
            options=wanted,
            key=key,
            deadline=deadline,
            replies=replies,
            session_context=self._session_of(sender or HUMAN),
        )
        self._receivers = {made.id: receiver}
        return structs.replace(made, environment=fingerprint(self.environ, made.id))

    @coroutine_verb
    async def send(
        self,
        agent: str,
        text: str,
        *,
        sender: str | None = None,
        attach: Sequence[Path] = (),
        options: Options | None = None,
        key: str | None = None,
        deadline: float | None = None,
        seen: Callable[[Event], None] | None = None,
        on_ask: OnAsk | None = None,
        **more: Unpack[OptionFields],
    ) -> Outcome:
        """Send a text, wait for its turn, and return the outcome. A failed turn is an outcome, not an error.

        `options`, or its fields as keywords (`new=True, model="opus", timeout=60`), are the options of the turn. `seen`
        gets each event of the message as it is recorded. `attach` are files that go with the text. `key` makes the call
        idempotent: a message with the same key is sent once, and later calls return its outcome. `deadline` is the
        seconds until its turn must have begun. `sender` is the agent in whose name to send.

        `on_ask` decides what the agent asks for while it works: it gets each ask and returns `Allow(...)`, `Deny(...)`,
        True or False. It runs in a thread of its own, and may take its time. An ask for which it raises is denied.

        Raises NotFoundError (no such agent; its CLI is missing), UntrustedError, UsageError, LimitError, DiskError, and
        TypeError for a keyword that is no field of `Options`.
        """
        message = self.message(
            agent, text, sender=sender, attach=attach, options=options, key=key, deadline=deadline, **more
        )
        return await self.deliver.aio(message, seen, on_ask=on_ask)

    def stream(
        self,
        agent: str,
        text: str,
        *,
        sender: str | None = None,
        attach: Sequence[Path] = (),
        options: Options | None = None,
        key: str | None = None,
        deadline: float | None = None,
        on_ask: OnAsk | None = None,
        **more: Unpack[OptionFields],
    ) -> Stream[Outcome]:
        """Send a text and return its events as they come, for a `for` loop or `async for`; `result` is the outcome.

        Who leaves the loop early ends the turn. Takes the parameters of `send`, and raises what it raises: what keeps
        the message from being sent at once, the rest in the loop.
        """
        from beam.api.stream import Stream

        message = self.message(
            agent, text, sender=sender, attach=attach, options=options, key=key, deadline=deadline, **more
        )

        async def work(seen: Callable[[Event], None]) -> Outcome:
            return await self.deliver.aio(message, seen, on_ask=on_ask)

        return Stream(work, lambda: self._end(message.id))

    async def _end(self, message_id: str) -> None:
        """End the turn of a message, or withdraw it."""
        from beam.broker.requests import request

        with contextlib.suppress(NotFoundError, UnfinishedError):  # it has just ended by itself
            paths, whole = self._find(message_id)
            await sleeping(request(self.context, paths, "interrupt", whole, by=self.me))

    @coroutine_verb
    async def deliver(
        self,
        message: Message,
        seen: Callable[[Event], None] | None = None,
        *,
        on_ask: OnAsk | None = None,
    ) -> Outcome:
        """Send a message that `message` made and return its outcome; its events go to `seen` as they are recorded.
        `on_ask` decides what the agent asks for, as in `send`."""
        if on_ask is not None:
            self.check_person("decides what an agent asks for")
        if self.turn is not None:
            return await self.turn.deliver(message, self._clock)
        if self._recorder is not None:
            seen = self._recorder.beside(seen or ignore)
        if on_ask is None:
            outcome = await self._deliver(message, seen or ignore)
        else:
            from beam.api.deciding import Deciding

            deciding = Deciding(self.context, on_ask, seen or ignore, by=self.me)
            try:
                outcome = await self._deliver(message, deciding.event)
            finally:
                await deciding.close()
        if self._recorder is not None:
            self._recorder.check()
        return outcome

    async def _deliver(self, message: Message, seen: Callable[[Event], None]) -> Outcome:
        from beam.api.send import send

        paths = self._paths(message)
        if self.context.recordings is not None:
            from beam.conversations.alone import deliver_here

            return await deliver_here(self.context, paths, message, seen)
        fold = self.__dict__.pop("_fold", None)
        if fold is not None and fold.directory != paths.journal:
            fold = None
        hold = self._keeping.hold if self._keeping is not None else None
        receiver = self._receivers.pop(message.id, None)
        looked_at = receiver.looked_at if receiver is not None else None
        return await send(self.context, paths, message, seen, fold, looked_at=looked_at, hold=hold)

    def use_recording(
        self, *, record: Path | None = None, replay: Path | None = None, replay_mode: ReplayMode = "strict"
    ) -> None:
        """Write the turns that are sent from now on into the folder `record`, or answer from the folder `replay`.

        No agent runs in a replay, and no tool; its CLI need not be there. `strict`: only the same prompt is answered;
        `lenient`: else the agent's next turn; `fill`: else the agent runs, and its turn is added.
        """
        from beam.conversations.recording import Recorder, Replay

        self.check_person("records and replays turns")
        if replay is not None:
            self.__dict__["context"] = structs.replace(self.context, recordings=Replay(replay, replay_mode))
        if record is not None or replay_mode == "fill":
            folder = record or replay
            self._recorder = Recorder(folder, adds=True) if folder is not None else None

    @waiting_verb
    def put(self, message: Message) -> Steps[str]:
        """Put the message into its queue, make sure that a process runs it, and return its id.

        Returns immediately if the agent is held or no broker serves the root, otherwise after half a second at most.
        Raises LimitError for a full queue, DiskError.
        """
        from beam.broker import launch
        from beam.broker import registry as brokers
        from beam.broker.kept import until_let_go
        from beam.broker.put import put

        if self.turn is not None:
            return (yield from self.turn.put(message, self._clock))
        paths = self._paths(message)
        put(self.context, paths, message)
        if not self._is_mailbox(message.to):
            if paths.lane is None:
                yield from brokers.yield_to_broker(self.context, paths)
                yield from until_let_go(self.context, paths, message)
                if self._keeping is not None:
                    self._keeping.hold_now(paths)
            launch.ensure(self.context, paths)
        return message.id

    def default_access(self, agent: str, via: str | None, options: Collection[str] = ()) -> Access | None:
        """Return the access for a person at a terminal who gives none: `ask` if the turn's mode supports it and these
        options of the message (`agents.options.OPTIONS`); None leaves it to the agent's settings."""
        from beam.turns.request import face_of

        settings = self.context.config.resolve(agent).settings
        if settings.access is not None or self.is_agent or self.context.exposed:
            return None
        adapter = registry.adapter(settings.adapter)
        can = adapter.card.faces[face_of(adapter, via, "ask")]
        by_settings = (name for name in ("schema", "max_turns", "system") if getattr(settings, name) is not None)
        wanted = {*options, *by_settings, *(("budget",) if settings.budget_usd is not None else ())}
        return "ask" if "ask" in can.access and all(getattr(can, name) for name in wanted) else None

    def lend_key(self, message: Message, descriptor: int) -> None:
        """Let the turn of this message, which has `shield`, read its API key from this descriptor of the process. Only
        a turn that this process itself runs can. Raises UsageError for what is no open descriptor."""
        import os

        from beam.turns import lent

        try:
            os.fstat(descriptor)
        except OSError:
            raise UsageError(
                f"descriptor {descriptor} is not open", "like this: --key-fd 3 3< <(a command that prints the key)"
            ) from None
        os.set_inheritable(descriptor, False)
        lent.lend(message.id, descriptor)

    def notes(self, message: Message, *, waits: bool = True) -> list[str]:
        """Return what a person should know before this message is sent, as sentences; usually none.

        With `waits` also why the agent's messages do not run automatically now.
        """
        if self.turn is not None:
            return []
        from beam.broker.put import find_receiver
        from beam.process.environment import LOADER

        found = []
        agent, receiver = message.to, self._receivers.get(message.id)
        if receiver is None:
            receiver = find_receiver(self.context.at_once(), agent, message.options.access)
        if receiver.stands.by_variable:
            found.append("BEAM_TRUST=1: this folder's files take effect although nobody trusted them as they are")
        refused = sorted(LOADER.intersection(receiver.resolved.settings.env))
        found += [f"{name} of {agent}'s `env` is not set: it would run code in each process" for name in refused]
        if (self.home.root / "broker.json").exists():
            from beam.api import broker

            if message.options.keep is not UNSET and broker.status(self.context) is not None:
                found.append("a broker serves this root; it keeps processes by its own limits, whatever --keep says")
            found += filter(None, [broker.skew(self.context)])
        if waits:
            found += filter(None, [self._waiting_reason(message, receiver)])
        return found

    def _waiting_reason(self, message: Message, receiver: Receiver) -> str | None:
        """Return why this agent's messages do not run automatically now, to show to a waiting person; None if they
        do."""
        if "mailbox" in receiver.adapter.card.faces:
            return f"{message.to} is a mailbox; it answers when somebody does: beam recv {message.to}"
        from beam.broker import standing
        from beam.store.segment import Fold

        paths = self._paths(message)
        self._fold = Fold(paths.journal)
        if self._fold.state().paused:
            return f"the queue of {message.to} is paused; beam queue resume {message.to}"
        why = standing.waiting_reason(self.context, paths)
        return None if why is None else f"what waits for {message.to} stays waiting: {why}"

    def progress(self, message: Message | str) -> Callable[[], Progress | None] | None:
        """Return a function that returns the running turn of the queue in which this message (or the one with this id)
        waits.

        Return None inside a turn, whose process may not see the root.
        """
        if self.turn is not None:
            return None
        watched: Watched | None = None

        def where() -> AgentPaths:
            return self._paths(message) if isinstance(message, Message) else self._find(message)[0]

        def look() -> Progress | None:
            nonlocal watched
            if watched is None:
                from beam.api.progress import Watched  # most turns are over before anybody looks

                watched = Watched(where, self._clock)
            return watched.look()

        return look

    @staticmethod
    def _check_keep(receiver: Receiver, wanted: Options, *, attaches: bool) -> None:
        """Raise UsageError or UnsupportedError if no process can be kept."""
        from beam.turns.choice import BY_AUTO, why_not_kept
        from beam.turns.request import face_of

        if wanted.once:
            raise UsageError("--keep and --once don't go together", "a throw-away session has no next turn")
        agent, adapter = receiver.resolved.name, receiver.adapter
        settings = receiver.resolved.settings
        access: Access = wanted.access or settings.access or "read"
        face = face_of(adapter, wanted.via, access)
        if face not in ("dialogue", "terminal"):
            if wanted.via in BY_AUTO and not why_not_kept(adapter, wanted, settings, access, attaches=attaches):
                return
            others = [name for name in adapter.card.faces if name in ("dialogue", "terminal")]
            raise UnsupportedError(
                f"{agent}'s {face} mode has no process to keep",
                f"it has one with --via {' or '.join(others)}" if others else "leave --keep out",
                subject=agent,
            )

    def _check_access(self, access: Access | None) -> None:
        """Raise UsageError if agents may write in this root, because the requested access would then be lowered
        silently."""
        if access in (None, "read"):
            return
        where = discovery.exposed(self.home, self.environ)
        if where is not None:
            raise UsageError(
                f"--access {access} is refused in the root {self.home.root}: it is in {where}, where agents may "
                "write messages in your name",
                "keep the root elsewhere (no --root, or one outside; BEAM_STATE), or leave --access out",
                subject=str(self.home.root),
            )

    def _check_rules(self, lists: RuleLists | UnsetType) -> None:
        """Raise UsageError for an invalid rule, and for an allow rule in a root in which agents may write."""
        if lists is UNSET:
            return
        from beam.rules.ruleset import rules_of

        rules_of(lists, "")
        where = discovery.exposed(self.home, self.environ) if lists.allow else None
        if where is not None:
            raise UsageError(
                f"no rule allows anything in the root {self.home.root}: it lies in {where}, where agents may write "
                "messages in your name",
                "keep the root elsewhere (no --root, or one outside; BEAM_STATE), or leave --allow out",
                subject=str(self.home.root),
            )

    def _session_of(self, sender: str) -> SessionContext:
        if sender == HUMAN or not NAME.match(sender) or sender not in self.home.agents():
            return SessionContext()
        from beam.store.segment import read_state

        state = read_state(self.home.agent(sender).journal)
        return SessionContext(
            session_id=state.session.session_id if state.session else None, turn_number=state.turn or None
        )

    def _paths(self, message: Message) -> AgentPaths:
        lane = message.id.rpartition("-")[2] if message.options.once else None
        return self.context.agent_paths(message.to, lane)

    def _is_mailbox(self, agent: str) -> bool:
        return "mailbox" in registry.adapter(self.context.config.resolve(agent).settings.adapter).card.faces
