"""Reads one turn of a thread: its messages become events and a verdict.

Subagents' threads use the same connection. Events of a subagent have the id of the call that began the subagent, and
are not part of the answer. Does not depend on how a turn begins and stops, or on Codex's requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from beam.agents import oneshot
from beam.agents.base import Exit, Turn, Verdict
from beam.agents.codex import items as exec_items
from beam.agents.codex import wire as exec_wire
from beam.agents.codex.decode import REJECTED_CALL, denial_from_text, total_of, with_structured_answer
from beam.agents.codex.dialogue.wire import Failure, Frame, Item, Params, Tokens
from beam.agents.codex.dialogue.wire import Turn as Said
from beam.agents.codex.trouble import FailureReports
from beam.agents.fields import Object, integer, obj, object_of, objects_of, string, strings_of
from beam.agents.figures import is_nothing, usage_since
from beam.agents.images import image_event
from beam.model import events
from beam.model.events import Event, PlanStep
from beam.model.outcome import Class, Point, Status, Total, Usage

SILENT_ITEMS = frozenset(
    {"userMessage", "hookPrompt", "functionCallOutput", "enteredReviewMode", "exitedReviewMode", "sleep"}
)
_EXEC_TYPES = {
    "agentMessage": "agent_message",
    "plan": "agent_message",
    "reasoning": "reasoning",
    "commandExecution": "command_execution",
    "fileChange": "file_change",
    "mcpToolCall": "mcp_tool_call",
    "dynamicToolCall": "mcp_tool_call",
    "webSearch": "web_search",
    "collabAgentToolCall": "collab_tool_call",
}
_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")


def as_exec_item(item: Item) -> exec_wire.Item:
    """Return the item in the form of `codex exec`. A kind of item that `codex exec` does not have keeps its name."""
    kind = _EXEC_TYPES.get(item.type, item.type)
    output = item.aggregated_output if isinstance(item.aggregated_output, str) else ""
    return exec_wire.Item(
        id=item.id,
        type=kind,
        text="\n\n".join(strings_of(item.summary)) if item.type == "reasoning" else item.text,
        status=item.status,
        command=item.command,
        aggregated_output=output,
        exit_code=item.exit_code if type(item.exit_code) is int else None,
        server="client" if item.type == "dynamicToolCall" else item.server,
        tool=_CAPITAL.sub(r"_\1", item.tool).lower() if item.type == "collabAgentToolCall" else item.tool,
        query=item.query,
        arguments=item.arguments,
        action=item.action,
        prompt=item.prompt,
        result={"content": item.content_items} if item.type == "dynamicToolCall" else item.result,
        error=item.error,
        changes=changes_of(item),
        agents_states=item.agents_states,
        receiver_thread_ids=item.receiver_thread_ids,
    )


def changes_of(item: Item) -> list[Object]:
    """Return the files that the item changes: `path`, `kind` (add, update, delete), `diff` and, for a renamed file,
    `move_path`."""
    found = []
    for change in objects_of(item.changes):
        kind = object_of(change.get("kind"))
        shown = {"path": string(change, "path"), "kind": string(kind, "type"), "diff": string(change, "diff")}
        moved = string(kind, "move_path") or string(kind, "movePath")
        found.append({**shown, "move_path": moved} if moved else shown)
    return found


_set_field = msgspec.structs.force_setattr  # only for an event that no other code has yet, so it need not be copied
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_PROGRESS_S = 1.0
_REFUSED_INFO = ("cyberPolicy", "bioPolicy", "misalignmentPolicyViolation")
_CLASS_BY_INFO = {
    "inferenceHookDenied": Class.STOPPED,
    "contextWindowExceeded": Class.CONTEXT_OVERFLOW,
    "sessionBudgetExceeded": Class.RATE_LIMIT,
    "usageLimitExceeded": Class.RATE_LIMIT,
    "rateLimitExceeded": Class.RATE_LIMIT,
    "flexUnavailable": Class.OVERLOADED,
    "serverOverloaded": Class.OVERLOADED,
    "internalServerError": Class.OVERLOADED,
    "modelNotFound": Class.BAD_REQUEST,
    "unauthorized": Class.AUTH,
    "badRequest": Class.BAD_REQUEST,
}


class TurnReader:
    """Reads the messages of one turn. `before` is the thread's usage when the turn began, None if unknown. `mode` is
    the mode of the thread when the turn began."""

    def __init__(
        self, turn: Turn, thread_id: str, *, model: str | None, before: Total | None, mode: str = "default"
    ) -> None:
        self.turn = turn
        self.id = ""  # Codex's own id of the turn; "" until it is known
        self.prefix: Final = f"{turn.message_id}-{turn.attempt}-"
        self.total: Total | None = before
        self._before = before
        self._mode = mode
        self._is_counted = False
        self._thread_id = thread_id
        self._summary = oneshot.OutputSummary(name="codex")
        self._model = model
        self._hook: str | None = None  # the words of the hook that kept the prompt from the model
        self._trouble = FailureReports(self._summary)
        self._items = {thread_id: exec_items.ItemReader(self._summary, prefix=self.prefix)}
        self._children: dict[str, str] = {}  # by thread of a subagent: the call that began it
        self._changes: dict[str, list[Object]] = {}
        # By call: when output was last reported, and the output since then.
        self._progress: dict[str, tuple[float, str]] = {}

    def on_opened(self) -> list[Event]:
        """Return the event of the opened session."""
        return self._summary.on_opened(self.turn, self._thread_id, model=self._model)

    def count_from(self, total: Total) -> None:
        """Record the thread's usage before the turn, as Codex reports it. Ignored once the turn's own usage was
        reported."""
        if self._is_counted:
            return
        self.total = self._before = total

    def belongs_to_turn(self, params: Params) -> bool:
        """Return whether the notification belongs to this turn or to one of its subagents."""
        if params.thread_id != self._thread_id:
            return bool(params.thread_id)
        return not params.turn_id or params.turn_id == self.id

    @property
    def has_open_items(self) -> bool:
        """Return whether a call of the agent itself has not ended yet."""
        return bool(self._summary.calls)

    def changes_of_call(self, item_id: str) -> list[Object] | None:
        """Return the file changes of a call; None for an unknown call."""
        return self._changes.get(item_id)

    def on_notified(self, frame: Frame, line: bytes, now: float) -> list[Event]:
        """Return the events of a notification of this turn. The first event has the line in `raw`, unless it is a text
        delta or a progress event."""
        if frame.method == "item/agentMessage/delta":
            parent = self._parent_of(frame.params)
            return [events.TextDelta(text=frame.params.delta, parent=parent)] if frame.params.delta else []
        if frame.method == "item/commandExecution/outputDelta":
            return self._on_output_delta(frame.params, now)
        read = _KINDS.get(frame.method)
        return [] if read is None else oneshot.with_raw_line(read(self, frame.params), line)

    def on_unknown(self, method: str, line: bytes) -> list[Event]:
        """Return the event for a notification of unknown meaning."""
        return oneshot.with_raw_line([events.Unknown(what=method)], line)

    def on_rejected(self, line: str) -> None:
        """Record a log line that reports a call that Codex itself refused."""
        self._summary.denials += [denial_from_text(text) for text in REJECTED_CALL.findall(_COLOURS.sub("", line))]

    # -- notifications -------------------------------------------------------------------------------------------------

    def _parent_of(self, params: Params) -> str | None:
        thread_id = params.thread_id
        return None if thread_id == self._thread_id else self._children.get(thread_id, thread_id)

    def _on_item(
        self, params: Params, read: Callable[[exec_items.ItemReader, exec_wire.Item], list[Event]]
    ) -> list[Event]:
        item = params.item
        if item.type in SILENT_ITEMS:
            return []
        if item.type == "fileChange":
            self._changes[item.id] = changes_of(item)
        is_over = read is exec_items.ItemReader.on_completed
        if item.type in _SPECIAL_ITEMS:
            found = self._special_item(item, is_over=is_over)
        else:
            found = read(self._items_of(params), as_exec_item(item))
        self._record_subagents(item)
        parent = self._parent_of(params)
        if parent is not None:
            for event in found:
                if hasattr(event, "parent"):
                    _set_field(event, "parent", parent)
        return found

    def _items_of(self, params: Params) -> exec_items.ItemReader:
        found = self._items.get(params.thread_id)
        if found is None:  # a subagent's texts and calls do not belong to the turn
            summary = oneshot.OutputSummary(name="codex")
            found = self._items[params.thread_id] = exec_items.ItemReader(summary, prefix=self.prefix)
        return found

    def _record_subagents(self, item: Item) -> None:
        """Record the threads of subagents that this call began."""
        began = strings_of(item.receiver_thread_ids) if item.type == "collabAgentToolCall" else ()
        if item.type == "subAgentActivity" and item.kind == "started":
            began = (item.agent_thread_id,)
        for thread_id in began:
            self._children.setdefault(thread_id, self.prefix + item.id)
        self._summary.partial |= bool(began)

    def _special_item(self, item: Item, *, is_over: bool) -> list[Event]:
        match item.type:
            case "contextCompaction":
                return [events.StatusChanged(state="compacted" if is_over else "compacting")]
            case "subAgentActivity" if not is_over:
                return [events.StatusChanged(state="subagent", detail=f"{item.agent_path} {item.kind}".strip())]
            case "imageView" if not is_over:
                return [image_event(at=item.path)]
            case "imageGeneration" if is_over:
                at = item.saved_path if isinstance(item.saved_path, str) else ""
                return [image_event(data=item.result if isinstance(item.result, str) else "", at=at)]
        return []

    def _on_started(self, params: Params) -> list[Event]:
        return self._on_item(params, exec_items.ItemReader.on_started)

    def _on_completed(self, params: Params) -> list[Event]:
        self._progress.pop(params.item.id, None)
        return self._on_item(params, exec_items.ItemReader.on_completed)

    def _on_output_delta(self, params: Params, now: float) -> list[Event]:
        """Return progress events for a command's output, at most one a second per command."""
        since_, text = self._progress.get(params.item_id, (now, ""))
        text += params.delta
        if now - since_ < _PROGRESS_S:
            self._progress[params.item_id] = (since_, text)
            return []
        self._progress[params.item_id] = (now, "")
        return [events.ToolProgress(call_id=self.prefix + params.item_id, text=text, parent=self._parent_of(params))]

    def _on_used(self, params: Params) -> list[Event]:
        if params.thread_id != self._thread_id:
            return []
        self._is_counted = True
        self.total = total = thread_total(params.token_usage.total)
        usage = usage_since(self._before, total) if self._before is not None else Usage()
        usage = self._summary.usage = Usage() if is_nothing(usage) else usage  # Codex counts a call only at its end
        last, size = params.token_usage.last, params.token_usage.model_context_window
        found: list[Event] = [events.UsageSeen(usage=usage, total=total)]
        if last.input_tokens is not None:
            used = last.input_tokens + (last.output_tokens or 0)
            found.append(events.ContextUsed(used=used or None, size=size))  # unknown after a compaction
        return found

    def _on_settings(self, params: Params) -> list[Event]:
        mode = string(obj(object_of(params.thread_settings), "collaborationMode"), "mode")
        if params.thread_id != self._thread_id or mode in ("", self._mode):
            return []
        self._mode = mode
        return [events.StatusChanged(state="mode", detail=mode)]

    def _on_planned(self, params: Params) -> list[Event]:
        if params.thread_id != self._thread_id:
            return []
        status = {"inProgress": "in_progress"}
        steps = [(string(step, "step"), string(step, "status")) for step in objects_of(params.plan)]
        return [events.PlanUpdated(steps=tuple(PlanStep(text=t, status=status.get(s, s)) for t, s in steps))]

    def _on_error(self, params: Params) -> list[Event]:
        if params.thread_id != self._thread_id:
            return []
        failure = params.error
        if not params.will_retry:
            return self._on_fatal(failure)
        details = failure.additional_details
        if isinstance(details, str) and details:
            return self._retry(f"{failure.message} ({details})", details)
        return self._retry(failure.message, failure.message)

    def _on_fatal(self, failure: Failure) -> list[Event]:
        if failure.codex_error_info in _REFUSED_INFO:
            self._summary.ended = "refused"
            return [events.Notice(text=failure.message, code="refused")]
        return self._trouble.on_fatal(failure.message, class_of(failure))

    def _on_hook(self, params: Params) -> list[Event]:
        """Record a hook that stops the prompt. After any other hook the model goes on."""
        run = object_of(params.run)
        if string(run, "status") not in ("blocked", "stopped") or params.thread_id != self._thread_id:
            return []
        words = "; ".join(string(entry, "text") for entry in objects_of(run.get("entries")))
        if string(run, "eventName") == "userPromptSubmit":
            self._hook = words
        return [events.Notice(text=words or f"a hook {string(run, 'status')} it", code="hook_stopped")]

    def _retry(self, text: str, why: str) -> list[Event]:
        found = self._trouble.read_retry(text)
        return self._trouble.on_retry(why) if found is None else found

    def _on_warned(self, params: Params) -> list[Event]:
        return [events.Notice(text=params.message, code="warning")]

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, said: Said) -> tuple[list[Event], Verdict]:
        """Return the last events and the verdict on a turn that Codex ended."""
        emitted: list[Event] = []
        if said.error is not None:
            emitted = self._on_fatal(said.error)
        if said.status == "completed":
            self._summary.ended = self._summary.ended or "stop"
        elif said.status == "failed" and self._summary.failure is None and not self._summary.ended:
            self._summary.ended = self._summary.retried
        if said.status == "failed" and self._summary.failure is None and not self._summary.ended:
            emitted += self._summary.on_failed("codex did not say why the turn failed", class_=Class.UNKNOWN)
        why = None
        if said.status == "interrupted":
            why = "retries" if self._summary.retry is not None else "interrupted"
        more, verdict = oneshot.verdict(self.turn, Exit(code=0, stopped_by=why), self._summary)
        if self._hook is not None and verdict.status is Status.COMPLETED and not verdict.reply:
            reason = f"a hook stopped the prompt: {self._hook}"
            verdict = msgspec.structs.replace(
                verdict, status=Status.FAILED, class_=Class.STOPPED, reason=reason, reply=None
            )
            return emitted + more, self._with_point(verdict)
        return emitted + more, self._with_point(with_structured_answer(self.turn, verdict))

    def end_cut_off(self, exit: Exit) -> tuple[list[Event], Verdict]:
        """Return the last events and the verdict on a turn whose process ended first, or whose connection broke."""
        emitted, verdict = oneshot.verdict(self.turn, exit, self._summary)
        return emitted, self._with_point(verdict)

    def _with_point(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the turn's own id as its place in the thread (`point`); unchanged if the id is
        unknown."""
        point = Point(begins=self.id, ends=self.id)
        return msgspec.structs.replace(verdict, point=point) if self.id else verdict


_SPECIAL_ITEMS = frozenset({"contextCompaction", "subAgentActivity", "imageView", "imageGeneration"})
_KINDS: dict[str, Callable[[TurnReader, Params], list[Event]]] = {
    "item/started": TurnReader._on_started,
    "item/completed": TurnReader._on_completed,
    "thread/tokenUsage/updated": TurnReader._on_used,
    "thread/settings/updated": TurnReader._on_settings,
    "turn/plan/updated": TurnReader._on_planned,
    "error": TurnReader._on_error,
    "hook/completed": TurnReader._on_hook,
    "warning": TurnReader._on_warned,
    "guardianWarning": TurnReader._on_warned,
}


def thread_total(tokens: Tokens) -> Total:
    """Return the usage of the whole thread so far."""
    return total_of(
        exec_wire.Tokens(
            input_tokens=tokens.input_tokens,
            cached_input_tokens=tokens.cached_input_tokens,
            cache_write_input_tokens=tokens.cache_write_input_tokens,
            output_tokens=tokens.output_tokens,
            reasoning_output_tokens=tokens.reasoning_output_tokens,
        )
    )


def class_of(failure: Failure) -> Class | None:
    """Return the failure class that Codex reports; None if only the failure's text shows the class."""
    info: Any = failure.codex_error_info
    if isinstance(info, str):
        return _CLASS_BY_INFO.get(info)
    status = next((integer(object_of(value), "httpStatusCode") for value in object_of(info).values()), None)
    return Class.AUTH if status in (401, 403) else None
