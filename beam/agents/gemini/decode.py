"""Gemini's stream-json lines, and the retries that it says on stderr alone, turned into events and a verdict.

Only the `result` line tells how the turn went: the exit code is 0 for a truncated stream and for an interrupted turn,
and the low byte of an HTTP status for a failing API. Must not know: how the process is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from beam import events
from beam.agents import oneshot
from beam.agents.base import Exit, Turn, Verdict, document, json_object, raw_json
from beam.agents.failures import class_of
from beam.agents.fields import Object, integer, obj, string
from beam.agents.gemini.session import is_own_id
from beam.events import Event
from beam.outcome import Class, Denial, Usage

_CHANGING = ("run_shell_command", "write_file", "replace", "save_memory", "mcp_")
_WRITERS = ("write_file", "replace")
_NOT_ALLOWED = ("tool_not_registered", "policy_violation")
_RETRY = re.compile(r"Attempt (\d+) failed(?: with status (\d+))?\. Retrying with backoff\.\.\.\s*(.*)")
_API_ERROR = re.compile(r"\[API Error: (.*)\]\Z", re.DOTALL)
_NO_SESSION = ('Invalid session identifier "{}"', "Error resuming session: No previous sessions found")
_NOISE = ("Warning:", "Ripgrep is not available", "[STARTUP]", "YOLO mode is enabled", "Loaded cached")
_BY_CODE = {41: Class.AUTH, 42: Class.BAD_REQUEST, 52: Class.BAD_REQUEST, 55: Class.BAD_REQUEST}
_UNTRUSTED = (
    "gemini does not run in a folder that nobody trusted: look at the folder, then `beam trust` (its own settings "
    "count from then on), or trust it in gemini itself"
)
_AT_RISK = (
    "gemini itself made this session: its cleaning up may remove it when another session is started in this folder, "
    "unless its settings say `general.sessionRetention.enabled: false`"
)
_BLOCKED = "blocked due to safety"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Frames:
    """The decoder of one process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._heard = oneshot.Heard(name="gemini")
        self._calls: dict[str, tuple[str, Object]] = {}
        self._piece = ""
        self._error = ""
        self._kinds: dict[str, Callable[[Object], list[Event]]] = {
            "init": self._init,
            "message": self._message,
            "tool_use": self._called,
            "tool_result": self._returned,
            "error": self._trouble,
            "result": self._result,
        }

    def line(self, line: bytes) -> Sequence[Event]:
        """Bodies of what this line says; the text that it ends comes first, and has no line of its own."""
        value = json_object(line)
        if value is None:
            return () if not line.strip() else (events.Unknown(what="not JSON", raw=line.decode("utf-8", "replace")),)
        kind = string(value, "type")
        decode = self._kinds.get(kind)
        before = [] if kind == "message" and value.get("delta") is True else self._spoken()
        bodies: list[Event] = [events.Unknown(what=kind or "no type")] if decode is None else decode(value)
        return before + oneshot.with_line(bodies, line)

    def error_line(self, line: bytes) -> Sequence[Event]:
        """A retry, if the line of stderr is about one: the output says nothing of them."""
        found = _RETRY.match(line.decode("utf-8", "replace"))
        if found is None:
            return ()
        http_status = int(found[2]) if found[2] else None
        why = _plain(found[3].removeprefix("_ApiError: ").removeprefix("Error: "))
        return self._heard.retrying(why, attempt=int(found[1]), http_status=http_status)

    def _init(self, value: Object) -> list[Event]:
        model = string(value, "model")
        bodies = self._heard.opened(self._turn, string(value, "session_id"), model=model if model != "auto" else None)
        if bodies and self._turn.session_id and not is_own_id(self._turn.session_id):
            bodies.append(events.Notice(text=_AT_RISK, code="session_at_risk"))
        return bodies

    def _message(self, value: Object) -> list[Event]:
        role, text = string(value, "role"), string(value, "content")
        if role == "user":
            return []
        if role != "assistant":
            return [events.Unknown(what=f"message/{role}")]
        if value.get("delta") is not True:
            return self._heard.text(text)
        self._piece += text
        return [events.TextDelta(text=text)] if text else []

    def _spoken(self) -> list[Event]:
        text, self._piece = self._piece, ""
        return self._heard.text(text)

    def _called(self, value: Object) -> list[Event]:
        call_id, name, given = string(value, "tool_id"), string(value, "tool_name"), obj(value, "parameters")
        self._calls[call_id] = (name, given)
        return self._heard.called(call_id, name, given)

    def _returned(self, value: Object) -> list[Event]:
        call_id, error = string(value, "tool_id"), obj(value, "error")
        name, given = self._calls.pop(call_id, ("", {}))
        is_error = string(value, "status") != "success"
        output = string(value, "output") or string(error, "message")
        bodies = self._heard.returned(call_id, output, is_error=is_error)
        if not is_error and name in _WRITERS:
            bodies.append(events.FileChanged(path=string(given, "file_path")))
        if string(error, "type") in _NOT_ALLOWED and name.startswith(_CHANGING) and self._turn.access != "full":
            self._heard.denials.append(Denial(tool=name, call_id=call_id, input=raw_json(given)))
        return bodies

    def _trouble(self, value: Object) -> list[Event]:
        text = string(value, "message")
        if string(value, "severity") != "warning":
            self._error = text
        return [events.Notice(text=text, code=string(value, "severity") or "error")]

    def _result(self, value: Object) -> list[Event]:
        stats = obj(value, "stats")
        models = [name for name, used in obj(stats, "models").items() if isinstance(used, dict)]
        self._heard.model = models[-1] if models else self._heard.model
        usage = _usage(stats)
        failed = self._judge(value)
        if self._heard.failure is not None and not (usage.input_tokens or usage.output_tokens or usage.cached_tokens):
            usage = Usage()  # the figures of a turn that failed at once are noughts, and mean that nobody counted
        self._heard.usage = usage
        return [events.UsageSeen(usage=usage), *failed]

    def _judge(self, value: Object) -> list[Event]:
        if string(value, "status") == "success":
            self._heard.ended = "stop"
            return []
        text = _plain(string(obj(value, "error"), "message")) or self._error or "gemini gave no reason"
        if _BLOCKED in text:
            self._heard.ended = "refused"
            return []
        cut_off = "without a finish reason" in text
        http_status = self._heard.retry.http_status if self._heard.retry else None
        bodies = self._heard.failed(text, class_=Class.NETWORK if cut_off else _class_of(value, text, http_status))
        return [] if text == self._error else bodies

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """The calls that never returned, and the verdict: without a `result` line the turn was stopped, or died."""
        bodies = self._spoken()
        if self._heard.session_id is None and exit.stopped_by is None:
            bodies += self._complaint(exit)
        quiet = msgspec.structs.replace(exit, stderr_tail="\n".join(_said(exit)))
        last, verdict = oneshot.verdict(self._turn, quiet, self._heard)
        return [*bodies, *last], verdict

    def _complaint(self, exit: Exit) -> list[Event]:
        """What gemini said on stderr in place of a session."""
        asked, said = self._turn.session_id, _said(exit)
        if asked is not None and any(proof.format(asked) in line for proof in _NO_SESSION for line in said):
            self._heard.lost = f"gemini has no session {asked} in this folder"
            return []
        if exit.code == 55:
            return self._heard.failed(_UNTRUSTED, class_=Class.BAD_REQUEST)
        if said and (exit.code in _BY_CODE or said[0].startswith("Unknown argument")):
            return self._heard.failed(said[0], class_=_BY_CODE.get(exit.code or 0, Class.BAD_REQUEST))
        return []


def _said(exit: Exit) -> list[str]:
    """The lines of stderr that say something, without colours, each up to 500 characters."""
    lines = [line.strip() for line in _COLOUR.sub("", exit.stderr_tail).splitlines()]
    return [line[:500] for line in lines if line and not line.startswith(_NOISE)]


def _usage(stats: Object) -> Usage:
    """This process's tokens, which are this turn's. `input_tokens` are those from no cache."""
    return Usage(
        input_tokens=integer(stats, "input"),
        output_tokens=integer(stats, "output_tokens"),
        cached_tokens=integer(stats, "cached"),
    )


def _class_of(value: Object, text: str, http_status: int | None) -> Class:
    body = _body(string(obj(value, "error"), "message"))
    return class_of(integer(obj(body, "error"), "code") or http_status, text)


def _plain(text: str) -> str:
    """The message of an API error, without what gemini put around it."""
    return string(obj(_body(text), "error"), "message") or (found[1] if (found := _API_ERROR.match(text)) else text)


def _body(text: str) -> Object:
    """The body of the API's answer that the text quotes; {} where it quotes none."""
    found = _API_ERROR.match(text)
    try:
        value = document((found[1] if found else text).encode("utf-8", "replace"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
