"""Claude Code's sessions on this machine: its transcripts, including the transcripts of subagents and of background
jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents.base import json_object
from beam.agents.claude import history
from beam.agents.fields import Object, integer, obj, objects, string
from beam.agents.session_files import (
    EventMaker,
    Registered,
    Session,
    SessionFiles,
    SessionReader,
    time_from_ms,
    time_from_text,
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
    name=r"[^/]+/(?:[^/]+\.jsonl|[^/]+/subagents/[^/]+\.jsonl)",
)
register = "sessions/{pid}.json"
_STATES = {"busy": "working", "idle": "idle", "waiting": "asking"}
_TICKS = re.compile(r"[0-9]{1,18}")
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


class _Transcript:
    def __init__(self, path: str) -> None:
        parts = path.split("/")
        is_below = len(parts) > 2
        self._id = parts[-1].removesuffix(".jsonl")
        self.session = Session(id=self._id, root_id=parts[1] if is_below else "")
        self._maker = EventMaker()

    def read(self, data: bytes) -> Sequence[Event]:
        line = history.read(data)
        if line is None or line.kind not in ("user", "assistant"):
            return ()
        value = json_object(data) or {}
        at = time_from_text(line.at)
        self.session = Session(
            id=self._id,
            root_id=self.session.root_id,
            cwd=string(value, "cwd") or self.session.cwd,
            model=line.model or self.session.model,
            member_of=line.team or self.session.member_of,
        )
        if line.key and not self._maker.is_new(f"line {line.key}"):
            return ()
        return self._on_asked(value, line, at) if line.kind == "user" else self._on_answered(line, at)

    def _on_asked(self, value: Object, line: history.TranscriptLine, at: str) -> list[Event]:
        maker, found = self._maker, list[Event]()
        text = _prompt(value)
        if text:
            found += maker.prompt(text, at)
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


def _prompt(value: Object) -> str:
    """Return the prompt that a person typed, from a line of type `user`; "" if Claude Code itself wrote the line."""
    if value.get("isMeta") is True or value.get("isCompactSummary") is True:
        return ""
    content = obj(value, "message").get("content")
    if isinstance(content, str):
        texts = [content]
    else:
        texts = [string(block, "text") for block in objects(obj(value, "message"), "content")]
    return "\n".join(text for text in texts if text.strip() and not _CLI_TEXT.match(text))
