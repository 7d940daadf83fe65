"""The agents of a run.

Each agent of a run has its own session, and this process holds the agent until the run is over. The agent's process is
kept between turns if possible. To other processes, it is an ordinary held agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from beam.agents import registry
from beam.agents.base import Adapter
from beam.base import files
from beam.base.errors import BeamError, NotFoundError, SignalledError, UnfinishedError, UntrustedError
from beam.broker.holder import duty
from beam.broker.holder.lease import AgentLease
from beam.broker.holder.turn import run
from beam.broker.inbox import closing
from beam.broker.inbox.compose import Caller, compose
from beam.broker.inbox.context import RootContext
from beam.broker.inbox.log import ignore_event
from beam.broker.inbox.put import put
from beam.broker.serving.kind import RUN
from beam.broker.serving.server import Server
from beam.model.events import Event
from beam.model.message import RUN_ACTOR, Message, Options, base_of
from beam.model.outcome import Outcome, Status
from beam.model.state import DEAD
from beam.process import tree
from beam.process.owned import owner_text
from beam.process.program import fingerprint
from beam.root import discovery
from beam.root.paths import AgentPaths
from beam.store.journal import read_state
from beam.turns.choice import AUTO_MODES, face_of
from beam.turns.handle import Stop, on_stop_signals

_PATIENCE_S = 2.0  # how long another process may still hold an agent
_LONGEST_PAUSE_S = 0.2
_REPORTED_FIGURES = ("tokens", "cost", "calls", "tools", "denials")  # capabilities
OnEvent = Callable[[Event], None]


class HeldAgents:
    """The agents of one run. If the run has a `name`, each agent speaks in the session AGENT@NAME. The agents in
    `multi_turn` take several turns. The process of such an agent is kept for the next turn in dialogue mode, if that
    mode reports as much as the headless mode."""

    def __init__(self, context: RootContext, name: str = "", *, multi_turn: frozenset[str] = frozenset()) -> None:
        self.context = context
        self._multi_turn = multi_turn
        self._name = name
        self._spoken: set[AgentPaths] = set()  # the agents to which a message was sent in this run
        self._stops: set[Stop] = set()
        self._why_stopped: tuple[str, bool] | None = None
        self._me = owner_text(tree.this_process())
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    def session(self, agent: str) -> str:
        """Return the name that this agent has in queues and journals during the run."""
        return f"{agent}@{self._name}" if self._name else agent

    def stop(self, by: str) -> None:
        """End all turns politely, and refuse new ones; a second call ends them immediately."""
        self._why_stopped = (by, self._why_stopped is not None)
        for stop in self._stops:
            stop.request("cancelled", by=by)

    @property
    def stopped_by(self) -> str:
        """Return why no more turns are run; "" as long as turns are run."""
        return self._why_stopped[0] if self._why_stopped is not None else ""

    async def say(self, agent: str, text: str, options: Options, seen: OnEvent, stop: Stop | None = None) -> Outcome:
        """Send a text to the agent, run its turn in this process and return the outcome. `seen` is called with each
        event of the message. A request to `stop` ends the turn.

        Raises NotFoundError, UntrustedError, LimitError or UsageError if the message is refused, and DiskError.
        """
        context, paths, asked = self.context, self.context.agent_paths(self.session(agent)), stop or Stop()

        async def work(lease: AgentLease) -> Outcome:
            state = lease.log.state
            is_new = paths not in self._spoken and (state.session is not None or state.fork is not None)
            message = compose(
                paths.agent,
                text,
                caller=Caller(),
                wait=True,
                clock=context.clock,
                limits=context.config.limits,
                options=msgspec.structs.replace(options, new=is_new),
            )
            message = msgspec.structs.replace(
                message, actor=f"{RUN_ACTOR}{self._name}", environment=fingerprint(context.environ, message.id)
            )
            return await self._run(lease, message, seen, asked)

        return await self._lend(paths, work, asked)

    async def deliver(self, message: Message, paths: AgentPaths, seen: OnEvent) -> Outcome:
        """Put this message into the agent's queue, run its turn in this process and return the outcome. `seen` is
        called with each event of the message."""
        stop = Stop()
        return await self._lend(paths, lambda lease: self._run(lease, message, seen, stop), stop)

    async def close(self) -> None:
        """End the kept processes, and release all agents."""
        server, self._server = self._server, None
        if server is None or self._serving is None:
            return
        for served in server.roster.all() if self._is_replay else ():
            if served.lease is not None:
                with contextlib.suppress(BeamError):
                    served.lease.log.journal.sync()
        server.ask_to_stop()
        await self._serving

    async def _lend(
        self, paths: AgentPaths, work: Callable[[AgentLease], Coroutine[Any, Any, Outcome]], stop: Stop
    ) -> Outcome:
        """Run this work under the agent's lease."""
        if self._server is None:
            discovery.remember_root(self.context.home, self.context.environ)
            # A replayed turn is over too soon for a request.
            self._server = Server(self.context, RUN, say=lambda line: None, poll_only=self._is_replay)
            self._serving = asyncio.get_running_loop().create_task(self._server.serve())
        return await self._server.lend(paths, work, stop, patience_s=_PATIENCE_S)

    async def _run(self, lease: AgentLease, message: Message, seen: OnEvent, stop: Stop) -> Outcome:
        agent = lease.log.paths.agent
        if lease.blocked is not None:
            raise UnfinishedError(f"{agent} is blocked: {lease.blocked}", f"beam agent unblock {agent}")
        message = msgspec.structs.replace(message, only_by=self._me)
        self._stops.add(stop)
        if self._why_stopped is not None:
            stop.request("cancelled", by=self._why_stopped[0])

        def watch(event: Event) -> None:
            if event.message_id == message.id:
                seen(event)

        lease.log.watcher = watch
        try:
            with files.without_sync() if self._is_replay else contextlib.nullcontext():
                put(self.context, lease.log.paths, message)
                self._spoken.add(lease.log.paths)
                try:
                    return await self._run_until_over(lease, message.id, stop, via=message.options.via)
                except BaseException as error:
                    with contextlib.suppress(BeamError):  # the first error says more
                        why = error.message if isinstance(error, BeamError) else "the run was ended"
                        _drop_message(lease, message.id, why)
                    raise
        finally:
            self._stops.discard(stop)
            lease.log.watcher = ignore_event

    async def _run_until_over(self, lease: AgentLease, message_id: str, stop: Stop, *, via: str | None) -> Outcome:
        """Run the message until it has an outcome. If the policy asks for a retry, run it again. A message that still
        waits when `stop` is asked for is dropped."""
        agent = lease.log.paths.agent
        while True:
            due = duty.step(lease)
            if due.blocked is not None or due.untrusted is not None:
                why = due.untrusted or due.blocked or ""
                raise UntrustedError(f"{agent}: {why}", "beam trust", subject=agent)
            entry = next((each for each in due.entries if each.id == message_id), None)
            if entry is not None:
                if self._keeps_process(agent, via):
                    lease.keeper.grant(math.inf)
                claimed = lease.waiting.claim(entry)
                outcome = await run(lease, *claimed, stop) if claimed is not None else None
                if outcome is not None:
                    return outcome
            if stop.reason is not None:
                _drop_message(lease, message_id, f"stopped by {stop.by}, while it waited")
            from beam.broker.asking.follow import outcome_in

            found = outcome_in(lease.log.paths, read_state(lease.log.paths.journal), message_id)
            if found is not None:
                return found
            if lease.log.state.paused:
                raise UnfinishedError(f"the queue of {agent} is paused", f"beam queue resume {agent}", subject=agent)
            if lease.log.queue.find(message_id) is None:
                raise NotFoundError(f"{message_id} is gone: somebody removed it", "run the scenario again")
            await stop.wait(min(due.pause_s or _LONGEST_PAUSE_S, _LONGEST_PAUSE_S))

    @property
    def _is_replay(self) -> bool:
        """Return whether recordings answer every message, so that no agent runs."""
        return self.context.recordings is not None and not self.context.recordings.needs_agents

    def _keeps_process(self, agent: str, via: str | None) -> bool:
        """Return whether the agent's process is kept after a turn in the mode `via`, for the next turn."""
        if self._is_replay:
            return False
        adapter = registry.adapter(self.context.config.resolve(agent).settings.adapter)
        try:
            if face_of(adapter, via) in ("dialogue", "terminal"):
                return True
        except BeamError:
            return False
        is_returning = via in AUTO_MODES and base_of(agent) in self._multi_turn
        return is_returning and dialogue_reports_as_much(adapter)


