"""Carries out the requests that agents make during their turns: to send a message, to answer a message in a mailbox, to
interrupt a message that the agent itself sent, or to deny an ask (a permission request that waits for a decision).

The sender is always the agent whose turn it is; a request can't name another sender. A send request is idempotent: the
id of its message is derived from the turn and the name of the request. If a holder dies after it has put the message
and before it has removed the request, the message is not put a second time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from beam.base.errors import CorruptError, DiskError, NotFoundError, UnfinishedError, UsageError
from beam.base.faults import crash_point
from beam.model.message import Message, Options, agent_of, sent_id

if TYPE_CHECKING:
    from beam.base.clock import Steps
    from beam.broker.inbox.context import RootContext, Sender
    from beam.root.paths import AgentPaths
    from beam.store.outbox import Answer, Request


def carry_out(
    context: RootContext, request: Request, name: str, sender: Sender, accept: Callable[[Answer], None]
) -> Steps[Answer]:
    """Carry out one request in steps that never block. Each step yields the seconds until the next step; the last step
    returns the answer.

    `name` is the request's name, unique in its turn. If the sender waits for the outcome of a message, `accept` is
    called with an interim answer as soon as the message is in its queue. Raises BeamError if the request is refused,
    UnfinishedError if a message was sent and can't be waited for. A message that is in its queue is accepted even if no
    process could be started for it.
    """
    verbs: dict[str, Callable[[], Steps[Answer]]] = {
        "send": lambda: _send(context, request, name, sender, accept),
        "reply": lambda: _reply(context, request, sender),
        "interrupt": lambda: _interrupt(context, request, sender),
        "deny": lambda: _deny(context, request, sender),
    }
    return verbs[request.verb]()


def _send(
    context: RootContext, request: Request, name: str, sender: Sender, accept: Callable[[Answer], None]
) -> Steps[Answer]:
    from beam.broker.asking.follow import follow
    from beam.broker.inbox import launch
    from beam.broker.inbox.put import find_receiver, put
    from beam.store.outbox import Answer

    message = _compose_message(context, request, name, sender)
    context = context.recheck_exposure()
    asked, at_most, via = message.options.access, message.at_most, message.options.via
    find_receiver(context, message.to, asked, via, from_agent=message.hops > 0, at_most=at_most)
    lane = message.id.rpartition("-")[2] if message.options.once else None
    paths = context.agent_paths(message.to, lane)
    put(context, paths, message, once=True)
    crash_point("outbox.put")
    launch.try_ensure_worker(context, paths)
    if not request.wait:
        return Answer(accepted=message.id)
    accept(Answer(accepted=message.id))
    try:
        outcome = yield from follow(context, paths, message.id, seen=lambda event: None)
    except DiskError as error:
        raise UnfinishedError(
            f"{message.id} was sent; its outcome is not known yet: {error.message}",
            f"don't send it again; beam wait {message.id}",
            subject=message.id,
        ) from error
    return Answer(accepted=message.id, outcome=outcome)


def _compose_message(context: RootContext, request: Request, name: str, sender: Sender) -> Message:
    from beam.broker.inbox.compose import Caller, compose

    before = sender.message
    _check_rules(request.options, sender)
    _check_slash(request.options, sender)
    message = compose(
        request.to,
        request.text,
        caller=Caller(
            name=sender.agent,
            thread=before.thread or before.id,
            hops=before.hops,
            chain=sender.chain,
            spent=msgspec.structs.replace(before.spent, turns=before.spent.turns + 1),
        ),
        wait=request.wait,
        clock=context.clock,
        limits=context.config.limits,
        attach=[_path_inside(sender.folder, path) for path in request.attach],
        options=request.options,
        key=request.key,
        deadline=request.deadline,
        replies=request.replies,
        session_context=sender.context,
    )
    if request.key is None:
        message = msgspec.structs.replace(message, id=sent_id(request.to, sender.turn_key, name))
    return msgspec.structs.replace(message, at_most=sender.at_most, rules_at_most=sender.rules)


def _check_slash(options: Options, sender: Sender) -> None:
    """Raise UsageError if an agent's message is a slash command, because no access level limits what a slash command
    does."""
    if options.slash is True:
        raise UsageError(
            f"{sender.agent} is an agent, and sends no slash commands", "leave --slash out", subject=sender.agent
        )


def _check_rules(options: Options, sender: Sender) -> None:
    """Raise UsageError if an agent's message records or replays anything, uses a key, has an invalid rule, or has an
    allow rule: an agent may not widen anybody's rights."""
    if options.recording is not UNSET or options.shield is not UNSET:
        raise UsageError(
            f"{sender.agent} is an agent, and records and replays nothing: it would write where it may not",
            "leave --record, --replay and --shield out",
            subject=sender.agent,
        )
    if options.rules is UNSET:
        return
    from beam.rules.ruleset import rules_of

    rules_of(options.rules, sender.agent)
    if options.rules.allow:
        raise UsageError(
            f"{sender.agent} is an agent, and allows nobody anything: {options.rules.allow[0][:80]!r}",
            "leave --allow out; a person adds a rule with beam rules add",
            subject=sender.agent,
        )


