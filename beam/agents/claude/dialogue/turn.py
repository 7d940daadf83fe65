"""One turn in a process of Claude Code: how far it has come, what it says as events, and the verdict on it.

What a line means is the decoder's (`claude/decode.py`). Does not depend on requests, or on how a turn is stopped.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from msgspec import structs

from beam.agents.base import Exit, Native, Turn, Verdict
from beam.agents.claude.decode import Frames
from beam.agents.fields import string
from beam.model.events import Event, Notice
from beam.model.outcome import Class, Status

_BEAM = "beam"
_OWN = "claude first said something of its own; the answer comes after it"


def key_of(*words: object) -> str:
    """Return the UUID that names what a person says, always the same for the same words."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, " ".join(map(str, words))))


class TurnReader:
    """Reads one turn. `is_known`: claude has the message; `is_begun`: it works on it; `has_result`: its result is
    there; `is_double`: it has had this message before."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.key = key_of(turn.message_id, turn.attempt, turn.session_id)
        self.is_known = self.is_begun = self.has_result = self.is_double = False
        self._is_cut = False
        self._is_own = False  # something that is no answer to the message came
        self._frames = Frames(turn)

    @property
    def is_late(self) -> bool:
        """Return whether there is nothing left that claude could wait for before it says that the turn is over."""
        return self.is_begun and self.has_result and not self._frames.has_tasks

    def begun(self) -> list[Event]:
        """Take note that claude works on the message; return the events of that."""
        self.is_known = self.is_begun = True
        if not self._is_own:
            return []
        self._is_own, self.has_result, self._frames = False, False, Frames(self.turn)
        return [Notice(text=_OWN, code="own_run")]

    def frame(self, read: Native) -> Sequence[Event]:
        """Return the events of a line."""
        if string(read.value, "type") == "result":
            self.has_result = True
        elif string(read.value, "subtype") == "init":
            self.has_result, self._is_own = False, not self.is_begun
        return self._frames.frame(read)

    def asked(self, read: Native) -> None:
        """Take note of a request that somebody will decide."""
        self._frames.frame(read)

    def stopped(self) -> None:
        """Take note that the turn is to end: an answer that still waits for agents of claude's is none."""
        self._is_cut = self.has_result and self._frames.has_tasks

    def denied(self, request_id: str) -> None:
        """Take note that beam denied that request: the verdict leaves it out, because beam has it already."""
        self._frames.decided(request_id, _BEAM)

    def end(self, exit: Exit | None = None) -> tuple[Sequence[Event], Verdict]:
        """Return the events that only the end tells, and the verdict; `exit` is null while the process lives."""
        emitted, verdict = self._frames.end(exit or Exit(code=0))
        if self._is_cut and verdict.status is Status.COMPLETED:
            verdict = structs.replace(verdict, status=Status.CANCELLED, reason="the turn was interrupted")
        if exit is None and not self.has_result:
            reason = "claude ended the turn without a result"
            verdict = structs.replace(verdict, status=Status.FAILED, class_=Class.CRASHED, reason=reason)
        return emitted, structs.replace(verdict, denials=tuple(each for each in verdict.denials if each.by != _BEAM))
