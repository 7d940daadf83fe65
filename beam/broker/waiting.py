"""What waits for an agent, as its holder sees it: read, said in the journal, put away where it can't run, claimed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from beam.base.clock import parse_rfc3339
from beam.base.errors import CorruptError, DiskError
from beam.base.faults import crash_point
from beam.broker import closing, failure
from beam.model import events
from beam.model.message import Message, digest
from beam.model.outcome import Class, Status
from beam.model.state import CLOSED, DEAD, FINISHED, SENT
from beam.store.queue import LAST_POSITION, Entry

if TYPE_CHECKING:
    from beam.broker.hold import Holder


class Waiting:
    """The queue of one held agent."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self._seen: set[tuple[str, int]] = set()
        self._deadlines: dict[tuple[str, int], str | None] = {}

    def read(self, entry: Entry) -> Message | None:
        """The entry's message; None if it is gone or was damaged, and then buried."""
        try:
            message = self.holder.queue.read(entry)
        except FileNotFoundError:
            return None
        except DiskError as error:
            is_unreadable = isinstance(error.__cause__, PermissionError | IsADirectoryError)
            if not (is_unreadable or isinstance(error, CorruptError)):
                raise
            self._bury_unread(entry, error.message)
            return None
        wrong = self._what_is_wrong(entry, message)
        if wrong is not None:
            self._bury_unread(entry, wrong)
            return None
        return message

    def _what_is_wrong(self, entry: Entry, message: Message) -> str | None:
        if message.id != entry.id or message.to != self.holder.place.agent:
            return f"the file of {entry.id} holds {message.id} to {message.to}"
        if entry.position > LAST_POSITION:
            return f"its position {entry.position} is larger than any"
        try:
            parse_rfc3339("2000-01-01" if message.deadline is None else message.deadline)
        except ValueError as error:
            return f"its deadline is no time: {error}"
        return None

    def _bury_unread(self, entry: Entry, why: str) -> None:
        known = self.holder.state.known.get(entry.id)
        is_sent = entry.box == "cur" and known is not None and known.phase == SENT
        self.holder.record(
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
        closing.move_to_dead(self.holder, entry)

    def see(self, entry: Entry, message: Message) -> None:
        """Says in the journal that the message is here, the first time, and after each edit or retry."""
        known = self.holder.state.known.get(message.id)
        if known is not None and message.attempt > known.attempt:
            self.holder.record(
                events.MessageRequeued(attempt=message.attempt, reason="retry"), message_id=message.id, sync=True
            )
        if known is None or message.revision > known.revision:
            self.holder.record(
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

    def look(self) -> list[Entry]:
        """What waits, in order, after what can't run was put away (done before, damaged, its id reused)."""
        return list(self.each())

    def each(self) -> Iterator[Entry]:
        """The same, one after the other: what comes after the last that is asked for is not read."""
        return (entry for entry in self.holder.queue.each("new") if self._has_looked_at(entry))

    def look_at(self, message_id: str) -> None:
        """Looks at this message alone: for who holds the agent for a moment, and waits for nothing else."""
        entry = self.holder.queue.find(message_id, self.holder.state.places.get(message_id))
        if entry is not None and entry.box == "new" and self._has_looked_at(entry):
            self._expire(entry, self._deadline(entry))

    def _has_looked_at(self, entry: Entry) -> bool:
        """Looks at what waits there; whether it may run."""
        if (entry.id, entry.position) in self._seen:
            return True
        message = self.read(entry)
        if message is None or not self._is_fresh(entry, message):
            return False
        self.see(entry, message)
        if message.attempt > 1:
            self._remove_older(message)
        self._seen.add((entry.id, entry.position))
        return True

    def expire(self) -> None:
        """Gives up what waited past its deadline: also while a turn runs, and while nothing may be claimed."""
        before, self._deadlines = self._deadlines, {}
        for entry in self.holder.queue.entries("new"):
            key = entry.id, entry.position
            deadline = before[key] if key in before else self._deadline(entry)
            self._deadlines[key] = deadline
            self._expire(entry, deadline)

    def _expire(self, entry: Entry, deadline: str | None) -> None:
        if deadline is None or self.holder.context.clock.now_ns() <= parse_rfc3339(deadline):
            return
        message = self.read(entry)
        if message is not None and self._is_fresh(entry, message):
            self.see(entry, message)
            self._give_up_if_refused(entry, message)

    def _deadline(self, entry: Entry) -> str | None:
        message = self.read(entry)
        return message.deadline if message is not None else None

    def _give_up_if_refused(self, entry: Entry, message: Message) -> bool:
        return self._is_given_up(entry, message, failure.refusal(message, self.holder.state, self.holder.context))

    def _is_given_up(self, entry: Entry, message: Message, verdict: failure.Refusal | None) -> bool:
        if verdict is None:
            return False
        closing.dead_letter(self.holder, entry, message, *verdict[:2], status=verdict[2], tell=verdict[0] == "expired")
        return True

    def _is_fresh(self, entry: Entry, message: Message) -> bool:
        known = self.holder.state.known.get(message.id)
        if known is None:
            return True
        if message.revision <= known.revision and known.digest != digest(message):
            detail = f"{message.id} was used before, for another text"
            closing.dead_letter(self.holder, entry, message, "id_reused", detail, class_=Class.BAD_REQUEST)
            return False
        if message.attempt < known.attempt:
            self.holder.queue.remove(entry)
            return False
        if message.attempt > known.attempt or known.phase not in (CLOSED, DEAD, FINISHED):
            return True
        if known.phase == DEAD:
            closing.finish_dead_letter(self.holder, entry, message, known)
        else:
            closing.archive(self.holder, entry, message, known)
        return False

    def _remove_older(self, message: Message) -> None:
        """The dead letter whose next attempt this is goes; one that only bears its id stays."""
        for entry in self.holder.queue.entries("dead"):
            if entry.id != message.id:
                continue
            try:
                older = self.holder.queue.read(entry)
            except (FileNotFoundError, CorruptError):
                continue
            if older.attempt < message.attempt and digest(older) == digest(message):
                crash_point("remove.before")
                self.holder.queue.remove(entry)
                crash_point("removed")

    def claim(self, entry: Entry) -> tuple[Entry, Message] | None:
        """The message is this holder's to run; None if it may not run (expired, too many hops) and was put away.

        Raises DiskError where there is no room for an outcome; then it waits.
        """
        message = self.read(entry)
        if message is None or not self._is_fresh(entry, message) or self._give_up_if_refused(entry, message):
            return None
        self.holder.reserve.make()
        used_up = failure.count_turn(self.holder.context, message)
        if used_up is not None and self._is_given_up(entry, message, failure.over(used_up)):
            return None
        crash_point("claim.before")
        try:
            claimed = self.holder.queue.move(entry, "cur")
        except FileNotFoundError:
            return None
        self.forget(entry)
        crash_point("claim.renamed")
        self.holder.record(events.MessageClaimed(attempt=message.attempt), message_id=message.id, sync=True)
        crash_point("claim.recorded")
        return claimed, message

    def forget(self, entry: Entry) -> None:
        """The entry does not wait any more; a file of its name would be looked at anew."""
        self._seen.discard((entry.id, entry.position))
