"""A scratch project with a HOME of its own, the real `beam`, and the smallest ACP agent."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from beam.root import discovery
from beam.root.paths import RootPaths
from bench.measure import Bench

_SCRIPT = Path(sys.executable).with_name("beam")
BEAM = (str(_SCRIPT),) if _SCRIPT.exists() else (sys.executable, "-m", "beam")
PYTHON = (sys.executable, "-c", "pass")

# The agent that `acpx exec` and the bare run of it are measured with: three answers, and its end with its input.
ACP_AGENT = """\
import json, sys
def say(value):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **value}) + "\\n")
    sys.stdout.flush()
UPDATE = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}
RESULTS = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []},
    "session/new": {"sessionId": "s1"},
    "session/prompt": {"stopReason": "end_turn"},
}
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "session/prompt":
        say({"method": "session/update", "params": {"sessionId": "s1", "update": UPDATE}})
    if "id" in asked:
        say({"id": asked["id"], "result": RESULTS.get(asked["method"], {})})
"""
ACP_PROMPT = b"".join(
    b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":{}}\n' % (number, method)
    for number, method in enumerate((b"initialize", b"session/new", b"session/prompt"))
)


class Project:
    """One project directory."""

    def __init__(self, bench: Bench, name: str, config: str = "") -> None:
        self.base = bench.folder(name)
        self.home = self.base / "home"
        self.home.mkdir()
        (self.base / "tmp").mkdir()
        self.cwd = self.base / "project"
        self.cwd.mkdir()
        if config:
            (self.cwd / "beam.yaml").write_text(config)
        self.env: Mapping[str, str] = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            # Not above the home: agents may not write on the way to beam's files, and would get a folder of their own
            # for each turn, in which Node finds nothing that it compiled before.
            "TMPDIR": str(self.base / "tmp"),
            "BEAM_TRUST": "1",
        }

    @property
    def place(self) -> RootPaths:
        """The root with its project folder."""
        return discovery.find_root(None, cwd=self.cwd, environ=self.env)

    @property
    def root(self) -> Path:
        return self.place.root


def acp_agent(project: Project) -> tuple[str, ...]:
    """The command of the smallest ACP agent."""
    path = project.base / "acp_agent.py"
    path.write_text(ACP_AGENT)
    return sys.executable, "-I", "-S", str(path)


def until(claim: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Waits until the claim holds."""
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen in {seconds} s")
        time.sleep(0.005)
