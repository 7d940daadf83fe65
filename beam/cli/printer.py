"""Prints a message's events and outcome on stdout and stderr: as a stream of text for a person, exactly for a
program."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import UNSET

from beam import DiskError, Event, Outcome, Status, events, outcomes
from beam.cli import streams
from beam.cli.context import Context
from beam.cli.errors import complain
from beam.cli.render.text import escape_controls, one_line, safe, safe_json, write, write_json, write_line
from beam.cli.streams import is_colourful, is_interactive

if TYPE_CHECKING:
    from beam import Progress
    from beam.cli.asking import AskPrompter
    from beam.cli.render.live import LiveProgress

# Codes of notices that are printed in every output format.
_IMPORTANT_NOTICES = frozenset(
    {"approved_differs", "budget_passed", "left_out", "reason_not_told", "unknown_screen", "untested_version"}
)
_HINTS = {
    "auth": "log in with the agent's own CLI, or set its key",
    "rate_limit": "try again later",
    "overloaded": "try again later",
    "unknown": "check what it did (beam log {agent}), then run it again: beam queue retry {id}",
    "timeout": "run it again (beam queue retry {id}), or send it with a longer --timeout",
    "deadline": "run it again (beam queue retry {id}), or send it with a longer --deadline",
    "worked": "look at what it said and did before (beam log {agent}), then send `continue`",
    "truncated": "send `continue`, or ask for a shorter answer",
}


_PRINTED = outcomes.ANSWERS | {Status.TIMEOUT}  # what a turn said before it ran out of time is all that there is


class Printer:
    """Prints the events of one message as they come, then the message's outcome.

    At a terminal the answer appears while it is written. With `streams` false, it appears only when it is complete, so
    that the answers of several messages are not mixed. If stdout can't be written, the turn still runs to its end, and
    the error is raised afterwards.
    """

    def __init__(self, *, as_json: bool, as_events: bool, call: Context, streams: bool = True) -> None:
        self._json = as_json
        self._events = as_events
        self._call = call
        self._streams = streams and not as_json and not as_events and is_interactive(sys.stdout)
        self._open = False
        self._pieces: list[str] = []  # the pieces so far of the text that is being written
        self._last: str | None = None
        self._final = False
        self._trouble: OSError | None = None
        self._live: LiveProgress | None = None
        self._open_asks: dict[str, str | None] = {}  # ask id -> message id
        self._ask_prompter = _ask_prompter(call, self._write_stderr)

    @contextlib.contextmanager
    def waiting(self, message_id: str, get_progress: Callable[[], Progress | None] | None) -> Iterator[None]:
        """Show, while the context is open, which turn the message waits behind and, on a terminal, the progress of the
        running turn.

        `get_progress` returns the progress of the running turn. If it is None, nothing is shown.
        """
        if self._call.quiet or get_progress is None:
            yield
            return
        from beam.cli.render.live import LiveProgress

        is_plain = self._json or self._events or os.environ.get("TERM", "dumb") == "dumb"
        is_shown = is_interactive(sys.stderr) and not is_plain
        self._live = LiveProgress(message_id, get_progress, self._call.note, is_shown=is_shown)
        try:
            yield
        finally:
            self._live.close()
            self._live = None

    def event(self, event: Event) -> None:
        """Print one event in the output format of this printer."""
        if isinstance(event, events.TurnStarted) and self._live is not None:
            self._live.on_begun(event.message_id)
        with self._printing():
            self._print_event(event)

    @contextlib.contextmanager
    def _printing(self) -> Iterator[None]:
        """Remove the status line while something else is printed. The status line does not come back while a printed
        line is unfinished or a permission request is open."""
        if self._live is None:
            yield
            return
        with self._live.printing():
            yield
            self._live.is_held = self._open or bool(self._open_asks)

    def _print_event(self, event: Event) -> None:
        self._handle_ask_event(event)
        self._print_warning(event)
        if self._trouble is not None:
            return
        try:
            if self._events:
                self._print_as_json(event)
            elif self._streams:
                self._print_as_text(event)
        except OSError as error:
            self._trouble = error

    def _handle_ask_event(self, event: Event) -> None:
        """Handle an event about a permission request: ask the person at this terminal or, if there is nobody, print how
        to answer. Ignore a request that beam itself decides immediately."""
        if isinstance(event, events.PermissionAsked) and event.expires is None:
            return
        match event:
            case events.PermissionAsked() if self._ask_prompter is not None:
                self._open_asks[event.ask_id] = event.message_id
            case events.PermissionDecided():
                self._open_asks.pop(event.ask_id, None)
            case events.TurnStarted() | events.TurnFinished():
                self._open_asks = {ask: of for ask, of in self._open_asks.items() if of != event.message_id}
        if self._ask_prompter is not None:
            self._ask_prompter.event(event)
        elif isinstance(event, events.PermissionAsked):
            from beam.cli.render.asks import line

            self._call.note(line(event))

    def _print_warning(self, event: Event) -> None:
        """Print the event on stderr if it is an important warning. This does not depend on the output format."""
        if isinstance(event, events.Notice) and event.code in _IMPORTANT_NOTICES:
            self._write_stderr(f"beam: {event.agent}: {one_line(event.text, 1000)}\n")

    def _write_stderr(self, text: str) -> None:
        with self._printing(), contextlib.suppress(OSError):
            self._end_line()
            write(sys.stderr, escape_controls(text))
            sys.stderr.flush()

    def _print_as_json(self, event: Event) -> None:
        if isinstance(event, events.TurnClosed) or (self._final and isinstance(event, events.MessageDead)):
            return
        self._final = self._final or isinstance(event, events.TurnFinished)
        write_line(safe_json(events.encode(event).decode(), sys.stdout), verbatim=True)  # from the journal
        sys.stdout.flush()

    def _print_as_text(self, event: Event) -> None:
        match event:
            case events.TurnStarted():  # another attempt: what the last one wrote is no part of its text
                self._end_line()
                self._pieces, self._last = [], None
            case events.TextDelta(parent=None):
                self._pieces.append(event.text)
                self._write_stdout(event.text)
            case events.Text(parent=None):
                piece, self._pieces, self._last = "".join(self._pieces), [], event.text
                if event.text.startswith(piece):
                    self._write_stdout(event.text[len(piece) :])
                else:
                    self._end_line()
                    self._write_stdout(event.text)
                self._end_line()
            case events.ToolCalled():
                self._print_dim(one_line(f"· {event.name} {bytes(event.input).decode()}", 80))
            case events.ImageSeen():
                from beam.cli.render.event_text import image_text

                place = self._call.beam.home.agent(event.agent).dir
                self._print_dim(f"· {image_text(events.with_image_in(event, str(place)))}")
            case events.StatusChanged(state="mode"):
                self._print_dim(f"· mode {event.detail}")
            case events.StatusChanged(state="retrying"):
                delay = f" in {event.delay_s:.1f} s" if event.delay_s is not None else ""
                self._print_dim(f"· retrying {event.attempt} of {event.of}{delay} ({event.class_ or event.detail})")
            case events.SessionLost():
                self._print_dim("· its session no longer exists; starting a new one")
            case events.Notice() if event.code not in _IMPORTANT_NOTICES:
                self._print_dim(f"· {one_line(event.text, 160)}")

    def _write_stdout(self, text: str) -> None:
        if text:
            write(sys.stdout, escape_controls(text))
            sys.stdout.flush()
            self._open = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._open:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._open = False

    def _print_dim(self, text: str) -> None:
        if self._call.quiet:
            return
        self._end_line()
        dim, plain = ("\x1b[2m", "\x1b[0m") if is_colourful(sys.stderr) else ("", "")
        with contextlib.suppress(OSError):  # nobody reads the notes; the answer is printed all the same
            write(sys.stderr, f"{dim}{escape_controls(text)}{plain}\n")
            sys.stderr.flush()

    def outcome(self, outcome: Outcome) -> int:
        """Print the outcome and return its exit code. Raises DiskError if stdout can't be written."""
        try:
            self._print_reply(outcome)
            sys.stdout.flush()
            if self._trouble is not None:
                raise self._trouble
        except BrokenPipeError:
            raise
        except OSError as error:
            streams.drop_stdout()
            raise DiskError(
                f"can't write the answer to stdout: {error.strerror}",
                f"beam show {outcome.message_id} prints it again",
                subject=outcome.message_id,
            ) from error
        self._print_notes(outcome)
        return outcome.exit_code

    def _print_reply(self, outcome: Outcome) -> None:
        if self._trouble is not None or self._events:
            return
        if self._json:
            write_json(outcome)
            return
        self._end_line()
        reply = outcome.reply or ""
        if (
            outcome.status not in _PRINTED
            or not reply
            or (self._last is not None and self._last.strip() == reply.strip())
        ):
            return
        write(sys.stdout, safe(reply, sys.stdout) + ("" if reply.endswith("\n") else "\n"))

    def _print_notes(self, outcome: Outcome) -> None:
        if outcome.unfinished:
            from beam.cli.render.calls import unfinished_line

            complain(f"{outcome.agent}: {unfinished_line(outcome.unfinished)}")
        if outcome.exit_code:
            complain(diagnosis(outcome), rows=_screen_rows(outcome))
            return
        if outcome.status is Status.DENIED:  # tolerated
            self._call.note(diagnosis(outcome))
        self._print_denials(outcome)
        if outcome.session == "lost":
            self._call.note(f"{outcome.agent}'s session no longer existed; this turn ran in a new one")
        if outcome.stand_in is not UNSET:
            self._call.note(f"answered by {outcome.stand_in.named} in place of {outcome.agent}")
        if outcome.redacted:
            self._call.note(f"{outcome.redacted} secret(s) were removed from this answer and the journal")
        self._call.detail(summary(outcome))

    def _print_denials(self, outcome: Outcome) -> None:
        """Print which requests of a turn a person or a rule denied. The turn completed, but its answer may be
        incomplete or missing because of these denials."""
        lines = [
            f"{outcomes.denial_text(one)} was denied by {'a rule' if one.by == outcomes.BY_RULE else one.by}"
            for one in outcome.denials or ()
            if one.by != outcomes.BY_DEFAULT
        ]
        if lines:
            rest = "the answer may be incomplete" if outcome.reply else "it gave no answer"
            self._call.note(f"{outcome.agent}: {', '.join(dict.fromkeys(lines))}; {rest}")


