"""Folds the events of a journal into turns for a person to read: prompt, text, tools, outcome. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from beam.model import events
from beam.model.events import AnyEvent
from beam.model.outcome import Usage

VERSION = 1


class Item(Struct, frozen=True, kw_only=True):
    """One thing that an agent said or did, or that happened to it, at the time `ts` (RFC 3339).

    `kind` is `text`, `thinking`, `tool`, `file`, `plan`, `ask` or `note`. `parent` is the tool call of the subagent to
    which the item belongs, null for the agent itself. `name` and `input` (JSON) are the name and the input of a tool
    call or of a permission request. `text` is the agent's text, the output of a tool, the path of a file, the steps of
    a plan, the decision on a request, or a note. `is_open`: the tool did not return, or nobody decided.
    """

    kind: str
    ts: str = ""
    text: str = ""
    name: str = ""
    input: str = ""
    is_error: bool = False
    is_open: bool = False
    parent: str | None = None


class TurnRecord(Struct, frozen=True, kw_only=True):
    """One attempt at a message, or the events between two attempts (`number` is null). Times are RFC 3339, `duration_s`
    is in seconds.

    `status` is null while the turn runs.
    """

    number: int | None = None
    message_id: str | None = None
    begin: str = ""
    sender: str = ""
    prompt: str = ""
    adapter: str = ""
    via: str = ""
    model: str | None = None
    items: tuple[Item, ...] = ()
    status: str | None = None
    class_: str | None = msgspec.field(name="class", default=None)
    reason: str | None = None
    reply: str | None = None
    exit_code: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    duration_s: float | None = None


class Transcript(Struct, frozen=True, kw_only=True):
    """The content of an agent's journal, as turns."""

    v: int = VERSION
    agent: str
    turns: tuple[TurnRecord, ...] = ()


def transcript(agent: str, journal: Iterable[AnyEvent]) -> Transcript:
    """Return the turns of these events. The events are those of one journal, or of several journals merged in the order
    of time."""
    builder = _TranscriptBuilder()
    for event in journal:
        builder.add_event(event)
    return Transcript(agent=agent, turns=tuple(builder.turns()))


class _Turn:
    """A turn whose events are being read. A tool call and its result are one item, even if other events come between
    them."""

    def __init__(self, head: TurnRecord) -> None:
        self.head = head
        self.items: list[Item] = []
        self.calls: dict[str, int] = {}
        self.asks: dict[str, int] = {}

    def record(self) -> TurnRecord:
        """Return the turn with the items read so far."""
        return replace(self.head, items=tuple(self.items))


