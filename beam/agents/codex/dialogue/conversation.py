"""The conversation with one `codex app-server`. It has one thread, and one turn at a time.

Keeps the order of messages: the thread is opened before any turn. Codex's requests are handled once the thread is open.
An interrupted turn ends only after its background work has ended. Does not depend on the content of a turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents import link
from beam.agents.base import Exit, Turn, Verdict, document, json_object
from beam.agents.codex.dialogue import rights, wire
from beam.agents.codex.dialogue.controls import Controls
from beam.agents.codex.dialogue.requests import Requests
from beam.agents.codex.dialogue.revert import revert
from beam.agents.codex.dialogue.turn import TurnReader, thread_total
from beam.agents.codex.dialogue.wire import IGNORED_METHODS, READ_METHODS
from beam.agents.codex.exec import is_image, prompt_text
from beam.agents.codex.trouble import failure_class
from beam.agents.fields import Object, obj, object_of, string
from beam.agents.figures import NOTHING_YET
from beam.agents.jsonrpc import Id, PendingCalls, Reply
from beam.base.typed_values import replace_surrogates
from beam.model import events
from beam.model.outcome import Class, Status, Total

START_S, TURN_S, STOP_S, CLEAN_S = 60.0, 60.0, 10.0, 3.0
IDLE_S = 5.0  # codex says that its turn is over just after it says that its thread is idle
_MAX_HELD = 100
_COMPACT = "/compact"
_LOST = "no rollout found for thread id"
_LOCKED = "already has an active writer"
_END_BY_STATUS = {"idle": "completed", "systemError": "failed"}  # of a thread that does nothing: how its turn ended
_CLIENT: Object = {"name": "beam", "title": "beam", "version": "1"}
_LOGIN_REASON = "it is not logged in: run `codex login`, or send --via exec, where CODEX_API_KEY counts"


class CodexLink:
    """The conversation with one process. All its turns are in the thread of the first turn."""

    def __init__(self, turn: Turn) -> None:
        self._first = turn
        self._calls = PendingCalls("codex", wire.request)
        self._controls = Controls(self._calls)
        self._requests = Requests()
        self._held: list[tuple[Id, str, Object]] = []  # requests that came before the thread was open
        self._thread_id = ""
        self._total: Total | None = None
        self._own: Object = {}
        self._opening = 0  # the number of answers that must come before a turn
        self._reader: TurnReader | None = None
        self._is_stopping = False
        self._is_broken = False
        self._idle_due: float | None = None  # when the turn ends although codex does not say so
        self._idle_told = ""  # how it ended then

    @property
    def due(self) -> float | None:
        return min((at for at in (self._calls.due, self._idle_due) if at is not None), default=None)

    @property
    def busy(self) -> bool:
        return self._reader is not None

    # -- intents -------------------------------------------------------------------------------------------------------

    def open(self, now: float) -> Sequence[link.Step]:
        params: Object = {"clientInfo": _CLIENT, "capabilities": {"experimentalApi": True}}
        return [self._calls.call("initialize", params, self._on_initialized, now + START_S)]

    def do(self, intent: link.Intent, now: float) -> Sequence[link.Step]:
        if self._is_broken:
            return []
        match intent:
            case link.Prompt():
                return self._prompt(intent.turn, now)
            case link.Interrupt():
                return self._interrupt(now)
            case link.Decide():
                return self._requests.decide(intent)
            case link.Steer():
                return self._controls.steer(intent, "" if self._reader is None else self._reader.id, now)
            case link.Set():
                return self._controls.set(intent, now)
            case link.Query():
                return self._controls.query(intent, now)
            case link.Act():
                return self._controls.act(intent, now)
            case link.Close():
                return [link.Eof()]

    def line(self, line: bytes, now: float) -> Sequence[link.Step]:
        if self._is_broken:
            return []
        frame = wire.read(line)
        if frame is None:
            return self._on_unknown("not JSON", line) if line.strip() else []
        if not frame.method:
            return self._calls.on_answered(frame.id, frame.result, frame.error, now)
        if frame.id is not None:
            return self._on_asked(frame.id, frame.method, obj(json_object(line) or {}, "params"))
        return self._on_notified(frame, line, now)

    def error_line(self, line: bytes) -> None:
        """Record a line of stderr. Calls that Codex itself refuses are reported nowhere else."""
        if self._reader is not None:
            self._reader.on_rejected(line.decode("utf-8", "replace"))

    def on_due(self, now: float) -> Sequence[link.Step]:
        if self._is_broken:
            return []
        found = self._calls.expire(now)
        reader = self._reader
        if self._idle_due is None or now < self._idle_due or reader is None or self._is_broken:
            return found
        self._idle_due = None
        told = "interrupted" if self._is_stopping else self._idle_told
        notice = link.Say(events.Notice(text="codex is idle, and did not say that its turn is over", code="no_end"))
        return [*found, notice, *self._end_turn(*reader.end(wire.Turn(id=reader.id, status=told)), fit=False)]

    def end(self, exit: Exit) -> Sequence[link.Step]:
        if self._reader is None:
            return []
        emitted, verdict = self._reader.end_cut_off(exit)
        return self._end_turn(emitted, verdict, fit=False)

    # -- the beginning -------------------------------------------------------------------------------------------------

    def _on_initialized(self, reply: Reply) -> list[link.Step]:
        if reply.error:
            return self._break(f"codex did not begin the conversation: {reply.error}")
        turn, until = self._first, reply.now + START_S
        params: Object = {**rights.thread_params(turn), "cwd": turn.cwd or None, "model": turn.model}
        if turn.settings.system is not None:
            params["developerInstructions"] = replace_surrogates(turn.settings.system)
        if turn.session_id is None:
            method = "thread/start"
            params["ephemeral"] = turn.once or None
        else:
            method = "thread/fork" if turn.fork else "thread/resume"
            params.update(threadId=turn.session_id, excludeTurns=True)
            if turn.fork:
                params["lastTurnId"] = turn.upto
        found = [wire.notification("initialized"), self._calls.call("account/read", {}, self._on_account, until)]
        self._opening = 2
        if turn.access == "edit":
            self._opening += 1
            found.append(self._calls.call("config/read", {"cwd": turn.cwd or None}, self._on_config, until))
        params = {name: value for name, value in params.items() if value is not None}
        return [*found, self._calls.call(method, params, self._on_thread, until)]

    def _on_opening_answered(self) -> list[link.Step]:
        """Record one of the answers that have to come before a turn. After the last one, return `Ready` and the steps
        of the requests that had to wait; before that, return no steps."""
        self._opening -= 1
        if self._opening > 0 or self._is_broken:
            return []
        held, self._held = self._held, []
        found: list[link.Step] = [link.Ready()]
        for number, method, params in held:
            found += self._requests.handle_request(number, method, params, self._reader)
        return found

    def _on_account(self, reply: Reply) -> list[link.Step]:
        answer = object_of(reply.result)
        if reply.is_late:
            return self._break(reply.error)
        if not reply.error and answer.get("account") is None and answer.get("requiresOpenaiAuth") is True:
            return self._break(_LOGIN_REASON, Class.AUTH)
        return self._on_opening_answered()

    def _on_config(self, reply: Reply) -> list[link.Step]:
        if reply.is_late:
            return self._break(reply.error)
        self._own = rights.sandbox_config_in(reply.result)
        return self._on_opening_answered()

    def _on_thread(self, reply: Reply) -> list[link.Step]:
        turn = self._first
        if reply.error:
            return self._on_no_thread(reply)
        thread_id = string(obj(object_of(reply.result), "thread"), "id")
        if not thread_id or (turn.session_id is not None and turn.fork == (thread_id == turn.session_id)):
            return self._break("it answered with a thread that was not asked for")
        refused = rights.setting_not_applied(turn, reply.result)
        if refused:
            return self._break(f"it did not take over {refused}", Class.UNSUPPORTED)
        self._thread_id = self._controls.thread_id = thread_id
        self._controls.model = string(object_of(reply.result), "model") or turn.model
        self._total = NOTHING_YET if turn.session_id is None else turn.carried
        if turn.session_id is not None and turn.upto is not None and not turn.fork:
            return revert(self._calls, thread_id, turn.upto, self._on_reverted, reply.now + START_S)
        return self._on_opening_answered()

    def _on_reverted(self, error: str) -> list[link.Step]:
        return self._break(error, Class.BAD_REQUEST) if error else self._on_opening_answered()

    def _on_no_thread(self, reply: Reply) -> list[link.Step]:
        session_id = self._first.session_id
        if session_id is not None and _LOST in reply.error:
            lost = link.Say(events.SessionLost(session_id=session_id, reason=reply.error))
            return [lost, *self._break(reply.error, Class.BAD_REQUEST)]
        if _LOCKED in reply.error:
            why = f"another codex has the session open, and only one can: {reply.error}"
            return self._break(why, Class.BAD_REQUEST)
        class_ = failure_class(reply.error)
        if reply.is_late:
            return self._break(reply.error)
        return self._break(reply.error, Class.BAD_REQUEST if class_ is Class.UNKNOWN else class_)

    # -- a turn --------------------------------------------------------------------------------------------------------

    def _prompt(self, turn: Turn, now: float) -> list[link.Step]:
        told = self._controls
        reader = TurnReader(turn, self._thread_id, model=told.model, before=self._total, mode=told.mode)
        self._reader, self._is_stopping = reader, False
        if turn.slash:
            return self._run_command(turn.text, reader, now)
        images: list[Object] = [{"type": "localImage", "path": path} for path in turn.attach if is_image(path)]
        params: Object = {
            "threadId": self._thread_id,
            "input": [{"type": "text", "text": prompt_text(turn)}, *images],
            **rights.turn_params(turn, self._own),
        }
        if turn.schema is not None:
            try:
                params["outputSchema"] = document(turn.schema.encode("utf-8", "replace"))
            except ValueError:
                why = "the schema is no JSON"
                verdict = Verdict(status=Status.FAILED, class_=Class.BAD_REQUEST, reason=why)
                return self._end_turn([], verdict, fit=True)
        return [self._calls.call("turn/start", params, lambda reply: self._on_began(reader, reply), now + TURN_S)]

    def _run_command(self, command: str, reader: TurnReader, now: float) -> list[link.Step]:
        """Return the steps that run a slash command as a turn. Over its protocol, Codex has only `/compact`."""
        if command.strip() != _COMPACT:
            reason = f"codex runs {_COMPACT} over its protocol and no other slash command"
            return self._end_turn([], Verdict(status=Status.FAILED, class_=Class.UNSUPPORTED, reason=reason), fit=True)

        def then(reply: Reply) -> list[link.Step]:
            if reader is not self._reader or not reply.error:
                return []
            if reply.is_late:
                return self._break(reply.error)
            verdict = Verdict(status=Status.FAILED, class_=Class.BAD_REQUEST, reason=reply.error)
            return self._end_turn([], verdict, fit=False)

        return [self._calls.call("thread/compact/start", {"threadId": self._thread_id}, then, now + TURN_S)]

    def _on_began(self, reader: TurnReader, reply: Reply) -> list[link.Step]:
        if reader is not self._reader:
            return []
        if reply.is_late:
            return self._break(reply.error)
        if reply.error:
            class_ = failure_class(reply.error)
            class_ = Class.BAD_REQUEST if class_ is Class.UNKNOWN else class_
            verdict = Verdict(status=Status.FAILED, class_=class_, reason=reply.error, session_id=self._thread_id)
            return self._end_turn([], verdict, fit=False)
        turn_id = string(obj(object_of(reply.result), "turn"), "id")
        if not turn_id or reader.id not in ("", turn_id):
            return self._break("it answered with a turn that is not the one it began")
        return self._on_turn_id(reader, turn_id, reply.now)

    def _on_turn_id(self, reader: TurnReader, turn_id: str, now: float) -> list[link.Step]:
        """Record the turn's id, and return the steps that follow; none if the id was known before."""
        if reader.id:
            return []
        reader.id = turn_id
        found: list[link.Step] = [link.Acknowledged(), *(link.Say(event) for event in reader.on_opened())]
        return [*found, *self._interrupt(now)] if self._is_stopping else found

    def _interrupt(self, now: float) -> list[link.Step]:
        reader = self._reader
        if reader is None:
            return []
        self._is_stopping = True
        if not reader.id:
            return []  # it is interrupted once its id is known
        params: Object = {"threadId": self._thread_id, "turnId": reader.id}
        return [
            self._calls.call(
                "turn/interrupt", params, lambda reply: self._on_interrupt_answered(reply, reader), now + STOP_S
            )
        ]

    def _on_interrupt_answered(self, reply: Reply, reader: TurnReader) -> list[link.Step]:
        return self._break(reply.error) if reply.is_late and reader is self._reader else []

    def _on_asked(self, number: Id, method: str, params: Object) -> list[link.Step]:
        if self._thread_id and not self._opening:
            return self._requests.handle_request(number, method, params, self._reader)
        self._held.append((number, method, params))
        return self._break("it asked too much before its thread was there") if len(self._held) > _MAX_HELD else []

    def _on_notified(self, frame: wire.Frame, line: bytes, now: float) -> list[link.Step]:
        reader, params = self._reader, frame.params
        is_own = bool(self._thread_id) and params.thread_id == self._thread_id
        if frame.method == "serverRequest/resolved":
            return self._requests.on_withdrawn(params.request_id)
        if frame.method == "thread/closed" and is_own:
            return self._break("it closed the thread")
        if frame.method == "thread/tokenUsage/updated" and is_own:
            self._controls.usage = params.token_usage
            if reader is None or params.turn_id != reader.id:  # a resumed thread reports the turn before
                self._total = thread_total(params.token_usage.total)
                if reader is not None:
                    reader.count_from(self._total)
                return []
        if reader is None:
            return [link.Stirred()] if frame.method == "turn/started" and self._thread_id else []
        if frame.method == "thread/status/changed" and is_own:
            self._idle_told = _END_BY_STATUS.get(string(object_of(params.status), "type"), "")
            is_over = bool(self._idle_told and reader.id) and not reader.has_open_items
            self._idle_due = now + IDLE_S if is_over else None
            return []
        if frame.method == "turn/started":
            return self._on_turn_id(reader, params.turn.id, now) if is_own else []
        if frame.method == "turn/completed":
            known = self._on_turn_id(reader, params.turn.id, now) if is_own else []
            is_over = is_own and params.turn.id == reader.id
            return [*known, *self._on_completed(reader, params.turn, now)] if is_over else known
        if frame.method == "item/started" and is_own and params.item.client_id is not None:
            return self._controls.answer_read(params.item.client_id)
        if frame.method not in IGNORED_METHODS and frame.method not in READ_METHODS:
            return self._on_unknown(frame.method, line)
        return (
            [link.Say(event) for event in reader.on_notified(frame, line, now)]
            if reader.belongs_to_turn(params)
            else []
        )

    def _on_unknown(self, what: str, line: bytes) -> list[link.Step]:
        return [] if self._reader is None else [link.Say(event) for event in self._reader.on_unknown(what, line)]

    # -- the end of a turn ---------------------------------------------------------------------------------------------

    def _on_completed(self, reader: TurnReader, answer: wire.Turn, now: float) -> list[link.Step]:
        if not self._is_stopping:
            return self._end_turn(*reader.end(answer), fit=True)

        def then(reply: Reply) -> list[link.Step]:
            return self._end_turn(*reader.end(answer), fit=not reply.error) if reader is self._reader else []

        params: Object = {"threadId": self._thread_id}  # a running command does not end with its turn
        return [self._calls.call("thread/backgroundTerminals/clean", params, then, now + CLEAN_S)]

    def _end_turn(self, emitted: Sequence[events.Event], verdict: Verdict, *, fit: bool) -> list[link.Step]:
        reader, self._reader, self._is_stopping, self._idle_due = self._reader, None, False, None
        if reader is not None:
            self._total = reader.total
        steps: list[link.Step] = [link.Say(event) for event in emitted]
        return [*steps, *self._controls.on_turn_over(), link.Over(verdict=verdict, fit=fit)]

    def _break(self, why: str, class_: Class = Class.CRASHED) -> list[link.Step]:
        self._is_broken, self._reader = True, None
        self._calls.forget_all()
        return [*self._controls.on_turn_over(), link.Broken(reason=why, class_=class_)]
