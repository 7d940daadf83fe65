"""Handles the messages that wait for an agent: reads and checks them, records them in the journal, claims them, and
makes them dead letters if they can't run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from beam.base.clock import parse_rfc3339
from beam.base.errors import CorruptError, DiskError
from beam.base.faults import crash_point
from beam.broker.inbox import closing, failure, fallback, usage_limit
from beam.model import events
from beam.model.message import Message, digest
from beam.model.outcome import Class, Status, Verdict
from beam.model.state import CLOSED, DEAD, FINISHED, SENT
from beam.store.queue import LAST_POSITION, Entry
from beam.store.reserve import Reserve

if TYPE_CHECKING:
    from beam.broker.inbox.log import AgentLog
    from beam.broker.inbox.standing import FolderCheck
    from beam.model.settings import AgentSettings


class WaitingMessages:
    """The waiting messages of one agent."""

    def __init__(self, log: AgentLog) -> None:
        self.log = log
        self._reserve = Reserve(log.paths.reserve)
        self._deadlines: dict[tuple[str, int], str | None] = {}
        self._first: tuple[Entry, Message] | None = None  # the first that `scan` found, with its message
        self.last_check: FolderCheck | None = None

    def read(self, entry: Entry) -> Message | None:
        """Return the message of the entry; None if its file is gone or damaged. A damaged file becomes a dead letter,
        unless it is one already."""
        try:
            message = self.log.queue.read(entry)
        except FileNotFoundError:
            return None
        except DiskError as error:
            is_unreadable = isinstance(error.__cause__, PermissionError | IsADirectoryError)
            if not (is_unreadable or isinstance(error, CorruptError)):
                raise
            self._dead_letter_unread(entry, error.message)
            return None
        problem = self._what_is_wrong(entry, message)
        if problem is not None:
            self._dead_letter_unread(entry, problem)
            return None
        return message

    def _what_is_wrong(self, entry: Entry, message: Message) -> str | None:
        if message.id != entry.id or not self._is_to_this_agent(entry, message):
            return f"the file of {entry.id} holds {message.id} to {message.to}"
        if entry.position > LAST_POSITION:
            return f"its position {entry.position} is larger than any"
        if message.deadline is not None:
            try:
                parse_rfc3339(message.deadline)
            except ValueError as error:
                return f"its deadline is no time: {error}"
        return None

    def _is_to_this_agent(self, entry: Entry, message: Message) -> bool:
        """Return whether the message was sent to this agent. An agent that is renamed keeps its dead letters, so a dead
        letter may have an earlier name of the agent; then its digest in the journal has that name, too."""
        if message.to == self.log.paths.agent:
            return True
        known = self.log.state.known.get(message.id)
        return entry.box == "dead" and (known is None or known.digest == digest(message))

    def _dead_letter_unread(self, entry: Entry, why: str) -> None:
        if entry.box == "dead":
            return  # its outcome is recorded already
        known = self.log.state.known.get(entry.id)
        is_sent = entry.box == "cur" and known is not None and known.phase == SENT
        self.log.record(
            events.MessageDead(
                attempt=known.attempt if known is not None else 1,
                reason="corrupt",
                detail=why,
                status=Status.UNKNOWN if is_sent else Status.FAILED,
                class_=None if is_sent else Class.BAD_REQUEST,
                file=entry.name,
            ),
            message_id=entry.id,
            sync=True,
        )
        crash_point("dead.recorded")
        closing.move_to_dead(self.log, entry)

    def record_queued(self, entry: Entry, message: Message) -> None:
        """Record in the journal that the message is in the queue: the first time, and after each edit or retry."""
        known = self.log.state.known.get(message.id)
        if known is not None and message.attempt > known.attempt:
            self.log.record(
                events.MessageRequeued(attempt=message.attempt, reason="retry"), message_id=message.id, sync=True
            )
        if known is None or message.revision > known.revision:
            self.log.record(
                events.MessageQueued(
                    sender=message.sender,
                    kind=message.type,
                    text=message.text,
                    thread=message.thread,
                    hops=message.hops,
                    reply=message.reply,
                    reply_to=message.reply_to,
                    key=message.key,
                    actor=message.actor,
                    digest=digest(message),
                    revision=message.revision,
                    position=entry.position,
                    queued_at=message.timestamp,
                ),
                message_id=message.id,
            )

    def scan(self) -> list[Entry]:
        """Return the entries of the messages that may run, in order. A message that can't run (it ended before, is
        damaged, or reuses an id) is removed from `new/`."""
        self._first = None
        return list(self.each_ready())

    def each_ready(self) -> Iterator[Entry]:
        """Yield the entries of the messages that may run, in order; read each file only when it is reached."""
        return (entry for entry in self.log.queue.each("new") if self._is_ready(entry))

    def check_message(self, message_id: str) -> None:
        """Check this message alone, and dead-letter it if its deadline has passed."""
        entry = self.log.queue.find(message_id, self.log.state.places.get(message_id))
        if entry is not None and entry.box == "new" and self._is_ready(entry):
            deadline = self._deadline(entry)
            if deadline is not None:
                self._expire(entry, deadline)

    def _is_ready(self, entry: Entry) -> bool:
        """Check the waiting message of the entry; return whether it may run."""
        if entry in self.log.checked:
            return True
        message = self.read(entry)
        if message is None or not self._is_fresh(entry, message):
            return False
        self.record_queued(entry, message)
        if message.attempt > 1:
            self._remove_older_dead_letter(message)
        self.log.checked.add(entry)
        self._first = self._first or (entry, message)
        return True

    def expire(self) -> float | None:
        """Move messages past their deadline to the dead letters, even while a turn runs or nothing may be claimed.
        Return the seconds until the next deadline passes; None if no waiting message has one."""
        before, self._deadlines = self._deadlines, {}
        later: list[str] = []
        for entry in self.log.queue.entries("new"):
            key = entry.id, entry.position
            deadline = before[key] if key in before else self._deadline(entry)
            self._deadlines[key] = deadline
            if deadline is not None and not self._expire(entry, deadline):
                later.append(deadline)
        if not later:
            return None
        return max(0.0, (min(map(parse_rfc3339, later)) - self.log.context.clock.now_ns()) / 1e9)

    def _expire(self, entry: Entry, deadline: str) -> bool:
        """Move the message to the dead letters if its deadline has passed. Return whether it has."""
        if self.log.context.clock.now_ns() <= parse_rfc3339(deadline):
            return False
        message = self.read(entry)
        if message is not None and self._is_fresh(entry, message):
            self.record_queued(entry, message)
            self._give_up_if_refused(entry, message)
        return True

    def _deadline(self, entry: Entry) -> str | None:
        message = self.read(entry)
        return message.deadline if message is not None else None

    def _give_up_if_refused(self, entry: Entry, message: Message) -> bool:
        return self._give_up(entry, message, failure.find_refusal(message, self.log.state, self.log.context))

    def _give_up(self, entry: Entry, message: Message, verdict: failure.Refusal | None) -> bool:
        if verdict is None:
            return False
        closing.dead_letter(self.log, entry, message, *verdict[:2], status=verdict[2], tell=verdict[0] == "expired")
        return True

    def _is_fresh(self, entry: Entry, message: Message) -> bool:
        known = self.log.state.known.get(message.id)
        if known is None:
            return True
        if message.revision <= known.revision and known.digest != digest(message):
            detail = f"{message.id} was used before, for another text"
            closing.dead_letter(self.log, entry, message, "id_reused", detail, class_=Class.BAD_REQUEST)
            return False
        if message.attempt < known.attempt:
            self.log.queue.remove(entry)
            return False
        if message.attempt > known.attempt or known.phase not in (CLOSED, DEAD, FINISHED):
            return True
        if known.phase == DEAD:
            closing.resume_dead_letter(self.log, entry, message, known)
        else:
            closing.clear_closed_message(self.log, entry, message, known)
        return False

    def _remove_older_dead_letter(self, message: Message) -> None:
        """Remove the dead letter of which this message is the next attempt; an unrelated dead letter with the same
        id stays."""
        for entry in self.log.queue.entries("dead"):
            if entry.id != message.id:
                continue
            try:
                older = self.log.queue.read(entry)
            except (FileNotFoundError, CorruptError):
                continue
            older = msgspec.structs.replace(older, to=message.to)  # it may have an earlier name of the agent
            if older.attempt < message.attempt and digest(older) == digest(message):
                crash_point("remove.before")
                self.log.queue.remove(entry)
                crash_point("removed")

    def claim(self, entry: Entry) -> tuple[Entry, Message] | None:
        """Claim the message, and return it with its new entry. Return None if its file is gone, or if it may not run
        (it expired, or has too many hops) and was made a dead letter, or if another turn of its account just began.

        Raises DiskError if there is no room for an outcome; the message then still waits.
        """
        first, self._first = self._first, None
        message = first[1] if first is not None and first[0] == entry else self.read(entry)
        if message is None or not self._is_fresh(entry, message) or self._give_up_if_refused(entry, message):
            return None
        settings = self.log.context.settings_of(self.log.paths.agent)
        if settings is not None and settings.pace:
            from beam.broker.inbox import starts

            if not starts.begin(self.log.context, settings, settings.pace):
                return None
        self._reserve.make()
        used_up = failure.count_turn(self.log.context, message)
        if used_up is not None and self._give_up(entry, message, failure.budget_refusal(used_up)):
            return None
        crash_point("claim.before")
        try:
            claimed = self.log.queue.move(entry, "cur")
        except FileNotFoundError:
            return None
        self.log.checked.discard(entry)
        crash_point("claim.renamed")
        self.log.record(events.MessageClaimed(attempt=message.attempt), message_id=message.id, sync=True)
        crash_point("claim.recorded")
        return claimed, msgspec.structs.replace(message, fallback=self._place(message))

    def take_back(self, entry: Entry, by: str) -> None:
        """Cancel a message that `recv` took: a reply to it is refused from now on."""
        turn, message = self.log.state.open_turn, self.read(entry)
        if turn is None or message is None:
            return
        verdict = Verdict(status=Status.CANCELLED, reason=f"stopped by {by}")
        finished = events.turn_finished(verdict, attempt=turn.attempt, via=turn.via)
        written = self.log.record(finished, turn=turn.turn, message_id=message.id, sync=True)
        crash_point("finish.recorded")
        closing.close_message(self.log, entry, message, written)

    # -- when the next one may be claimed ----------------------------------------------------------------------------

    def pause_s(self, head: Entry, settings: AgentSettings | None) -> float | None:
        """Return the seconds until `head`, the next message, may be claimed (0: now); None while the queue is paused.
        `settings` are the agent's settings; None if they are invalid."""
        state, now_ns = self.log.state, self.log.context.clock.now_ns()
        pace = settings.pace if settings is not None and self.log.paths.lane is None else None
        limited = usage_limit.limited_account(self.log.context, settings)
        message = self.read(head) if state.circuit_until is not None or limited is not None else None
        starts_in_s = 0.0
        if settings is not None and settings.pace:
            from beam.broker.inbox import starts

            starts_in_s = starts.pause_s(self.log.context, settings, settings.pace)
        is_asked = message is not None and (_ignores_circuit(message) or self._place(message) > 0)
        pause = failure.pause_s(state, head.id, now_ns, no_circuit=is_asked, pace=pace)
        if pause is None:
            return None
        limited_s = 0.0 if limited is None or is_asked else usage_limit.remaining_s(limited, now_ns)
        return max(pause, starts_in_s, limited_s)

    def _place(self, message: Message) -> int:
        """Return the place of whoever answers the message in place of its agent now (0: nobody)."""
        if not self.log.context.config.policy.fallback or _ignores_circuit(message):
            return message.fallback
        context, state = self.log.context, self.log.state
        is_open = failure.circuit_state(state, context.clock.now_ns()) == "open"
        limited = usage_limit.limited_account(context, context.settings_of(self.log.paths.agent))
        return fallback.place_at_once(self.log, message, is_open=is_open, is_limited=limited is not None)

    def why_waits_for_trust(self, entry: Entry) -> str | None:
        """Return why this message waits until a person trusts the folder; None if it does not."""
        from beam.broker.inbox import standing

        reason, self.last_check = standing.check_before_claim(self.log.context, self.log.queue, entry)
        return reason


def _ignores_circuit(message: Message) -> bool:
    """Return whether a person sent the message past an open circuit and a usage limit."""
    return message.options.no_circuit is True and message.hops == 0
