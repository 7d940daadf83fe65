"""Turns Claude Code's stream-json lines into events, for headless and for dialogue mode.

A line of a known kind that says nothing about the turn (an echo, a keep-alive, a mirror) gives no event. A line of an
unknown kind gives an `unknown` event. Does not depend on how the process is run, or on how a verdict is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from beam.agents.base import Exit, Native, Turn, Verdict, native, raw_json
from beam.agents.claude import verdict as verdicts
from beam.agents.claude.system import SYSTEM_DECODERS
from beam.agents.claude.tasks import Tasks
from beam.agents.claude.tools import Tools
from beam.agents.fields import Object, integer, number, obj, objects, string, strings
from beam.agents.images import images_in, replace_image_data
from beam.base.clock import rfc3339
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import ANSWERS, Point

_INTERRUPTED = "[Request interrupted by user"
_SYNTHETIC_MODEL = "<synthetic>"
_NO_CONTENT = "(no content)"  # the text of a command that prints nothing


class FrameDecoder:
    """Decodes the output of one process. A caller that also writes to the process calls `on_decided` to report who
    answered each permission request."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = verdicts.OutputSummary()
        self._tools = Tools()
        self._tasks = Tasks()
        self._verdict: Verdict | None = None
        self._aborted = False
        self._begun = 0  # turns that have no result yet
        self._goes_on = False  # whether a line of a turn came after the last result
        self._asks: dict[str, str] = {}
        self._decided: dict[str, str] = {}
        self._lost = False
        self._last_uuid = ""
        self._repeated: set[str] = set()  # ids of messages that a compaction kept, and that claude sends again
        self._kinds: dict[str, Callable[[Object], list[Event]]] = {
            "stream_event": self._stream,
            "assistant": self._assistant,
            "user": self._user,
            "system": self._system,
            "result": self._result,
            "control_request": self._request,
            "control_cancel_request": self._cancel,
            **_KINDS,
        }

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. The first event carries the line in `raw`, unless it is a delta."""
        if not line or line.isspace():
            return ()
        read = native(line)
        if read is None:
            return (events.Unknown(what="not JSON", raw=line.decode("utf-8", "replace")),)
        return self.frame(read)

    def frame(self, read: Native) -> Sequence[Event]:
        """Return the events of a line that was parsed already."""
        kind = string(read.value, "type")
        decode = self._kinds.get(kind)
        emitted: list[Event] = [events.Unknown(what=kind or "no type")] if decode is None else decode(read.value)
        if emitted and not isinstance(emitted[0], events.TextDelta):
            emitted[0] = msgspec.structs.replace(emitted[0], raw=replace_image_data(read.text, emitted))
        return emitted

    def on_decided(self, ask_id: str, by: str) -> None:
        """Record that a person or a rule (`by`) answered this permission request. A request that they denied does not
        make the turn count as denied."""
        self._decided[ask_id] = by

    @property
    def has_tasks(self) -> bool:
        """Return whether the agent has tasks that run in the background."""
        return any(task.how == "running" for task in self._tasks.unfinished())

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return events for the calls that never returned, and the verdict. The verdict comes from the last result, or
        from how the process ended."""
        emitted, found = self._end(exit)
        return emitted, msgspec.structs.replace(found, point=Point(ends=self._last_uuid)) if self._last_uuid else found

    def _end(self, exit: Exit) -> tuple[list[Event], Verdict]:
        emitted = self._tools.unfinished()
        found = self._verdict
        if found is None or self._ended_mid_turn(exit):
            found = verdicts.verdict_of_exit(self._turn, exit, self._summary, before=found)
            if found.session == "lost" and not self._lost:
                emitted.insert(0, events.SessionLost(session_id=self._turn.session_id or "", reason=found.reason or ""))
            return emitted, found
        stopped = verdicts.stopped_verdict(exit)
        if self._aborted and stopped is not None:
            found = msgspec.structs.replace(found, status=stopped.status, class_=None, reason=stopped.reason)
        elif stopped is None and (exit.code or exit.signal) and found.status.value == "completed":
            how = f"was ended by {exit.signal}" if exit.signal else f"exited with {exit.code}"
            emitted.append(events.Notice(text=f"claude {how} after a good result", code="exit_code"))
        if found.status in ANSWERS:
            found = msgspec.structs.replace(found, unfinished=self._tasks.unfinished())
        return emitted, found

    def _ended_mid_turn(self, exit: Exit) -> bool:
        """Return whether the process ended in the middle of a turn, though an earlier turn has its result.

        claude begins a turn on its own when a background task ends, and may write the results of both turns at the end
        of the second turn.
        """
        return self._goes_on or (self._begun > 0 and exit.code != 0)

    # -- system, result ------------------------------------------------------------------------------------------------

    def _system(self, value: Object) -> list[Event]:
        subtype = string(value, "subtype")
        decode = SYSTEM_DECODERS.get(subtype)
        if subtype == "compact_boundary":
            self._repeated |= set(strings(obj(obj(value, "compact_metadata"), "preserved_messages"), "all_uuids"))
        self._summary.on_stop_told(value)
        if decode is not None:
            return decode(value)
        if subtype == "init":
            return self._init(value)
        if subtype.startswith("task_"):
            return self._tasks.line(value)
        return [events.Unknown(what=f"system/{subtype}")]

    def _init(self, value: Object) -> list[Event]:
        self._begun += 1
        self._goes_on = self._verdict is not None
        session_id, before = string(value, "session_id"), self._summary.session_id
        self._summary.model = string(value, "model") or self._summary.model
        self._summary.session_id = session_id or before
        if self._summary.opened and session_id == before:
            return []
        resumed = not self._summary.opened and self._turn.session_id is not None and not self._turn.fork
        self._summary.opened = True
        return [
            events.SessionStarted(
                session_id=session_id,
                resumed=resumed,
                model=string(value, "model") or None,
                cwd=string(value, "cwd") or None,
                access=string(value, "permissionMode") or None,
                tools=strings(value, "tools"),
                version=string(value, "claude_code_version") or None,
            )
        ]

    def _result(self, value: Object) -> list[Event]:
        summary = self._summary
        if self._asks:
            summary.decided = {call: self._decided[ask] for ask, call in self._asks.items() if ask in self._decided}
        summary.denied = self._verdict.denials if self._verdict is not None and verdicts.is_continuation(value) else ()
        total = summary.counted.count_result(value)
        found = verdicts.verdict_of_result(self._turn, value, summary)
        self._verdict, self._aborted = found, verdicts.is_aborted(value)
        self._begun, self._goes_on = max(0, self._begun - 1), False
        emitted: list[Event] = [events.UsageSeen(usage=found.usage, cost_usd=found.cost_usd, total=total)]
        if (context := summary.counted.context_used(result=value, model=summary.model)) is not None:
            emitted.append(context)
        if found.session == "lost":
            self._lost = True
            emitted.insert(0, events.SessionLost(session_id=self._turn.session_id or "", reason=found.reason or ""))
        else:
            summary.session_id = found.session_id
        summary.on_result()
        return emitted

    # -- the agent's texts and calls -----------------------------------------------------------------------------------

    def _stream(self, value: Object) -> list[Event]:
        event = obj(value, "event")
        kind = event.get("type")
        if kind == "content_block_delta":
            text = string(obj(event, "delta"), "text")
            return [events.TextDelta(text=text, parent=string(value, "parent_tool_use_id") or None)] if text else []
        if kind == "message_start":
            self._summary.counted.count_call(obj(event, "message"), is_own=not value.get("parent_tool_use_id"))
        if kind == "message_delta" and not value.get("parent_tool_use_id"):
            self._summary.cut_off |= string(obj(event, "delta"), "stop_reason") in verdicts.TRUNCATED_STOP_REASONS
        so_far = self._summary.counted.usage_so_far(event) if kind == "message_delta" else None
        return [events.UsageSeen(usage=so_far)] if so_far is not None else []

    def _assistant(self, value: Object) -> list[Event]:
        message = obj(value, "message")
        parent = string(value, "parent_tool_use_id") or None
        model, error = string(message, "model"), string(value, "error")
        if parent is None:
            self._last_uuid = string(value, "uuid") or self._last_uuid
        if string(value, "uuid") in self._repeated:
            return []
        if parent is None:
            self._goes_on = self._verdict is not None
            if model and model != _SYNTHETIC_MODEL:
                self._summary.model = model
        if model != _SYNTHETIC_MODEL:
            self._summary.counted.count_call(message, is_own=parent is None)
        if error:
            if parent is None:
                self._summary.error = error
            return [events.Notice(text=_joined_text(message), code="api_error")]
        if model == _SYNTHETIC_MODEL and _joined_text(message) == _NO_CONTENT:
            return []
        emitted: list[Event] = []
        for block in objects(message, "content"):
            emitted += self._block(block, parent)
        return emitted

    def _block(self, block: Object, parent: str | None) -> list[Event]:
        kind = string(block, "type")
        if kind == "text":
            text = string(block, "text")
            if not text:
                return []
            if parent is None:
                self._summary.texts.append(text)
            return [events.Text(text=text, parent=parent)]
        if kind == "thinking":
            text = string(block, "thinking")
            return [events.Thinking(text=text, parent=parent)] if text else []
        if kind == "redacted_thinking":
            return []
        if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            if parent is None:
                self._summary.texts, self._summary.cut_off = [], False
            self._tasks.on_called(string(block, "id"), string(block, "name"), obj(block, "input"))
            return self._tools.called(block, parent)
        if kind.endswith("tool_result"):
            return self._tools.returned(block, None, parent)
        if kind == "image":
            return [*images_in([block], parent=parent)]
        return [events.Unknown(what=f"assistant/{kind}")]

    def _user(self, value: Object) -> list[Event]:
        if value.get("isReplay") is True or string(value, "uuid") in self._repeated:
            return []
        parent = string(value, "parent_tool_use_id") or None
        if parent is None:
            self._summary.on_stop_told(value)
        message = obj(value, "message")
        content = message.get("content")
        if isinstance(content, str):
            return _synthetic_notice(content, parent)
        emitted: list[Event] = []
        for block in objects(message, "content"):
            kind = string(block, "type")
            if kind.endswith("tool_result"):
                emitted += self._tools.returned(block, value.get("tool_use_result"), parent)
            elif kind == "text":
                emitted += _synthetic_notice(string(block, "text"), parent)
            elif kind not in ("image", "document"):
                emitted.append(events.Unknown(what=f"user/{kind}"))
        return emitted

    # -- control (duplex) ----------------------------------------------------------------------------------------------

    def _request(self, value: Object) -> list[Event]:
        request, ask_id = obj(value, "request"), string(value, "request_id")
        subtype = string(request, "subtype")
        if subtype == "can_use_tool":
            call_id = string(request, "tool_use_id")
            self._asks[ask_id] = call_id
            return [
                events.PermissionAsked(
                    ask_id=ask_id,
                    tool=string(request, "tool_name"),
                    input=raw_json(request.get("input")),
                    description=string(request, "description"),
                    call_id=call_id or None,
                    suggestions=raw_json(request.get("permission_suggestions") or []),
                )
            ]
        if subtype == "hook_callback":
            return [events.StatusChanged(state="hook", detail=string(obj(request, "input"), "hook_event_name"))]
        return [events.Unknown(what=f"control_request/{subtype}")]

    def _cancel(self, value: Object) -> list[Event]:
        ask_id = string(value, "request_id")
        if ask_id in self._asks:
            self._summary.withdrawn.add(self._asks[ask_id])
        return [events.PermissionDecided(ask_id=ask_id, decision="cancelled", why="the agent withdrew it")]


