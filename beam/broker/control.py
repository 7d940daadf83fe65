"""What a holder does about requests; each is answered by one `control.done`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from beam.base.clock import parse_rfc3339
from beam.base.errors import BeamError, CorruptError, DiskError, NotFoundError, UnfinishedError, UsageError
from beam.base.faults import crash_point
from beam.broker import closing
from beam.model import events
from beam.model.message import Payload
from beam.model.outcome import Status
from beam.model.state import DEAD
from beam.store import control
from beam.store.control import Control
from beam.store.queue import Entry

if TYPE_CHECKING:
    from beam.broker.hold import Holder


class Requests:
    """The requests of one held agent."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder

    def look(self) -> None:
        """Answers every request that waits."""
        directory = self.holder.place.control
        for name in control.waiting(directory):
            try:
                request = control.read(directory, name)
            except DiskError as error:
                is_unreadable = isinstance(error.__cause__, PermissionError | IsADirectoryError)
                if not (is_unreadable or isinstance(error, CorruptError)):
                    raise
                self.holder.record(events.Notice(code="bad_request", text=error.message))
                control.archive(directory, name)
                continue
            if request is None:
                continue
            if request.id not in self.holder.state.answered:
                crash_point("control.before")
                self._answer(request)
                crash_point("control.done")
            control.remove(directory, name)
            crash_point("control.removed")

    def _answer(self, request: Control) -> None:
        done = events.ControlDone(control_id=request.id, verb=request.verb)
        try:
            if self.holder.context.clock.now_ns() > parse_rfc3339(request.expires):
                raise UsageError("the request came too late")
            result = self._carry_out(request)
            done = msgspec.structs.replace(done, message=result)
        except BeamError as error:
            done = msgspec.structs.replace(done, ok=False, code=error.kind, message=error.message)
        self.holder.record(done, message_id=self._message_of(request), sync=True)

    def _message_of(self, request: Control) -> str | None:
        if request.verb not in ("approve", "deny"):
            return request.target
        return self.holder.running[0] if self.holder.running is not None else None

    def _carry_out(self, request: Control) -> str:
        if request.verb in ("pause", "resume"):
            return self._pause(request)
        if request.verb == "reset":
            return self._reset(request)
        target = request.target or ""
        if request.verb in ("approve", "deny"):
            return self._decide(target, request)
        if request.verb == "interrupt":
            return self._interrupt(target, request.sender)
        entry = self.holder.queue.find(target)
        if entry is None:
            raise NotFoundError(f"no message {target} is in the queue of {self.holder.place.agent}", subject=target)
        return {"drop": self._drop, "retry": self._retry, "edit": self._edit}[request.verb](entry, request)

    def _decide(self, ask_id: str, request: Control) -> str:
        from beam.turns.asks import Decision

        if self.holder.asks is None:
            raise NotFoundError(f"nobody waits for a decision on {ask_id}", subject=ask_id)
        decision = Decision(
            decision="allow" if request.verb == "approve" else "deny",
            by=request.sender,
            message=request.text or "",
            always=request.always,
            stop=request.stop,
        )
        self.holder.asks.decide(ask_id, decision)
        return "allowed" if request.verb == "approve" else "denied"

    def _interrupt(self, target: str, by: str) -> str:
        running = self.holder.running
        if running is not None and running[0] == target:
            running[1].ask("cancelled", by=by)
            return "asked to stop"
        entry = self.holder.queue.find(target)
        if entry is not None and entry.box == "new":
            self._withdraw(entry, f"withdrawn by {by}", by)
            return "withdrawn"
        if entry is not None and entry.box == "cur" and self.holder.is_leased():
            self.holder.cancel_lease(entry, by)
            return "taken back"
        raise NotFoundError(f"{target} is not running", subject=target)

    def _withdraw(self, entry: Entry, why: str, by: str) -> None:
        message = self.holder.waiting.read(entry)
        if message is None:
            return
        known = self.holder.state.known.get(message.id)
        if known is None or known.phase != DEAD or known.attempt != message.attempt:
            closing.dead_letter(
                self.holder, entry, message, "dropped", why, status=Status.CANCELLED, tell=by != message.sender
            )
            entry = Entry(entry.position, entry.id, "dead")
        self.holder.queue.remove(entry)

    def _drop(self, entry: Entry, request: Control) -> str:
        if entry.box == "cur":
            raise UnfinishedError(
                f"{entry.id} is running", f"beam interrupt {self.holder.place.agent}", subject=entry.id
            )
        if entry.box == "dead":
            self.holder.queue.remove(entry)
            return "removed"
        self._withdraw(entry, f"dropped by {request.sender}", request.sender)
        return "dropped"

    def _retry(self, entry: Entry, request: Control) -> str:
        attempt = self._attempt_put(entry)
        if attempt is not None:
            self.holder.waiting.look()
            return f"attempt {attempt}"
        if entry.box != "dead":
            raise UsageError(f"{entry.id} was not given up on; it is in {entry.box}/", subject=entry.id)
        message = self.holder.waiting.read(entry)
        if message is None:
            raise CorruptError(f"{entry.id} can't be read", subject=entry.id)
        again = msgspec.structs.replace(message, attempt=message.attempt + 1, deadline=None)
        self.holder.queue.put(again, self.holder.context.clock, self.holder.context.limits)
        crash_point("retry.published")
        self.holder.waiting.look()
        return f"attempt {again.attempt}"

    def _attempt_put(self, entry: Entry) -> int | None:
        """The attempt that a holder put for this very request before it died; the journal does not know it yet."""
        message = self.holder.waiting.read(entry) if entry.box == "new" else None
        known = self.holder.state.known.get(entry.id)
        if message is None or known is None or known.phase != DEAD or message.attempt <= known.attempt:
            return None
        return message.attempt

    def _edit(self, entry: Entry, request: Control) -> str:
        if entry.box != "new":
            raise UsageError(f"{entry.id} does not wait any more; it is in {entry.box}/", subject=entry.id)
        message = self.holder.waiting.read(entry)
        if message is None or request.text is None:
            raise CorruptError(f"{entry.id} can't be read", subject=entry.id)
        self.holder.waiting.see(entry, message)
        payload = Payload(text=request.text, attach=message.payload.attach)
        edited = msgspec.structs.replace(message, payload=payload, revision=message.revision + 1)
        self.holder.queue.rewrite(entry, edited)
        crash_point("edit.rewritten")
        self.holder.waiting.see(entry, edited)
        return f"revision {edited.revision}"

    def _reset(self, request: Control) -> str:
        self.holder.keeper.unwanted = "reset"
        session = self.holder.state.session or self.holder.state.fork
        if session is None:
            return "no session"
        if self.holder.running is not None:
            raise UnfinishedError(f"{self.holder.place.agent} is in a turn", "wait for it, or interrupt it")
        self.holder.record(
            events.SessionArchived(session_id=session.session_id, reason="reset", by=request.sender), sync=True
        )
        return session.session_id

    def _pause(self, request: Control) -> str:
        wanted = request.verb == "pause"
        if self.holder.state.paused == wanted:
            return "paused already" if wanted else "not paused"
        body = events.QueuePaused(by=request.sender) if wanted else events.QueueResumed(by=request.sender)
        self.holder.record(body, sync=True)
        return "paused" if wanted else "resumed"
