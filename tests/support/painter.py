"""A small agent that speaks ACP and answers with an image."""

from __future__ import annotations

PAINTER = """\
import json, sys
session = {"sessionId": "s-1"}
picture = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo" + "A" * 2001}
for line in sys.stdin:
    frame = json.loads(line)
    said = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
    if frame["method"] == "session/new":
        said = session
    if frame["method"] == "session/prompt":
        update = {"sessionUpdate": "agent_message_chunk", "content": picture}
        told = {"jsonrpc": "2.0", "method": "session/update", "params": {**session, "update": update}}
        print(json.dumps(told), flush=True)
        said = {"stopReason": "end_turn"}
    print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": said}), flush=True)
"""
