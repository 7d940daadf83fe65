"""An outcome and its events on stdout and stderr: streamed to a person, exact for a program."""

from __future__ import annotations

import sys

import msgspec

from beam import events
from beam.cli.context import Context, is_terminal
from beam.cli.render.text import one_line, safe, visible, write
from beam.events import Event
from beam.outcome import Outcome, Status

_ANSWERS = frozenset({Status.COMPLETED, Status.TRUNCATED, Status.REFUSED, Status.DENIED})
_HINTS = {
    "denied": "--access edit or full would let it",
    "auth": "log in with the agent's own CLI, or set its key",
    "rate_limit": "try again later",
    "overloaded": "try again later",
    "unknown": "look at what it did (beam log {agent}), then: beam queue retry {id}",
    "timeout": "beam queue retry {id}, with a longer --timeout",
    "truncated": "send `go on`, or ask for less",
}


class Printer:
    """Prints one message's events as they come, then its outcome."""

    def __init__(self, *, as_json: bool, as_events: bool, call: Context) -> None:
        self._json = as_json
        self._events = as_events
        self._call = call
        self._streams = not as_json and not as_events and is_terminal(sys.stdout)
        self._open = False
        self._said = False

    def event(self, event: Event) -> None:
        """Shows one event."""
        if self._events:
            if not isinstance(event, events.TurnClosed | events.MessageDead):
                sys.stdout.write(events.encode(event).decode() + "\n")
                sys.stdout.flush()
        elif self._streams:
            self._stream(event)

    def _stream(self, event: Event) -> None:
        match event:
            case events.TextDelta(parent=None):
                self._write(event.text)
            case events.Text(parent=None):
                if not self._open:
                    self._write(event.text)
                self._end_line()
            case events.ToolCalled():
                self._aside(f"· {event.name} {one_line(bytes(event.input).decode(), 72)}")
            case events.StatusChanged(state="retrying"):
                delay = f" in {event.delay_s:.1f} s" if event.delay_s is not None else ""
                self._aside(f"· retrying {event.attempt} of {event.of}{delay} ({event.class_ or event.detail})")
            case events.SessionLost():
                self._aside("· its session is gone; starting another")
            case events.Notice():
                self._aside(f"· {one_line(event.text, 160)}")

    def _write(self, text: str) -> None:
        write(sys.stdout, visible(text))
        sys.stdout.flush()
        self._said = True
        self._open = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._open:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._open = False

    def _aside(self, text: str) -> None:
        if self._call.quiet:
            return
        self._end_line()
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()

    def outcome(self, outcome: Outcome) -> int:
        """Prints the outcome; its exit code."""
        self._end_line()
        if self._json:
            sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")
        elif not self._events:
            self._answer(outcome)
            self._diagnose(outcome)
        elif outcome.exit_code:
            self._diagnose(outcome)
        return outcome.exit_code

    def _answer(self, outcome: Outcome) -> None:
        if outcome.status not in _ANSWERS or self._said:
            return
        reply = outcome.reply or ""
        if reply:
            write(sys.stdout, safe(reply, sys.stdout) + ("" if reply.endswith("\n") else "\n"))
            sys.stdout.flush()

    def _diagnose(self, outcome: Outcome) -> None:
        if outcome.exit_code:
            write(sys.stderr, safe(f"beam: {diagnosis(outcome)}", sys.stderr).replace("\n", " ") + "\n")
        else:
            if outcome.session == "lost":
                self._call.note(f"{outcome.agent}'s session was gone; this was a new one")
            if outcome.redacted:
                self._call.note(f"{outcome.redacted} secret(s) were blanked in the journal and in this answer")
            self._call.detail(summary(outcome))


def diagnosis(outcome: Outcome) -> str:
    """Why it did not complete, in one line, with the next step."""
    what = f"{outcome.status} ({outcome.class_})" if outcome.class_ else str(outcome.status)
    line = f"{outcome.agent}: {what}"
    if outcome.reason:
        line += f": {outcome.reason}"
    elif outcome.denials:
        line += f": {', '.join(dict.fromkeys(denial.tool for denial in outcome.denials))}"
    hint = _HINTS.get(outcome.class_ or "") or _HINTS.get(outcome.status)
    return (
        f"{line}; {hint.format(agent=outcome.agent, id=outcome.message_id)}"
        if hint
        else f"{line} [{outcome.message_id}]"
    )


def summary(outcome: Outcome) -> str:
    """The figures of a turn, in one line; what is unknown is left out."""
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
