"""Asks programs for their versions, all at the same time. None waits for another, and what does not answer is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from msgspec import Struct

from beam.base.errors import BeamError
from beam.process.program import environment, start_error

ANSWER_SECONDS = 10.0
_POLL_SECONDS = 0.02
_KILL_SECONDS = 1.0
_MAX_BYTES = 64 * 1024
Command = tuple[str, ...]


class Answer(Struct, frozen=True):
    """What a program printed about its version: its first line, "" if there is none. `problem` says why it gave no good
    answer. `is_stopped`: it could not even be started."""

    text: str
    problem: str = ""
    is_stopped: bool = False


class CliAnswers:
    """The programs that were asked, until their answers are taken or the context ends.

    They do not run in the project folder, because some CLIs, and the git that they call, always obey files in their
    working directory.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environment(environ, {})
        self._asked: dict[Command, _Asked | Answer] = {}
        self._taken: dict[Command, Answer] = {}

    def ask(self, argv: Command) -> None:
        """Start the program. It is started only once, however often it is asked."""
        if argv in self._asked:
            return
        try:
            self._asked[argv] = self._taken.get(argv) or _Asked(argv, self._environ)
        except (OSError, ValueError) as error:
            why: BeamError = start_error(error, argv[0], env=self._environ, cwd="/")
            self._asked[argv] = Answer("", why.message.removeprefix(f"{argv[0]} "), is_stopped=True)

    def take(self, *, wait: bool) -> dict[Command, Answer]:
        """Return the answers that came since the last time. With `wait`, wait for the next one, if one is still to
        come."""
        while True:
            tried = {
                argv: asked if isinstance(asked, Answer) else asked.answer() for argv, asked in self._asked.items()
            }
            came = {argv: answer for argv, answer in tried.items() if answer is not None}
            self._asked = {argv: asked for argv, asked in self._asked.items() if argv not in came}
            self._taken |= came
            if came or not wait or not self._asked:
                return came
            time.sleep(_POLL_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for asked in self._asked.values():
            if isinstance(asked, _Asked):
                asked.end()


class _Asked:
    """One program that runs, in a session of its own, so that all that it started is ended with it."""

    def __init__(self, argv: Command, environ: Mapping[str, str]) -> None:
        self._argv = argv
        self._until = time.monotonic() + ANSWER_SECONDS
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self._child = subprocess.Popen(
            argv, cwd="/", env=environ, stdin=null, stdout=pipe, stderr=pipe, start_new_session=True
        )
        assert self._child.stdout is not None and self._child.stderr is not None
        self._out, self._err = (_Printed(stream.fileno()) for stream in (self._child.stdout, self._child.stderr))

    def answer(self) -> Answer | None:
        """Return the answer, None as long as the program may still give one."""
        code = self._child.poll()
        is_late = code is None and time.monotonic() >= self._until
        self._out.read()
        self._err.read()
        if code is None and not is_late:
            return None
        self.end()
        line = self._out.first_line() or self._err.first_line()
        asked = " ".join(self._argv[1:])
        if is_late:
            return Answer(line, f"{asked} does not end within {ANSWER_SECONDS:g} s")
        if code:
            how = f"exit code {code}" if code > 0 else f"ended by signal {-code}"
            why = f": {said}" if (said := self._err.first_line() or line) else ""
            return Answer("", f"{asked} fails ({how}){why}")
        return Answer(line)

    def end(self) -> None:
        """End the program, with all that it started if it still runs, and close its pipes."""
        if self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_KILL_SECONDS)
        for stream in (self._child.stdout, self._child.stderr):
            if stream is not None:
                stream.close()


class _Printed:
    """The first bytes that came through a pipe, which is never waited for."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._data = b""

    def read(self) -> None:
        """Read what is there."""
        with contextlib.suppress(BlockingIOError):
            while len(self._data) < _MAX_BYTES and (more := os.read(self._descriptor, _MAX_BYTES)):
                self._data += more

    def first_line(self) -> str:
        """Return the first line that is not blank, "" if there is none."""
        lines = (line.strip() for line in self._data.decode("utf-8", "replace").splitlines())
        return next(filter(None, lines), "")
