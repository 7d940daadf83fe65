"""The program that a scripted agent runs: plays a script's reply to the prompt on stdin, as frames on stdout.

    python -m beam.testing.scripted SCRIPT [--resume ID | --session-id ID] [--model M] [--agent A] [--from S] [--once]

Owns its own sessions: a number of turns each, in the state directory's `scripted/`. It starts for every turn of a demo
or a test, so it imports little. Does not depend on beam's events, queues or journals.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beam.base import files
from beam.base.errors import DiskError
from beam.testing import script as scripts
from beam.testing.player import Player, write_frame

VERSION = "1"
_MOST_BYTES = 64 * 1024  # a session's file has one number
DEFAULT_MODEL = "scripted"
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
_OPTIONS = ("--resume", "--session-id", "--model", "--agent", "--from")


def session_file(session_id: str, environ: Mapping[str, str]) -> Path:
    """Return the path of the file with a session's number of turns."""
    own, named = environ.get("BEAM_STATE", ""), environ.get("XDG_STATE_HOME", "")
    state = Path(named) if named.startswith("/") else Path(environ.get("HOME") or "/", ".local/state")
    return (Path(own) if own.startswith("/") else state / "beam") / "scripted" / f"{session_id}.json"


def turns_of(session_id: str, environ: Mapping[str, str]) -> int | None:
    """Return how many turns a session had; None if there is no such session. Raises DiskError."""
    if not _SESSION.match(session_id):
        return None
    try:
        return int(json.loads(files.read(session_file(session_id, environ), _MOST_BYTES))["turns"])
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


def save_turns(session_id: str, turns: int, environ: Mapping[str, str]) -> None:
    """Store the number of turns. Raises OSError."""
    path = session_file(session_id, environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps({"turns": turns}) + "\n")
    temporary.replace(path)


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run one turn and return the exit code: 0 if the result frame says completed, 1 for any other, 130 if
    interrupted.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = _result(argv, environ)
        if result is None:
            return 1
        write_frame("result", **result)
    except BrokenPipeError:
        os._exit(1)  # nobody reads any more
    return {"completed": 0, "cancelled": 130}.get(result["status"], 1)


def _result(argv: list[str], environ: Mapping[str, str]) -> dict[str, Any] | None:
    try:
        return _turn(argv, environ)
    except scripts.ScriptError as error:
        return {"status": "failed", "class": "bad_request", "reason": str(error)}
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return {"status": "cancelled", "reason": "interrupted"}


def _turn(argv: list[str], environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the result; None if the session to resume does not exist (a frame of its own reports that)."""
    name, options, is_once = _arguments(argv)
    base = Path(environ["BEAM_PROJECT"]) if environ.get("BEAM_PROJECT") else Path.cwd()
    script = scripts.load(scripts.find(name, base))
    resumed = options.get("--resume")
    session_id = resumed or options.get("--session-id") or os.urandom(16).hex()
    try:
        before = turns_of(resumed, environ) if resumed else 0
        if before is None:
            write_frame("lost", session_id=resumed)
            return None
        turn = before + 1
        if not is_once:
            save_turns(session_id, turn, environ)
    except BrokenPipeError:
        raise
    except (OSError, DiskError) as error:
        raise scripts.ScriptError(f"the session can't be kept: {error}") from error
    model = options.get("--model") or script.model or DEFAULT_MODEL
    write_frame("init", session_id=session_id, resumed=bool(resumed), turn=turn, model=model, version=VERSION)
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    reply = script.reply(prompt, turn)
    if reply is None:
        raise scripts.ScriptError(f"no rule of {name} matches the prompt, and it has no `default`")
    names = {
        "prompt": prompt,
        "turn": str(turn),
        "session": session_id,
        "agent": options.get("--agent", ""),
        "model": model,
        "from": options.get("--from", ""),
    }
    player = Player(lambda: session_file(session_id, environ).unlink(missing_ok=True))
    try:
        player.play(reply, names, environ)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        player.result.update(status="cancelled", reason="interrupted")
    return player.result


def _arguments(argv: list[str]) -> tuple[str, dict[str, str], bool]:
    """Return the script's name, the options with a value, and whether `--once` is there. Raises ScriptError."""
    names, options, is_once, rest = list[str](), dict[str, str](), False, list(argv)
    while rest:
        word = rest.pop(0)
        if word in _OPTIONS and rest:
            options[word] = rest.pop(0)
        elif word == "--once":
            is_once = True
        else:
            names.append(word)
    if len(names) != 1 or names[0].startswith("--"):
        raise scripts.ScriptError(f"bad arguments: {argv}; usage: SCRIPT [{'|'.join(_OPTIONS)} VALUE] [--once]")
    return names[0], options, is_once


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
