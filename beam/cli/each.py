"""`beam send A --each`: sends each line of stdin as a message, one after the other, and prints the outcomes as JSON
Lines. The next line is read once the message before it is over."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Protocol

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from beam import BeamError, LimitError, Message, Outcome, SignalledError, UnsupportedError, UsageError, decode_given
from beam.cli import prompt
from beam.cli.context import Context
from beam.cli.errors import ErrorObject, body_of, complain
from beam.cli.printer import Printer
from beam.cli.render.text import write_json
from beam.cli.sent import put_and_print_id

_KEPT_S = 60.0  # how long an agent's process is kept for the next line


class Compose(Protocol):
    """Makes the message of a line: a text, or a JSON object as bytes."""

    def __call__(self, line: str | bytes, key: str | None, keep: float | UnsetType, /) -> Message: ...


class LineSender:
    """Sends lines one after the other. With `no_wait`, puts them into the queue. `key` is the beginning of the key of
    each line without a key of its own. With `keeps`, the agents keep their processes from line to line, if they can."""

    def __init__(
        self, call: Context, compose: Compose, *, no_wait: bool, as_json: bool, key: str | None, keeps: bool
    ) -> None:
        self._call = call
        self._compose = compose
        self._no_wait = no_wait
        self._json = as_json
        self._key = key
        self._keeps = keeps and not no_wait and not call.beam.is_agent
        self._kept: dict[str, bool] = {}  # agent -> whether its process is kept for these lines alone
        self._notes: set[str] = set()

    def run(self, *, goes_on: bool) -> int:
        """Send the lines of stdin and return the exit code of the first without success. Without `goes_on`, stop at
        that line.

        After a signal, raises SignalledError or KeyboardInterrupt: the running message was ended, and nothing after it
        was sent. Raises UsageError if stdin has no line.
        """
        code, number, count = 0, 0, 0
        try:
            for number, line in enumerate(_read_lines(self._call), 1):
                if not line.strip():
                    continue
                count += 1
                failed = self._send(number, line)
                code = code or failed
                if failed and not goes_on:
                    complain(f"nothing after line {number} was sent; --on-failure next goes on")
                    break
        except (KeyboardInterrupt, SignalledError):
            complain(f"stopped at line {number}; nothing after it was sent")
            raise
        finally:
            self._release()
        if not count:
            raise UsageError("stdin ended without any line, so nothing was sent", "check the command before the pipe")
        return code

    def _send(self, number: int, line: bytes) -> int:
        """Send one line, print its outcome or its error, and return the exit code."""
        try:
            message = self._message(number, line)
            self._print_notes(message)
            if self._no_wait:
                put_and_print_id(self._call, message, as_json=self._json)
                return 0
            printer = Printer(as_json=True, as_events=False, call=self._call)
            try:
                with printer.waiting(message.id, self._call.beam.progress(message)):
                    outcome = self._call.beam.deliver(message, printer.event)
            except SignalledError as error:
                if isinstance(error.outcome, Outcome):
                    printer.outcome(error.outcome)
                raise
        except SignalledError:
            raise
        except BeamError as error:
            return self._report(number, error)
        return printer.outcome(outcome)

    def _message(self, number: int, line: bytes) -> Message:
        given: str | bytes = line
        key = None if self._key is None else f"{self._key}-{number}"
        if line.lstrip()[:1] != b"{":
            given = prompt.decode(line, f"line {number}", self._call)
        elif decode_given(line).own_key is not None:
            key = None
        if self._keeps:
            with contextlib.suppress(UnsupportedError):  # the agent has no process to keep, or the error comes again
                message = self._compose(given, key, _KEPT_S)
                if message.to not in self._kept:
                    self._kept[message.to] = self._is_unkept(message.to)
                return message
        return self._compose(given, key, UNSET)

    def _is_unkept(self, agent: str) -> bool:
        """Return whether nobody keeps a process of the agent yet."""
        return self._call.beam.broker() is None and self._call.beam.status([agent])[0].kept is None

    def _print_notes(self, message: Message) -> None:
        asked = replace(message, options=replace(message.options, keep=UNSET)) if self._keeps else message
        for note in self._call.beam.notes(asked, waits=not self._no_wait):
            if note not in self._notes:
                self._notes.add(note)
                self._call.note(note)

    def _report(self, number: int, error: BeamError) -> int:
        body = body_of(error)
        assert body is not None
        body = replace(body, message=f"line {number}: {body.message}")
        if self._json or not self._no_wait:
            write_json(ErrorObject(error=body))
            sys.stdout.flush()
        complain(f"{body.message}; {body.hint}" if body.hint else body.message)
        return body.exit_code

    def _release(self) -> None:
        """Close the processes that were kept for these lines. One that runs another sender's turn stays for its
        minute."""
        for agent, is_own in self._kept.items():
            if is_own:
                with contextlib.suppress(BeamError):
                    self._call.beam.release_agent(agent)


def _read_lines(call: Context) -> Iterator[bytes]:
    """Yield the lines of stdin as they come, without their ends. Raises LimitError for a line without an end."""
    if sys.stdin is None:
        return
    prompt.wait_for_text(call)
    while line := sys.stdin.buffer.readline(prompt.MAX_BYTES + 1):
        if len(line) > prompt.MAX_BYTES:
            raise LimitError(f"a line of stdin holds more than {prompt.MAX_BYTES} bytes", "put it into a file")
        yield line.rstrip(b"\r\n")
