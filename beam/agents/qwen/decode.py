"""Turns Qwen Code's stream-json lines into events.

If the API fails, version 0.15 reports a `success` with exit code 0, no tokens and the answer `[API Error: …]`; version
0.24 reports an error. The result's figures cover the whole session, including calls that no message shows, so a turn's
figures are the difference to the figures before the turn. The log of the CLI's OpenAI library stands between the lines
of JSON, and reports retries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from beam.agents import figures
from beam.agents.base import Exit, Turn, Verdict, raw_json
from beam.agents.fields import Object, integer, json_text, obj, objects, string
from beam.agents.oneshot import OutputSummary, read, verdict
from beam.agents.qwen import mentions
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Denial, Status, Usage

_API_ERROR = "[API Error: "
_CUT_OFF_ANSWER = re.compile(
    r"\[API Error: ([^\n]*\(cause: [^\n]*\))\]\Z"
)  # the end of an answer whose stream broke off
_NO_SESSION = "No saved session found with ID {}."
_TURN_LIMIT_TEXT = "Reached max session turns for this session"  # on stderr only, with exit code 53
_UNASKED_TEXT = "qwen called no model: a hook blocked the prompt, and qwen does not pass on what the hook said"
_LOG_PREFIX = b"[log_"
_LOGGED_RETRY = re.compile(
    r"\[log_[^\]]*\] (.* failed with status (\d{3})|connection (?:failed|timed out))(?: in \d+ms)?"
    r" - (retrying|error; no more)"
)
_PATH_ARGUMENTS = dict.fromkeys(("write_file", "edit", "replace"), "file_path") | {"notebook_edit": "notebook_path"}


class LineDecoder:
    """The decoder of the output of one process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = OutputSummary(name="qwen", model=turn.model)
        self._counted = 0
        self._attempt = 0
        self._answer_retries = 0
        self._answered = False
        self._asked = False  # a request was sent to the model
        self._has_ended = False  # the model ended a text, and was not asked again since
        self._is_cut = False  # the token limit cut off the answer, and the model is asked to go on
        self._open: dict[str, tuple[str, Object]] = {}

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line."""
        return (
            self._on_log_line(line.decode("utf-8", "replace"))
            if line.startswith(_LOG_PREFIX)
            else read(line, self._decode)
        )

    def _on_log_line(self, line: str) -> list[Event]:
        """Return the event of a retry if this line of the log reports one. When the library gives up, qwen itself
        retries some failures."""
        found = _LOGGED_RETRY.match(line)
        self._asked = True
        self._answered = found is None and " succeeded with status " in line
        if found is None:
            self._attempt = 0 if self._answered else self._attempt
            return []
        status = int(found[2]) if found[2] else None
        if found[3] != "retrying" and not (status is not None and (status == 429 or status >= 500)):
            return []
        self._attempt += 1
        return self._summary.retrying(found[1], attempt=self._attempt, http_status=status)

    def _decode(self, value: Object) -> list[Event]:
        kind = string(value, "type")
        match kind:
            case "system":
                return self._system(value)
            case "stream_event":
                return _delta(value)
            case "assistant":
                return self._assistant(value)
            case "user":
                return self._user(value)
            case "result":
                return self._result(value)
        return [events.Unknown(what=kind or "no type")]

    def _system(self, value: Object) -> list[Event]:
        subtype = string(value, "subtype")
        if subtype == "retry":
            return self._retry(obj(value, "data"))
        if subtype != "init":
            return [events.Unknown(what=f"system/{subtype}")]
        model, version = string(value, "model") or None, string(value, "qwen_code_version") or None
        opened = self._summary.on_opened(self._turn, string(value, "session_id"), model=model, version=version)
        changed = mentions.change_notice(self._turn.text)
        return [*opened, events.Notice(text=changed, code="prompt_changed")] if changed else opened

    def _retry(self, data: Object) -> list[Event]:
        """Return the event of a retry after an answer that broke off or was empty. The log reports retries after other
        failures.

        The CLI writes this line twice. If the token limit cut off an answer, the CLI first asks again with a higher
        limit, although it has the text of the answer, and then asks the model to go on.
        """
        if not self._answered:
            return []
        self._answered = False
        self._answer_retries += 1
        kept = data.get("preserveText") is True
        self._is_cut = (self._is_cut and kept) or (self._has_ended and not kept)
        self._has_ended = False
        self._summary.retried = "length" if self._is_cut else ""
        if self._is_cut:
            text = "the token limit cut off the answer, and the model is asked again"
            return self._summary.retrying(text, attempt=self._answer_retries, class_=Class.UNKNOWN)
        reason = "the answer broke off, and the model is asked to go on" if kept else "the answer was empty"
        class_ = Class.NETWORK if kept else Class.EMPTY
        return self._summary.retrying(reason, attempt=self._answer_retries, class_=class_)

    def _assistant(self, value: Object) -> list[Event]:
        message = obj(value, "message")
        parent = string(value, "parent_tool_use_id") or None
        usage = _usage(obj(message, "usage"))
        self._asked = True
        self._counted = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        emitted: list[Event] = []
        for block in objects(message, "content"):
            kind = string(block, "type")
            self._has_ended |= kind == "text" and parent is None
            if kind == "text" and parent is None:
                emitted += self._summary.text(string(block, "text"))
            elif kind == "text":
                emitted.append(events.Text(text=string(block, "text"), parent=parent))
            elif kind == "thinking":
                emitted.append(events.Thinking(text=string(block, "thinking"), parent=parent))
            elif kind == "tool_use":
                self._has_ended = False
                call_id, name = string(block, "id"), string(block, "name")
                self._open[call_id] = (name, obj(block, "input"))
                emitted += self._summary.on_called(call_id, name, block.get("input"), parent=parent)
            else:
                emitted.append(events.Unknown(what=f"assistant/{kind}"))
        if self._counted:
            emitted += self._summary.counted(usage, None)
        return emitted

    def _user(self, value: Object) -> list[Event]:
        emitted: list[Event] = []
        parent = string(value, "parent_tool_use_id") or None
        for block in objects(obj(value, "message"), "content"):
            if string(block, "type") != "tool_result":
                continue
            call_id, is_error = string(block, "tool_use_id"), block.get("is_error") is True
            name, arguments = self._open.pop(call_id, ("", {}))
            output = _text(block.get("content"))
            emitted += self._summary.on_returned(call_id, output, is_error=is_error, parent=parent)
            path = string(arguments, _PATH_ARGUMENTS[name]) if name in _PATH_ARGUMENTS and not is_error else ""
            if path:
                emitted.append(events.FileChanged(path=path))
        return emitted

    def _result(self, value: Object) -> list[Event]:
        summary = self._summary
        summary.session_id = summary.session_id or string(value, "session_id") or None
        for denial in objects(value, "permission_denials"):
            call_id, arguments = string(denial, "tool_use_id"), raw_json(denial.get("tool_input"))
            summary.denials.append(Denial(tool=string(denial, "tool_name"), call_id=call_id, input=arguments))
        api_ms = integer(value, "duration_api_ms")
        summary.work = figures.Work(api_s=api_ms / 1000 if api_ms else None)  # of this process alone; 0 for a failure
        emitted = self._usage_events(obj(value, "usage"))
        text = string(value, "result")
        if value.get("is_error") is True or string(value, "subtype") != "success":
            error = string(obj(value, "error"), "message") or text or string(value, "subtype")
            return emitted + summary.on_failed(
                error.removeprefix(_API_ERROR).removesuffix("]") if error.startswith(_API_ERROR) else error
            )
        if text.startswith(_API_ERROR) and not self._counted:
            return emitted + summary.on_failed(text.removeprefix(_API_ERROR).removesuffix("]"))
        if (cut := _CUT_OFF_ANSWER.search(text)) is not None:
            return emitted + summary.on_failed(cut[1])
        if not self._asked:
            return emitted + summary.on_failed(_UNASKED_TEXT, class_=Class.STOPPED)
        summary.reply, summary.ended = text or None, "stop"
        return emitted

    def _usage_events(self, usage: Object) -> list[Event]:
        """Return the turn's figures: the CLI's total of the session, including calls that no message shows, minus the
        total before the turn."""
        summary, turn = self._summary, self._turn
        total = figures.make_total(_usage(usage), cost_usd=None, models=None)
        if figures.is_nothing(total):
            return []
        used = figures.of_turn(total, figures.NOTHING_YET if turn.session_id is None else turn.carried, summary.usage)
        summary.usage = Usage() if used is None or figures.is_nothing(used) else figures.usage_of(used)
        return [events.UsageSeen(usage=summary.usage, total=total)]

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the last events and the verdict. The session counts as lost if the CLI says on stderr that it does not
        exist."""
        summary = self._summary
        summary.find_lost_session(self._turn, exit, _NO_SESSION)
        emitted, found = verdict(self._turn, exit, summary)
        if _TURN_LIMIT_TEXT in exit.stderr_tail and not summary.ended and exit.stopped_by is None:
            found = msgspec.structs.replace(found, status=Status.LIMIT, class_=None, reason=_TURN_LIMIT_TEXT)
        return emitted, found


def _delta(value: Object) -> list[Event]:
    event = obj(value, "event")
    if string(event, "type") != "content_block_delta":
        return []
    text = string(obj(event, "delta"), "text")
    return [events.TextDelta(text=text, parent=string(value, "parent_tool_use_id") or None)] if text else []


def _usage(usage: Object) -> Usage:
    cached = "cache_read_input_tokens"
    return figures.usage_in(usage, calls=None, given="input_tokens", output="output_tokens", cached=cached)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "" if content is None else json_text(content)
