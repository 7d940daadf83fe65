"""The frames that the program `beam.testing.scripted` writes, and the decoder of these frames."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct, field

from beam.agents.base import Decoder, Exit, Turn, Verdict, died, native
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Denial, SessionNote, Status, Usage


class Frame(Struct, frozen=True, kw_only=True, tag_field="frame"):
    """One line of the program's output."""


class Init(Frame, frozen=True, kw_only=True, tag="init"):
    """The first frame of a turn. `turn` is the number of this prompt in the session, counted from 1."""

    session_id: str
    resumed: bool = False
    turn: int = 1
    model: str | None = None
    version: str | None = None


class Lost(Frame, frozen=True, kw_only=True, tag="lost"):
    """The program has no session with this id, so it played nothing."""

    session_id: str


class Delta(Frame, frozen=True, kw_only=True, tag="delta"):
    text: str


class Text(Frame, frozen=True, kw_only=True, tag="text"):
    text: str


class Thinking(Frame, frozen=True, kw_only=True, tag="thinking"):
    text: str


class ToolCall(Frame, frozen=True, kw_only=True, tag="tool_call"):
    id: str
    name: str
    input: Raw = Raw(b"null")


class ToolProgress(Frame, frozen=True, kw_only=True, tag="tool_progress"):
    id: str
    text: str


class ToolResult(Frame, frozen=True, kw_only=True, tag="tool_result"):
    id: str
    output: str = ""
    is_error: bool = False


class Plan(Frame, frozen=True, kw_only=True, tag="plan"):
    steps: tuple[events.PlanStep, ...]


class File(Frame, frozen=True, kw_only=True, tag="file"):
    path: str
    kind: str = "update"


class StatusFrame(Frame, frozen=True, kw_only=True, tag="status"):
    state: str
    detail: str = ""
    attempt: int | None = None
    of: int | None = None
    delay_s: float | None = None
    class_: Class | None = field(name="class", default=None)
    http_status: int | None = None


class UsageFrame(Frame, frozen=True, kw_only=True, tag="usage"):
    usage: Usage
    cost_usd: float | None = None


class Result(Frame, frozen=True, kw_only=True, tag="result"):
    """The last frame of a turn, unless the script crashes or hangs."""

    status: Status
    class_: Class | None = field(name="class", default=None)
    reason: str | None = None
    reply: str | None = None
    denials: tuple[Denial, ...] = ()


_AnyFrame = (
    Init
    | Lost
    | Delta
    | Text
    | Thinking
    | ToolCall
    | ToolProgress
    | ToolResult
    | Plan
    | File
    | StatusFrame
    | UsageFrame
    | Result
)
_frame_decoder: msgspec.json.Decoder[_AnyFrame] = msgspec.json.Decoder(_AnyFrame)


def decoder(turn: Turn) -> Decoder:
    """Return a decoder of the program's frames."""
    return FrameDecoder(turn)


class FrameDecoder:
    """Turns the frames of one turn into events, and its last frame into the verdict."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._init: Init | None = None
        self._lost: Lost | None = None
        self._result: Result | None = None
        self._usage = Usage()
        self._cost_usd: float | None = None

    def line(self, line: bytes) -> Sequence[Event]:
        if not line.strip():
            return ()
        record = native(line)
        if record is None:
            return (events.Unknown(what="not JSON", raw=line.decode("utf-8", "replace")),)
        try:
            frame = _frame_decoder.decode(msgspec.json.encode(record.value))
        except (msgspec.MsgspecError, RecursionError):
            what = record.value.get("frame")
            return (events.Unknown(what=what if isinstance(what, str) else "record", raw=record.text),)
        return self._events_of(frame, record.text)

    def _events_of(self, frame: _AnyFrame, raw: str) -> Sequence[Event]:
        match frame:
            case Init():
                self._init = frame
                return (
                    events.SessionStarted(
                        session_id=frame.session_id,
                        resumed=frame.resumed,
                        model=frame.model,
                        cwd=self._turn.cwd or None,
                        version=frame.version,
                        raw=raw,
                    ),
                )
            case Lost():
                self._lost = frame
                return (events.SessionLost(session_id=frame.session_id, reason=_no_session_reason(frame), raw=raw),)
            case Delta():
                return (events.TextDelta(text=frame.text),)
            case Text():
                return (events.Text(text=frame.text, raw=raw),)
            case Thinking():
                return (events.Thinking(text=frame.text, raw=raw),)
            case ToolCall():
                return (events.ToolCalled(call_id=frame.id, name=frame.name, input=frame.input, raw=raw),)
            case ToolProgress():
                return (events.ToolProgress(call_id=frame.id, text=frame.text, raw=raw),)
            case ToolResult():
                return (events.ToolReturned(call_id=frame.id, output=frame.output, is_error=frame.is_error, raw=raw),)
            case Plan():
                return (events.PlanUpdated(steps=frame.steps, raw=raw),)
            case File():
                return (events.FileChanged(path=frame.path, kind=frame.kind, raw=raw),)
            case StatusFrame():
                return (
                    events.StatusChanged(
                        state=frame.state,
                        detail=frame.detail,
                        attempt=frame.attempt,
                        of=frame.of,
                        delay_s=frame.delay_s,
                        class_=frame.class_,
                        http_status=frame.http_status,
                        raw=raw,
                    ),
                )
            case UsageFrame():
                self._usage, self._cost_usd = frame.usage, frame.cost_usd
                return (events.UsageSeen(usage=frame.usage, cost_usd=frame.cost_usd, raw=raw),)
            case Result():
                self._result = frame
                return ()

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        if self._lost is not None:
            reason = _no_session_reason(self._lost)
            return (), Verdict(status=Status.FAILED, class_=Class.BAD_REQUEST, reason=reason, session="lost")
        result = self._result
        verdict = (
            died(exit, "the scripted agent")
            if result is None
            else Verdict(
                status=result.status,
                class_=result.class_,
                reason=result.reason,
                reply=result.reply,
                denials=result.denials,
            )
        )
        return (), msgspec.structs.replace(
            verdict,
            session_id=self._init.session_id if self._init else self._turn.session_id,
            session=self._session_note(),
            model=self._init.model if self._init else self._turn.model,
            usage=self._usage,
            cost_usd=self._cost_usd,
        )

    def _session_note(self) -> SessionNote | None:
        if self._init is None:
            return None
        return "resumed" if self._init.resumed else "new"


def _no_session_reason(lost: Lost) -> str:
    return f"the scripted agent has no session {lost.session_id}"
