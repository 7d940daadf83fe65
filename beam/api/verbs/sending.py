"""Methods to put a message into its queue, to wait for its outcome, and to follow what happens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import UNSET, structs

from beam.agents import registry
from beam.api.methods import agent_names, coroutine_verb, waiting_verb
from beam.api.verbs.composing import ComposeVerbs
from beam.api.verbs.opened import OpenedRoot, ignore
from beam.base import durations
from beam.base.clock import Steps, run_async, run_blocking
from beam.base.errors import BeamError, NotFoundError, UnfinishedError, UsageError
from beam.model.message import Message, Options
from beam.root.paths import AgentPaths

if TYPE_CHECKING:
    from typing import Unpack

    from beam.api.deciding import OnAsk
    from beam.api.messages import PendingMessage
    from beam.api.progress import Progress, QueueProgress
    from beam.api.stream import Stream
    from beam.api.waits import AwaitedState
    from beam.model.events import Event
    from beam.model.message import Message, OptionFields, Recording
    from beam.model.outcome import Outcome


class FollowVerbs(OpenedRoot):
    """Wait for outcomes, and answer as a mailbox."""

    @waiting_verb
    def wait(
        self, message_id: str, *, timeout: float | str | None = None, seen: Callable[[Event], None] | None = None
    ) -> Steps[Outcome]:
        """Wait for a message and return its outcome. Raises UnfinishedError after `timeout` seconds; the message is
        not stopped."""
        from beam.broker.asking.follow import follow

        paths, whole = self._find(message_id)
        outcome = yield from follow(
            self.context,
            paths,
            whole,
            seen=seen or ignore,
            timeout=durations.seconds(timeout),
            looks_only=self.is_agent,
            is_sender=False,
        )
        assert outcome is not None
        return outcome

    @waiting_verb
    def wait_several(
        self,
        message_ids: Sequence[str],
        *,
        only_first: bool = False,
        timeout: float | str | None = None,
        seen: Callable[[Event], None] | None = None,
        ended: Callable[[Outcome], None] | None = None,
    ) -> Steps[list[Outcome]]:
        """Wait for several messages and return their outcomes in the order in which they ended. `ended` is called with
        each outcome.

        With `only_first`, wait only for the first message that ends. Raises UnfinishedError after `timeout` seconds; no
        message is stopped.
        """
        from beam.api.waits import run_waits
        from beam.broker.asking.follow import follow

        outcomes: list[Outcome] = []

        def came(_: int, outcome: Outcome | None) -> None:
            if outcome is not None:
                outcomes.append(outcome)
                if ended is not None:
                    ended(outcome)

        found = [self._find(each) for each in dict.fromkeys(message_ids)]
        waits = [
            follow(
                self.context,
                paths,
                whole,
                seen=seen or ignore,
                timeout=durations.seconds(timeout),
                looks_only=self.is_agent,
                is_sender=False,
            )
            for paths, whole in {whole: (paths, whole) for paths, whole in found}.values()
        ]
        yield from run_waits(waits, only_first=only_first, ended=came)
        return outcomes

    @waiting_verb
    def wait_until(
        self,
        agents: Sequence[str],
        until: AwaitedState,
        *,
        only_first: bool = False,
        timeout: float | str | None = None,
    ) -> Steps[dict[str, Outcome | None]]:
        """Wait until these agents are `idle` or `asking`, or until a turn of each has `finished`. With `only_first`,
        wait only for the first agent. Return the agents, each with the outcome of its ended turn, if any.

        Raises UnfinishedError after `timeout` seconds, NotFoundError for an agent that was never used.
        """
        from beam.api.waits import run_waits, wait_for_state

        names = list(dict.fromkeys(agent_names(agents)))
        all_paths = [self._existing_paths(name) for name in names]
        found: dict[str, Outcome | None] = {}
        waits = [
            wait_for_state(self.context, paths, until, timeout=durations.seconds(timeout), looks_only=self.is_agent)
            for paths in all_paths
        ]
        yield from run_waits(waits, only_first=only_first, ended=lambda at, outcome: found.update({names[at]: outcome}))
        return found

    def are_idle(self, agents: Sequence[str] = ()) -> bool:
        """Return whether these agents (default: all agents here) have no running turn and no waiting message."""
        from beam.api.waits import is_idle

        return all(is_idle(self.home.agent(name)) for name in self._existing_names(agents) or self.home.agents())

    def show(self, message_id: str) -> Outcome | PendingMessage:
        """Return the outcome of a message, or its state so far. Raises NotFoundError."""
        from beam.api.messages import find_outcome

        return find_outcome(*self._find(message_id))

    @waiting_verb
    def recv(
        self, agent: str, *, lease: float | str | None = None, timeout: float | str | None = 0.0
    ) -> Steps[Message | None]:
        """Take the next message of a mailbox and return it; None if no message comes within `timeout` seconds (None:
        wait as long as it takes). The caller has the message for `lease` seconds (None: as in the agent's settings)."""
        self.check_person("takes messages of a mailbox")
        from beam.broker.asking.mailbox import recv

        began, held_s, most_s = self._clock.monotonic(), durations.seconds(lease), durations.seconds(timeout)
        while (message := recv(self.context, self.context.agent_paths(agent), held_s)) is None:
            if most_s is not None and self._clock.monotonic() - began >= most_s:
                return None
            yield 0.05
        return message

    def reply(self, message_id: str, text: str, *, failed: bool = False) -> Outcome:
        """Answer a message that `recv` returned, and return the message's outcome.

        With `failed`, the text is the reason for a failure.
        """
        from beam.broker.asking.mailbox import reply

        if self.turn is not None:
            answered: Outcome = run_blocking(self.turn.reply(message_id, text, self._clock, failed=failed))
            return answered
        paths, whole = self._find(message_id)
        return reply(self.context, paths, whole, text, failed=failed)


class SendVerbs(ComposeVerbs):
    """Send messages to agents."""

    _unstarted: Mapping[str, str] = MappingProxyType({})  # by message id: why no process could be started for it

    @coroutine_verb
    async def send(
        self,
        agent: str,
        text: str,
        *,
        sender: str | None = None,
        attach: Sequence[Path | str] = (),
        options: Options | None = None,
        key: str | None = None,
        deadline: float | str | None = None,
        seen: Callable[[Event], None] | None = None,
        on_ask: OnAsk | None = None,
        **more: Unpack[OptionFields],
    ) -> Outcome:
        """Send a text, wait for its turn, and return the outcome. A failed turn is an outcome, not an error.

        `options`, or its fields as keywords (`new=True, model="opus", timeout=60`), are the options of the turn. `seen`
        is called with each event of the message as it is recorded. `attach` are files that go with the text. `key`
        makes the call idempotent: a message with the same key is sent once, and later calls return its outcome.
        `deadline` is the number of seconds within which the turn must begin. `sender` is the agent in whose name the
        message is sent.

        `on_ask` decides the agent's permission requests during the turn: it is called with each request and returns
        `Allow(...)`, `Deny(...)`, True or False. It runs in a thread of its own, so it may block. If it raises an
        error, the request is denied.

        Raises NotFoundError (no such agent; its CLI is missing), UntrustedError, UsageError, LimitError, DiskError, and
        TypeError for a keyword that is not a field of `Options`.
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
        attach: Sequence[Path | str] = (),
        options: Options | None = None,
        key: str | None = None,
        deadline: float | str | None = None,
        on_ask: OnAsk | None = None,
        **more: Unpack[OptionFields],
    ) -> Stream[Outcome]:
        """Send a text and return its events as they come, for a `for` loop or `async for`; `result` is the outcome.

        Leaving the loop early ends the turn. Takes the parameters of `send` and raises the same errors. An error in the
        checks before sending is raised immediately, any other error in the loop.
        """
        from beam.api.stream import Stream

        message = self.message(
            agent, text, sender=sender, attach=attach, options=options, key=key, deadline=deadline, **more
        )

        async def work(seen: Callable[[Event], None]) -> Outcome:
            return await self.deliver.aio(message, seen, on_ask=on_ask)

        return Stream(work, lambda: self._end_turn(message.id))

    async def _end_turn(self, message_id: str) -> None:
        """End the turn of a message, or withdraw it."""
        from beam.broker.asking.requests import request

        with contextlib.suppress(NotFoundError, UnfinishedError):  # it has just ended on its own
            paths, whole = self._find(message_id)
            await run_async(request(self.context, paths, "interrupt", whole, by=self.me))

    @coroutine_verb
    async def deliver(
        self,
        message: Message,
        seen: Callable[[Event], None] | None = None,
        *,
        on_ask: OnAsk | None = None,
    ) -> Outcome:
        """Send a message that `message` made and return its outcome. `seen` is called with each event of the message as
        it is recorded. `on_ask` decides the agent's permission requests, as in `send`."""
        if on_ask is not None:
            self.check_person("decides what an agent asks for")
        if self.turn is not None:
            return await self.turn.deliver(message, self._clock)
        if on_ask is None:
            return await self._deliver(message, seen or ignore)
        from beam.api.deciding import AskDecider

        deciding = AskDecider(self.context, on_ask, seen or ignore, by=self.me)
        try:
            return await self._deliver(message, deciding.event)
        finally:
            await deciding.close()

    async def _deliver(self, message: Message, seen: Callable[[Event], None]) -> Outcome:
        from beam.api.send import send

        recording = message.options.recording
        if recording is not UNSET and recording.of_turns:
            return await self._deliver_recorded(message, recording, seen)
        read = self.__dict__.pop("_read", None)
        if read is not None and read.message_id != message.id:
            read = None
        paths = self._receiver_paths(message) if read is None else read.paths
        fold = None if read is None else read.fold
        hold = self._keeping.hold if self._keeping is not None else None
        receiver = self._receivers.pop(message.id, None)
        looked_at = receiver.looked_at if receiver is not None else None
        return await send(self.context, paths, message, seen, fold, looked_at=looked_at, hold=hold)

    async def _deliver_recorded(self, message: Message, recording: Recording, seen: Callable[[Event], None]) -> Outcome:
        """Deliver the message; record its turn, or take its answer from the recorded turns."""
        from beam.conversations.held import deliver_here
        from beam.conversations.recording import Recorder, Replay

        left = structs.replace(recording, depth="model") if recording.of_model else UNSET
        message = structs.replace(message, options=structs.replace(message.options, recording=left))
        recorder = None
        if recording.record or recording.on_miss == "live":
            recorder = Recorder(Path(recording.folder), adds=True)
            seen = recorder.beside(seen)
        if recording.replay:
            if recording not in self._replays:  # each recorded turn answers once
                self._replays[recording] = Replay(Path(recording.replay), recording.on_miss)
            context = structs.replace(self.context, recordings=self._replays[recording])
            outcome = await deliver_here(context, self._receiver_paths(message), message, seen)
        else:
            outcome = await self._deliver(message, seen)
        if recorder is not None:
            recorder.check()
        return outcome

    @waiting_verb
    def put(self, message: Message) -> Steps[str]:
        """Put the message into its queue, make sure that a process runs it, and return its id.

        Returns within half a second, or within six seconds if the agent's holder must end a kept process first. If no
        process can be started now, the message waits, and `wait` runs it; `unstarted_reason` says why. Raises
        LimitError for a full queue, DiskError.
        """
        from beam.broker.asking.requests import wait_until_released
        from beam.broker.holder import registry as brokers
        from beam.broker.inbox import launch
        from beam.broker.inbox.put import put

        if self.turn is not None:
            return (yield from self.turn.put(message, self._clock))
        _check_needs_no_sender(message)
        paths = self._receiver_paths(message)
        put(self.context, paths, message)
        why = ""
        try:
            if not self._is_mailbox(message.to):
                if paths.lane is None:
                    yield from brokers.yield_to_broker(self.context, paths)
                    yield from wait_until_released(self.context, paths, message)
                    if self._keeping is not None:
                        self._keeping.hold_now(paths)
                launch.ensure_worker(self.context, paths)
        except (BeamError, OSError) as error:  # the message is queued; after an error, the caller would send it again
            why = str(error)
        if why or message.id in self._unstarted:
            self._unstarted = {**self._unstarted, message.id: why}
        return message.id

    def unstarted_reason(self, message_id: str) -> str:
        """Return why `put` could start no process for this message, as text; "" if it could, or did not need to."""
        return self._unstarted.get(message_id, "")

    def progress(self, message: Message | str) -> Callable[[], Progress | None] | None:
        """Return a function that returns the progress of the running turn in the queue in which this message waits.
        `message` is a message or its id. The function returns None while no turn runs.

        Inside an agent's turn, return None, because a process there may not be allowed to read the root.
        """
        if self.turn is not None:
            return None
        watched: QueueProgress | None = None

        def where() -> AgentPaths:
            return self._receiver_paths(message) if isinstance(message, Message) else self._find(message)[0]

        def look() -> Progress | None:
            nonlocal watched
            if watched is None:
                from beam.api.progress import QueueProgress  # most turns are over before anybody looks

                watched = QueueProgress(where, self._clock)
            return watched.look()

        return look

    def _is_mailbox(self, agent: str) -> bool:
        return "mailbox" in registry.adapter(self.context.config.resolve(agent).settings.adapter).card.faces


def _check_needs_no_sender(message: Message) -> None:
    """Raise UsageError for a message whose turn only a process that waits for it can run."""
    options = message.options
    if options.recording is not UNSET and options.recording.of_turns:
        raise UsageError(
            "--no-wait and a recording of turns don't go together", "nobody would be there to record or answer"
        )
    if options.shield is not UNSET and options.shield.startswith("fd:"):
        raise UsageError("--no-wait and --shield fd:N don't go together", "the descriptor ends with this process")
