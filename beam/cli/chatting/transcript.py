"""Converts the events of turns into the text of a chat: lines that are printed and stay, and rows that are shown only
while a turn runs.

Control characters in the texts of agents are made visible and have no effect. This module does no input or output; the
current time is an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam import Event, durations, estimated_usd, events, outcomes
from beam.cli.printer import diagnosis
from beam.cli.render import calls
from beam.cli.render.event_text import image_text
from beam.cli.render.text import collapse_to_line, display_width, escape_controls, one_line, truncate

if TYPE_CHECKING:
    from beam import Outcome

_UNFINISHED_ROWS = 6  # rows that show the end of the answer's unfinished line
_MAX_CHARACTERS = 8_000  # how much of the end of that line is read: more than these rows show on any terminal
_TOOL_WIDTH = 160
_QUIET_STATES = ("idle", "running", "requesting", "access", "hook", "mode", "compacted")
_INTERNAL_NOTICES = frozenset({"synthetic"})  # codes of notices: texts that a CLI sends to its model in a person's name


class Style:
    """Marks parts of a line as dim, bold or red, if the terminal shows colours."""

    def __init__(self, *, is_colourful: bool) -> None:
        self._on = is_colourful

    def dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self._on else text

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._on else text

    def red(self, text: str) -> str:
        return f"\x1b[31m{text}\x1b[0m" if self._on else text


class Transcript:
    """The text of one chat. `event` and `outcome` return the lines to print. `live_rows` returns the rows to show below
    these lines while a turn runs."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._line: list[str] = []  # the pieces of the answer's unfinished line, which may be very long
        self._pieces: list[str] = []  # all pieces so far of the text that is being written
        self._last = ""  # the last complete text
        self._open: dict[str, tuple[events.ToolCalled, float]] = {}
        self._status = ""
        self._tokens: int | None = None
        self._cost: float | None = None
        self._began: float | None = None

    # -- what stays ----------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Reset the state for a new turn, which begins at the time `now`."""
        self._last = self._status = ""
        self._line, self._pieces = [], []
        self._open.clear()
        self._tokens = self._cost = None
        self._began = now

    def event(self, event: Event, now: float) -> list[str]:
        """Return the lines to print for this event."""
        match event:
            case events.TextDelta(parent=None):
                self._status = ""
                self._pieces.append(event.text)
                return self._add_partial_text(event.text)
            case events.Text(parent=None):
                return self._add_whole_text(event.text)
            case events.ToolCalled():
                self._open[event.call_id] = (event, now)
                return self._end_line()
            case events.ToolReturned():
                return self._tool_result_lines(event, now)
            case events.FileChanged():
                return self._dim_lines(f"✎ {event.kind} {event.path}")
            case events.ImageSeen():
                return [*self._end_line(), self._style.dim(f"  {collapse_to_line(image_text(event))}")]
            case events.PlanUpdated():
                done = sum(step.status == "completed" for step in event.steps)
                doing = next((step.text for step in event.steps if step.status == "in_progress"), "")
                return self._dim_lines(f"☐ plan {done}/{len(event.steps)} {doing}")
            case events.UsageSeen():
                usage = event.usage
                known = (usage.input_tokens, usage.cached_tokens, usage.output_tokens)
                self._tokens = None if known == (None, None, None) else sum(each or 0 for each in known)
                self._cost = event.cost_usd
            case events.StatusChanged(state="retrying"):
                delay = f" in {event.delay_s:.1f} s" if event.delay_s is not None else ""
                return self._dim_lines(
                    f"… retrying {event.attempt} of {event.of}{delay} ({event.class_ or event.detail})"
                )
            case events.StatusChanged():
                self._status = "" if event.state in _QUIET_STATES else event.state
                if event.state == "mode":
                    return self._dim_lines(f"mode {event.detail}")
            case events.Thinking():
                self._status = "thinking"
            case events.SessionLost():
                return self._dim_lines("! its session no longer exists; starting a new one")
            case events.PermissionDecided(decision="cancelled"):
                return self._dim_lines(f"request withdrawn{f': {event.why}' if event.why else ''}")
            case events.PermissionDecided():
                word = "allowed" if event.decision == "allow" else "denied"
                return self._dim_lines(f"{word} by {event.by}{f': {event.why}' if event.why else ''}")
            case events.Notice() if event.code not in _INTERNAL_NOTICES:
                return self._dim_lines(f"! {event.text}")
        return []

    def _add_partial_text(self, text: str) -> list[str]:
        first, *lines = text.replace("\r\n", "\n").split("\n")
        self._line.append(first)
        if not lines:
            return []
        done = ["".join(self._line), *lines[:-1]]
        self._line = lines[-1:]
        return [escape_controls(line) for line in done]

    def _end_line(self) -> list[str]:
        line, self._line = "".join(self._line), []
        return [escape_controls(line)] if line else []

    def _add_whole_text(self, text: str) -> list[str]:
        piece, self._pieces, self._last = "".join(self._pieces), [], text
        lines = (
            self._add_partial_text(text[len(piece) :])
            if text.startswith(piece)
            else self._end_line() + self._add_partial_text(text)
        )
        return lines + self._end_line()

    def _tool_result_lines(self, event: events.ToolReturned, now: float) -> list[str]:
        call, began = self._open.pop(event.call_id, (None, now))
        if call is None:
            return []
        took = f" ({durations.show(round(now - began, 1))})" if now - began >= 1 else ""
        lines = self._dim_lines(f"⚙ {calls.call_text(call)}{took}")
        if event.is_error:
            lines += [self._style.red(f"  ✗ {one_line(event.output, _TOOL_WIDTH)}")]
        return lines

    def _dim_lines(self, text: str) -> list[str]:
        return [*self._end_line(), self._style.dim(f"  {one_line(text, _TOOL_WIDTH)}")]

    def outcome(self, outcome: Outcome) -> list[str]:
        """Return the lines to print at the end of a turn: the rest of the answer, the failure if there is one, and the
        turn's figures."""
        lines = self._end_line()
        reply = outcome.reply or ""
        if outcome.status in outcomes.ANSWERS and reply.strip() and reply.strip() != self._last.strip():
            lines += escape_controls(reply).rstrip("\n").split("\n")
        for call, _ in self._open.values():
            lines.append(self._style.dim(f"  ⚙ {one_line(calls.call_text(call), _TOOL_WIDTH)} (it did not return)"))
        if outcome.unfinished:
            lines.append(self._style.red(f"  ! {collapse_to_line(calls.unfinished_line(outcome.unfinished))}"))
        if outcome.status == "cancelled":
            lines.append(self._style.dim(f"  {collapse_to_line(outcome.reason or 'cancelled')}"))
        elif outcome.exit_code:
            lines.append(self._style.red(f"  ✗ {collapse_to_line(diagnosis(outcome))}"))
        lines.append(self._style.dim(f"  {figures(outcome)}"))
        self.begin(0.0)
        self._began = None
        return lines

    # -- what is shown while it runs -----------------------------------------------------------------------------------

    def live_rows(self, now: float, columns: int) -> list[str]:
        """Return the rows of the answer's unfinished line, followed by one row about the turn: its duration, the
        running tool, tokens and cost."""
        written = escape_controls(self._unfinished_tail()).replace("\t", "    ")
        rows = wrap_to_rows(written, columns - 1)[-_UNFINISHED_ROWS:] if written else []
        if self._began is None:
            return rows
        call, since = next(reversed(self._open.values()), (None, now))
        words = [_duration_text(now - self._began)]
        if call is not None:
            others = f" and {len(self._open) - 1} more" if len(self._open) > 1 else ""
            took = _duration_text(now - since)
            words.append(f"{calls.call_text(call)}{others}{f' ({took})' if took else ''}")
        elif self._status:
            words.append(self._status)
        words += [f"{self._tokens:,} tokens" if self._tokens else "", money(self._cost)]
        return [*rows, truncate("… " + collapse_to_line(" · ".join(filter(None, words))), columns - 1)]

    def _unfinished_tail(self) -> str:
        """Return the end of the answer's unfinished line, long enough to fill the rows that show it."""
        kept: list[str] = []
        size = 0
        for piece in reversed(self._line):
            kept.append(piece[-_MAX_CHARACTERS:])
            size += len(piece)
            if size > _MAX_CHARACTERS:
                break
        return "".join(reversed(kept))


