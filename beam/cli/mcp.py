"""`beam agent mcp`: the MCP servers of an agent's running process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from beam import UsageError
from beam.cli.context import Context
from beam.cli.render.text import escape_controls, write_json, write_json_lines, write_line

_SERVER_ACTIONS = ("reconnect", "enable", "disable")
_ACTIONS = ("list", *_SERVER_ACTIONS, "set", "call")


def run(call: Context, agent: str, action: str, words: Sequence[str], *, as_json: bool) -> int:
    """Carry out one action on an agent's MCP servers, print its result, and return the exit code."""
    if action not in _ACTIONS:
        raise UsageError(f"{action!r} is no action", f"one of: {', '.join(_ACTIONS)}", subject=action)
    if action == "list":
        _check_word_count(words, 0, 0, f"beam agent mcp {agent}")
        _list_servers(call, agent, as_json=as_json)
        return 0
    if action in _SERVER_ACTIONS:
        _check_word_count(words, 0 if action == "reconnect" else 1, 1, f"beam agent mcp {agent} {action} SERVER")
        call.beam.act_live(agent, f"mcp.{action}", {"server": words[0]} if words else {})
        done = {"reconnect": "connected anew", "enable": "enabled", "disable": "disabled"}[action]
        call.note(f"{words[0] if words else 'its MCP servers'}: {done}")
        return 0
    if action == "set":
        _check_word_count(words, 1, 1, f"beam agent mcp {agent} set JSON|FILE")
        return _set_servers(call, agent, _parse_object(words[0], call), as_json=as_json)
    _check_word_count(words, 2, 3, f"beam agent mcp {agent} call SERVER TOOL [JSON]")
    given = _parse_object(words[2], call) if len(words) == 3 else {}
    asked = {"server": words[0], "tool": words[1], "arguments": given}
    return _print_call_result(call.beam.act_live(agent, "mcp.call", asked), as_json=as_json)


def _check_word_count(words: Sequence[str], least: int, most: int, usage: str) -> None:
    if not least <= len(words) <= most:
        raise UsageError(f"{len(words)} words are too {'few' if len(words) < least else 'many'} here", usage)


def _list_servers(call: Context, agent: str, *, as_json: bool) -> None:
    from beam.cli.render.tables import print_columns

    servers: Any = call.beam.mcp_servers(agent)
    if as_json:
        write_json_lines(servers)
        return
    rows = [(server["name"], server["status"], ", ".join(server["tools"]), server["error"] or "") for server in servers]
    print_columns(("SERVER", "STATUS", "TOOLS", "ERROR"), rows)


def _set_servers(call: Context, agent: str, servers: dict[str, object], *, as_json: bool) -> int:
    inner = servers.get("mcpServers")
    answer: Any = call.beam.act_live(agent, "mcp.set", {"servers": inner if isinstance(inner, dict) else servers})
    if as_json:
        write_json(answer)
    else:
        for word in ("added", "removed"):
            if answer[word]:
                call.note(f"{word}: {', '.join(answer[word])}")
        for name, why in answer["errors"].items():
            call.note(f"{name}: {why}")
    return 1 if answer["errors"] else 0


def _print_call_result(answer: Any, *, as_json: bool) -> int:
    if as_json:
        write_json(answer)
    else:
        for block in answer.get("content") or []:
            text = block.get("text") if isinstance(block, dict) else None
            write_line(escape_controls(text if isinstance(text, str) else msgspec.json.encode(block).decode()))
    return 1 if answer.get("isError") is True else 0


def _parse_object(given: str, call: Context) -> dict[str, object]:
    from beam.cli import prompt

    value: dict[str, object] = msgspec.json.decode(prompt.json_object(given, call, what="the JSON"))
    return value
