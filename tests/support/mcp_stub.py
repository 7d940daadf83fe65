"""A small MCP server on stdio: its tool `ping` answers what it was given."""

from __future__ import annotations

import json
import sys

TOOL = {"name": "ping", "description": "answers", "inputSchema": {"type": "object"}}


def answer(method: str, params: dict[str, object]) -> dict[str, object] | None:
    if method == "initialize":
        version = params.get("protocolVersion", "2025-06-18")
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "stub", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"pong {json.dumps(params.get('arguments') or {})}"}]}
    return None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params") or {})
        given = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **given}), flush=True)