def _joined_text(message: Object) -> str:
    return "\n".join(string(block, "text") for block in objects(message, "content") if string(block, "text"))


def _synthetic_notice(text: str, parent: str | None) -> list[Event]:
    """Return the notice of a text that Claude Code itself wrote in the user's role. A subagent's prompt gives no
    notice, because the input of the call shows it."""
    if parent is not None or not text:
        return []
    return [events.Notice(text=text, code="interrupted" if text.startswith(_INTERRUPTED) else "synthetic")]


def _no_events(value: Object) -> list[Event]:
    return []


def _progress(value: Object) -> list[Event]:
    return [
        events.ToolProgress(
            call_id=string(value, "tool_use_id"),
            elapsed_s=number(value, "elapsed_time_seconds"),
            parent=string(value, "parent_tool_use_id") or None,
        )
    ]


def _rate_limit(value: Object) -> list[Event]:
    info = obj(value, "rate_limit_info")
    status, kind = string(info, "status"), string(info, "rateLimitType")
    resets = integer(info, "resetsAt")
    if status in ("", "allowed"):
        return [events.StatusChanged(state="rate_limit", detail=f"{status} {kind}".strip())]
    word = "resets" if status == "rejected" else "its window ends"  # only a limit that was reached is waited for
    when = f", {word} at {rfc3339(resets * 10**9)}" if resets is not None else ""
    return [events.Notice(text=f"rate limit: {status} {kind}".rstrip() + when, code="rate_limit")]