class _TranscriptBuilder:
    def __init__(self) -> None:
        self._prompts: dict[str, tuple[str, str]] = {}
        self._turns: list[_Turn] = []
        self._turn_by_key: dict[tuple[str, int | None], _Turn] = {}

    def turns(self) -> Iterable[TurnRecord]:
        """Return the turns read so far."""
        return (turn.record() for turn in self._turns)

    def add_event(self, event: AnyEvent) -> None:
        """Add one event to the turns."""
        match event:
            case events.MessageQueued() if event.message_id is not None:
                self._prompts[event.message_id] = (event.sender, event.text)
            case events.TurnStarted():
                sender, prompt = self._prompts.get(event.message_id or "", ("", ""))
                head = TurnRecord(
                    number=event.turn,
                    message_id=event.message_id,
                    begin=event.ts,
                    sender=sender,
                    prompt=prompt,
                    adapter=event.adapter,
                    via=event.via,
                )
                self._turns.append(_Turn(head))
                self._turn_by_key[event.message_id or "", event.turn] = self._turns[-1]
                self._turn_by_key.pop(("", None), None)
            case events.SessionPrompted():
                self._turns.append(_Turn(TurnRecord(begin=_time(event), sender="human", prompt=event.text)))
                self._turn_by_key["", event.turn] = self._turns[-1]
            case _:
                self._add_to_turn(self._turn_by_key.get((event.message_id or "", event.turn)), event)

    def _add_to_turn(self, turn: _Turn | None, event: AnyEvent) -> None:
        if turn is None:
            item = _item(event)
            if item is None or item.kind == "plan":
                return
            if not self._turns or self._turns[-1].head.number is not None or self._turns[-1].head.prompt:
                self._turns.append(_Turn(TurnRecord(begin=event.ts)))
            turn = self._turns[-1]
        match event:
            case events.ToolReturned() if event.call_id in turn.calls:
                at = turn.calls[event.call_id]
                turn.items[at] = replace(
                    turn.items[at], text=event.output, is_error=event.is_error, is_open=event.unfinished
                )
            case events.PermissionDecided() if event.ask_id in turn.asks:
                at = turn.asks[event.ask_id]
                turn.items[at] = replace(turn.items[at], text=_decision(event), is_open=False)
            case events.SessionStarted() if event.model:
                turn.head = replace(turn.head, model=event.model)
            case events.SessionIdle():
                turn.head = replace(turn.head, usage=event.usage, cost_usd=event.cost_usd, reason=event.reason or None)
                turn.head = replace(turn.head, model=event.model or turn.head.model, duration_s=event.duration_s)
            case events.SessionImported():
                self._turn_by_key.pop(("", None), None)  # later events are not part of that session
            case events.TurnFinished():
                turn.head = replace(
                    turn.head,
                    status=str(event.status),
                    class_=str(event.class_) if event.class_ is not None else None,
                    reason=event.reason,
                    reply=event.reply,
                    exit_code=event.exit_code,
                    usage=event.usage,
                    cost_usd=event.cost_usd,
                    duration_s=event.duration_s,
                    model=event.model or turn.head.model,
                )
            case _:
                self._append(turn, event)

    def _append(self, turn: _Turn, event: AnyEvent) -> None:
        item = _item(event)
        if item is None:
            return
        if isinstance(event, events.ToolCalled):
            turn.calls[event.call_id] = len(turn.items)
        elif isinstance(event, events.PermissionAsked):
            turn.asks[event.ask_id] = len(turn.items)
        turn.items.append(item)


def _time(event: AnyEvent) -> str:
    """Return the time of the event. For an event imported from a CLI's own files, return the time that these files
    give."""
    return event.imported if isinstance(event.imported, str) else event.ts


def _item(event: AnyEvent) -> Item | None:
    """Return the item that shows the event; None for an event that a person need not see."""
    item = _untimed_item(event)
    return item and replace(item, ts=_time(event))


def _untimed_item(event: AnyEvent) -> Item | None:
    match event:
        case events.Text():
            return Item(kind="text", text=event.text, parent=event.parent)
        case events.Thinking():
            return Item(kind="thinking", text=event.text, parent=event.parent)
        case events.ToolCalled():
            asked = bytes(event.input).decode("utf-8", "replace")
            return Item(kind="tool", name=event.name, input=asked, is_open=True, parent=event.parent)
        case events.ToolReturned():  # the call has no event, because the journal begins after it
            return Item(kind="tool", text=event.output, is_error=event.is_error, parent=event.parent)
        case events.FileChanged():
            return Item(kind="file", name=event.kind, text=event.path)
        case events.ImageSeen():
            size = f"{event.bytes} bytes" if event.bytes is not None else ""
            return Item(
                kind="file",
                name="image",
                text=" ".join(filter(None, (event.media_type, size, event.at, event.path))) or "an image",
                parent=event.parent,
            )
        case events.PlanUpdated():
            marks = {"completed": "x", "in_progress": "…"}
            steps = (f"[{marks.get(step.status, ' ')}] {step.text}" for step in event.steps)
            return Item(kind="plan", text="\n".join(steps))
        case events.PermissionAsked():
            asked = bytes(event.input).decode("utf-8", "replace")
            return Item(kind="ask", name=event.tool, input=asked, is_open=True)
        case events.Notice() if event.text:
            return Item(kind="note", text=event.text)
        case events.MessageDead():
            return Item(kind="note", text=f"dead letter: {event.detail or event.reason}", is_error=True)
        case events.SessionLost():
            return Item(kind="note", text=f"the session was lost: {event.reason}".rstrip(": "))
    return None


def _decision(event: events.PermissionDecided) -> str:
    if event.decision == "cancelled":
        return f"cancelled: {event.why}".rstrip(": ")
    word = "allowed" if event.decision == "allow" else "denied"
    by = f"the rule {event.rule}" if event.rule else event.by
    return f"{word} by {by}" + (f": {event.why}" if event.why else "")
