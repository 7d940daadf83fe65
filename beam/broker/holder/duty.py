"""The duty of a process that holds an agent's lease: to answer requests, check waiting messages, dead-letter expired
messages, run messages, and hand the lease over.

Every kind of holder calls the same `step`: a sender, a process that waits for an outcome, a worker, the broker, and the
commands on a mailbox.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from beam.base.errors import UnfinishedError
from beam.broker.holder.control import answer_requests
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.context import RootContext, is_mailbox
from beam.model.message import Message
from beam.root.paths import AgentPaths
from beam.store.queue import Entry

if TYPE_CHECKING:
    from beam.turns.handle import Stop


_ROOM_S = 0.25  # until a holder that waits for room looks again


class DueWork(Struct, frozen=True, kw_only=True):
    """The result of a step. `entries`: the messages that may be claimed now, in order (always empty for a mailbox).

    `pause_s`: seconds until the next message may be claimed; None if no message waits, or if waiting alone does not
    help. `deadline_s`: seconds until the next deadline of a waiting message passes; None if no message has one, or if a
    message may be claimed. `untrusted`: why the next message waits until a person trusts the folder; None if it does
    not. `blocked`: why the agent may run nothing; None if it is not blocked.
    """

    entries: Sequence[Entry] = ()
    pause_s: float | None = None
    deadline_s: float | None = None
    untrusted: str | None = None
    blocked: str | None = None


def step(lease: AgentLease, *, about: str | None = None, trusted: str | None = None) -> DueWork:
    """Answer the waiting requests, check the waiting messages, and dead-letter the expired messages.

    If a message may be claimed, expired messages are left alone, because the turn of that message dead-letters them. In
    a mailbox, only the message with the id `about` is checked, because many messages may wait there for a long time.
    `trusted` is the id of a message whose folder was checked a moment ago: this step does not check the folder for it
    again, but its turn does. Raises DiskError.
    """
    if lease.blocked is not None:
        return DueWork(blocked=lease.blocked)
    answer_requests(lease)
    waiting = lease.waiting
    settings = lease.log.context.settings_of(lease.log.paths.agent)
    if is_mailbox(settings):
        if about is not None:
            waiting.check_message(about)
        return DueWork()
    entries = waiting.scan()
    pause_s = waiting.pause_s(entries[0], settings) if entries else None
    untrusted = waiting.why_waits_for_trust(entries[0]) if pause_s == 0 and entries[0].id != trusted else None
    if pause_s == 0 and untrusted is None:
        if _has_room(lease, entries[0]):
            return DueWork(entries=entries, pause_s=0)
        pause_s = _ROOM_S
    else:
        lease.leave_room()
    deadline_s = waiting.expire()
    return DueWork(pause_s=None if untrusted is not None else pause_s, deadline_s=deadline_s, untrusted=untrusted)


def _has_room(lease: AgentLease, entry: Entry) -> bool:
    """Return whether the message may run beside those that run now. One for which another turn waits may always, or
    both would wait for ever."""
    most = lease.log.context.config.limits.agents
    if most == math.inf:
        return True
    message = lease.waiting.read(entry)
    return (message is not None and bool(message.chain)) or lease.has_room(most)


async def run_next(lease: AgentLease, stop: Stop) -> bool:
    """Take one step, and run the first message that can be claimed. Return False if no message can be claimed."""
    return await run_first(lease, step(lease), stop)


async def run_first(
    lease: AgentLease, due: DueWork, stop: Stop, *, begun: Callable[[Message], None] = lambda message: None
) -> bool:
    """Run the first message in a step's result that can be claimed, after calling `begun` with it. Return False if no
    message can be claimed."""
    from beam.broker.holder.turn import run

    for entry in due.entries:
        if entry is not due.entries[0] and lease.waiting.why_waits_for_trust(entry) is not None:
            return False
        claimed = lease.waiting.claim(entry)
        if claimed is not None:
            begun(claimed[1])
            try:
                await run(lease, *claimed, stop)
            finally:
                lease.leave_room()
            return True
    lease.leave_room()
    return False


def ensure_running(context: RootContext, paths: AgentPaths, message_id: str | None = None) -> bool:
    """Acquire the agent's lease if no process holds it, take one step, and hand the lease over. Return whether a worker
    was started.

    In a mailbox, only the message `message_id` is checked. Raises UnfinishedError if the agent is blocked.
    """
    lease = AgentLease.acquire(context, paths)
    if lease is None:
        return False
    started = False
    try:
        due = step(lease, about=message_id)
        if due.blocked is not None:
            raise UnfinishedError(
                f"{paths.agent} is blocked: {due.blocked}",
                f"end those processes; if they are gone: beam agent unblock {paths.agent} (no message is lost)",
                subject=paths.agent,
                kind="blocked",
            )
        if due.entries:
            lease.waiting.expire()
    finally:
        started = lease.hand_over()
    return started
