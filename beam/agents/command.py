"""`command`: any program as an agent. stdin is the prompt, stdout the reply: text, one JSON document, or JSON Lines.

Fills the placeholders in the program's arguments, and follows dotted paths into its output. Does not depend on which
program it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from beam.agents import generic_screen
from beam.agents.base import Capabilities, Card, Decoder, Exec, Exit, Host, Launch, Turn, Verdict, document, last_line
from beam.base.errors import LimitError, UnsupportedError, UsageError
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, SessionNote, Status, Usage
from beam.model.settings import DEFAULT_LIMITS, AgentSettings

DEFAULT_REPLY_PATH = "reply"
_MAX_USD = 1e9  # a greater "cost" is some other figure
_PLACEHOLDER = re.compile(r"\{(session|prompt|model|message_id)\}")
_OwnEvent = (
    events.TextDelta
    | events.Text
    | events.Thinking
    | events.ToolCalled
    | events.ToolProgress
    | events.ToolReturned
    | events.FileChanged
    | events.PlanUpdated
    | events.UsageSeen
    | events.StatusChanged
    | events.Notice
)
_own_event_decoder: msgspec.json.Decoder[_OwnEvent] = msgspec.json.Decoder(_OwnEvent)
_OWN_EVENT_TYPES = frozenset(str(cls.__struct_config__.tag) for cls in _OwnEvent.__args__)

card = Card(
    name="command",
    summary="any program: the prompt on stdin, the reply on stdout (text, JSON or JSON Lines)",
    version_argv=(),
    faces={
        "exec": Capabilities(resume=True, model=True, deltas=True, tools=True, interrupt=True, cost=True),
        "terminal": Capabilities(interrupt=True),
    },
    runs_code=True,
    asks_model=False,
)
terminal = generic_screen


def launch(turn: Turn, host: Host) -> Launch:
    """Return the configured command line with its placeholders filled in.

    An argument is left out if one of its placeholders has no value; a nested list of arguments is then left out as a
    whole. Raises UnsupportedError for a model without a placeholder and for a value that can't be an argument,
    LimitError for a prompt too long for an argument, UsageError if there is no command.
    """
    settings = turn.settings
    if not settings.command:
        raise UsageError(f"agent {turn.agent} has no command", "set its program: `command: [...]`")
    used = _placeholders(settings)
    if turn.model is not None and "model" not in used:
        raise UnsupportedError(f"agent {turn.agent} can't do this: its command has no {{model}}", subject=turn.agent)
    _check_prompt(turn, used)
    values = {
        "session": _session_value(turn),
        "prompt": turn.text,
        "model": turn.model,
        "message_id": turn.message_id,
    }
    argv: list[str] = []
    holds_prompt: list[int] = []
    for entry in settings.command:
        group = (entry,) if isinstance(entry, str) else entry
        if any(not values[name] for argument in group for name in _PLACEHOLDER.findall(argument)):
            continue
        for argument in group:
            if "{prompt}" in argument:
                holds_prompt.append(len(argv))
            if argv[-1:] != ["--"]:
                _check_not_an_option(turn, argument, values)
            argv.append(_PLACEHOLDER.sub(lambda match: values[match[1]] or "", argument))
    if not argv:
        raise UsageError(f"the command of agent {turn.agent} is empty", "its first argument is the program")
    return Launch(
        argv=tuple(argv),
        stdin=None if holds_prompt else turn.text.encode("utf-8", "replace"),
        prompt_in_argv=tuple(holds_prompt),
    )


def _placeholders(settings: AgentSettings) -> frozenset[str]:
    arguments = [part for entry in settings.command for part in ((entry,) if isinstance(entry, str) else entry)]
    return frozenset(name for argument in arguments for name in _PLACEHOLDER.findall(argument))


def _check_prompt(turn: Turn, used: frozenset[str]) -> None:
    if "prompt" not in used:
        return
    size, most = len(turn.text.encode("utf-8", "replace")), DEFAULT_LIMITS.argv_text_bytes
    if size > most:
        hint = f"at most {most} go into an argument; without {{prompt}} the program gets the prompt on stdin"
        raise LimitError(f"the prompt for {turn.agent} has {size} bytes", hint, subject=turn.agent)
    if "\0" in turn.text:
        hint = "no argument can hold one; without {prompt} the program gets the prompt on stdin"
        raise UnsupportedError(f"the prompt for {turn.agent} holds a NUL", hint, subject=turn.agent)


def _check_not_an_option(turn: Turn, argument: str, values: Mapping[str, str | None]) -> None:
    """Raise UnsupportedError if the argument begins with a placeholder whose value begins with -, because the program
    could take that value for an option. A prompt that the person wrote is not checked."""
    found = _PLACEHOLDER.match(argument)
    is_own = found is not None and found[1] == "prompt" and turn.sender in ("", "human")
    if found is None or is_own or not (values[found[1]] or "").startswith("-"):
        return
    raise UnsupportedError(
        f"{turn.agent} can't be given a {found[1]} that begins with -: {(values[found[1]] or '')[:80]!r}",
        f"put -- before {found[0]} in its command, if the program knows that",
        subject=turn.agent,
    )


def _session_value(turn: Turn) -> str | None:
    """Return the value of {session}: the session id that the program reported or, for a program that reports none, an
    id that beam chose."""
    return turn.session_id if turn.settings.session_path else turn.session_id or turn.fresh_session_id


def decoder(turn: Turn) -> Decoder:
    """Return a decoder for the output format of the agent (`format`)."""
    return {"text": TextDecoder, "json": JsonDecoder, "jsonl": JsonLinesDecoder}[turn.settings.format](turn)


class _OutputDecoder:
    """The base class of the decoders for the three formats. It handles the session, the figures and the verdict, which
    depends on the exit code."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._session_id = turn.session_id
        self._keeps_session = "session" in _placeholders(turn.settings)
        self._said_session = False
        self._reply: str | None = None
        self._cost_usd: float | None = None
        self._usage = Usage()
        self._is_lossy = False

    def line(self, line: bytes) -> Sequence[Event]:
        raise NotImplementedError

    def finish(self) -> tuple[list[Event], str]:
        """Return the events that are known only at the end, and why there is no reply ("" if there is one)."""
        raise NotImplementedError

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        emitted, no_reply = self.finish()
        if self._keeps_session and not self._turn.settings.session_path and (given := _session_value(self._turn)):
            emitted.append(self._session_event(given))
        if self._is_lossy:
            text = "the program wrote bytes that are not UTF-8: they are shown as U+FFFD"
            emitted.append(events.Notice(text=text, code="invalid_utf8"))
        status, class_, reason = Status.COMPLETED, None, None
        if exit.code != 0:
            status, class_, reason = Status.FAILED, Class.CRASHED, _exit_reason(exit, self._turn)
        elif no_reply:
            status, class_, reason = Status.FAILED, Class.UNKNOWN, no_reply
        verdict = Verdict(
            status=status,
            class_=class_,
            reason=reason,
            reply=self._reply,
            session_id=self._session_id,
            session=self._session_note() if self._session_id else None,
            model=self._turn.model,
            usage=self._usage,
            cost_usd=self._cost_usd,
            lossy=True if self._is_lossy else msgspec.UNSET,
        )
        return emitted, verdict

    def _session_note(self) -> SessionNote:
        return "resumed" if self._keeps_session and self._turn.session_id else "new"

    def _decode_text(self, line: bytes) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError:
            self._is_lossy = True
            return line.decode("utf-8", "replace")

    def _session_event(self, session_id: str) -> Event:
        self._session_id = session_id
        self._said_session = True
        resumed = self._session_note() == "resumed"
        cwd = self._turn.cwd or None
        return events.SessionStarted(session_id=session_id, resumed=resumed, model=self._turn.model, cwd=cwd)

    def _session_and_cost_events(self, value: object) -> list[Event]:
        """Return the events for the session id and the cost in the value, if the settings have paths to them."""
        settings, emitted = self._turn.settings, list[Event]()
        session_id = _value_at(value, settings.session_path) if settings.session_path else None
        if session_id not in (None, "") and not (self._said_session and session_id == self._session_id):
            emitted.append(self._session_event(_as_text(session_id)))
        cost = _value_at(value, settings.cost_path) if settings.cost_path else None
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= _MAX_USD:
            self._cost_usd = float(cost)
            emitted.append(events.UsageSeen(usage=Usage(), cost_usd=self._cost_usd))
        return emitted