def _ask_prompter(call: Context, say: Callable[[str], None]) -> AskPrompter | None:
    """Return an `AskPrompter` for the person at this terminal; None if no person is there."""
    if call.beam.is_agent or not is_interactive(sys.stdin, sys.stderr):
        return None
    from beam.cli.asking import AskPrompter, is_in_foreground

    return AskPrompter(call.beam, say) if is_in_foreground() else None


def diagnosis(outcome: Outcome) -> str:
    """Return one line that says why the turn did not complete and what to do next. Rows of the agent's screen that the
    outcome's reason quotes are left out."""
    what = f"{outcome.status} ({outcome.class_})" if outcome.class_ else str(outcome.status)
    line = f"{outcome.agent}: {what}"
    if outcome.reason:
        line += f": {outcome.reason.partition(outcomes.SCREEN)[0]}"
    elif outcome.denials:
        line += f": {', '.join(dict.fromkeys(denial.tool for denial in outcome.denials))}"
    status = "deadline" if outcome.status == "timeout" and outcome.turn is None else str(outcome.status)
    if status == "timeout" and (outcome.worked is True or outcome.reply):
        status = "worked"
    hint = _HINTS.get(outcome.class_ or "") or _HINTS.get(status)
    if outcome.class_ == "auth" and isinstance(outcome.login_url, str):
        hint = f"{hint}; it names {outcome.login_url.replace('{', '%7B').replace('}', '%7D')}"
    return (
        f"{line}; {hint.format(agent=outcome.agent, id=outcome.message_id)}"
        if hint
        else f"{line} [{outcome.message_id}]"
    )


def _screen_rows(outcome: Outcome) -> list[str]:
    """Return the rows of the agent's screen that the outcome's reason quotes."""
    return (outcome.reason or "").partition(outcomes.SCREEN)[2].splitlines()


def summary(outcome: Outcome) -> str:
    """Return a turn's figures on one line. Unknown figures are left out."""
    usage = outcome.usage
    figures = [
        f"{outcome.agent} turn {outcome.turn}",
        f"{outcome.duration_s:.1f} s" if outcome.duration_s is not None else "",
        f"{usage.input_tokens} in" if usage.input_tokens is not None else "",
        f"{usage.output_tokens} out" if usage.output_tokens is not None else "",
        f"${outcome.cost_usd:.4f}" if outcome.cost_usd is not None else "",
        outcome.model or "",
        f"session {outcome.session_id}" if outcome.session_id else "",
    ]
    return " · ".join(figure for figure in figures if figure)
