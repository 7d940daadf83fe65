"""The conversation with one process of the scripted agent: beam sends orders and receives frames (docs/scripted.md)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from beam.agents import link
from beam.agents.base import Exit, native, raw_json
from beam.agents.fields import Object, string
from beam.agents.scripted.frames import FrameDecoder
from beam.base.typed_values import replace_surrogates

ANSWER_S = 30.0  # for the agent to become ready, and to begin a turn


class ScriptedLink:
    """The conversation with one process of the scripted agent."""

    def __init__(self) -> None:
        self.due: float | None = None
        self._decoder: FrameDecoder | None = None  # for the running turn

    @property
    def busy(self) -> bool:
        return self._decoder is not None

    def open(self, now: float) -> Sequence[link.Step]:
        self.due = now + ANSWER_S
        return ()

    def do(self, intent: link.Intent, now: float) -> Sequence[link.Step]:
        match intent:
            case link.Prompt():
                self._decoder, self.due = FrameDecoder(intent.turn), now + ANSWER_S
                return (_order("prompt", text=intent.turn.text, sender=intent.turn.sender),)
            case link.Interrupt():
                return (_order("interrupt"),)
            case link.Steer():
                return (_order("steer", id=intent.id, text=intent.text),)
            case link.Set():
                return (_order("set", id=intent.id, name=intent.name, value=intent.value),)
            case link.Query():
                return (_order("query", id=intent.id, name=intent.name),)
            case link.Act():
                return (_order("act", id=intent.id, name=intent.name),)
            case link.Close():
                return (link.Eof(),)
            case link.Decide():  # the agent asks for nothing
                return ()

    def line(self, line: bytes, now: float) -> Sequence[link.Step]:
        read = native(line)
        frame = string(read.value, "frame") if read is not None else ""
        if frame == "ready":
            self.due = None
            return (link.Ready(),)
        if frame == "answer" and read is not None:
            return (_answer_step(read.value),)
        if self._decoder is None:
            return ()
        found: list[link.Step] = [link.Say(event) for event in self._decoder.line(line)]
        if frame == "init":
            self.due = None
            return (link.Acknowledged(), *found)
        return (*found, *self._end_turn(Exit(code=0))) if frame == "result" else found

    def on_due(self, now: float) -> Sequence[link.Step]:
        self.due = None
        return (link.Broken(reason="the scripted agent did not answer in time"),)

    def end(self, exit: Exit) -> Sequence[link.Step]:
        return self._end_turn(exit, fit=False)

    def _end_turn(self, exit: Exit, *, fit: bool = True) -> Sequence[link.Step]:
        if self._decoder is None:
            return ()
        emitted, verdict = self._decoder.end(exit)
        self._decoder = None
        return (*(link.Say(event) for event in emitted), link.Over(verdict=verdict, fit=fit))


def _order(do: str, **fields: str) -> link.Send:
    return link.Send(
        msgspec.json.encode({"do": do, **{name: replace_surrogates(text) for name, text in fields.items()}}) + b"\n"
    )


def _answer_step(frame: Object) -> link.Answered:
    return link.Answered(
        id=string(frame, "id"),
        ok=frame.get("ok") is True,
        code=string(frame, "code"),
        message=string(frame, "message"),
        result=raw_json(frame.get("result")),
    )
