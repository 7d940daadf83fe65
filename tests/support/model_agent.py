"""A small agent that speaks the Agent Client Protocol and asks the model at `MODEL_URL` for each answer.

It fails as its model does: an API error becomes its own error, with the status and the `retry-after` of the model.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any


def send(**frame: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
    sys.stdout.flush()


def asked(text: str) -> str:
    """What the model answers. Raises HTTPError."""
    body = {"model": "scripted", "max_tokens": 100, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        os.environ["MODEL_URL"] + "/v1/messages", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
        return "".join(part["text"] for part in json.load(answer)["content"])


def prompted(number: int, session_id: str, text: str) -> None:
    """Takes one turn."""
    try:
        said = asked(text)
    except urllib.error.HTTPError as error:
        why = f"API error {error.code}, retry-after: {error.headers.get('retry-after')}"
        send(id=number, error={"code": -32603, "message": why})
        return
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}
    send(method="session/update", params={"sessionId": session_id, "update": update})
    send(id=number, result={"stopReason": "end_turn"})


def main() -> None:
    for line in sys.stdin:
        frame = json.loads(line)
        params = frame.get("params") or {}
        match frame.get("method"):
            case "initialize":
                send(id=frame["id"], result={"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
            case "session/new":
                send(id=frame["id"], result={"sessionId": f"s-{os.getpid()}"})
            case "session/load":
                send(id=frame["id"], result={})
            case "session/prompt":
                text = "".join(part.get("text", "") for part in params["prompt"])
                prompted(frame["id"], params["sessionId"], text)
            case _ if "id" in frame:
                send(id=frame["id"], error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    main()