class TextDecoder(_OutputDecoder):
    """Decodes text: the whole stdout is the reply, without one newline at its end. Each line, and each piece of a long
    line, becomes a delta when it arrives."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._lines: list[str] = []
        self._pieces: list[str] = []  # of the line that has no end yet
        self._split = b""  # the beginning of a character at the end of the last piece

    def piece(self, data: bytes) -> Sequence[Event]:
        """Return the events for a part of a line that goes on."""
        data = self._split + data
        whole = _whole_characters(data)
        self._split = data[whole:]
        return self._delta(data[:whole])

    def line(self, line: bytes) -> Sequence[Event]:
        emitted = self._delta(self._split + line)
        self._lines.append("".join(self._pieces))
        self._pieces, self._split = [], b""
        return emitted

    def _delta(self, data: bytes) -> Sequence[Event]:
        text = self._decode_text(data)
        piece = f"\n{text}" if self._lines and not self._pieces else text
        self._pieces.append(text)
        return (events.TextDelta(text=piece),) if piece else ()

    def finish(self) -> tuple[list[Event], str]:
        self._reply = "\n".join(self._lines)
        return [events.Text(text=self._reply)] if self._reply else [], ""


def _whole_characters(data: bytes) -> int:
    """Return how many bytes from the beginning are no beginning of a UTF-8 character that goes on."""
    for back in range(1, min(4, len(data) + 1)):
        if data[-back] >= 0xC0:
            length = 2 if data[-back] < 0xE0 else 3 if data[-back] < 0xF0 else 4
            return len(data) - back if length > back else len(data)
        if data[-back] < 0x80:
            break
    return len(data)


class JsonDecoder(_OutputDecoder):
    """Decodes JSON: the whole stdout is one JSON document that has the reply at `reply_path`."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._lines: list[bytes] = []

    def line(self, line: bytes) -> Sequence[Event]:
        self._lines.append(line)
        return ()

    def finish(self) -> tuple[list[Event], str]:
        data = b"\n".join(self._lines)
        text = self._decode_text(data)
        try:
            value = document(data)
        except ValueError as error:
            unknown: list[Event] = [events.Unknown(what="not JSON", raw=text)] if data else []
            return unknown, f"its output is not a JSON document: {error}" if data else "it wrote nothing"
        emitted = self._session_and_cost_events(value)
        path = self._turn.settings.reply_path or DEFAULT_REPLY_PATH
        reply = _value_at(value, path)
        if reply is None:
            return [
                *emitted,
                events.Unknown(what="no reply", raw=text),
            ], f"its output has nothing at reply_path {path!r}"
        self._reply = _as_text(reply)
        return [*emitted, events.Text(text=self._reply, raw=text)], ""