def _auth(value: Object) -> list[Event]:
    error = string(value, "error")
    if error:
        return [events.Notice(text=error, code="auth")]
    return [events.StatusChanged(state="authenticating", detail=" ".join(strings(value, "output")))]


def _summary(value: Object) -> list[Event]:
    return [events.StatusChanged(state="summary", detail=string(value, "summary"))]


def _reset(value: Object) -> list[Event]:
    why = string(value, "trigger").replace("_", " ")
    text = f"claude began a new conversation{f' ({why})' if why else ''}"
    return [events.Notice(text=text, code="conversation_reset")]


def _response(value: Object) -> list[Event]:
    response = obj(value, "response")
    return [
        events.ControlDone(
            control_id=string(response, "request_id"),
            ok=response.get("subtype") == "success",
            code="" if response.get("subtype") == "success" else "refused",
            message=string(response, "error"),
            result=raw_json(response.get("response")),
        )
    ]


_IGNORED_KINDS = (
    "keep_alive",
    "transcript_mirror",
    "prompt_suggestion",
    "streamlined_text",
    "streamlined_tool_use_summary",
)
_KINDS: dict[str, Callable[[Object], list[Event]]] = {
    "control_response": _response,
    "tool_progress": _progress,
    "rate_limit_event": _rate_limit,
    "auth_status": _auth,
    "tool_use_summary": _summary,
    "conversation_reset": _reset,
    **dict.fromkeys(_IGNORED_KINDS, _no_events),
}
