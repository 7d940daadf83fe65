"""A home of Claude Code's whose files have the times that a test gives them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from beam.process import tree

S = 1_000_000_000


class Home:
    """The directory, and the files of the one team in it; times are seconds since 1970."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = str(path)
        for folder in ("teams", "tasks", "sessions", "projects/-p"):
            (path / folder).mkdir(parents=True)

    def put(self, name: str, value: object, at: float) -> Path:
        """Write a file: bytes as they are, anything else as JSON."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        os.utime(path, ns=(int(at * S), int(at * S)))
        return path

    def config(self, *members: str, at: float = 1, name: str = "session-1", **more: Any) -> None:
        """Write the configuration: the lead works in /p, and each member joined at 2."""
        lead = {"name": "team-lead", "agentId": "team-lead@x", "joinedAt": 1000, "cwd": "/p"}
        others = [{"name": one, "agentId": f"{one}@x", "joinedAt": 2000, **more} for one in members]
        value = {"name": name, "createdAt": 1000, "leadAgentId": "team-lead@x", "leadSessionId": "sid"}
        self.put(f"teams/{name}/config.json", {**value, "members": [lead, *others]}, at)

    def lead(self, at: float = 1, **more: Any) -> None:
        """Register this process as the lead's."""
        start = str(tree.start_ticks(os.getpid()))
        value = {"pid": os.getpid(), "procStart": start, "sessionId": "sid", "cwd": "/p", "startedAt": 1000, **more}
        self.put(f"sessions/{os.getpid()}.json", value, at)

    def say(self, second: int, *texts: str, name: str = "sid", **more: Any) -> Path:
        """Append a line of the assistant to a transcript."""
        content = [{"type": "text", "text": text} for text in texts]
        at = f"1970-01-01T00:00:{second:02}.000Z"
        value = {"type": "assistant", "timestamp": at, "message": {"content": content, **more}}
        return self.add(value, second, name=name)

    def add(self, value: object, at: float, *, name: str = "sid") -> Path:
        """Append a line to a transcript."""
        path = self.path / f"projects/-p/{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(json.dumps(value).encode() + b"\n")
        os.utime(path, ns=(int(at * S), int(at * S)))
        return path
