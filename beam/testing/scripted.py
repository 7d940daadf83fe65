"""The program of a scripted agent: reads a prompt from stdin, and writes the script's reply to stdout as frames.

    python -m beam.testing.scripted SCRIPT [--resume ID | --session-id ID] [--model M] [--agent A] [--from S] [--once]

With `--serve` the program stays running, and reads an order for each turn from stdin (`beam.testing.orders`).

The program has its own sessions. It stores each session's number of turns below `scripted/` in the state directory. The
program is started for every turn of a demo or a test, so it imports little. Does not depend on beam's events, queues or
journals.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from beam.base import files
from beam.base.errors import DiskError
from beam.testing import script as scripts
from beam.testing.player import Player, write_frame

VERSION = "1"
_MAX_BYTES = 64 * 1024  # a session's file has one number
DEFAULT_MODEL = "scripted"
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
_OPTIONS = ("--resume", "--session-id", "--model", "--agent", "--from")


def session_file(session_id: str, environ: Mapping[str, str]) -> Path:
    """Return the path of the file with a session's number of turns."""
    own, named = environ.get("BEAM_STATE", ""), environ.get("XDG_STATE_HOME", "")
    state = Path(named) if named.startswith("/") else Path(environ.get("HOME") or "/", ".local/state")
    return (Path(own) if own.startswith("/") else state / "beam") / "scripted" / f"{session_id}.json"


def load_turns(session_id: str, environ: Mapping[str, str]) -> int | None:
    """Return how many turns a session had; None if there is no such session. Raises DiskError."""
    if not _SESSION.match(session_id):
        return None
    try:
        return int(json.loads(files.read(session_file(session_id, environ), _MAX_BYTES))["turns"])
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
    """Run one turn and return the exit code: 0 if the turn completed, 130 if it was interrupted, 1 otherwise. With
    `--serve`, run each ordered turn and end the process: with exit code 0 after the last order, 1 if the session to
    resume does not exist."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if "--serve" in argv:
            os._exit(_serve([word for word in argv if word != "--serve"], environ))  # a thread still reads stdin
        result = _result(lambda: Agent(argv, environ).turn(_read_stdin))
        if result is None:
            return 1
        write_frame("result", **result)
    except BrokenPipeError:
        os._exit(1)  # nobody reads any more
    return {"completed": 0, "cancelled": 130}.get(result["status"], 1)


def _serve(argv: list[str], environ: Mapping[str, str]) -> int:
    from beam.testing.orders import Orders

    orders = Orders()
    agent: Agent | None = None
    write_frame("ready")
    while (prompt := orders.prompt()) is not None:

        def turn(prompt: dict[str, str] = prompt) -> dict[str, Any] | None:
            nonlocal agent
            agent = agent or Agent(argv, environ)
            agent.names["from"] = prompt.get("sender", "")
            agent.names["model"] = orders.model = orders.model or agent.names["model"]
            return agent.turn(lambda: prompt.get("text", ""), orders.received)

        signal.signal(signal.SIGINT, signal.default_int_handler)
        result: dict[str, Any] | None = {"status": "cancelled", "reason": "interrupted"}
        try:
            orders.begin()
            result = _result(turn)
            orders.end()
        except KeyboardInterrupt:  # it came when the turn had just begun or was just over; it is the only one
            orders.end()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if result is None:
            return 1
        write_frame("result", **result)
    return 0


def _read_stdin() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _result(turn: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    """Run the turn and return its result, also after an error in the script or an interrupt. After the first SIGINT,
    further ones are ignored."""
    try:
        return turn()
    except scripts.ScriptError as error:
        return {"status": "failed", "class": "bad_request", "reason": str(error)}
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return {"status": "cancelled", "reason": "interrupted"}


class Agent:
    """The agent in its session. `names` are the values of the templates in its script."""

    def __init__(self, argv: list[str], environ: Mapping[str, str]) -> None:
        self._name, options, self._is_once = _arguments(argv)
        base = Path(environ["BEAM_PROJECT"]) if environ.get("BEAM_PROJECT") else Path.cwd()
        self._script = scripts.load(scripts.find(self._name, base))
        self._environ = environ
        self._resumed = options.get("--resume")
        self._session_id = self._resumed or options.get("--session-id") or os.urandom(16).hex()
        self._turns: int | None = None  # the session's number of turns, once it is known
        self.names = {
            "session": self._session_id,
            "agent": options.get("--agent", ""),
            "model": options.get("--model") or self._script.model or DEFAULT_MODEL,
            "from": options.get("--from", ""),
        }

    def turn(
        self, prompt: Callable[[], str], received: Callable[[bool], str] = lambda waits: ""
    ) -> dict[str, Any] | None:
        """Run one turn and return its result; None if the session to resume does not exist, which the frame `lost`
        reports."""
        is_first = self._turns is None
        try:
            before = load_turns(self._resumed, self._environ) if is_first and self._resumed else self._turns or 0
            if before is None:
                write_frame("lost", session_id=self._resumed)
                return None
            turn = self._turns = before + 1
            if not self._is_once:
                save_turns(self._session_id, turn, self._environ)
        except BrokenPipeError:
            raise
        except (OSError, DiskError) as error:
            raise scripts.ScriptError(f"the session can't be kept: {error}") from error
        resumed, model = bool(self._resumed) or not is_first, self.names["model"]
        write_frame("init", session_id=self._session_id, resumed=resumed, turn=turn, model=model, version=VERSION)
        text = prompt()
        reply = self._script.reply(text, turn)
        if reply is None:
            raise scripts.ScriptError(f"no rule of {self._name} matches the prompt, and it has no `default`")
        player = Player(lambda: session_file(self._session_id, self._environ).unlink(missing_ok=True), received)
        try:
            player.play(reply, {**self.names, "prompt": text, "turn": str(turn)}, self._environ)
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
