"""Kimi Code's sessions on this machine: one file for each agent of a session, including its subagents."""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import json_object
from beam.agents.fields import Object, integer, obj, objects, string
from beam.agents.session_files import Account, Session, SessionFiles, SessionReader, when_ms
from beam.model.events import Event
from beam.model.outcome import Usage

files = SessionFiles(folder="HOME/.kimi-code", below="sessions", name=r"[^/]+/[^/]+/agents/[^/]+/wire\.jsonl")


def reader(path: str) -> SessionReader:
    """Return a reader for the file with this path below the folder of sessions."""
    return _Wire(path)


class _Wire:
    def __init__(self, path: str) -> None:
        _, session, _, agent, _ = path.split("/")
        is_main = agent == "main"
        self.session = Session(id=session if is_main else agent, root_id="" if is_main else session)
        self._account = Account()

    def read(self, data: bytes) -> Sequence[Event]:
        value = json_object(data)
        if value is None:
            return ()
        account, at, known = self._account, when_ms(value.get("time")), self.session
        match string(value, "type"):
            case "profile.bind":
                cwd = string(obj(value, "environmentDisclosure"), "cwd") or known.cwd
                self.session = Session(id=known.id, root_id=known.root_id, cwd=cwd, model=known.model)
            case "llm.request":
                model = string(value, "model") or known.model
                self.session = Session(id=known.id, root_id=known.root_id, cwd=known.cwd, model=model)
            case "turn.prompt":
                return account.prompt("".join(string(part, "text") for part in objects(value, "input")), at)
            case "context.append_loop_event":
                return self._step(obj(value, "event"), at)
            case "turn.ended":
                reason = string(value, "reason")
                return account.idle(at, self.session.model, why="" if reason == "completed" else reason)
        return ()

    def _step(self, event: Object, at: str) -> list[Event]:
        account = self._account
        match string(event, "type"):
            case "content.part" if account.is_new(f"part {string(event, 'uuid')}"):
                part = obj(event, "part")
                if string(part, "type") == "think":
                    return account.thinking(string(part, "think"), at)
                return account.text(string(part, "text"), at)
            case "tool.call":
                return account.on_called(string(event, "toolCallId"), string(event, "name"), event.get("args"), at)
            case "tool.result":
                result = obj(event, "result")
                failed = result.get("isError") is True
                return account.on_returned(string(event, "toolCallId"), string(result, "output"), at, is_error=failed)
            case "step.end":
                account.count_call(string(event, "uuid"), _usage(obj(event, "usage")))
        return []


def _usage(used: Object) -> Usage:
    return Usage(
        input_tokens=integer(used, "inputOther"),
        output_tokens=integer(used, "output"),
        cached_tokens=integer(used, "inputCacheRead"),
        cache_write_tokens=integer(used, "inputCacheCreation"),
        calls=1,
    )
