"""Reads Claude Code's own messages, which `claude-agent-acp` passes on if it is asked to: they say why a turn ended.

By the protocol alone, a turn that a hook stopped has an answer, and one that the token limit cut off has failed.
"""

from __future__ import annotations

from msgspec import structs

from beam.agents.base import Turn, Verdict
from beam.agents.claude import verdict as verdicts
from beam.agents.fields import Object, obj, string
from beam.model.outcome import Class, Status

RAW_MESSAGES = [
    {"type": "result"},
    {"type": "system", "subtype": "informational"},
    {"type": "system", "subtype": "hook_response"},
]
_METHOD = "_claude/sdkMessage"


class ResultReader:
    """Reads the messages of one turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = structs.replace(turn, schema=None)  # beam itself asks for a schema here
        self._summary = verdicts.OutputSummary()
        self._found: tuple[Status, Class | None, str | None] | None = None
        self._is_blocked = False

    def read(self, method: str, params: Object) -> None:
        if method != _METHOD:
            return
        message = obj(params, "message")
        self._summary.on_stop_told(message)
        if string(message, "type") == "result":
            self._is_blocked = self._summary.blocked
            self._found = verdicts.judge(self._turn, message, self._summary, ())
            self._summary.on_result()

    @property
    def is_open(self) -> bool:
        return False

    def error_line(self, line: bytes) -> None:
        """Do nothing: its stderr says nothing about a turn's end."""

    def refine(self, verdict: Verdict) -> Verdict:
        status, class_, reason = self._found or (Status.COMPLETED, None, None)
        if status in (Status.COMPLETED, Status.CANCELLED):
            return verdict
        if status is verdict.status and class_ in (None, Class.UNKNOWN, verdict.class_):
            return verdict
        reply = None if self._is_blocked else verdict.reply or None
        return structs.replace(verdict, status=status, class_=class_, reason=reason, reply=reply)
