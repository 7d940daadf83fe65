"""An agent that speaks the Agent Client Protocol and writes each prompt that reached it into a file, named by its only
argument. Each turn leaves a process behind, and takes up to 0.3 seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

SPOKEN = "did it"


def send(**frame: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
    sys.stdout.flush()


def answer(session_id: str, text: str, runs: str) -> None:
    """Takes one turn."""
    with open(runs, "a") as file:  # noqa: PTH123 - an agent starts quickly
        file.write(json.dumps(text) + "\n")
    time.sleep(os.getpid() % 4 / 10)
    subprocess.Popen(["setsid", "sleep", "300"], stdin=-3, stdout=-3, stderr=-3)
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"{SPOKEN} {text}"}}
    send(method="session/update", params={"sessionId": session_id, "update": said})


def main() -> None:
    for line in sys.stdin:
        frame = json.loads(line)
        params = frame.get("params") or {}
        match frame.get("method"):
            case "initialize":
                can = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
                send(id=frame["id"], result={"protocolVersion": 1, "agentCapabilities": can})
            case "session/new":
                send(id=frame["id"], result={"sessionId": f"s-{os.getpid()}-{time.monotonic_ns()}"})
            case "session/load" | "session/resume":
                send(id=frame["id"], result={})
            case "session/prompt":
                answer(params["sessionId"], params["prompt"][0]["text"], sys.argv[1])
                send(id=frame["id"], result={"stopReason": "end_turn"})
            case _ if "id" in frame:
                send(id=frame["id"], error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    main()