class JsonLinesDecoder(_OutputDecoder):
    """Decodes JSON Lines: each line is a JSON record. The reply is the value at `reply_path` of the last record that
    has one.

    If the `type` of a record is the name of an event of beam's about an agent's output, the record becomes that event.
    """

    def line(self, line: bytes) -> Sequence[Event]:
        if not line.strip():
            return ()
        text = self._decode_text(line)
        try:
            value = document(line)
        except ValueError:
            return (events.Unknown(what="not JSON", raw=text),)
        emitted = self._session_and_cost_events(value)
        reply = _value_at(value, self._turn.settings.reply_path or DEFAULT_REPLY_PATH)
        if reply is not None:
            self._reply = _as_text(reply)
        own = _beam_event(value)
        if own is not None:
            if isinstance(own, events.UsageSeen):
                self._usage = own.usage
                self._cost_usd = own.cost_usd if own.cost_usd is not None else self._cost_usd
            emitted.insert(0, own)
        elif reply is not None:
            emitted.insert(0, events.Text(text=_as_text(reply)))
        if not emitted:
            what = value.get("type") if isinstance(value, dict) else None
            emitted = [events.Unknown(what=what if isinstance(what, str) else "record")]
        first = emitted[0]
        if not isinstance(first, events.TextDelta):
            emitted[0] = msgspec.structs.replace(first, raw=text)
        return emitted

    def finish(self) -> tuple[list[Event], str]:
        path = self._turn.settings.reply_path or DEFAULT_REPLY_PATH
        return [], "" if self._reply is not None else f"no record of its output has anything at reply_path {path!r}"


def _beam_event(value: object) -> Event | None:
    if not isinstance(value, dict):
        return None
    type_ = value.get("type")
    if not isinstance(type_, str) or type_ not in _OWN_EVENT_TYPES:
        return None
    header = ("v", "seq", "ts", "agent", "turn", "message_id", "raw", "covers")
    body = {name: field for name, field in value.items() if name not in header}
    try:
        return _own_event_decoder.decode(msgspec.json.encode(body))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _value_at(value: Any, path: str) -> Any:
    """Return the value at a dotted path (`result.text`, `items.0.text`, `items.-1.text`); None if there is none."""
    for part in path.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and re.fullmatch(r"-?\d{1,9}", part):
            index = int(part)
            value = value[index] if -len(value) <= index < len(value) else None
        else:
            return None
    return value


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return "(nested too deeply)"


def _exit_reason(exit: Exit, turn: Turn) -> str:
    tail = last_line(exit.stderr_tail)
    if tail:
        return tail
    name = turn.settings.command[0] if turn.settings.command else turn.agent
    program = name if isinstance(name, str) else name[0]
    if exit.signal:
        return f"{program} was ended by {exit.signal}"
    return f"{program} exited with {exit.code}" if exit.code is not None else f"{program} was lost"


class _Exec:
    launch = staticmethod(launch)
    decoder = staticmethod(decoder)


exec: Exec | None = _Exec()
