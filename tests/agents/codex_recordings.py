"""The recordings of Codex 0.169.0: `$ [argv]`, `# cwd=… rc=…`, then stdout and stderr, each line behind its time."""

from __future__ import annotations

import json
import re
from pathlib import Path

from beam.agents.base import Exit, Turn
from beam.agents.codex import exec
from tests.agents import recorded
from tests.agents.recorded import Recorded

HERE = Path(__file__).parent.parent / "recordings" / "codex" / "0.169.0"
NOT_DECODED = {
    "archive.rec": "not a turn",
    "cloud-exec.rec": "not a turn: it needs a login",
    "cloud-list.rec": "not a turn: it needs a login",
    "delete.rec": "not a turn",
    "exec-12-nojson.rec": "text mode; beam never asks for it",
    "mcp-server.rec": "not a turn: the command is gone",
    "queue-cli.rec": "not a turn",
    "rollout-screen.jsonl": "a transcript of its screen; the history face reads it",
    "unarchive.rec": "not a turn",
}
_SIGNALS = {-2: "SIGINT", -9: "SIGKILL", -15: "SIGTERM"}
_LINE = re.compile(r" *\d+\.\d{3} ")


def names() -> list[str]:
    """Every recording that is decoded, by file name."""
    return sorted(path.name for path in HERE.glob("*.rec") if path.name not in NOT_DECODED)


def load(name: str) -> Recorded:
    """The recording of this file."""
    command, about, *rest = (HERE / name).read_text("utf-8").split("\n")
    argv = json.loads(command.removeprefix("$ "))
    found = re.search(r" rc=(-?\d+) .*timed_out=(\w+) ", about)
    assert found and rest[0] == "## stdout"
    code, ended = int(found[1]), rest.index("## stderr")
    stdout, stderr = (
        "".join(_LINE.sub("", line, count=1) + "\n" for line in part if line) for part in _parts(rest, ended)
    )
    exit = Exit(
        code=code if code >= 0 else None,
        signal=_SIGNALS.get(code),
        stderr_tail=stderr,
        stopped_by="timeout" if found[2] == "True" else None,
    )
    return Recorded(name=name, turn=_turn(argv), stdout=stdout.encode(), exit=exit)


def _parts(rest: list[str], ended: int) -> tuple[list[str], list[str]]:
    return rest[1:ended], rest[ended + 1 :]


def _turn(argv: list[str]) -> Turn:
    verb = next((word for word in ("resume", "fork") if word in argv), None)
    after = argv[argv.index(verb) + 1 :] if verb else []
    words = [word for word in after if not word.startswith("-")]
    return Turn(
        text="recorded",
        message_id="codex-1",
        agent="codex",
        session_id=None if verb is None or "--last" in after else words[0],
        fork=verb == "fork",
        schema="{}" if "--output-schema" in argv else None,
    )


def decode(name: str) -> tuple[list[recorded.events.Event], recorded.Verdict]:
    """The events and the verdict of the recording."""
    found = load(name)
    return recorded.decode(exec.decoder, found, [found.stdout])
