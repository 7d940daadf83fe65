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
from beam.cli import errors, main

CONFIG = """\
agents:
  box: {adapter: mailbox}
  asker: {adapter: mailbox}
  worker: {command: [cat]}
  bot: {adapter: scripted, rules: {deny: ["Bash(rm *)"]}}
"""


@dataclass(frozen=True)
class Printed:
    """The end of a command."""

    code: int
    out: str
    err: str
    both: str = ""  # as a terminal shows both
    unflushed: str = ""  # what of stdout was not flushed at its end
    subject: str = ""  # of the error that ended it

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        (found,) = self.lines
        return found


class Stream(io.TextIOWrapper):
    """A stream of the process, whose text is on the screen once it is flushed."""

    buffer: io.BytesIO

    def __init__(self, screen: list[str], *, line_by_line: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self._screen, self._line_by_line, self._shown = screen, line_by_line, 0

    def write(self, text: str) -> int:
        """Writes; shows it at once if it comes line by line."""
        written = super().write(text)
        if self._line_by_line:
            self.flush()
        return written

    def flush(self) -> None:
        """Shows what was written."""
        super().flush()
        data = self.buffer.getvalue()
        self._screen.append(data[self._shown :].decode())
        self._shown = len(data)


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
            "TZ": "UTC",
            "BEAM_TRUST": "1",
            "XDG_STATE_HOME": str(base / "state"),
            "XDG_CONFIG_HOME": str(base / "config"),
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(self.project)

    def __call__(self, *argv: str, stdin: str = "") -> Printed:
        """Runs one command to its end."""
        screen: list[str] = []
        out, err = Stream(screen, line_by_line=False), Stream(screen, line_by_line=True)
        subjects: list[str] = []
        with self._monkeypatch.context() as streams:
            handle = errors.handle

            def handled(error: BaseException, argv: list[str]) -> int:
                subjects.append(str(getattr(error, "subject", "")))
                return handle(error, argv)

            streams.setattr(errors, "handle", handled)
            streams.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            streams.setattr(sys, "stdout", out)
            streams.setattr(sys, "stderr", err)
            code = main.run(list(argv))
            at_the_end = len("".join(screen))
            out.flush()
            both = "".join(screen)
        printed = (each.buffer.getvalue().decode() for each in (out, err))
        return Printed(code, *printed, both=both, subject="".join(subjects), unflushed=both[at_the_end:])

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
