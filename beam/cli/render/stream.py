"""The activity stream: one line an event, for `watch` and `log`."""

from __future__ import annotations

import shutil
from typing import TextIO

from beam import durations, events
from beam.cli.context import is_colourful, is_terminal
from beam.cli.render import team
from beam.cli.render.text import one_line, safe_json, write
from beam.events import AnyEvent

_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95)
_WIDTH_IN_A_PIPE = 200


class Stream:
    """Prints events to a stream: aligned and coloured for a person, whole as JSON."""

    def __init__(self, stream: TextIO, *, as_json: bool, plain: bool = False) -> None:
        self._stream = stream
        self._ascii = plain or "utf" not in (getattr(stream, "encoding", None) or "utf-8").lower()
        self._json = as_json
        self._terminal = is_terminal(stream)
        self._colourful = is_colourful(stream) and not plain
        self._colours: dict[str, int] = {}
        self._tools: dict[str, str] = {}
        self._silent: set[str] = set()
        self._name_width = 8

    def event(self, event: AnyEvent) -> None:
        """Prints one event; those that only carry bookkeeping are not for people."""
        if self._json:
            write(self._stream, safe_json(events.encode(event).decode(), self._stream) + "\n")
            return
        line = self._line(event)
        if line is not None:
            write(self._stream, line + "\n")

    def flush(self) -> None:
        """Everything printed so far is out."""
        self._stream.flush()

    def _line(self, event: AnyEvent) -> str | None:
        said = self._say(event)
        if said is None:
            return None
        mark, text = said
        mark = mark.translate(team.ASCII) if self._ascii else mark
        agent = event.agent.replace("@session-", "@")
        self._name_width = min(24, max(self._name_width, len(agent)))
        name = one_line(agent, 24).ljust(self._name_width)
        head = f"{event.ts[11:19]} "
        width = shutil.get_terminal_size((80, 24)).columns if self._terminal else _WIDTH_IN_A_PIPE
        indent = "  " if getattr(event, "parent", None) else ""
        body = f"{indent}{mark} {one_line(text, max(20, width - len(head) - len(name) - len(indent) - 4))}"
        if not self._colourful:
            return f"{head}{name} {body}"
        colour = self._colours.setdefault(event.agent, _COLOURS[len(self._colours) % len(_COLOURS)])
        return f"\x1b[2m{head}\x1b[0m\x1b[{colour}m{name}\x1b[0m {body}"

    def _say(self, event: AnyEvent) -> tuple[str, str] | None:
        match event:
            case events.MessageQueued():
                way = "→" if event.kind != "reply" else "↩"
                return way, f"{event.sender}: {event.text}"
            case events.SessionStarted():
                return "·", f"new session {event.session_id}" + (f" ({event.model})" if event.model else "")
            case events.SessionLost():
                return "!", f"session {event.session_id} is gone: {event.reason}"
            case events.SessionArchived():
                return "·", f"session {event.session_id} put aside: {event.reason}"
            case events.TurnStarted():
                attempt = f", attempt {event.attempt}" if event.attempt > 1 else ""
                return "▶", f"turn {event.turn} ({event.adapter}{attempt})"
            case events.Text():
                return "│", event.text
            case events.Thinking():
                return "┊", event.text
            case events.ToolCalled() if team.is_told_otherwise(event):
                self._silent.add(event.call_id)
                return None
            case events.ToolReturned() if event.call_id in self._silent and not event.is_error:
                self._silent.discard(event.call_id)
                return None
            case events.MemberJoined() if event.colour in team.COLOURS:
                self._colours[event.agent] = team.COLOURS[event.colour]
                return team.say(event)
            case events.ToolCalled():
                self._tools[event.call_id] = event.name
                return "⚙", f"{event.name} {bytes(event.input).decode()}"
            case events.ToolReturned():
                name = self._tools.pop(event.call_id, "tool")
                if event.unfinished:
                    return "✗", f"{name}: the turn ended first"
                return ("✗" if event.is_error else "✓"), f"{name}: {event.output}"
            case events.FileChanged():
                return "✎", f"{event.kind} {event.path}"
            case events.PlanUpdated():
                done = sum(1 for step in event.steps if step.status == "completed")
                now = next((step.text for step in event.steps if step.status == "in_progress"), "")
                return "☐", f"plan {done}/{len(event.steps)} {now}"
            case events.StatusChanged(state="requesting"):
                return None
            case events.StatusChanged():
                figures = f" {event.attempt}/{event.of}" if event.attempt is not None else ""
                return "…", f"{event.state}{figures} {event.class_ or ''} {event.detail}".rstrip()
            case events.PermissionAsked():
                return "?", f"asks for {event.tool} {bytes(event.input).decode()} [{event.ask_id}]"
            case events.PermissionDecided():
                return "·", f"{event.decision} by {event.by} [{event.ask_id}]"
            case events.TurnFinished():
                return self._finished(event)
            case events.TurnClosed(reply="queued"):
                return "↪", f"reply to {event.to}"
            case events.TurnClosed(reply="dead"):
                return "!", f"reply to {event.to} not delivered: {event.detail}"
            case events.MessageDead():
                return "†", f"given up on {event.message_id}: {event.detail or event.reason}"
            case events.MessageRequeued():
                return "↻", f"{event.message_id} again: {event.reason}"
            case events.Notice():
                return "!", event.text
            case events.ControlDone(ok=False):
                return "!", f"{event.verb} refused: {event.message}"
            case events.ControlDone():
                return "·", f"{event.verb}: {event.message}"
            case events.Unknown():
                return "?", f"unknown {event.what}".rstrip()
        return team.say(event)

    def _finished(self, event: events.TurnFinished) -> tuple[str, str]:
        figures = [
            durations.show(event.duration_s) if event.duration_s is not None else "",
            f"${event.cost_usd:.4f}" if event.cost_usd is not None else "",
        ]
        mark = "■" if event.exit_code == 0 else "✗"
        class_ = f" ({event.class_})" if event.class_ else ""
        reason = f": {event.reason}" if event.reason else ""
        return mark, f"{event.status}{class_} {' '.join(figure for figure in figures if figure)}{reason}"
