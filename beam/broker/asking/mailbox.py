"""Mailboxes: `recv` takes a message for a limited time (its lease), and `reply` answers the message. No process runs
the turn."""

from __future__ import annotations

import contextlib

from msgspec import UNSET, structs

from beam.agents import registry
from beam.base.clock import Steps, recorded_ns, rfc3339, run_blocking
from beam.base.errors import DiskError, NotFoundError, UnfinishedError, UnsupportedError, UsageError
from beam.base.faults import crash_point
from beam.broker.holder import duty
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import closing
from beam.broker.inbox.context import RootContext
from beam.broker.inbox.log import AgentLog
from beam.broker.inbox.standing import check_trusted
from beam.model import events
from beam.model.message import Access, Message, RuleLists
from beam.model.outcome import Class, Outcome, Status, Verdict
from beam.model.settings import LEASE_S
from beam.model.state import SENT
from beam.process import tree
from beam.root import discovery
from beam.root.paths import AgentPaths

_PATIENCE_S = 5.0
_POLL_S = 0.01


def _acquire_lease(context: RootContext, paths: AgentPaths) -> Steps[AgentLease]:
    """Acquire the lease of the mailbox, take one step (`duty.step`), and return the lease. If another process has the
    lease, wait for up to five seconds. Raises UnsupportedError if the agent is not a mailbox, UnfinishedError if the
    lease does not become free or the agent is blocked."""
    settings = context.config.resolve(paths.agent).settings
    if "mailbox" not in registry.adapter(settings.adapter).card.faces:
        raise UnsupportedError(
            f"{paths.agent} is not a mailbox: {settings.adapter} answers its messages",
            "beam agent list",
            subject=paths.agent,
        )
    discovery.create(context.home, paths)
    until = context.clock.monotonic() + _PATIENCE_S
    while (lease := AgentLease.acquire(context, paths)) is None:
        if context.clock.monotonic() > until:
            raise UnfinishedError(f"{paths.agent} is held by another process", "try again", subject=paths.agent)
        yield _POLL_S
    try:
        due = duty.step(lease)
    except BaseException:
        lease.close()
        raise
    if due.blocked is not None:
        lease.close()
        raise UnfinishedError(f"{paths.agent} is blocked: {due.blocked}", "beam status", subject=paths.agent)
    return lease


def recv(context: RootContext, paths: AgentPaths, seconds: float | None) -> Message | None:
    """Return the next message, claimed for `seconds`: the time in which it must be answered. The default is the `lease`
    in the agent's settings, else the `lease` in the configured limits. A message that was written in no turn has the
    number of the mailbox's own turn.

    Return None if no message waits, or if the queue is paused. Raises UnfinishedError while an earlier message is taken
    and not answered.
    """
    lease = run_blocking(_acquire_lease(context, paths))
    try:
        turn = lease.log.state.open_turn
        if turn is not None and turn.lease_until is not None and not turn.finished:
            raise UnfinishedError(
                f"{turn.message_id} was taken, and must be answered before {turn.lease_until}",
                f"beam reply {turn.message_id} TEXT",
                subject=turn.message_id or "",
            )
        check_trusted(context, context.config.resolve(paths.agent))  # its settings say for how long a message is lent
        settings = context.settings_of(paths.agent)
        for entry in lease.waiting.each_ready():
            if lease.waiting.pause_s(entry, settings) != 0:
                return None
            claimed = lease.waiting.claim(entry)
            if claimed is not None:
                _lend_message(lease.log, claimed[1], seconds)
                return _with_turn_number(claimed[1], lease.log.state.turn)
        return None
    finally:
        lease.close()


def _with_turn_number(message: Message, number: int) -> Message:
    if message.session_context.turn_number is not None:
        return message
    return structs.replace(message, session_context=structs.replace(message.session_context, turn_number=number))


def _lend_message(log: AgentLog, message: Message, seconds: float | None) -> None:
    context = log.context
    settings = context.config.resolve(message.to).settings
    seconds = settings.lease or LEASE_S if seconds is None else seconds
    number = log.state.turn + 1
    crash_point("turn.before")
    log.record(
        events.TurnStarted(
            attempt=message.attempt,
            owner=tree.this_process(),
            turn_key=context.clock.random(16).hex(),
            adapter="mailbox",
            via="mailbox",
            lease_until=rfc3339(context.clock.now_ns() + int(seconds * 1e9)),
        ),
        turn=number,
        message_id=message.id,
        sync=True,
    )
    crash_point("turn.started")
    crash_point("prompt.before")
    sent = events.PromptSent(bytes=len(message.text.encode("utf-8", "replace")))
    log.record(sent, turn=number, message_id=message.id, sync=True)
    crash_point("prompt.sent")


def reply(context: RootContext, paths: AgentPaths, message_id: str, text: str, *, failed: bool) -> Outcome:
    """Answer a message that `recv` has taken. Raises NotFoundError if it was answered already, or if its lease has
    expired."""
    return run_blocking(reply_in_steps(context, paths, message_id, text, failed=failed))


def reply_in_steps(
    context: RootContext,
    paths: AgentPaths,
    message_id: str,
    text: str,
    *,
    failed: bool,
    at_most: Access | None = None,
    rules: RuleLists | None = None,
) -> Steps[Outcome]:
    """Answer a message like `reply`, but in steps, for a caller that must not block until the mailbox's lease is free.

    `at_most` is the access level of the answering agent, and `rules` are the rules of its turn. Both bind a turn that
    gets this answer as a message.
    """
    lease = yield from _acquire_lease(context, paths)
    log = lease.log
    try:
        turn, known = log.state.open_turn, log.state.known.get(message_id)
        if turn is None or turn.message_id != message_id or known is None or known.phase != SENT:
            raise NotFoundError(
                f"{message_id} is not waiting for an answer",
                "it was answered already, or its lease ran out: beam recv takes it again",
                subject=message_id,
            )
        if failed and not text.strip():
            raise UsageError("--failed needs a reason", "beam reply ID --failed TEXT", subject=message_id)
        entry = next((entry for entry in log.queue.entries("cur") if entry.id == message_id), None)
        message = lease.waiting.read(entry) if entry is not None else None
        if entry is None or message is None:
            raise NotFoundError(f"{message_id} is gone", "", subject=message_id)
        if failed:
            verdict = Verdict(status=Status.FAILED, class_=Class.UNKNOWN, reason=text)
        else:
            verdict = Verdict(status=Status.COMPLETED, reply=text)
        began = recorded_ns(turn.started_at)
        if not failed:
            with contextlib.suppress(DiskError):  # the outcome has the text, too, and may fit where this event does not
                log.record(events.Text(text=text), turn=turn.turn, message_id=message_id)
        crash_point("finish.before")
        finished = log.record(
            events.turn_finished(
                verdict,
                attempt=turn.attempt,
                via="mailbox",
                duration_s=round(max(0, context.clock.now_ns() - began) / 1e9, 3),
                at_most=at_most,
                rules=UNSET if rules is None else rules,
            ),
            turn=turn.turn,
            message_id=message_id,
            sync=True,
        )
        crash_point("finish.recorded")
        closing.close_message(log, entry, message, finished)
        return events.outcome_of(finished)
    finally:
        lease.close()
