"""Puts a message into its queue, once and durably. A key that was used before is accepted only for the same message."""

from __future__ import annotations

import os

from msgspec import Struct

from beam.agents import registry
from beam.agents.base import Adapter
from beam.base import own_program
from beam.base.errors import DiskError, NotFoundError, UsageError
from beam.broker.inbox.context import RootContext
from beam.broker.inbox.standing import FolderStanding, check_trusted
from beam.config.fields import filled_env
from beam.config.resolve import ResolvedAgent
from beam.model.message import Access, Message, digest
from beam.root import discovery
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.store.queue import Queue, archived_error
from beam.turns.choice import granted_access
from beam.turns.request import find_executable


class Receiver(Struct, frozen=True, kw_only=True):
    """An agent to which a message may be sent: its settings, its adapter, and its standing in its folder. `looked_at`
    is when the folder was checked (monotonic seconds)."""

    resolved: ResolvedAgent
    adapter: Adapter
    stands: FolderStanding
    looked_at: float


def find_receiver(
    context: RootContext,
    agent: str,
    asked: Access | None = None,
    via: str | None = None,
    *,
    from_agent: bool = False,
    at_most: Access | None = None,
    needs_cli: bool = True,
) -> Receiver:
    """Return the agent as a receiver if a message that asks for the access level `asked` and the mode `via` can run
    here. Without `needs_cli`, the agent's CLI need not be installed.

    Raises NotFoundError if there is no such agent or its CLI is missing, UntrustedError if the folder must be trusted
    first, ConfigError.
    """
    resolved = context.config.resolve(agent)
    if os.path.lexists(context.home.agent(agent).archived):
        raise archived_error(agent)
    settings = resolved.settings
    at_most = "read" if context.exposed else at_most
    access = granted_access(settings.access, asked, from_agent=from_agent, at_most=at_most)
    looked_at = context.clock.monotonic()
    stands = check_trusted(context, resolved, access, via)
    filled_env(settings.env, context.environ, agent)  # or the error of what is not set
    adapter = registry.adapter(settings.adapter)
    if needs_cli and (adapter.card.executable or settings.executable):
        find_executable(adapter, settings, context.environ, context.home.project)
    return Receiver(resolved=resolved, adapter=adapter, stands=stands, looked_at=looked_at)


def put(context: RootContext, paths: AgentPaths, message: Message, *, once: bool = False) -> bool:
    """Put the message into its receiver's queue, on disk; return False if the same message was put before.

    A message is compared with an earlier message of the same id only if it has a key or `once` is set. Raises
    UsageError if the earlier message was a different one, LimitError for a full queue or a thread without budget,
    NotFoundError if the agent's files are removed meanwhile, DiskError.
    """
    if paths.lane is not None and context.is_mailbox(paths.agent):
        raise UsageError(f"{paths.agent} is a mailbox, and has no sessions", "send without --once")
    if message.hops > 0:
        from beam.broker.inbox.failure import check_budget

        check_budget(context, message)
    own_program.wait_until_held()  # whoever runs the message may start its agent at once
    discovery.create(context.home, paths)
    discovery.remember_root(context.home, context.environ)
    queue = Queue(paths.queue, paths.put_lock)
    if paths.lane is not None:
        lanes.add_to_index(paths)
    try:
        is_new = _put(context, paths, queue, message, once=once)
    except DiskError as error:
        if paths.dir.exists():
            raise
        raise NotFoundError(
            f"{message.id} is gone: {paths.agent} was removed with all its messages",
            "nothing will answer it; send it to another agent",
            subject=message.id,
        ) from error
    if paths.lane is not None:
        lanes.add_to_index(paths)  # a process that found the lane empty in between removed it from the index
    return is_new


def _put(context: RootContext, paths: AgentPaths, queue: Queue, message: Message, *, once: bool) -> bool:
    if message.key is None and not once:
        return queue.put(message, context.clock, context.config.limits)
    if queue.put(message, context.clock, context.config.limits, known=lambda: _is_known(paths, message.id)):
        return True
    _check_is_same_message(paths, message)
    return False


def _is_known(paths: AgentPaths, message_id: str) -> bool:
    from beam.store.segment import read_state

    return message_id in read_state(paths.journal).known


def _check_is_same_message(paths: AgentPaths, message: Message) -> None:
    from beam.store.segment import read_state

    known = read_state(paths.journal).known.get(message.id)
    there = known.digest if known is not None else ""
    if not there:
        queue = Queue(paths.queue, paths.put_lock)
        entry = queue.find(message.id)
        if entry is None:
            return
        try:
            there = digest(queue.read(entry))
        except FileNotFoundError:
            return
    if there != digest(message):
        raise UsageError(
            f"{f'key {message.key!r}' if message.key else 'that name'} was used for another message to {message.to}",
            f"beam show {message.id} shows it; choose another one",
            subject=message.id,
        )
