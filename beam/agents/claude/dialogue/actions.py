"""Actions of a Claude Code process besides turns: managing MCP servers and restoring files.

Each is one control request. MCP servers are shown without their configuration, which contains secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from beam.agents.base import json_object
from beam.agents.fields import Object, integer, object_of, objects, string, strings
from beam.agents.link import Act

ShowResult = Callable[[Object], object]
_CALL_S, _CONNECT_S, _TOOL_S = 20.0, 28.0, 28.0  # beam gives up after 30
_INVALID_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


class Action(Struct, frozen=True):
    """One control request. `show` converts its answer for display. If `show` returns a text, the action failed, and the
    text says why."""

    subtype: str
    given: Object
    show: ShowResult
    seconds: float = _CALL_S


def show_nothing(result: Object) -> object:
    """Return None, so that nothing of an answer is displayed."""
    return None


def control_request(intent: Act) -> Action | str:
    """Return the control request for this action, or a text that says why there is none."""
    given = json_object(bytes(intent.given)) or {}
    server = string(given, "server")
    match intent.name:
        case "mcp.reconnect" if server:
            return Action("mcp_reconnect", {"serverName": server}, show_nothing, _CONNECT_S)
        case "mcp.reconnect":
            return "claude connects one MCP server anew: name it"
        case "mcp.enable" | "mcp.disable" if server:
            is_on = intent.name == "mcp.enable"
            return Action("mcp_toggle", {"serverName": server, "enabled": is_on}, show_nothing, _CONNECT_S)
        case "mcp.set":
            return Action("mcp_set_servers", {"servers": object_of(given.get("servers"))}, _changed_servers, _CONNECT_S)
        case "mcp.call" if server and string(given, "tool"):
            name = f"mcp__{_INVALID_NAME_CHARACTER.sub('_', server)}__{string(given, 'tool')}"
            arguments = object_of(given.get("arguments"))
            return Action("mcp_call", {"tool": name, "arguments": arguments}, dict, _TOOL_S)
        case "rewind.files" if string(given, "to"):
            is_dry = given.get("dry_run") is not False
            return Action("rewind_files", {"user_message_id": string(given, "to"), "dry_run": is_dry}, _restored_files)
    return f"claude can't do {intent.name!r} in a running process"


def mcp_servers(result: Object) -> list[Object]:
    """Return the MCP servers for display, without their configuration."""
    return [
        {
            "name": string(each, "name"),
            "status": string(each, "status"),
            "tools": [string(tool, "name") for tool in objects(each, "tools")],
            "error": string(each, "error"),
        }
        for each in objects(result, "mcpServers")
    ]


def _changed_servers(result: Object) -> Object:
    errors = {name: str(why)[:500] for name, why in object_of(result.get("errors")).items()}
    return {"added": list(strings(result, "added")), "removed": list(strings(result, "removed")), "errors": errors}


def _restored_files(result: Object) -> object:
    if result.get("canRewind") is not True:
        return string(result, "error") or "claude can't undo these changes"
    return {
        "files": list(strings(result, "filesChanged")),
        "lines_added": integer(result, "insertions"),
        "lines_removed": integer(result, "deletions"),
    }
