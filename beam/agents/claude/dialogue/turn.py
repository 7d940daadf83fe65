"""One turn in a process of Claude Code: its progress, its messages as events, and its verdict.

The decoder (`claude/decode.py`) knows the meaning of a line. Does not depend on requests, or on how a turn is stopped.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from msgspec import UNSET, structs

from beam.agents.base import Exit, Native, Turn, Verdict
from beam.agents.claude.decode import FrameDecoder
from beam.agents.fields import string
from beam.model.events import Event, Notice
from beam.model.outcome import Class, Status

_BEAM = "beam"
_OWN_RUN_NOTICE = "claude first said something of its own; the answer comes after it"


def message_uuid(*words: object) -> str:
    """Return the UUID that identifies a prompt. The same words give the same UUID."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, " ".join(map(str, words))))


class TurnReader:
    """Reads the messages of one turn. `is_known`: claude has received the prompt; `is_begun`: claude works on the
    prompt; `has_result`: the result has arrived; `is_double`: claude had received this prompt before."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.key = message_uuid(turn.message_id, turn.attempt, turn.session_id)
        self.is_known = self.is_begun = self.has_result = self.is_double = False
        self._is_cut = False
        self._is_own = False  # claude said something that is no answer to the prompt
        self._frames = FrameDecoder(turn)

    @property
    def is_late(self) -> bool:
        """Return whether claude should have reported by now that the turn is over."""
        return self.is_begun and self.has_result and not self._frames.has_tasks

    def on_begun(self) -> list[Event]:
        """Record that claude works on the prompt. Return a notice if claude said something of its own before."""
        self.is_known = self.is_begun = True
        if not self._is_own:
            return []
        self._is_own, self.has_result, self._frames = False, False, FrameDecoder(self.turn)
        return [Notice(text=_OWN_RUN_NOTICE, code="own_run")]

    def frame(self, read: Native) -> Sequence[Event]:
        """Return the events of a line."""
        kind = string(read.value, "type")
        if kind == "result":
            self.has_result = True
        elif string(read.value, "subtype") == "init":
            self.has_result = False
        is_said = kind == "assistant" and not string(read.value, "parent_tool_use_id")
        if is_said or kind == "result":  # older versions name the message only once its answer comes
            self._is_own = not self.is_begun
        return self._frames.frame(read)

    def on_asked(self, read: Native) -> None:
        """Record a request that a person or a rule will decide."""
        self._frames.frame(read)

    def on_withdrawn(self, read: Native) -> None:
        """Record that claude withdrew a request: nobody denied it."""
        self._frames.frame(read)

    def on_stopped(self) -> None:
        """Record that the turn has to end. If background tasks of claude run at that time, a later answer does not
        count."""
        self._is_cut = self._frames.has_tasks

    def on_denied(self, request_id: str) -> None:
        """Remember that beam itself denied the request with this id: the journal has that denial already, so the
        verdict does not list it again."""
        self._frames.on_decided(request_id, _BEAM)

    def end(self, exit: Exit | None = None) -> tuple[Sequence[Event], Verdict]:
        """Return the last events, and the verdict; `exit` is None while the process lives."""
        emitted, verdict = self._frames.end(exit or Exit(code=0))
        if self._is_cut and verdict.status is Status.COMPLETED:
            verdict = structs.replace(verdict, status=Status.CANCELLED, reason="the turn was interrupted")
        if exit is None and not self.has_result:
            reason = "claude ended the turn without a result"
            verdict = structs.replace(verdict, status=Status.FAILED, class_=Class.CRASHED, reason=reason)
        if verdict.point is not UNSET:
            verdict = structs.replace(verdict, point=structs.replace(verdict.point, begins=self.key))
        return emitted, structs.replace(verdict, denials=tuple(each for each in verdict.denials if each.by != _BEAM))
