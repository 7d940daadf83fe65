"""Answers control requests to an agent. Each answer is one `control.done` event in the journal.

Some requests can't be answered at once. The file of such a request stays in place until the request is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from beam.base import typed_values
from beam.base.clock import parse_rfc3339
from beam.base.errors import BeamError, CorruptError, DiskError, NotFoundError, UnfinishedError, UsageError
from beam.base.faults import crash_point
from beam.broker.holder.calls import FORWARDED_VERBS
from beam.broker.inbox import closing
from beam.model import events
from beam.model.message import Payload, check_session_id
from beam.model.outcome import Status
from beam.model.state import DEAD
from beam.store import control
from beam.store.control import ControlRequest
from beam.store.queue import Entry
from beam.turns.asks import CallAnswer

if TYPE_CHECKING:
    from beam.broker.holder.lease import AgentLease

NO_KEPT_PROCESS = "no process of {} is kept"


class RewindTarget(msgspec.Struct, frozen=True):
    """The place in a session to which it is rewound: just after the message with the CLI's own id `upto`. That message
    ended the turn with beam's number `to`."""

    upto: str
    to: int | None = None


def answer_requests(lease: AgentLease) -> None:
    """Answer every control request that waits for this agent. Idempotent: if the journal has the answer to a request
    already, only the request's file is removed."""
    _Requests(lease).answer_all()


