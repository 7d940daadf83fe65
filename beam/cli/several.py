"""`beam send A,B,C`: sends one text to several agents in parallel, prints their answers in the order in which the
agents were named, and then the verdict of a judge."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam import BeamError, DiskError, Message, Outcome, SignalledError, UsageError, outcomes
from beam.cli.context import Context
from beam.cli.errors import ErrorObject, body_of, complain
from beam.cli.printer import Printer
from beam.cli.render.text import escape_controls, one_line, safe, write_json, write_line
from beam.cli.sent import put_and_print_id

if TYPE_CHECKING:
    from beam import Comparison


def check_options(
    names: Sequence[str], *, as_events: bool, shield: str | None, no_wait: bool, judge: str | None
) -> None:
    """Raise UsageError for names that can't be listed together, and for options that don't go with several
    receivers."""
    doubled = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if doubled is not None:
        raise UsageError(f"{doubled or 'an empty name'} is named twice", "name each agent once", subject=doubled)
    if "" in names:
        raise UsageError("there is no agent between two commas", "like this: beam send A,B,C TEXT")
    if as_events:
        raise UsageError("--events is for one agent", "beam watch shows all of them")
    if shield is not None and shield.startswith("fd:"):
        raise UsageError("--shield fd:N is for one agent", "a descriptor is read once; use --shield NAME")
    if no_wait and judge is not None:
        raise UsageError("--judge and --no-wait don't go together", "the judge needs the answers")


def send(
    call: Context, messages: Sequence[Message], *, judge: str | None, rubric: str | None, no_wait: bool, as_json: bool
) -> int:
    """Send the messages, print the result of each, and return the exit code of the first message without success. If
    all succeed, return the exit code of the judge's verdict."""
    beam = call.beam
    for message in messages:
        for note in beam.notes(message, waits=not no_wait):
            call.note(note)
    if no_wait:
        return _put_messages(call, messages, as_json=as_json)
    results = _ResultPrinter(call, messages, as_json=as_json)
    try:
        found = beam.deliver_several(messages, seen=results.printer.event, ended=results.on_ended)
    finally:
        results.close()
    code = next((each for each in results.codes if each), 0)
    if judge is None:
        return code
    came = [each for each in found if isinstance(each, Outcome)]
    answered = [each for each in came if each.reply and each.reply.strip() and each.status in outcomes.ANSWERS]
    if len(answered) < 2:
        call.note(f"{judge} was not asked: there are fewer than two answers to compare")
        return code
    verdict = beam.compare(judge, messages[0].text, came, rubric=rubric, seen=results.printer.event)
    if as_json:
        write_json(verdict)
    else:
        _print_verdict(verdict)
    if verdict.exit_code:
        complain(f"{judge} gave no verdict: {one_line(verdict.reason, 300)}; see beam show {verdict.message_id}")
    return code or verdict.exit_code


class _ResultPrinter:
    """Prints the results of the messages in the order of the messages, and shows the progress of the message whose
    result is next."""

    def __init__(self, call: Context, messages: Sequence[Message], *, as_json: bool) -> None:
        self._call = call
        self._left = list(messages)
        self._json = as_json
        self.printer = Printer(as_json=as_json, as_events=False, call=call, streams=False)
        self.codes: list[int] = []
        self._waiting = contextlib.ExitStack()
        self._show_progress()

    def _show_progress(self) -> None:
        if self._left:
            message = self._left[0]
            self._waiting.enter_context(self.printer.waiting(message.id, self._call.beam.progress(message)))

    def on_ended(self, message: Message, result: Outcome | BeamError) -> None:
        """Print the result of the next message."""
        self._waiting.close()
        self._left = self._left[1:]
        if not self._json:
            write_line(safe(f"==> {message.to} <==", sys.stdout))
        if isinstance(result, Outcome):
            self.codes.append(self.printer.outcome(result))
        else:
            self._record_failure(message, result)
        sys.stdout.flush()
        self._show_progress()

    def _record_failure(self, message: Message, error: BeamError) -> None:
        if isinstance(error, SignalledError):
            self.codes.append(128 + error.number)
        else:
            self.codes.append(int(error.exit_code))
        body = body_of(error)
        if self._json and body is not None:
            write_json(ErrorObject(error=body))
        _report_failure(message, error, 0)

    def close(self) -> None:
        self._waiting.close()


def _put_messages(call: Context, messages: Sequence[Message], *, as_json: bool) -> int:
    """Put the messages into their queues, and print their ids in order. Return the exit code of the first failure, else
    0."""
    code = 0
    for message in messages:
        try:
            put_and_print_id(call, message, as_json=as_json)
        except DiskError as error:
            if error.subject == message.id:  # it was sent, and its id could not be written
                raise
            code = _report_failure(message, error, code)
        except BeamError as error:
            code = _report_failure(message, error, code)
    return code


def _report_failure(message: Message, error: BeamError, code: int) -> int:
    """Print why a message failed. Return the exit code of the first failure: `code` if an earlier message failed, else
    the exit code of this error. `code` is 0 if no earlier message failed."""
    complain(f"{message.to}: {error.message}; {error.hint}" if error.hint else f"{message.to}: {error.message}")
    return code or int(error.exit_code)


def _print_verdict(verdict: Comparison) -> None:
    lines = [f"==> {verdict.judge} judges <=="]
    lines += [f"{each.score:4.1f}  {each.agent}" for each in sorted(verdict.scores, key=lambda each: -each.score)]
    if verdict.scores:
        best = f"best: {verdict.best}" if verdict.best is not None else "several are best"
        reason = f"; {' '.join(escape_controls(verdict.reason).split())}" if verdict.reason else ""
        lines.append(f"{best}{reason}")
    for line in lines if verdict.scores else ():
        write_line(safe(line, sys.stdout))
