"""A small agent that speaks the Agent Client Protocol: it echoes, asks before it makes a file, and remembers sessions.

`!make NAME` asks and then makes that file, `!say TEXT` says that line alone, `!wait` waits until it is cancelled,
`!die` ends the process. A file beside it keeps how many turns each session had.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STORE = Path(__file__).with_suffix(".json")
OPTIONS = [
    {"optionId": "yes", "kind": "allow_once", "name": "Yes"},
    {"optionId": "no", "kind": "reject_once", "name": "No"},
]


def send(**frame: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
    sys.stdout.flush()


def say(session_id: str, kind: str, /, **fields: Any) -> None:
    update = {"sessionUpdate": kind, **fields}
    send(method="session/update", params={"sessionId": session_id, "update": update})


def sessions() -> dict[str, int]:
    return json.loads(STORE.read_text()) if STORE.exists() else {}


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    frame: dict[str, Any] = json.loads(line)
    return frame


def prompted(session_id: str, text: str, cwd: str) -> str:
    """Takes one turn; returns why it is over."""
    turns = sessions()
    turns[session_id] = turns.get(session_id, 0) + 1
    STORE.write_text(json.dumps(turns))
    word, _, name = text.partition(" ")
    if word == "!die":
        raise SystemExit(7)
    if word == "!wait":
        say(session_id, "agent_message_chunk", content={"type": "text", "text": "waiting"})
        while receive().get("method") != "session/cancel":
            pass
        return "cancelled"
    if word == "!make":
        call = {"toolCallId": f"make-{turns[session_id]}", "title": f"make {name}", "kind": "edit"}
        send(
            id=900,
            method="session/request_permission",
            params={"sessionId": session_id, "toolCall": call, "options": OPTIONS},
        )
        answer = receive()
        while answer.get("id") != 900:
            answer = receive()
        outcome = answer["result"]["outcome"]
        if outcome["outcome"] == "cancelled":
            return "cancelled"
        if outcome.get("optionId") == "yes":
            (Path(cwd) / name).touch()
    said = name.splitlines()[0] if word == "!say" else f"{text} turns={turns[session_id]}"
    say(session_id, "agent_message_chunk", content={"type": "text", "text": said})
    return "end_turn"


def main() -> None:
    cwd, name = ".", f"s-{len(sessions()) + 1}"
    while True:
        frame = receive()
        params = frame.get("params") or {}
        match frame.get("method"):
            case "initialize":
                can = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}}}
                send(id=frame["id"], result={"protocolVersion": 1, "agentCapabilities": can})
            case "session/new":
                cwd = params["cwd"]
                STORE.write_text(json.dumps({**sessions(), name: 0}))
                send(id=frame["id"], result={"sessionId": name})
            case "session/list":
                send(id=frame["id"], result={"sessions": [{"sessionId": each, "cwd": cwd} for each in sessions()]})
            case "session/load":
                cwd = params["cwd"]
                say(params["sessionId"], "agent_message_chunk", content={"type": "text", "text": "of an older turn"})
                send(id=frame["id"], result={})
            case "session/prompt":
                text = "".join(part.get("text", "") for part in params["prompt"])
                reason = prompted(params["sessionId"], text, cwd)
                send(id=frame["id"], result={"stopReason": reason})
            case _ if "id" in frame:
                send(id=frame["id"], error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    main()
