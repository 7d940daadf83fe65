"""Codex's sessions on this machine: its rollout files, including those of subagents."""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import json_object
from beam.agents.codex.history import usage_of_record
from beam.agents.fields import Object, integer, obj, objects, string, strings
from beam.agents.session_files import EventMaker, Session, SessionFiles, SessionReader, time_from_text
from beam.model import events
from beam.model.events import Event

files = SessionFiles(
    folder="HOME/.codex",
    moved_by="CODEX_HOME",
    below="sessions",
    name=r"\d+/\d+/\d+/rollout-[^/]+\.jsonl",
    helpers=("app-server daemon", "app-server --listen"),  # Codex's own daemon, for the terminals on its screen
)


def reader(path: str) -> SessionReader:
    """Return a reader for the rollout with this path below the folder."""
    return _Rollout(path)


class _Rollout:
    def __init__(self, path: str) -> None:
        name = path.rpartition("/")[2].removesuffix(".jsonl")
        self.session = Session(id=name[-36:])
        self._maker = EventMaker()

    def read(self, data: bytes) -> Sequence[Event]:
        value = json_object(data)
        if value is None:
            return ()
        payload, at, known = obj(value, "payload"), time_from_text(string(value, "timestamp")), self.session
        match string(value, "type"):
            case "session_meta":
                thread, root = string(payload, "id"), string(payload, "session_id")
                parent = string(payload, "parent_thread_id") or (root if root != thread else "")
                self.session = Session(id=thread or known.id, root_id=parent, cwd=string(payload, "cwd"))
            case "turn_context":
                self.session = Session(
                    id=known.id,
                    root_id=known.root_id,
                    cwd=string(payload, "cwd") or known.cwd,
                    model=string(payload, "model") or known.model,
                )
            case "token_usage_record":
                reply = string(payload, "response_id")
                self._maker.count_call(reply, usage_of_record(obj(payload, "usage")))
            case "event_msg":
                return self._on_event(payload, at)
        return ()

    def _on_event(self, payload: Object, at: str) -> Sequence[Event]:
        maker = self._maker
        match string(payload, "type"):
            case "item_completed":
                item = obj(payload, "item")
                key = f"item {string(payload, 'turn_id')} {string(item, 'id')}"
                return self._on_item(item, at) if maker.is_new(key) else ()
            case "task_complete":
                failure = obj(payload, "error")
                why = (
                    string(failure, "message")
                    or string(failure, "codex_error_info")
                    or ("it failed" if failure else "")
                )
                notice = [events.Notice(ts=at, text=why, code="api_error")] if why else []
                return [*notice, *maker.end_turn(at, self.session.model, why=why)]
            case "turn_aborted":
                return maker.end_turn(at, self.session.model, why="interrupted")
        return ()

    def _on_item(self, item: Object, at: str) -> list[Event]:
        maker, item_id = self._maker, string(item, "id")
        match string(item, "type"):
            case "UserMessage":
                return maker.prompt(_text(item), at)
            case "AgentMessage":
                return maker.text(_text(item), at)
            case "Reasoning":
                return maker.thinking("\n\n".join(strings(item, "summary_text")), at)
            case "CommandExecution":
                code, output = integer(item, "exit_code"), string(item, "aggregated_output")
                failed = string(item, "status") in ("failed", "declined")
                shown = f"{output}[exit code {code}]" if code else output
                return [
                    *maker.on_called(item_id, "shell", {"command": _command(item)}, at),
                    *maker.on_returned(item_id, shown, at, is_error=failed),
                ]
            case "FileChange" if string(item, "status") not in ("failed", "declined"):
                return [events.FileChanged(ts=at, path=path, kind="update") for path in obj(item, "changes")]
            case "McpToolCall":
                name = f"mcp__{string(item, 'server')}__{string(item, 'tool')}"
                return [
                    *maker.on_called(item_id, name, item.get("arguments"), at),
                    *maker.on_returned(item_id, "", at, is_error=string(item, "status") == "failed"),
                ]
        return []


def _text(item: Object) -> str:
    return "".join(string(part, "text") for part in objects(item, "content"))


def _command(item: Object) -> str:
    """Return the command as the model wrote it, without the shell that it runs in."""
    words = strings(item, "command")
    return words[2] if len(words) == 3 and words[1] == "-lc" else " ".join(words)
