"""The conversation with one agent that speaks the Agent Client Protocol. It has one session, and one turn at a time.

Keeps the order of messages: the session and its mode are set before any turn, every request is answered before a turn
is cancelled, and the agent's last messages come before the end of the turn. Does not depend on the content of a turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents import link
from beam.agents.acp import prompt, wire
from beam.agents.acp.controls import Controls
from beam.agents.acp.dialect import Dialect
from beam.agents.acp.figures import Counter
from beam.agents.acp.opening import Opening
from beam.agents.acp.options import Options
from beam.agents.acp.requests import CANCEL_METHOD, Requests
from beam.agents.acp.turn import QUIET_UPDATES, TurnReader
from beam.agents.acp.wire import failure_of
from beam.agents.base import Exit, Turn, Verdict, json_object, last_line
from beam.agents.failures import class_of
from beam.agents.fields import Object, obj, object_of
from beam.agents.jsonrpc import Id, PendingCalls, Reply
from beam.agents.schema import apply_schema, why_not_a_schema
from beam.model import events
from beam.model.outcome import Class, Status

STOP_S = 10.0
_LOG_S = 0.5  # until the agent's stderr has what its answer was told before
_PLAIN_TEXT_PREFIX = "Message:\n"
# An agent may enter a mode on its own if its name has such a word, and none of those that may mean more.
_NARROW_WORD = re.compile(r"(?<![a-z])(?:plan|read|ask)")
_WIDE_WORD = re.compile(r"writ|edit|auto|accept|full|yolo|bypass")


class AcpLink:
    """The conversation with one process. All its turns are in the session of the first turn."""

    def __init__(self, turn: Turn, dialect: Dialect) -> None:
        self._first = turn
        self._dialect = dialect
        self._calls = PendingCalls(dialect.name, wire.request)
        self._options = Options()
        self._counter = Counter(dialect, turn)
        self._controls = Controls(dialect.name, self._calls, self._options, self._counter, plan=dialect.plan)
        self._requests = Requests()
        self._opening = Opening(turn, dialect, self._calls, self._options)
        self._reader: TurnReader | None = None
        self._stop_deadline: float | None = None  # when a turn that is being stopped has to be over
        self._held: tuple[Reply, float] | None = None  # the end of the turn, and how long it waits for stderr
        self._now = 0.0
        self._is_ready = False
        self._is_broken = False

    @property
    def due(self) -> float | None:
        held = None if self._held is None else self._held[1]
        return min((time for time in (self._calls.due, self._stop_deadline, held) if time is not None), default=None)

    @property
    def busy(self) -> bool:
        return self._reader is not None

    # -- intents -------------------------------------------------------------------------------------------------------

    def open(self, now: float) -> Sequence[link.Step]:
        return self._record_opening(self._opening.begin(now))

    def do(self, intent: link.Intent, now: float) -> Sequence[link.Step]:
        if self._is_broken:
            return []
        match intent:
            case link.Prompt():
                return self._prompt(intent.turn)
            case link.Interrupt():
                return self._interrupt(now)
            case link.Decide():
                return self._requests.decide(intent, self._reader)
            case link.Steer():
                return self._controls.steer(intent)
            case link.Set():
                return self._controls.set(intent, now)
            case link.Query():
                return self._controls.query(intent)
            case link.Act():
                return self._controls.act(intent)
            case link.Close():
                return [link.Eof()]

    def line(self, line: bytes, now: float) -> Sequence[link.Step]:
        self._now = now
        if self._is_broken or not line.strip():
            return []
        frame = wire.read(line)
        if frame is None:
            return self._on_unknown("not JSON", line)
        if not frame.method:
            found = self._record_opening(self._calls.on_answered(frame.id, frame.result, frame.error, now))
            return [*found, *self._check_mode()]
        if frame.method == "session/update":
            return self._on_updated(frame.params, line, now)
        value = json_object(line) or {}
        if "id" not in value:
            is_cancel = frame.method == CANCEL_METHOD
            if not is_cancel and self._reader is not None:
                self._reader.on_own_message(frame.method, obj(value, "params"))
            return self._requests.on_withdrawn(obj(value, "params").get("requestId")) if is_cancel else []
        if frame.id is None:
            return [wire.refusal(value["id"], "an id is a text or a whole number")]
        return self._on_asked(frame.id, frame.method, obj(value, "params"))

    def error_line(self, line: bytes) -> None:
        if self._reader is not None:
            self._reader.on_error_line(line)

    def on_due(self, now: float) -> Sequence[link.Step]:
        if self._is_broken:
            return []
        if self._held is not None and now >= self._held[1]:
            return self._on_completed(self._held[0])
        found = self._record_opening(self._calls.expire(now))
        if self._stop_deadline is None or now < self._stop_deadline or self._is_broken:
            return found
        return [*found, *self._break(f"{self._dialect.name} did not end its turn in time")]

    def end(self, exit: Exit) -> Sequence[link.Step]:
        if self._held is not None:
            return self._on_completed(self._held[0])
        if self._reader is not None:
            return self._end_turn(*self._reader.end_cut_off(exit), fit=False)
        if self._is_ready or self._is_broken or exit.stopped_by is not None:
            return []
        if class_of(None, exit.stderr_tail) is not Class.AUTH:
            return []
        return self._break(last_line(exit.stderr_tail), Class.AUTH)

    # -- the beginning -------------------------------------------------------------------------------------------------

    def _record_opening(self, found: list[link.Step]) -> list[link.Step]:
        """Record whether these steps opened the session or failed to open it, and return the same steps."""
        for step in found:
            if isinstance(step, link.Broken):
                self._break("")
            elif isinstance(step, link.Ready):
                self._is_ready = True
                self._controls.session_id = self._opening.session_id
                self._controls.mode = self._opening.mode
        return found

    # -- a turn --------------------------------------------------------------------------------------------------------

    def _prompt(self, turn: Turn) -> list[link.Step]:
        image = prompt.refused_image(turn, self._opening.takes)
        if image:
            return _refuse_turn(turn, Class.UNSUPPORTED, f"{self._dialect.name} takes no images, and {image} is one")
        why = why_not_a_schema(turn.schema)
        if why:
            return _refuse_turn(turn, Class.BAD_REQUEST, why)
        self._counter.begin_turn()
        model = turn.model or self._options.current("model") or None
        system = "" if self._has_system else prompt.system_digest(turn)
        session_id = self._opening.session_id
        reader = TurnReader(turn, self._dialect, session_id, self._counter, model=model, system=system)
        self._reader, self._stop_deadline = reader, None

        def then(reply: Reply) -> list[link.Step]:
            return self._on_completed(reply) if reader is self._reader else []

        params: Object = {"sessionId": self._opening.session_id, "prompt": self._prompt_parts(turn)}
        return [self._calls.call("session/prompt", params, then, None)]  # the turn has its own time limits

    def _prompt_parts(self, turn: Turn) -> list[Object]:
        text = turn.text
        if turn.outbox and self._first.outbox:  # the process may write only to the outbox that it began with
            text = text.replace(turn.outbox, self._first.outbox)
        if text.lstrip().startswith("/"):  # an agent's own command could raise its access; some agents ignore blanks
            text = f"{_PLAIN_TEXT_PREFIX}{text}"
        system = [] if self._has_system else prompt.parts_before(turn)
        files = prompt.file_parts(turn, self._opening.takes, as_text=self._dialect.files_as_text)
        return [*system, prompt.text_part(text), *files, *prompt.parts_after(turn)]

    @property
    def _has_system(self) -> bool:
        """Return whether the agent got the system prompt when it was started or its session was opened."""
        return self._opening.takes_system or self._dialect.starts_with_system

    def _on_begun(self, reader: TurnReader) -> list[link.Step]:
        if reader.is_known:
            return []
        return [link.Acknowledged(), *(link.Say(event) for event in reader.on_begun())]

    def _on_asked(self, number: Id, method: str, params: Object) -> list[link.Step]:
        reader = self._reader
        found = self._requests.handle_request(number, method, params, reader)
        if reader is not None:
            return [*self._on_begun(reader), *found]
        return [*found, link.Stirred()] if self._is_ready else found

    def _on_updated(self, params: wire.Params, line: bytes, now: float) -> list[link.Step]:
        update, reader = params.update, self._reader
        if not self._opening.session_id or params.session_id != self._opening.session_id:
            return []  # an update of a session that is being loaded, or of a subagent
        match update.session_update:
            case "available_commands_update":
                self._controls.commands = update.available_commands
            case "usage_update":
                return self._on_usage_updated(update)
            case "current_mode_update" | "config_option_update":
                before = self._options.mode
                self._options.record({"configOptions": update.config_options, "currentModeId": update.current_mode_id})
                return [*self._report_mode(before), *self._check_mode()]
        if reader is None:
            return [link.Stirred()] if self._is_ready and update.session_update == "tool_call" else []
        known = [] if update.session_update in QUIET_UPDATES else self._on_begun(reader)
        return [*known, *(link.Say(event) for event in reader.on_updated(update, line, now))]

    def _on_usage_updated(self, update: wire.Update) -> list[link.Step]:
        """Record how full the context is, and return the step that reports it. Without a running turn or a change,
        return no step."""
        before = (self._counter.used, self._counter.size)
        self._counter.record_context(update)
        used, size = self._counter.used, self._counter.size
        if self._reader is None or used is None or before == (used, size):
            return []
        return [link.Say(events.ContextUsed(used=used, size=size))]

    def _report_mode(self, before: str) -> list[link.Step]:
        """Return the step that reports the session's mode. Without a running turn, or if the mode is still `before`,
        return no step."""
        mode = self._options.mode
        return [link.Say(events.StatusChanged(state="mode", detail=mode))] if self._reader and mode != before else []

    def _check_mode(self) -> list[link.Step]:
        """Return the steps that end the conversation, if the session left the mode that beam chose for a mode that may
        allow more; else none."""
        access, wide = self._first.access, self._options.first_id_with_value(self._dialect.never)
        wanted, mode = self._opening.mode, self._options.mode
        is_narrow = wanted in (None, mode) or _is_narrow(mode.lower().rpartition("#")[2])
        if not self._is_ready or self._is_broken or access == "full" or (is_narrow and not wide):
            return []
        what = f"turned on {wide}" if wide else f"went into the mode {mode!r}"
        return self._break(f"{self._dialect.name} {what}, which may allow more than {access}", Class.UNSUPPORTED)

    def _on_unknown(self, what: str, line: bytes) -> list[link.Step]:
        return [] if self._reader is None else [link.Say(event) for event in self._reader.on_unknown(what, line)]

    # -- the end of a turn or of the conversation ----------------------------------------------------------------------

    def _interrupt(self, now: float) -> list[link.Step]:
        if self._reader is None:
            return []
        self._stop_deadline = self._stop_deadline or now + STOP_S
        cancel = wire.notification("session/cancel", {"sessionId": self._opening.session_id})
        return [*self._requests.cancel_all(), cancel]  # some agents end no turn while one of their requests is open

    def _on_completed(self, reply: Reply) -> list[link.Step]:
        reader, is_stopping = self._reader, self._stop_deadline is not None
        assert reader is not None
        if reader.is_open and self._held is None and not is_stopping:
            self._held = (reply, self._now + _LOG_S)
            return []
        if not reply.error:
            known = self._on_begun(reader)
            return [*known, *self._end_turn(*reader.end(object_of(reply.result), is_stopping=is_stopping), fit=True)]
        is_fit = failure_of(reply.failure).class_ is not Class.AUTH
        return self._end_turn(*reader.end_failed(reply.failure, is_stopping=is_stopping), fit=is_fit)

    def _end_turn(self, emitted: Sequence[events.Event], verdict: Verdict, *, fit: bool) -> list[link.Step]:
        if self._reader is not None:
            verdict = apply_schema(self._reader.turn, verdict)
        self._reader, self._stop_deadline, self._held = None, None, None
        steps: list[link.Step] = [link.Say(event) for event in emitted]
        return [*self._requests.cancel_all(), *steps, link.Over(verdict=verdict, fit=fit)]

    def _break(self, why: str, class_: Class = Class.CRASHED) -> list[link.Step]:
        self._is_broken, self._reader, self._stop_deadline, self._held = True, None, None, None
        self._calls.forget_all()
        return [link.Broken(reason=why, class_=class_)]


def _is_narrow(mode: str) -> bool:
    """Return whether the name of a mode says that it allows no more than to read, to plan, or to ask."""
    return _NARROW_WORD.search(mode) is not None and _WIDE_WORD.search(mode) is None


def _refuse_turn(turn: Turn, class_: Class, why: str) -> list[link.Step]:
    """Return the step that ends a turn as failed, without sending its message to the agent."""
    session_id = None if turn.fork else turn.session_id
    verdict = Verdict(status=Status.FAILED, class_=class_, reason=why, session_id=session_id)
    return [link.Over(verdict=verdict)]