async def deliver_here(context: RootContext, paths: AgentPaths, message: Message, seen: OnEvent) -> Outcome:
    """Run one message in this process instead of in a worker, because only this process has the recorded answer. Return
    the outcome. `seen` is called with each event of the message.

    Raises UnfinishedError if another process holds the agent, SignalledError after a signal.
    """
    agents = HeldAgents(context)
    with on_stop_signals(lambda: agents.stop("human (signal)")) as came:
        await asyncio.sleep(0)
        try:
            outcome = await agents.deliver(message, paths, seen)
        finally:
            await agents.close()
    if came:
        raise SignalledError(came[0], outcome)
    return outcome


def dialogue_reports_as_much(adapter: Adapter) -> bool:
    """Return whether the adapter's dialogue mode reports everything that its headless mode reports for the checks and
    limits of a run: tokens, cost, calls, tools, denials."""
    faces = adapter.card.faces
    protocol, headless = faces.get("dialogue"), faces.get("exec")
    if protocol is None or headless is None:
        return False
    return all(getattr(protocol, name) or not getattr(headless, name) for name in _REPORTED_FIGURES)


def _drop_message(lease: AgentLease, message_id: str, why: str) -> None:
    """Drop the message if it still waits. Else a worker would run it after the run, without the run's settings."""
    entry = lease.log.queue.find_in("new", message_id)
    message = lease.waiting.read(entry) if entry is not None else None
    if entry is None or message is None:
        return
    known = lease.log.state.known.get(message_id)
    if known is not None and known.phase == DEAD and known.attempt == message.attempt:
        return  # an interrupted dead letter: the next holder finishes it
    closing.dead_letter(lease.log, entry, message, closing.DROPPED, why, status=Status.CANCELLED)
