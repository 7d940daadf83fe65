"""Calls in a thread of Codex that began before version 0.148.

Such a thread has no items. Its calls are items of the model's API (`response_item`), also where a Codex of today goes
on in it.
"""

from __future__ import annotations

import re
from typing import Any

from beam.agents.base import document, json_object
from beam.agents.fields import Object, integer, json_text, obj, objects_of, string, strings

_SHELLS = ("shell", "shell_command", "exec_command", "local_shell", "container.exec")
_EXITED = re.compile(r"(?:Process exited with code|Exit code:) (-?\d{1,9})\b")
_HEAD = re.compile(r"(?:Chunk ID|Exit code): .{0,300}?\nOutput:\n", re.DOTALL)
_RETURNED = ("function_call_output", "custom_tool_call_output", "tool_search_output")


def is_legacy(meta: Object) -> bool:
    """Return whether the thread with this `session_meta` has no items."""
    return string(meta, "history_mode") != "paginated"


def called(item: Object) -> tuple[str, str, Any] | None:
    """Return the id, the name and the input of the call; None if the item is no call. A command is shown as an item of
    today shows it."""
    call_id = string(item, "call_id") or string(item, "id")
    match string(item, "type"):
        case "function_call":
            return call_id, *_named(string(item, "name"), item.get("arguments"))
        case "custom_tool_call":
            return call_id, string(item, "name"), {"input": item.get("input")}
        case "tool_search_call":
            return call_id, "tool_search", item.get("arguments")
        case "local_shell_call":
            return call_id, "shell", {"command": command_of(obj(item, "action"))}
        case "web_search_call":
            return call_id, "web_search", obj(item, "action")
        case "image_generation_call":
            return call_id, "image_generation", {"prompt": string(item, "revised_prompt")}
    return None


def returned(item: Object) -> tuple[str, str, bool] | None:
    """Return the call's id, its output, and whether it failed; None if the item is no output of a call."""
    if string(item, "type") not in _RETURNED:
        return None
    output, code = _output(item.get("output", item.get("tools")))
    return string(item, "call_id"), output, bool(code)


def command_of(call: Object) -> str:
    """Return the command as the model wrote it, without the shell that it runs in."""
    words = strings(call, "command")
    return words[2] if len(words) == 3 and words[1] == "-lc" else " ".join(words)


def _named(name: str, arguments: object) -> tuple[str, Any]:
    given = arguments
    if isinstance(arguments, str):
        try:
            given = document(arguments.encode("utf-8", "replace"))
        except ValueError:
            return name, {"arguments": arguments}
    if name not in _SHELLS or not isinstance(given, dict):
        return name, given
    return "shell", {"command": string(given, "cmd") or string(given, "command") or command_of(given)}


def _output(output: object) -> tuple[str, int]:
    """Return the text of a call's output, and the exit code of its command (0 if it names none)."""
    if isinstance(output, str) and output.startswith("{"):
        value = json_object(output.encode("utf-8", "replace")) or {}
        if isinstance(value.get("output"), str):
            return string(value, "output"), integer(obj(value, "metadata"), "exit_code") or 0
    if isinstance(output, dict):
        return string(output, "content") or json_text(output), int(output.get("success") is False)
    if isinstance(output, list):
        return "".join(string(part, "text") for part in objects_of(output)), 0
    text = output if isinstance(output, str) else ""
    exited = _EXITED.search(text[:2_000])
    head = _HEAD.match(text)
    return text[head.end() :] if head else text, int(exited[1]) if exited else 0