def _reply(context: RootContext, request: Request, sender: Sender) -> Steps[Answer]:
    from beam.broker.asking.mailbox import reply_in_steps
    from beam.store.outbox import Answer

    paths = _paths_of(context, request.target)
    outcome = yield from reply_in_steps(
        context,
        paths,
        request.target,
        request.text,
        failed=request.failed,
        at_most=sender.at_most,
        rules=sender.rules,
    )
    return Answer(outcome=outcome)


def _interrupt(context: RootContext, request: Request, sender: Sender) -> Steps[Answer]:
    from beam.broker.asking.requests import request as ask
    from beam.store.outbox import Answer

    paths = _paths_of(context, request.target)
    _check_is_own_message(paths, request.target, sender)
    answer = yield from ask(context, paths, "interrupt", request.target, by=sender.agent)
    return Answer(said=answer)


def _check_is_own_message(paths: AgentPaths, message_id: str, sender: Sender) -> None:
    """Raise UsageError if the agent did not send the message itself, NotFoundError if the message has ended."""
    from beam.store.queue import Queue

    queue = Queue(paths.queue, paths.put_lock)
    entry = queue.find(message_id)
    if entry is None:
        raise NotFoundError(f"{message_id} has ended, or never existed", "beam show ID", subject=message_id)
    try:
        message = queue.read(entry)
    except (FileNotFoundError, CorruptError) as error:
        raise NotFoundError(f"{message_id} has ended", "", subject=message_id) from error
    if message.sender != sender.agent or message.actor is not None:
        whose = message.actor or message.sender
        raise UsageError(
            f"{message_id} is {whose}'s message: an agent ends only what it sent itself",
            f"a person can: beam interrupt {message_id}",
            subject=message_id,
        )


def _deny(context: RootContext, request: Request, sender: Sender) -> Steps[Answer]:
    from beam.broker.asking.requests import request as ask
    from beam.store.outbox import Answer
    from beam.store.segment import read_state

    paths = _paths_of(context, request.target)
    turn = read_state(paths.journal).open_turn
    if request.stop and turn is not None and turn.message_id is not None and request.target in turn.asks:
        _check_is_own_message(paths, turn.message_id, sender)
    answer = yield from ask(
        context,
        paths,
        "deny",
        request.target,
        by=sender.agent,
        text=f"[from {sender.agent}] {request.text}" if request.text else None,
        stop=request.stop,
    )
    return Answer(said=answer)


def _paths_of(context: RootContext, whole_id: str) -> AgentPaths:
    """Return the paths of the agent or lane to which the message or ask with this id belongs. Raises NotFoundError if
    the id names no agent of this root."""
    name = agent_of(whole_id)
    if name not in context.home.agents():
        raise NotFoundError(
            f"{whole_id[:120]!r} names no message of this root", "give the whole id", subject=whole_id[:120]
        )
    paths = context.agent_paths(name)
    lane = whole_id.rpartition("-")[2]
    return next((each for each in paths.lanes() if each.lane == lane), paths)


def _path_inside(folder: Path, named: str) -> Path:
    """Return the real path of a file that an agent attaches to a message. Raises UsageError if the file is outside of
    `folder`, the agent's own folder."""
    path = Path(os.path.realpath(folder / named)) if "\0" not in named else folder.parent
    if not path.is_relative_to(os.path.realpath(folder)):
        raise UsageError(
            f"{named[:200]!r} lies outside {folder}: an agent attaches only files of its own folder",
            "put its content into the message, or copy the file there",
            subject=named[:200],
        )
    return path