class _Requests:
    """The control requests to one agent."""

    def __init__(self, lease: AgentLease) -> None:
        self.lease = lease
        self.log = lease.log
        self.waiting = lease.waiting

    def answer_all(self) -> None:
        """Answer every request that waits."""
        directory = self.log.paths.control
        for name in control.waiting_names(directory):
            try:
                request = control.read(directory, name)
            except DiskError as error:
                is_unreadable = isinstance(error.__cause__, PermissionError | IsADirectoryError)
                if not (is_unreadable or isinstance(error, CorruptError)):
                    raise
                self.log.record(events.Notice(code="bad_request", text=error.message))
                control.remove_invalid(directory, name)
                continue
            if request is None:
                continue
            if request.id not in self.log.state.answered:
                crash_point("control.before")
                if not self._record_answer(request):
                    continue
                crash_point("control.done")
            control.remove(directory, name)
            crash_point("control.removed")

    def _record_answer(self, request: ControlRequest) -> bool:
        """Carry out the request and record its answer; return False if the answer comes later."""
        done = events.ControlDone(control_id=request.id, verb=request.verb)
        try:
            answer = self._carry_out_or_forward(request)
            if answer is None:
                return False
            done = msgspec.structs.replace(done, **msgspec.structs.asdict(answer))
        except BeamError as error:
            done = msgspec.structs.replace(done, ok=False, code=error.kind, message=error.message)
        self.log.record(done, message_id=self._message_id_of(request), sync=True)
        return True

    def _carry_out_or_forward(self, request: ControlRequest) -> CallAnswer | None:
        """Carry out the request and return its answer; None if the answer comes later."""
        if request.verb in FORWARDED_VERBS:
            return self.lease.calls.carry_out(request)
        if self.log.context.clock.now_ns() > parse_rfc3339(request.expires):
            raise UsageError("the request came too late")
        done = self._carry_out(request)
        return None if done is None else CallAnswer(message=done)

    def _message_id_of(self, request: ControlRequest) -> str | None:
        if request.verb in ("select", "rewind", "settings"):
            return None
        if request.verb not in ("approve", "amend", "deny"):
            return request.target
        return self.lease.turn.message_id if self.lease.turn is not None else None

    def _carry_out(self, request: ControlRequest) -> str | None:
        """Carry out the request and return what was done, as text; None if the answer comes later."""
        if request.verb in ("pause", "resume"):
            return self._pause_or_resume(request)
        if request.verb == "reset":
            return self._reset(request)
        if request.verb == "select":
            return self._select(check_session_id(request.target or ""), request)
        if request.verb == "rewind":
            return self._rewind(check_session_id(request.target or ""), request)
        if request.verb == "release":
            return self._release_agent()
        if request.verb == "close":
            return self._close_kept_process(request)
        if request.verb == "settings":
            return self._record_settings(request)
        target = request.target or ""
        if request.verb in ("approve", "amend", "deny"):
            return self._decide(target, request)
        if request.verb == "interrupt":
            return self._interrupt(target, request.sender)
        entry = self.log.queue.find(target)
        if entry is None:
            raise NotFoundError(f"no message {target} is in the queue of {self.log.paths.agent}", subject=target)
        return {"drop": self._drop, "retry": self._retry, "edit": self._edit}[request.verb](entry, request)

    def _decide(self, ask_id: str, request: ControlRequest) -> str:
        from beam.turns.asks import Decision

        asks = self.lease.turn.asks if self.lease.turn is not None else None
        if asks is None:
            raise NotFoundError(f"no ask {ask_id} is open", subject=ask_id)
        is_allowed, is_changed = request.verb != "deny", request.verb == "amend"
        decision = Decision(
            decision="allow" if is_allowed else "deny",
            by=request.sender,
            message="" if is_allowed else request.text or "",
            always=request.always,
            stop=request.stop,
            input=_json_object(request.text or "") if is_changed else None,
        )
        asks.decide(ask_id, decision)
        if is_changed:
            return "allowed with the changed input"
        return "allowed" if is_allowed else "denied"

    def _interrupt(self, target: str, by: str) -> str:
        turn = self.lease.turn
        if turn is not None and turn.message_id == target:
            turn.stop.request("cancelled", by=by)
            return "asked to stop"
        entry = self.log.queue.find(target)
        if entry is not None and entry.box == "new":
            self._withdraw(entry, f"withdrawn by {by}", by)
            return "withdrawn"
        if entry is not None and entry.box == "cur" and self.log.has_lent_message():
            self.waiting.take_back(entry, by)
            return "taken back"
        raise NotFoundError(f"{target} is not running", subject=target)

    def _withdraw(self, entry: Entry, why: str, by: str) -> None:
        message = self.waiting.read(entry)
        if message is None:
            return
        known = self.log.state.known.get(message.id)
        if known is not None and known.phase == DEAD and known.attempt == message.attempt:
            closing.resume_dead_letter(self.log, entry, message, known)  # an earlier holder died while it gave it up
            self.log.queue.remove(Entry(entry.position, entry.id, "dead"))
            return
        closing.dead_letter(
            self.log, entry, message, closing.DROPPED, why, status=Status.CANCELLED, tell=by != message.sender
        )

    def _drop(self, entry: Entry, request: ControlRequest) -> str:
        if entry.box == "cur":
            raise UnfinishedError(f"{entry.id} is running", f"beam interrupt {self.log.paths.agent}", subject=entry.id)
        if entry.box == "dead":
            self.log.queue.remove(entry)
            return "removed"
        self._withdraw(entry, f"dropped by {request.sender}", request.sender)
        return "dropped"

    def _retry(self, entry: Entry, request: ControlRequest) -> str:
        attempt = self._attempt_already_queued(entry)
        if attempt is not None:
            self.waiting.scan()
            return f"attempt {attempt}"
        if entry.box != "dead":
            raise UsageError(f"{entry.id} is not a dead letter; it is in {entry.box}/", subject=entry.id)
        message = self.waiting.read(entry)
        if message is None:
            raise CorruptError(f"{entry.id} can't be read", subject=entry.id)
        retried = msgspec.structs.replace(message, attempt=message.attempt + 1, deadline=None, only_by="")
        agent = self.log.paths.agent
        if message.to != agent:  # the agent was renamed, and the content of the message changes
            retried = msgspec.structs.replace(retried, to=agent, revision=message.revision + 1)
        self.log.queue.put(retried, self.log.context.clock, self.log.context.config.limits)
        crash_point("retry.published")
        self.waiting.scan()
        return f"attempt {retried.attempt}"

    def _attempt_already_queued(self, entry: Entry) -> int | None:
        """Return the attempt that an earlier holder put into the queue for this retry request, before it died and
        without recording an answer; None if there is none."""
        message = self.waiting.read(entry) if entry.box == "new" else None
        known = self.log.state.known.get(entry.id)
        if message is None or known is None or known.phase != DEAD or message.attempt <= known.attempt:
            return None
        return message.attempt

    def _edit(self, entry: Entry, request: ControlRequest) -> str:
        if entry.box != "new":
            raise UsageError(f"{entry.id} is not waiting any more; it is in {entry.box}/", subject=entry.id)
        message = self.waiting.read(entry)
        if message is None or request.text is None:
            raise CorruptError(f"{entry.id} can't be read", subject=entry.id)
        self.waiting.record_queued(entry, message)
        payload = Payload(text=request.text, attach=message.payload.attach)
        edited = msgspec.structs.replace(message, payload=payload, revision=message.revision + 1)
        self.log.queue.rewrite(entry, edited)
        crash_point("edit.rewritten")
        self.waiting.record_queued(entry, edited)
        return f"revision {edited.revision}"

    def _reset(self, request: ControlRequest, reason: str = "reset") -> str:
        self.lease.keeper.unwanted = "reset"
        session = self.log.state.session or self.log.state.fork
        if session is None:
            return "no session"
        if self.lease.turn is not None:
            raise UnfinishedError(f"{self.log.paths.agent} is in a turn", "wait for it, or interrupt it")
        self.log.record(
            events.SessionArchived(session_id=session.session_id, reason=reason, by=request.sender), sync=True
        )
        return session.session_id

    def _select(self, session_id: str, request: ControlRequest) -> str:
        session = self.log.state.session or self.log.state.fork
        if session is not None and session.session_id == session_id:
            return session_id
        self._reset(request, reason=f"session {session_id} was chosen")
        self.log.record(
            events.SessionSelected(session_id=session_id, adapter=request.text or "", by=request.sender), sync=True
        )
        return session_id

    def _rewind(self, session_id: str, request: ControlRequest) -> str:
        """Record the place to which the session is rewound. The next turn continues from there, in a new process."""
        agent, session = self.log.paths.agent, self.log.state.session
        try:
            wanted = typed_values.decode(request.text or "", RewindTarget)
        except (ValueError, RecursionError) as error:
            raise UsageError("the request names no place in the session") from error
        if self.lease.turn is not None:
            raise UnfinishedError(f"{agent} is in a turn", f"wait for it, or: beam interrupt {agent}", subject=agent)
        if session is None or session.session_id != session_id:
            raise UnfinishedError(f"{agent} is in another session by now", "look again, then repeat it", subject=agent)
        self.lease.keeper.unwanted = "its session goes back to an earlier turn"
        back = events.SessionRewound(session_id=session_id, upto=wanted.upto, to=wanted.to, by=request.sender)
        self.log.record(back, sync=True)
        return session_id

    def _close_kept_process(self, request: ControlRequest) -> str | None:
        """Ask the kept process to end, and return None until it has ended. Then return a text that says what was
        closed."""
        lease, agent = self.lease, self.log.paths.agent
        if lease.turn is not None:
            raise UnfinishedError(f"{agent} is in a turn", f"wait for it, or: beam interrupt {agent}", subject=agent)
        process = lease.keeper.process
        if process is not None:
            session = self.log.state.session
            of = f" of session {session.session_id}" if session is not None else ""
            lease.closing[request.id] = f"closed process {process.child.pid}{of}"
            lease.keeper.unwanted = f"{request.sender} released it"
            return None
        return lease.closing.pop(request.id, NO_KEPT_PROCESS.format(agent))

    def _record_settings(self, request: ControlRequest) -> str:
        try:
            changes = typed_values.decode(request.text or "", dict[str, str | None])
        except msgspec.MsgspecError as error:
            raise UsageError("the request names no settings") from error
        self.log.record(events.SettingsChanged(changes=changes, by=request.sender), sync=True)
        return "recorded"

    def _release_agent(self) -> str:
        if self.log.state.kept is not None:
            self.lease.keeper.unwanted = "somebody else wants the agent"
            raise UnfinishedError(f"{self.log.paths.agent} had a kept process, which is ending", "try again")
        if self.lease.turn is not None or not self.log.state.is_over():
            raise UnfinishedError(f"{self.log.paths.agent} has an unfinished turn", "wait for it, or interrupt it")
        self.lease.is_wanted = True
        return "released"

    def _pause_or_resume(self, request: ControlRequest) -> str:
        wanted = request.verb == "pause"
        if self.log.state.paused == wanted:
            return "paused already" if wanted else "not paused"
        body = events.QueuePaused(by=request.sender) if wanted else events.QueueResumed(by=request.sender)
        self.log.record(body, sync=True)
        return "paused" if wanted else "resumed"


def _json_object(text: str) -> msgspec.Raw:
    """Return the JSON object in a text. Raises UsageError for anything else."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the input is not JSON: {error}; nothing was decided") from error
    if not isinstance(value, dict):
        raise UsageError("the input is no JSON object; nothing was decided")
    return msgspec.Raw(msgspec.json.encode(value))
