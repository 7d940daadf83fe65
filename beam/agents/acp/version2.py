"""Translates between version 1 of the protocol, which the link speaks, and version 2, a draft, which the agent speaks.

In version 2 the answer to a prompt only says that the agent received the prompt; an update about the session's state
says that the turn is over. A session is continued only by `session/resume`, and its mode is one of its options. Does
not depend on the content of a turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from msgspec import structs

from beam.agents.acp.conversation import AcpLink
from beam.agents.acp.requests import PERMISSION_METHOD
from beam.agents.base import Exit, json_object
from beam.agents.fields import Object, obj, object_of, objects_of, string
from beam.agents.link import Broken, Intent, Ready, Send, Step, Stirred
from beam.model.outcome import Class

VERSION = 2
_BASELINE_METHODS = ("list", "resume", "close")  # which every agent of this version has, and none announces
_IGNORED_UPDATES = (
    "user_message",
    "terminal_update",
    "agent_message",
    "agent_thought",
)  # chunks and calls have the same content

_MAX_LEVELS = 100  # of nested values in a frame
_OPERATIONS = {"add": "add", "copy": "add", "move": "add", "delete": "delete"}  # any other becomes `update`


class Version2:
    """Makes a link of version 1 usable for a process that speaks version 2."""

    def __init__(self, link: AcpLink) -> None:
        self.link = link
        self._asked: dict[object, str] = {}  # the method of each request that beam waits for
        self._prompt: object = None  # the id of the prompt whose turn runs
        self._is_taken = False  # the agent said that it received the prompt
        self._is_ready = False

    @property
    def due(self) -> float | None:
        return self.link.due

    @property
    def busy(self) -> bool:
        return self.link.busy

    def open(self, now: float) -> Sequence[Step]:
        return self._translate_steps(self.link.open(now))

    def do(self, intent: Intent, now: float) -> Sequence[Step]:
        return self._translate_steps(self.link.do(intent, now))

    def on_due(self, now: float) -> Sequence[Step]:
        return self._translate_steps(self.link.on_due(now))

    def end(self, exit: Exit) -> Sequence[Step]:
        return self._translate_steps(self.link.end(exit))

    def line(self, line: bytes, now: float) -> Sequence[Step]:
        frame = json_object(line)
        if frame is None:
            return self._translate_steps(self.link.line(line, now))
        method = string(frame, "method")
        if method == "session/update":
            return self._on_updated(frame, line, now)
        if method == PERMISSION_METHOD and "id" in frame:
            return self._pass_to_link({**frame, "params": _request_in_version_1(frame)}, now)
        if not method and not isinstance(frame.get("id"), dict | list):
            return self._on_answered(frame, line, now)
        return self._translate_steps(self.link.line(line, now))

    # -- to the agent --------------------------------------------------------------------------------------------------

    def _translate_steps(self, steps: Iterable[Step]) -> list[Step]:
        """Return the steps, with the frames in `Send` steps translated to version 2."""
        found = []
        for step in steps:
            self._is_ready |= isinstance(step, Ready)
            found.append(structs.replace(step, data=self._to_version_2(step.data)) if isinstance(step, Send) else step)
        return found

    def _to_version_2(self, data: bytes) -> bytes:
        frame = json_object(data) or {}
        method, params = string(frame, "method"), obj(frame, "params")
        if "id" in frame and method:
            self._asked[frame["id"]] = method
        if method == "initialize":
            params = {"protocolVersion": VERSION, "info": params.get("clientInfo"), "capabilities": {}}
        elif method == "session/set_config_option":
            params = {**params, "type": "id"}
        elif method == "session/prompt":
            self._prompt, self._is_taken = frame["id"], False
        if not method:
            return data
        return json.dumps({**frame, "params": params}, ensure_ascii=False).encode() + b"\n"

    # -- from the agent ------------------------------------------------------------------------------------------------

    def _pass_to_link(self, frame: Object, now: float) -> list[Step]:
        """Return the link's steps for a frame that was translated. The deepest values of the frame are left out,
        because values that could just be read may be nested too deeply to be written and read again."""
        return self._translate_steps(self.link.line(json.dumps(_cut_depth(frame, _MAX_LEVELS)).encode(), now))

    def _on_answered(self, frame: Object, line: bytes, now: float) -> list[Step]:
        method = self._asked.pop(frame.get("id"), "")
        if method == "session/prompt" and "error" not in frame:
            self._is_taken = True
            return []
        if method == "session/prompt":
            self._prompt = None
        result = obj(frame, "result")
        if not result:
            return self._translate_steps(self.link.line(line, now))
        if method == "initialize":
            version = result.get("protocolVersion")
            if version != VERSION:
                why = f"it speaks version {str(version)[:20]} of the protocol, not {VERSION}: say `protocol: acp`"
                return [Broken(reason=why, class_=Class.UNSUPPORTED)]
            result = _initialized_in_version_1(result)
        return self._pass_to_link({**frame, "result": _with_options(result)}, now)

    def _on_updated(self, frame: Object, line: bytes, now: float) -> list[Step]:
        params = obj(frame, "params")
        update = obj(params, "update")
        match string(update, "sessionUpdate"):
            case "state_update":
                return self._on_state(update, now)
            case kind if kind in _IGNORED_UPDATES:
                return []
            case "plan_update":
                plan = obj(update, "plan")
                if string(plan, "type") != "items":
                    return self._translate_steps(self.link.line(line, now))
                update = {"sessionUpdate": "plan", "entries": plan.get("entries"), "_meta": update.get("_meta")}
                return self._pass_to_link({**frame, "params": {**params, "update": update}}, now)
            case "tool_call_update" if _is_version_2_call(update):
                return self._pass_to_link({**frame, "params": {**params, "update": _call_in_version_1(update)}}, now)
            case "config_option_update":
                return self._pass_to_link({**frame, "params": {**params, "update": _with_options(update)}}, now)
        return self._translate_steps(self.link.line(line, now))

    def _on_state(self, update: Object, now: float) -> list[Step]:
        state = string(update, "state")
        if self._prompt is None:
            return [Stirred()] if state == "running" and self._is_ready else []
        if state != "idle" or not self._is_taken or not string(update, "stopReason"):
            return []
        number, self._prompt = self._prompt, None
        result = {name: update.get(name) for name in ("stopReason", "usage", "_meta")}
        return self._pass_to_link({"jsonrpc": "2.0", "id": number, "result": result}, now)


def _cut_depth(value: object, levels: int) -> object:
    """Return the value with a text in place of each object and list below this number of levels."""
    if isinstance(value, dict | list) and not levels:
        return "[nested too deeply]"
    if isinstance(value, dict):
        return {name: _cut_depth(inner, levels - 1) for name, inner in value.items()}
    return [_cut_depth(inner, levels - 1) for inner in value] if isinstance(value, list) else value


def _initialized_in_version_1(result: Object) -> Object:
    """Return the answer to `initialize` in the form of version 1."""
    session = obj(obj(result, "capabilities"), "session")
    takes = {name: isinstance(value, dict) for name, value in obj(session, "prompt").items()}
    others = {name: value for name, value in session.items() if name not in ("prompt", "mcp")}
    baseline: Object = {name: {} for name in _BASELINE_METHODS}
    can = {"promptCapabilities": takes, "sessionCapabilities": {**baseline, **others}}
    return {"protocolVersion": 1, "agentCapabilities": can, "authMethods": result.get("authMethods")}


def _with_options(found: Object) -> Object:
    """Return the answer or update with its options in the form of version 1."""
    if not isinstance(found.get("configOptions"), list):
        return found
    options = [{**option, "id": option.get("configId")} for option in objects_of(found["configOptions"])]
    return {**found, "configOptions": options}


def _is_version_2_call(call: Object) -> bool:
    """Return whether a part of the call has another form in version 1."""
    diffs = (part for part in objects_of(call.get("content")) if string(part, "type") == "diff")
    return string(call, "status") == "cancelled" or any(isinstance(diff.get("changes"), list) for diff in diffs)


def _call_in_version_1(call: Object) -> Object:
    """Return a call in the form of version 1: with a diff for each changed file, and the status `failed` in place of
    `cancelled`."""
    if string(call, "status") == "cancelled":
        call = {**call, "status": "failed"}
    if not isinstance(call.get("content"), list):
        return call
    parts: list[object] = []
    for part in objects_of(call["content"]):
        parts += _diffs_in_version_1(part) if string(part, "type") == "diff" else [part]
    return {**call, "content": parts}


def _diffs_in_version_1(diff: Object) -> list[Object]:
    """Return one diff for each changed file. `operation` says what happens to the file; the first diff also has the
    `patch` of all files."""
    changes = objects_of(diff.get("changes"))
    if not changes:
        return [diff]
    found: list[Object] = []
    for change in changes:
        operation, path = string(change, "operation"), string(change, "path")
        if operation == "move":
            found.append({"type": "diff", "path": string(change, "oldPath"), "operation": "delete"})
        found.append({"type": "diff", "path": path, "operation": _OPERATIONS.get(operation, "update")})
    patch = string(obj(diff, "patch"), "text")
    return [{**found[0], "patch": patch}, *found[1:]] if patch else found


def _request_in_version_1(frame: Object) -> Object:
    """Return the parameters of a request for permission in the form of version 1."""
    params = obj(frame, "params")
    subject = obj(params, "subject")
    call: Object = {"toolCallId": f"request-{frame['id']}"}
    if string(subject, "type") == "tool_call":
        call = _call_in_version_1(object_of(subject.get("toolCall")))
    elif string(subject, "type") == "command":
        given = {"command": string(subject, "command"), "cwd": string(subject, "cwd")}
        call = {**call, "kind": "execute", "rawInput": given}
        call["toolCallId"] = string(subject, "toolCallId") or call["toolCallId"]
    return {**params, "toolCall": {"title": string(params, "title"), **call}}
