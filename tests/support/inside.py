"""The command line in this very process: a scratch project and HOME, and every command as a call that returns what it
printed. No process is started; so only agents that are mailboxes answer.
"""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beam.api import Beam
from beam.cli import main

CONFIG = """\
agents:
  box: {mailbox: true}
  asker: {mailbox: true}
  worker: {command: [cat]}
  bot: {adapter: scripted, rules: {deny: ["Bash(rm *)"]}}
"""


@dataclass(frozen=True)
class Printed:
    """The end of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        (found,) = self.lines
        return found


class Inside:
    """`inside("queue", "list")` runs `beam queue list` in the project folder."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project, self._monkeypatch = base / "project", monkeypatch
        self.project.mkdir()
        (base / "home").mkdir()
        (self.project / "beam.yaml").write_text(CONFIG)
        for name in list(os.environ):
            monkeypatch.delenv(name)
        for name, value in {
            "HOME": str(base / "home"),
            "PATH": "/usr/bin:/bin",
            "BEAM_TRUST": "1",
            "XDG_STATE_HOME": str(base / "state"),
            "XDG_CONFIG_HOME": str(base / "config"),
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(self.project)

    def __call__(self, *argv: str, stdin: str = "") -> Printed:
        """Runs one command to its end."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        with self._monkeypatch.context() as streams:
            streams.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            streams.setattr(sys, "stdout", out)
            streams.setattr(sys, "stderr", err)
            code = main.run(list(argv))
        return Printed(code, *(each.buffer.getvalue().decode() for each in (out, err)))  # type: ignore[attr-defined]

    def sent(self, text: str = "hello", *argv: str) -> str:
        """The id of a message that waits in the mailbox."""
        return self("send", "box", text, "--no-wait", *argv).out.strip()


class Told:
    """Replaces verbs of `Beam`; keeps what they were given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def replace(self, verb: str, *results: object) -> None:
        """Has a verb answer this, one after the other: an error is raised, and a function is called."""
        answers = iter(results)

        def instead(_: Beam, *words: object, **named: object) -> object:
            self.calls.append((words, named))
            answer = next(answers)
            if isinstance(answer, BaseException):
                raise answer
            return answer(*words, **named) if callable(answer) else answer

        self._monkeypatch.setattr(Beam, verb, instead)

    def taken(self) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls
