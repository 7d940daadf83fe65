"""The recordings of Claude Code 2.1.197: how each was started, what it wrote, and how it ended.

`.cmd` holds the arguments and the exit code, `.out` and `.err` the streams; `.rec` is a duplex session: `# argv [...]`,
then `seconds > line to it`, `seconds < line from it`, `seconds ! remark`. The files are as they were recorded.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

from msgspec import structs

from beam.agents.base import Exit, Turn, Verdict
from beam.agents.claude import exec
from tests.agents import recorded
from tests.agents.recorded import Recorded

HERE = Path(__file__).parent.parent / "recordings" / "claude" / "2.1.197"
NOT_DECODED = {
    "06-text.out": "text mode; beam never asks for it",
    "46-bigduplex.rec": "the recorder cut its lines at 600 characters",
    "90-sdkurl.rec": "remarks only; the CLI refused and wrote no line",
    "sample-transcript.jsonl": "a transcript file, not output",
}
_NO_COMMAND = {  # recordings without a .cmd: how the process ended
    "40-SIGINT": Exit(code=0),
    "40-SIGTERM": Exit(code=143),
    "40-SIGHUP": Exit(code=129),
    "40-SIGKILL": Exit(signal="SIGKILL"),
    "67-401r": Exit(code=1),
    "67-apitimeout": Exit(code=1),
    "67-empty": Exit(code=0),
    "67-maxretries": Exit(code=1),
    "67-maxtok": Exit(code=0),
    "67-refuse": Exit(code=1),
}
_FRAME = re.compile(rb"\s*[\d.]+ ([<>!]) (.*)", re.DOTALL)
_ENDED = re.compile(r"exit rc=(-?\d+).*?stderr=(.*)")
_LOST = re.compile(r"No conversation found with session ID: (\S+)")


def names() -> list[str]:
    """Every recording that is decoded, by file name."""
    return sorted(p.name for p in HERE.iterdir() if p.suffix in (".out", ".rec") and p.name not in NOT_DECODED)


def load(name: str) -> Recorded:
    """The recording of this file."""
    return _duplex(name) if name.endswith(".rec") else _oneshot(name)


def _oneshot(name: str) -> Recorded:
    out = HERE / name
    err, cmd = out.with_suffix(".err"), out.with_suffix(".cmd")
    stderr = err.read_text("utf-8") if err.exists() else ""
    if cmd.exists():
        command, _, code = cmd.read_text("utf-8").rstrip("\n").rpartition("\nrc=")
        argv, exit = _split(command), Exit(code=int(code), stderr_tail=stderr)
    else:
        resumed = "-res." in name
        lost = _LOST.search(stderr)
        argv = ["--resume", lost[1]] if lost else ["--resume", "some session"] if resumed else []
        stem = next(key for key in _NO_COMMAND if name.startswith(key))
        exit = Exit(code=1 if lost else 0) if resumed else _NO_COMMAND[stem]
        exit = structs.replace(exit, stderr_tail=stderr)
    return Recorded(name=name, turn=_turn(argv), stdout=out.read_bytes(), exit=exit)


def _duplex(name: str) -> Recorded:
    argv: list[str] = []
    stdout, answered = [], []
    exit = Exit()
    for line in (HERE / name).read_bytes().split(b"\n"):
        if line.startswith(b"# argv "):
            argv = json.loads(line[7:])
        if not (frame := _FRAME.match(line)):
            continue
        direction, text = frame[1], frame[2]
        if direction == b"<":
            stdout.append(text + b"\n")
        elif direction == b">":
            answered += _answered(text)
        elif ended := _ENDED.search(text.decode()):
            code = int(ended[1])
            stderr = _literal(ended[2])
            exit = Exit(code=code, stderr_tail=stderr) if code >= 0 else Exit(signal="SIGKILL", stderr_tail=stderr)
    return Recorded(name=name, turn=_turn(argv), stdout=b"".join(stdout), exit=exit, answered=tuple(answered))


def _answered(text: bytes) -> list[str]:
    try:
        frame = json.loads(text)
    except ValueError:
        return []
    response = frame.get("response") if isinstance(frame, dict) and frame.get("type") == "control_response" else None
    return [response["request_id"]] if isinstance(response, dict) and "request_id" in response else []


def _literal(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (SyntaxError, ValueError):  # the recorder cut it
        return text[1:]


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # the recorder cut it
        return command.split()


def _turn(argv: list[str]) -> Turn:
    def after(flag: str) -> str | None:
        return argv[argv.index(flag) + 1] if flag in argv else None

    return Turn(
        text="recorded",
        message_id="claude-1",
        agent="claude",
        session_id=after("--resume"),
        fork="--fork-session" in argv,
        schema=after("--json-schema"),
    )


def decode(name: str) -> tuple[list[recorded.events.Event], Verdict]:
    """The events and the verdict of the recording."""
    found = load(name)
    return recorded.decode(exec.decoder, found, [found.stdout])