def _duration_text(seconds: float) -> str:
    """Return a duration, rounded to whole seconds, as text for people; "" if it rounds to 0."""
    return durations.show(round(seconds)) if round(seconds) else ""


def figures(outcome: Outcome) -> str:
    """Return one line with a turn's number, duration, tokens, cost and model, as far as they are known."""
    usage = outcome.usage
    known = [each for each in (usage.input_tokens, usage.cached_tokens, usage.output_tokens) if each is not None]
    return " · ".join(
        filter(
            None,
            [
                f"turn {outcome.turn}" if outcome.turn is not None else "no turn",
                durations.show(round(outcome.duration_s, 1)) if outcome.duration_s is not None else "",
                f"{sum(known):,} tokens" if known else "",
                money(cost_of(outcome)),
                collapse_to_line(outcome.model or ""),
            ],
        )
    )


def cost_of(outcome: Outcome) -> float | None:
    """Return the turn's cost in US dollars: the CLI's own figure, else an estimate from the table of prices; None if
    neither is known."""
    if outcome.cost_usd is not None or outcome.model is None:
        return outcome.cost_usd
    return estimated_usd(outcome.model, outcome.usage)


def money(cost: float | None) -> str:
    """Return a cost in US dollars as text for people; "" if it is unknown."""
    return f"${cost:.4f}" if cost is not None else ""


def wrap_to_rows(text: str, columns: int) -> list[str]:
    """Return the rows into which a terminal of `columns` columns breaks one line."""
    rows, row, used = [], "", 0
    for char in text:
        width = display_width(char)
        if used + width > columns:
            rows.append(row)
            row, used = "", 0
        row += char
        used += width
    return [*rows, row]
