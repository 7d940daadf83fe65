"""Reads one turn of a session: its messages become events and a verdict.

Does not depend on how a turn begins and stops, or on the agent's requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import structs

from beam.agents import oneshot
from beam.agents.acp.calls import END_STATUSES, TEXT_UPDATES, Call, Subagents, parent_in
from beam.agents.acp.dialect import Dialect
from beam.agents.acp.figures import Counter
from beam.agents.acp.wire import Update, failure_of
from beam.agents.base import Exit, Turn, Verdict, raw_json
from beam.agents.failures import class_of
from beam.agents.fields import Object, object_of, objects_of, string
from beam.agents.images import image_in_block
from beam.model import events
from beam.model.events import Event, PlanStep
from beam.model.outcome import Class, Denial, Status

_PROGRESS_S = 1.0
_HTTP_STATUS = re.compile(r"[45]\d\d ")
_DENIED_OUTPUT = "it was denied"
_END_BY_STOP = {"end_turn": "stop", "max_tokens": "length", "refusal": "refused"}
QUIET_UPDATES = frozenset(  # updates that are not about a turn
    {
        *("available_commands_update", "session_info_update", "config_option_update", "current_mode_update"),
        *("usage_update", "user_message_chunk", "compaction_summary_chunk"),
    }
)


class TurnReader:
    """Reads the messages of one turn. `is_known`: the agent has received the prompt. `system` is the digest of the
    system prompt with which the turn's message begins, "" if the message begins with none."""

    def __init__(
        self, turn: Turn, dialect: Dialect, session_id: str, counter: Counter, *, model: str | None, system: str = ""
    ) -> None:
        self.turn = turn
        self.is_known = False
        self._dialect = dialect
        self._session_id = session_id
        self._counter = counter
        self._model = model
        self._system = system
        self._summary = oneshot.OutputSummary(name=dialect.name)
        self._calls: dict[str, Call] = {}
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._message_id: object = None
        self._subagents = Subagents()
        self._is_alive = False  # the agent said or did something
        self._is_failing = False  # the agent's status says that its model failed
        self._end_reader = None if dialect.end_reader is None else dialect.end_reader(turn)
        self._progress: dict[str, tuple[float, str]] = {}  # the time and the text of the last progress event, by call

    def on_begun(self) -> list[Event]:
        """Record that the agent has received the prompt, and return the event of the session. Later calls return no
        events."""
        if self.is_known:
            return []
        self.is_known = True
        opened = self._summary.on_opened(self.turn, self._session_id, model=self._model)
        return self._with_system(opened) if self._system else opened

    def _with_system(self, opened: list[Event]) -> list[Event]:
        """Return the session's event with the digest of the system prompt, and a notice that this message began with
        it."""
        text = f"{self._dialect.name} has no place for a system prompt: this message began with it"
        told = [
            structs.replace(event, system=self._system) if isinstance(event, events.SessionStarted) else event
            for event in opened
        ]
        return [*told, events.Notice(text=text, code="system")]

    # -- updates and texts ---------------------------------------------------------------------------------------------

    def on_updated(self, update: Update, line: bytes, now: float) -> list[Event]:
        """Return the events of an update. Events for earlier text that this update ends come first. Then come the
        events of the update itself; the first of these has the line in `raw`, unless it is a text delta."""
        kind = update.session_update
        parent = None if update.meta is None else parent_in(update.meta)
        if parent is not None and kind in TEXT_UPDATES:
            return self._subagents.add_piece(parent, kind, _text_of(update.content))
        if kind == "agent_message_chunk":
            return self._message(update)
        if kind == "agent_thought_chunk":
            ended = self._end_text()
            self._is_alive = True
            self._thoughts.append(_text_of(update.content))
            return ended
        if kind in ("tool_call", "tool_call_update"):
            ended = self._end_words() if parent is None else self._subagents.end(parent)
            told = self._on_call(update, now)
            call = self._calls.get(update.tool_call_id)
            return [*ended, *oneshot.with_raw_line(told, line, images=() if call is None else call.images)]
        if kind == "session_info_update":
            self._record_status(update.meta)
        if kind in QUIET_UPDATES:
            return []
        read = _KINDS.get(kind)
        return oneshot.with_raw_line(self._unknown_event(kind) if read is None else read(self, update), line)

    def _record_status(self, meta: object) -> None:
        """Record whether the agent's status says that its model failed."""
        *keys, failing = self._dialect.fails_at or ("",)
        value = meta
        for key in keys:
            value = object_of(value).get(key)
        if keys and isinstance(value, str) and value != "idle":
            self._is_failing = value == failing

    def on_own_message(self, method: str, params: Object) -> None:
        """Read a notification that is the agent's own, or the answer that ends the turn."""
        if self._end_reader is not None:
            self._end_reader.read(method, params)

    @property
    def is_open(self) -> bool:
        """Return whether a line of stderr that belongs to the turn is still missing."""
        return self._end_reader is not None and self._end_reader.is_open

    def on_error_line(self, line: bytes) -> None:
        """Read a line of the agent's stderr."""
        if self._end_reader is not None:
            self._end_reader.error_line(line)

    def on_unknown(self, what: str, line: bytes) -> list[Event]:
        """Return the event for a line of unknown meaning."""
        return oneshot.with_raw_line(self._unknown_event(what), line)

    def on_asked(self, update: Update) -> tuple[Call, list[Event]]:
        """Record a permission request about a call. Return the call, and the events to record before the request."""
        ended = self._end_words()
        call = self._calls.get(update.tool_call_id)
        if call is not None and call.is_denied:
            ended += self._end_denied(call)
        if call is None or call.is_over:  # some agents use the id of a finished call again
            call = self._new_call(update.tool_call_id)
        call.record_request(update)
        return call, [*ended, *self._record_call(call)]

    def on_denied(self, call_id: str) -> None:
        """Record that beam denied this call. Some agents do not mention the call again."""
        if call_id in self._calls:
            self._calls[call_id].is_denied = True

    @staticmethod
    def _unknown_event(what: str) -> list[Event]:
        return [events.Unknown(what=what or "no sessionUpdate")]

    def _message(self, update: Update) -> list[Event]:
        text = _text_of(update.content)
        counted: list[Event] = []
        usage = self._counter.usage_in_chunk(update.meta)
        if usage is not None:
            counted = self._summary.counted(usage, None)
        if not text and (shown := image_in_block(object_of(update.content))) is not None:
            self._is_alive = True
            return [*self._end_words(), shown, *counted]
        if not text or text.startswith(self._dialect.noise or ("\0",)) or self._is_aside(text):
            return counted
        ended = self._end_thoughts()
        if text.strip() in self._dialect.ends:
            ended += self._end_text()
        self._is_alive = True
        if update.message_id != self._message_id and update.message_id is not None:
            ended += self._end_text()
            self._message_id = update.message_id
        self._text.append(text)
        return [*ended, events.TextDelta(text=text), *counted]

    def _is_aside(self, text: str) -> bool:
        """Return whether this text only names a file of an open call, and is therefore not part of the answer."""
        begin = self._dialect.aside
        if not begin or not text.startswith(begin):
            return False
        path = text.removeprefix(begin)
        return any(call.is_recorded and not call.is_over and path in call.paths for call in self._calls.values())

    def _end_text(self) -> list[Event]:
        text, self._text = "".join(self._text), []
        return self._summary.text(text)

    def _end_thoughts(self) -> list[Event]:
        text, self._thoughts = "".join(self._thoughts), []
        return [events.Thinking(text=text)] if text else []

    def _end_words(self) -> list[Event]:
        return [*self._end_thoughts(), *self._end_text()]

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _on_call(self, update: Update, now: float) -> list[Event]:
        if not update.tool_call_id:
            return self._unknown_event(update.session_update)
        is_new = update.session_update == "tool_call"
        call = self._calls.get(update.tool_call_id)
        if call is None or (is_new and call.is_over):
            call = self._new_call(update.tool_call_id)
        if call.is_over:
            return []
        call.record_update(update)
        if call.status in END_STATUSES:
            return [*self._record_call(call), *self._record_end(call)]
        if not call.is_recorded:
            return self._record_call(call) if call.is_known or (is_new and call.status == "in_progress") else []
        return self._on_progressed(call, now)

    def _new_call(self, call_id: str) -> Call:
        call = self._calls[call_id] = Call(call_id, is_described=self._dialect.describes)
        return call

    def _record_call(self, call: Call) -> list[Event]:
        if call.is_recorded:
            return []
        call.is_recorded = self._is_alive = True
        named = (call.name, call.title if call.kind == "other" else "")
        self._summary.partial |= any(word.startswith(self._dialect.uncounted or ("\0",)) for word in named)
        self._progress[call.id] = (float("-inf"), call.text)
        if call.parent is not None:  # a subagent's call does not change the answer
            given = raw_json(call.input)
            return [events.ToolCalled(call_id=call.id, name=call.name, input=given, parent=call.parent)]
        return self._summary.on_called(call.id, call.name, call.input)

    def _record_end(self, call: Call) -> list[Event]:
        call.is_over = True
        is_error = call.status == "failed"
        found: list[Event] = []
        if not is_error:
            found += [events.FileChanged(path=path, kind=kind) for path, kind in call.changes]
            if not found and self._dialect.file_changes is not None:
                found += self._dialect.file_changes(call.name, call.fields)
        elif self._is_denied(call):
            given = Denial(tool=call.name, call_id=call.id, input=raw_json(call.input))
            self._summary.denials.append(given)
        images = [structs.replace(image, parent=call.parent) for image in call.images]
        if call.parent is not None:
            returned = events.ToolReturned(call_id=call.id, output=call.output, is_error=is_error, parent=call.parent)
            return [*found, returned, *images]
        return [*found, *self._summary.on_returned(call.id, call.output, is_error=is_error), *images]

    def _is_denied(self, call: Call) -> bool:
        """Return whether the agent itself denied the call: its tool is left out, or the text of its result says so."""
        is_left_out = call.name in self._dialect.left_out.get(self.turn.access, ())
        return not call.is_denied and (is_left_out or call.output.startswith(self._dialect.denied or ("\0",)))

    def _on_progressed(self, call: Call, now: float) -> list[Event]:
        since, text = self._progress[call.id]
        if call.text == text or now - since < _PROGRESS_S:
            return []
        self._progress[call.id] = (now, call.text)
        return [events.ToolProgress(call_id=call.id, text=call.text, parent=call.parent)]

    # -- other updates -------------------------------------------------------------------------------------------------

    def _plan(self, update: Update) -> list[Event]:
        steps = [(string(entry, "content"), string(entry, "status")) for entry in objects_of(update.entries)]
        return [events.PlanUpdated(steps=tuple(PlanStep(text=text, status=status) for text, status in steps))]

    def _notice(self, update: Update) -> list[Event]:
        text = _text_of(update.content) or (update.title if isinstance(update.title, str) else "")
        return [events.Notice(text=text, code="notice")] if text else []

    def _on_compacted(self, update: Update) -> list[Event]:
        return [events.StatusChanged(state="compacted" if update.status in END_STATUSES else "compacting")]

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, result: Object, *, is_stopping: bool) -> tuple[list[Event], Verdict]:
        """Return the last events and the verdict on a turn that the agent ended."""
        emitted = self._last_events()
        self.on_own_message("session/prompt", result)
        stop = string(result, "stopReason")
        self._summary.ended = _END_BY_STOP.get(stop, "")
        self._summary.cost_usd = self._counter.cost_of_turn()
        usage, total = self._counter.usage_at_end(result)
        if usage is not None:
            self._summary.usage = usage
            emitted.append(events.UsageSeen(usage=usage, cost_usd=self._summary.cost_usd, total=total))
        if is_stopping or stop == "cancelled":  # some agents report `end_turn` for a turn that they cancelled
            self._summary.ended = ""
            return emitted, self._verdict(emitted, Exit(code=0, stopped_by="interrupted"))
        if stop == "max_turn_requests":
            self._summary.ended = "stop"
            reason = f"{self._dialect.name} reached its limit of model calls"
            return emitted, structs.replace(self._verdict(emitted, Exit(code=0)), status=Status.LIMIT, reason=reason)
        if not self._summary.ended:
            emitted += self._summary.on_failed(f"{self._dialect.name} ended the turn with {stop or 'no reason'!r}")
        elif self._is_failing and (end := self._end_in_answer()):
            self._summary.ended = end
        elif words := self._hook_in_answer():
            emitted += self._summary.on_failed(f"a hook stopped the turn: {words}", class_=Class.STOPPED)
        elif failure := self._failure_in_answer():
            emitted += self._summary.on_failed(failure)
        elif not self._is_alive and stop == "end_turn":  # some agents end a turn like this if their model failed
            text = f"{self._dialect.name} ended the turn without a word; its own log may say why"
            emitted += self._summary.on_failed(text, class_=Class.EMPTY)
        return emitted, self._verdict(emitted, Exit(code=0))

    def _end_in_answer(self) -> str:
        """Return how the answer ended if the last text says so, and take that text out of the answer; "" if it does
        not."""
        texts = self._summary.texts
        end = self._dialect.ends.get(texts[-1].strip(), "") if texts else ""
        if end:
            self._summary.texts = texts[:-1]
        return end

    def _hook_in_answer(self) -> str:
        """Return the words of a hook that stopped the turn before the model was asked; "" if none did."""
        answer, begin = "\n\n".join(self._summary.texts), self._dialect.stopped
        is_stopped = bool(begin) and answer.startswith(begin) and not self._summary.usage.output_tokens
        return answer.removeprefix(begin).strip() if is_stopped else ""

    def _failure_in_answer(self) -> str:
        """Return the failure that the agent reports in place of an answer; "" if the text is an answer.

        A real answer can begin with the same words. Such an answer has used output tokens, and after these words it
        names no HTTP status and is not the agent's sentence for an empty answer.
        """
        if self._is_failing:
            return "\n\n".join(self._summary.texts).strip() or f"{self._dialect.name} says that its model failed"
        answer, begin = "\n\n".join(self._summary.texts), self._dialect.failed
        if not begin or not answer.startswith(begin):
            return ""
        is_status = _HTTP_STATUS.match(answer, len(begin)) is not None
        failure = answer.removeprefix(begin)
        is_empty = class_of(None, failure) is Class.EMPTY
        return failure if is_status or is_empty or not self._summary.usage.output_tokens else ""

    def end_failed(self, error: Object, *, is_stopping: bool) -> tuple[list[Event], Verdict]:
        """Return the last events and the verdict on a turn that the agent reports as failed."""
        emitted = self._last_events()
        if is_stopping:
            return emitted, self._verdict(emitted, Exit(code=0, stopped_by="interrupted"))
        failure = failure_of(error)
        emitted += self._summary.on_failed(failure.reason, failure.http_status, failure.class_)
        return emitted, self._verdict(emitted, Exit(code=0))

    def end_cut_off(self, exit: Exit) -> tuple[list[Event], Verdict]:
        """Return the last events and the verdict on a turn whose process ended first, or whose connection broke."""
        emitted = self._last_events()
        return emitted, self._verdict(emitted, exit)

    def _last_events(self) -> list[Event]:
        emitted = [*self._subagents.end_all(), *self._end_words()]
        texts = self._summary.texts
        for call in self._calls.values():
            if call.is_denied:
                emitted += self._end_denied(call)
        self._summary.texts = texts
        return emitted

    def _end_denied(self, call: Call) -> list[Event]:
        """Return the result of a call that beam denied; none if the agent itself reported one."""
        if not call.is_recorded or call.is_over:
            return []
        call.is_over = True
        return self._summary.on_returned(call.id, _DENIED_OUTPUT, is_error=True)

    def _verdict(self, emitted: list[Event], exit: Exit) -> Verdict:
        more, verdict = oneshot.verdict(self.turn, exit, self._summary)
        emitted += more
        if self._end_reader is None or verdict.status is Status.CANCELLED:
            return verdict
        refined = self._end_reader.refine(verdict)
        if refined.status is Status.TRUNCATED and refined.reply is None:
            told = [text for text in self._summary.texts if text.strip() != refined.reason]  # not the CLI's own words
            return structs.replace(refined, reply="".join(told) or None)
        return refined


def _text_of(content: object) -> str:
    return string(object_of(content), "text")


_KINDS: dict[str, Callable[[TurnReader, Update], list[Event]]] = {
    "plan": TurnReader._plan,
    "notice": TurnReader._notice,
    "compaction_update": TurnReader._on_compacted,
}
