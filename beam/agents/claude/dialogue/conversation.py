"""The conversation with one process of Claude Code, one turn at a time.

Decides the order of messages: the rights are set before any turn. A result counts only after claude has begun to work
on beam's message, because claude also begins runs on its own. A turn ends only after claude reports that it is idle.
Does not depend on the content of a turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents import link
from beam.agents.base import Exit, Native, Turn, Verdict, native
from beam.agents.claude.dialogue import rights, wire
from beam.agents.claude.dialogue.controls import Controls
from beam.agents.claude.dialogue.requests import Requests
from beam.agents.claude.dialogue.turn import TurnReader
from beam.agents.claude.dialogue.wire import PendingCalls, Reply
from beam.agents.claude.exec import text_of
from beam.agents.fields import obj, string
from beam.base.errors import UnsupportedError
from beam.model import events
from beam.model.outcome import Class, Status

START_S, TURN_S, STOP_S, SETTLE_S = 60.0, 60.0, 10.0, 20.0


class ClaudeLink:
    """The conversation with one process of Claude Code."""

    def __init__(self, turn: Turn) -> None:
        self._first = turn
        self._calls = PendingCalls()
        self._controls = Controls(self._calls, turn)
        self._requests = Requests(turn.cwd)
        self._reader: TurnReader | None = None
        self._until: float | None = None  # the time by which the next line from claude has to come
        self._names_messages = False  # claude reports the state of each; older versions only echo some, and later
        self._is_ready = False
        self._is_stopping = False
        self._is_broken = False

    @property
    def due(self) -> float | None:
        return min((time for time in (self._calls.due, self._until) if time is not None), default=None)

    @property
    def busy(self) -> bool:
        return self._reader is not None

    # -- intents -------------------------------------------------------------------------------------------------------

    def open(self, now: float) -> Sequence[link.Step]:
        return [self._calls.call("initialize", {}, self._on_initialized, now + START_S)]

    def do(self, intent: link.Intent, now: float) -> Sequence[link.Step]:
        if self._is_broken:
            return []
        match intent:
            case link.Prompt():
                return self._prompt(intent.turn, now)
            case link.Interrupt():
                return self._interrupt(now)
            case link.Decide():
                if self._reader is not None and intent.decision != "allow":
                    self._reader.on_denied(intent.key)
                return self._requests.decide(intent)
            case link.Steer():
                return self._controls.steer(intent, runs=self._reader is not None)
            case link.Set():
                return self._controls.set(intent, now)
            case link.Query():
                return self._controls.query(intent, now)
            case link.Act():
                return self._controls.act(intent, now)
            case link.Close():
                return [link.Eof()]

    def line(self, line: bytes, now: float) -> Sequence[link.Step]:
        if self._is_broken or not line.strip():
            return []
        read = native(line)
        if read is None:
            unknown = events.Unknown(what="not JSON", raw=line.decode("utf-8", "replace"))
            return [link.Say(unknown)] if self.busy else []
        self._until = None
        found = self._handle_line(read, now)
        if self._reader is not None and self._reader.is_late:
            self._until = now + SETTLE_S
        return found

    def on_due(self, now: float) -> Sequence[link.Step]:
        if self._is_broken:
            return []
        found, reader = self._calls.expire(now), self._reader
        if self._until is None or now < self._until or reader is None:
            return found
        if reader.is_late:
            return [*found, *self._end_turn(*reader.end(), fit=False)]
        return [*found, *self._break("claude did not take the message in time")]

    def end(self, exit: Exit) -> Sequence[link.Step]:
        if self._reader is not None:
            return self._end_turn(*self._reader.end(exit), fit=False)
        if self._is_ready or self._is_broken or exit.stopped_by is not None:
            return []
        return self._fail_to_begin(*TurnReader(self._first).end(exit))

    # -- the beginning -------------------------------------------------------------------------------------------------

    def _on_initialized(self, reply: Reply) -> list[link.Step]:
        if reply.error:
            return self._break(f"claude did not begin the conversation: {reply.error}")
        refused = rights.setting_not_applied(self._first, reply.result)
        if refused:
            return self._break(f"it did not take over {refused}", Class.UNSUPPORTED)
        self._controls.initialized = reply.result
        self._is_ready = True
        return [link.Ready()]

    def _fail_to_begin(self, emitted: Sequence[events.Event], verdict: Verdict) -> list[link.Step]:
        """Return the steps for a process that ends, or has to end, before it can take a message."""
        lost: list[link.Step] = [link.Say(event) for event in emitted if isinstance(event, events.SessionLost)]
        return [*lost, *self._break(verdict.reason or "it did not begin", verdict.class_ or Class.CRASHED)]

    # -- a turn --------------------------------------------------------------------------------------------------------

    def _prompt(self, turn: Turn, now: float) -> list[link.Step]:
        reader = self._reader = TurnReader(turn)
        self._is_stopping = False
        if turn.slash and (lacking := self._controls.why_no_command(turn.text)):
            return self._end_turn([], Verdict(status=Status.FAILED, class_=Class.UNSUPPORTED, reason=lacking), fit=True)
        try:
            text = text_of(turn)
        except UnsupportedError as error:
            verdict = Verdict(status=Status.FAILED, class_=Class.UNSUPPORTED, reason=str(error))
            return self._end_turn([], verdict, fit=True)
        self._until = now + TURN_S
        if turn.outbox and self._first.outbox:  # the process may write only to the outbox that it began with
            text = text.replace(turn.outbox, self._first.outbox)
        return [wire.message(reader.key, text)]

    def _interrupt(self, now: float) -> list[link.Step]:
        reader = self._reader
        if reader is None:
            return []
        self._is_stopping = True
        reader.on_stopped()

        def then(reply: Reply) -> list[link.Step]:
            return self._break(reply.error) if reply.is_late and reader is self._reader else []

        return [self._calls.call("interrupt", {"cancel_queued": True}, then, now + STOP_S)]

    # -- lines from claude ---------------------------------------------------------------------------------------------

    def _handle_line(self, read: Native, now: float) -> list[link.Step]:
        value = read.value
        match string(value, "type"):
            case "control_response":
                return self._calls.on_answered(obj(value, "response"), now)
            case "control_request":
                if self._reader is not None:
                    self._reader.on_asked(read)
                return self._requests.handle_request(value)
            case "control_cancel_request":
                if self._reader is not None:
                    self._reader.on_withdrawn(read)
                return self._requests.on_withdrawn(string(value, "request_id"))
            case "command_lifecycle":
                self._names_messages = True
                return self._on_message_state(string(value, "command_uuid"), string(value, "state"), now)
            case "user" if value.get("isReplay") is True:
                return self._on_echo(string(value, "uuid"), "timestamp" in value, now)
            case "system" if string(value, "subtype") == "session_state_changed":
                return self._on_session_state(string(value, "state"))
            case kind:
                return self._on_other_line(kind, read)

    def _on_other_line(self, kind: str, read: Native) -> list[link.Step]:
        reader = self._reader
        if kind == "system" and (mode := string(read.value, "permissionMode")):
            self._controls.on_mode(mode)
        if kind == "system" and (folder := string(read.value, "cwd")):
            self._requests.folders.add(folder)
        if reader is not None:
            return [link.Say(event) for event in reader.frame(read)]
        if not self._is_ready and kind == "result":
            first = TurnReader(self._first)
            emitted = first.frame(read)
            return self._fail_to_begin(emitted, first.end()[1])
        return [link.Stirred()] if self._is_ready and string(read.value, "subtype") == "init" else []

    def _on_message_state(self, key: str, state: str, now: float) -> list[link.Step]:
        """Return the steps for a message that claude has queued, started, or finished."""
        reader = self._reader
        if reader is None or key != reader.key:
            return self._controls.on_text_state(key, state)
        known: list[link.Step] = [] if reader.is_known else [link.Acknowledged()]
        reader.is_known = True
        if state == "queued" or reader.is_begun:
            return known
        if state != "started":
            reason = (
                "the turn was interrupted" if state == "cancelled" else f"claude dropped the message ({state[:40]})"
            )
            status, class_ = (Status.CANCELLED, None) if state == "cancelled" else (Status.FAILED, Class.CRASHED)
            return [*known, *self._end_turn([], Verdict(status=status, class_=class_, reason=reason), fit=False)]
        begun: list[link.Step] = [link.Say(event) for event in reader.on_begun()]
        return [*known, *begun, *(self._interrupt(now) if self._is_stopping else [])]

    def _on_echo(self, key: str, is_new: bool, now: float) -> list[link.Step]:
        """Return the steps for a message that claude echoes: claude reads the message now (`is_new`), or had received
        it before."""
        reader = self._reader
        if is_new or reader is None or key != reader.key:
            return self._on_message_state(key, "started", now) if is_new else []
        reader.is_double = True
        return []

    def _on_session_state(self, state: str) -> list[link.Step]:
        reader = self._reader
        if reader is None:
            return [link.Stirred()] if self._is_ready and state == "running" else []
        if state != "idle" or self._controls.has_unread_texts:
            return []
        if reader.is_begun or (reader.has_result and not self._names_messages):
            known: list[link.Step] = [] if reader.is_known else [link.Acknowledged()]
            is_spent = self._first.budget_usd is not None  # claude counts the cost of the whole process
            return [*known, *self._end_turn(*reader.end(), fit=reader.has_result and not is_spent)]
        if reader.is_double:
            reason = "claude has had this message before, and answers each once"
            return self._end_turn([], Verdict(status=Status.UNKNOWN, reason=reason), fit=False)
        return []

    # -- the end of a turn or of the conversation ----------------------------------------------------------------------

    def _end_turn(self, emitted: Sequence[events.Event], verdict: Verdict, *, fit: bool) -> list[link.Step]:
        self._reader, self._until, self._is_stopping = None, None, False
        steps: list[link.Step] = [link.Say(event) for event in emitted]
        return [*steps, *self._controls.on_turn_over(), link.Over(verdict=verdict, fit=fit)]

    def _break(self, why: str, class_: Class = Class.CRASHED) -> list[link.Step]:
        self._is_broken, self._reader, self._until = True, None, None
        self._calls.forget_all()
        return [*self._controls.on_turn_over(), link.Broken(reason=why, class_=class_)]
