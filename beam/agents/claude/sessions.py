"""Claude Code's sessions on this machine: its transcripts, including the transcripts of subagents and of background
jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents.base import json_object
from beam.agents.claude import history, spliced
from beam.agents.fields import Object, integer, obj, objects_of, string
from beam.agents.session_files import (
    RecordReader,
    Registered,
    Session,
    SessionFiles,
    SessionReader,
    SharedRecords,
    no_record,
    time_from_ms,
    time_from_text,
    unknown_type,
)
from beam.model import events
from beam.model.events import Event

files = SessionFiles(
    folder="HOME/.claude",
    moved_by="CLAUDE_CONFIG_DIR",
    below="projects",
    helpers=("daemon", "bg-pty-host", "--bg-pty-host"),
    spares=("bg-spare", "--bg-spare"),  # a background job runs in a spare process that was started before
    tells_asks=True,
    name=r"[^/]+/(?:[^/]+|[^/]+/subagents/(?:workflows/[^/]+/)?(?!journal\.)[^/]+)\.jsonl",
    like=r"[^/]+/(?:[^/]+\.jsonl\.[^/]+|[^/]+/subagents/(?:[^/]+/)*(?!journal\.)[^/]+\.jsonl(?:\.[^/]+)?)",
)
register = "sessions/{pid}.json"
_STATES = {"busy": "working", "idle": "idle", "waiting": "asking"}
_LINE_KINDS = ("user", "assistant", "system", "attachment")  # lines with an id and a time
_TICKS = re.compile(r"[0-9]{1,18}")
_COMMAND = re.compile(r"<command-name>(/?[^<]{1,200})</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*)</command-args>", re.DOTALL)
_COMMAND_OUTPUT = ("<local-command-stdout>", "<local-command-stderr>")
_CLI_TEXT = re.compile(r"\s*<(?:system-reminder|local-command|command-|task-notification|teammate-message|bash-)")


def reader(path: str) -> SessionReader:
    """Return a reader for the transcript with this path below the folder of sessions."""
    return _Transcript(path)


def registered(data: bytes) -> Registered | None:
    """Return the entry of a process in Claude Code's register, None if it is not understood. Only interactive processes
    are in the register."""
    value = json_object(data)
    if value is None or not string(value, "sessionId"):
        return None
    start = string(value, "procStart")
    return Registered(
        session_id=string(value, "sessionId"),
        state=_STATES.get(string(value, "status"), ""),
        since=time_from_ms(integer(value, "statusUpdatedAt")),
        start_ticks=int(start) if _TICKS.fullmatch(start) else None,
    )


class _Transcript(RecordReader):
    def __init__(self, path: str) -> None:
        parts = path.split("/")
        is_below = len(parts) > 2
        self._path = path
        self._id = parts[-1].removesuffix(".jsonl")
        super().__init__(Session(id=self._id, root_id=parts[1] if is_below else ""))
        self._shared: SharedRecords | None = None
        self._is_command = False  # the prompt is a slash command, which may be over without an answer

    def share(self, records: SharedRecords) -> None:
        """Skip the records that belong to other files from now on."""
        self._shared = records

    def read(self, data: bytes) -> Sequence[Event]:
        if not data.strip():
            return ()
        value = json_object(data)
        if value is not None:
            return self._read_record(value, data)
        whole, lost = spliced.records(data, (self._id, self.session.root_id))
        found = [event for record in whole for event in self._read_record(json_object(record) or {}, record)]
        return [*found, *(no_record(data) * lost)]

    def _read_record(self, value: Object, data: bytes) -> list[Event]:
        line = history.read(data)
        if line is None:
            return []
        at = time_from_text(line.at)
        if line.kind not in _LINE_KINDS:
            return _unknown(line, data)
        self._know(cwd=string(value, "cwd"), model=line.model, member_of=line.team)
        if not self._is_own(line):
            return []
        found = _unknown(line, data)
        match line.kind:
            case "user":
                return [*found, *self._on_asked(value, line, at)]
            case "assistant":
                return [*found, *self._on_answered(line, at)]
            case "attachment":
                return self._on_attached(obj(value, "attachment"), at)
        return self._on_command_done(string(value, "content"), at)

    def _is_own(self, line: history.TranscriptLine) -> bool:
        """Return whether the line comes for the first time, and is not the copy of a line of another session."""
        if line.key and not self._maker.is_new(f"line {line.key}"):
            return False
        if self._shared is None:
            return True
        is_own = not line.key or self._shared.belongs_to(f"line {line.key}", self._path)
        return (not line.reply_id or self._shared.belongs_to(f"reply {line.reply_id}", self._path)) and is_own

    def _on_attached(self, attached: Object, at: str) -> list[Event]:
        """Return the event of a prompt that the person typed while the turn ran."""
        is_typed = string(attached, "type") == "queued_command" and string(attached, "commandMode") in ("", "prompt")
        if not is_typed or string(obj(attached, "origin"), "kind") not in ("", "human"):
            return []
        text = _typed_text(attached.get("prompt"))
        return self._maker.prompt(text, at) if text else []

    def _on_command_done(self, text: str, at: str) -> list[Event]:
        """Return the event of the end of a slash command that Claude Code itself carried out."""
        if not self._is_command or not text.lstrip().startswith(_COMMAND_OUTPUT):
            return []
        self._is_command = False
        return self._maker.end_turn(at, self.session.model)

    def _on_asked(self, value: Object, line: history.TranscriptLine, at: str) -> list[Event]:
        maker, found = self._maker, list[Event]()
        text = _prompt(value)
        if text:
            self._is_command = bool(_COMMAND.search(_whole_text(value)))
            found += maker.prompt(text, at)
        else:
            found += self._on_command_done(_whole_text(value), at)
        for body in line.bodies:
            if isinstance(body, events.ToolReturned):
                found += maker.on_returned(body.call_id, body.output, at, is_error=body.is_error)
            elif isinstance(body, events.FileChanged):
                found.append(events.FileChanged(ts=at, path=body.path, kind=body.kind))
        if "[Request interrupted by user" in text[:40]:
            return maker.end_turn(at, self.session.model, why="interrupted")
        return found

    def _on_answered(self, line: history.TranscriptLine, at: str) -> list[Event]:
        maker, found = self._maker, list[Event]()
        self._is_command = False
        if line.usage is not None and line.reply_id:
            maker.count_call(line.reply_id, history.usage_of_call(line))
        for body in line.bodies:
            match body:
                case events.Text():
                    found += maker.text(body.text, at)
                case events.Thinking():
                    found += maker.thinking(body.text, at)
                case events.ToolCalled():
                    found += maker.on_called(body.call_id, body.name, body.input, at)
        if line.error:
            return [events.Notice(ts=at, text=line.error, code="api_error"), *maker.end_turn(at, None, why=line.error)]
        if line.ends_turn and any(isinstance(body, events.Text) for body in line.bodies):
            found += maker.end_turn(at, self.session.model)
        return found


def _unknown(line: history.TranscriptLine, data: bytes) -> list[Event]:
    """Return an event for the line, or for each part of it, whose type is unknown."""
    whats = [body.what for body in line.bodies if isinstance(body, events.Unknown)]
    return [event for what in whats for event in (unknown_type(what) if line.kind else no_record(data))]


def _prompt(value: Object) -> str:
    """Return the prompt that a person typed, from a line of type `user`; "" if Claude Code itself wrote the line."""
    if value.get("isMeta") is True or value.get("isCompactSummary") is True:
        return ""
    return _typed_text(obj(value, "message").get("content"))


def _whole_text(value: Object) -> str:
    return "\n".join(_texts(obj(value, "message").get("content")))


def _typed_text(content: object) -> str:
    """Return what a person typed, from the text or the blocks of a message. A slash command is told as it was typed."""
    typed = []
    for text in _texts(content):
        if command := _COMMAND.search(text) if text.lstrip().startswith("<command-") else None:
            given = _ARGUMENTS.search(text)
            typed.append(f"{command[1].strip()} {given[1].strip() if given else ''}".rstrip())
        elif text.strip() and not _CLI_TEXT.match(text):
            typed.append(text)
    return "\n".join(typed)


def _texts(content: object) -> list[str]:
    return [content] if isinstance(content, str) else [string(block, "text") for block in objects_of(content)]
