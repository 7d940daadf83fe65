"""Serves one agent under its lease: runs its messages, and keeps its process between turns for as long as a message
asked (`beam send --keep`).

A server that keeps a process does not run a message that was sent from another environment, or that needs another
process. It closes the kept process and releases the lease, so that the message's sender can run the message. A server
also ends when a broker begins to serve the root.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine

from beam.base.errors import BeamError
from beam.broker.asking.kept import keep_seconds
from beam.broker.holder import duty, registry, stranded
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.build_request import plan_turn
from beam.broker.serving.reload import ConfigWatch
from beam.broker.serving.wake import Wake
from beam.model import events
from beam.model.message import Message
from beam.process.program import fingerprint
from beam.root.paths import AgentPaths
from beam.store.lock import is_free
from beam.store.queue import Queue
from beam.turns.handle import Stop
from beam.turns.process import ReuseKey
from beam.turns.run import may_run_in_kept_process

_POLL_S = 0.2
_SENDERS_S, _SENDERS_LOOK_S = 5.0, 0.1  # on a busy machine a worker needs seconds to start
_CHECK_S = 1.0  # between checks for what no notification reports: a root that is gone, a broker whose file was missed


class Server:
    """Runs the messages of one agent under its lease. `declined` are the ids of messages that were left for their
    senders to run. With `keeps`, the process of every turn is kept until the server ends; without `keeps`, a process is
    kept only if its message asks for that."""

    def __init__(self, lease: AgentLease, stop: Stop, declined: set[str], *, keeps: bool = False) -> None:
        self._lease = lease
        self._stop = stop
        self._declined = declined
        self._keeps = keeps
        self._config = ConfigWatch(lease.log.context, _ignore_line)
        self._wake = Wake()

    async def serve(self) -> bool:
        """Run waiting messages until no message may be claimed and no process is kept, or until `stop` is requested.

        Return whether a message was left for its sender to run.
        """
        lease = self._lease
        paths = lease.log.paths
        for directory in (paths.queue / "new", paths.control / "new", lease.log.context.home.root):
            self._wake.watch(directory)
        self._wake.on_change = lease.wake_turn
        lease.calls.on_answer = self._handle_answer
        lease.keeper.on_exit = self._wake.end_wait
        try:
            return await self._serve()
        finally:
            self._wake.close()
            lease.keeper.on_exit = _do_nothing
            await lease.end_kept_process("its holder ends", hard=lambda: self._stop.hard)

    async def _serve(self) -> bool:
        lease, keeper = self._lease, self._lease.keeper
        while self._stop.reason is None:
            lease.log.context = self._config.read_again(lease.log.context, retry=False) or lease.log.context
            due = duty.step(lease)
            if due.blocked is not None or lease.is_wanted:
                return False
            if keeper.process is not None:
                why_let_go = self._why_release()
                why = why_let_go or lease.why_kept_ends()
                if why:
                    await lease.end_kept_process(why, hard=lambda: self._stop.hard)
                    if why_let_go or not lease.is_in_place():  # a message that came meanwhile is the broker's
                        return False
                    continue
            if due.entries:
                entry = due.entries[0]
                message = lease.waiting.read(entry)
                if message is None:
                    continue
                why = self._why_left_to_sender(message)
                if why:
                    self._declined.add(message.id)
                    await lease.end_kept_process(why, hard=lambda: self._stop.hard)
                    return True
                await duty.run_first(lease, duty.DueWork(entries=[entry]), self._stop, begun=self._handle_begin)
                if keeper.process is not None:
                    # As long as the process is kept, no other process releases the agent and does this.
                    stranded.start_lane_workers(lease.log.context, lease.log.paths)
            elif keeper.process is not None:
                await self._wait_for_first(self._wake.wait(self._pause_s()), self._stop.wait(_CHECK_S))
            elif due.pause_s:
                await self._stop.wait(min(due.pause_s, _POLL_S))
            else:
                return False
        return False

    def _handle_answer(self) -> None:
        self._lease.wake_turn()
        self._wake.end_wait()

    def _why_release(self) -> str:
        """Return why the lease must be released even if the kept process could stay; "" if it need not be."""
        lease = self._lease
        if not lease.is_in_place():
            return "the root is gone"
        if registry.broker_serves_root(lease.log.context.home):
            return "a broker serves the agent from now on"
        return ""

    def _pause_s(self) -> float:
        due, now = self._lease.keeper.next_check(), self._lease.log.context.clock.monotonic()
        return _CHECK_S if due is None else max(0.0, min(_CHECK_S, due - now))

    async def _wait_for_first(self, *waits: Coroutine[None, None, None]) -> None:
        """Wait until one of these coroutines has finished, and cancel the others."""
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- which messages are run --------------------------------------------------------------------------------------

    def _why_left_to_sender(self, message: Message) -> str:
        """Return why this message is left for its sender to run; "" if this process may run it."""
        keeper = self._lease.keeper
        if message.id in self._declined:  # nobody took it: it is run here rather than never
            return ""
        keeps = self._keeps or keeper.process is not None or keep_seconds(message) is not None
        if keeps and not has_sender_environment(message, self._lease):
            return "the next turn comes from another environment"
        if keeper.process is not None and keeper.key is not None and not self._may_run_in(keeper.key, message):
            return "the next turn wants another session or other settings"
        return ""

    def _may_run_in(self, key: ReuseKey, message: Message) -> bool:
        """Return whether the kept process with this key may run the turn of this message."""
        try:
            order = plan_turn(self._lease.log, message, self._lease.waiting.last_check)
        except BeamError:
            return True  # its turn says what is wrong
        return may_run_in_kept_process(order, key)

    def _handle_begin(self, message: Message) -> None:
        """Keep the process if the claimed message asks for that. If the message runs in another environment than its
        sender's, record a notice."""
        keeper, seconds = self._lease.keeper, math.inf if self._keeps else keep_seconds(message)
        keeper.keeps = keeper.process is not None
        if seconds is not None and self._why_release() == "":
            keeper.grant(seconds)
        if message.id in self._declined and not has_sender_environment(message, self._lease):
            text = "it runs in the environment of an earlier sender, for its own is gone"
            self._lease.log.record(events.Notice(code="environment", text=text), message_id=message.id)


async def wait_for_sender(paths: AgentPaths) -> None:
    """Wait until another process holds the agent (the sender of the declined message, or a broker), or until no message
    waits any more; at most five seconds."""
    queue = Queue(paths.queue, paths.put_lock)
    for _ in range(round(_SENDERS_S / _SENDERS_LOOK_S)):
        await asyncio.sleep(_SENDERS_LOOK_S)
        if not is_free(paths.lock) or next(queue.each("new"), None) is None:
            return


def has_sender_environment(message: Message, lease: AgentLease) -> bool:
    """Return whether this process has the same environment as the message's sender, or the message accepts any
    environment."""
    wanted = message.environment
    return wanted is None or wanted == fingerprint(lease.log.context.environ, message.id)


def _ignore_line(text: str) -> None:
    """Ignore a line of the log, because the next command reports what is wrong with the configuration."""


def _do_nothing() -> None:
    """Do nothing. This function replaces the callback of a holder that has ended."""
