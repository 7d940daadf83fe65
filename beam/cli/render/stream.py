"""The activity stream: one line per event, for `watch` and `log`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from beam import AnyEvent, NotFoundError, durations, events, since
from beam.cli.render import calls, team
from beam.cli.render.calls import Calls
from beam.cli.render.days import Days, time_of_day
from beam.cli.render.event_text import image_text, is_internal, sign_and_text
from beam.cli.render.long_turns import LongTurns
from beam.cli.render.text import (
    ascii_only,
    collapse_to_line,
    display_width,
    escape_controls,
    fold,
    safe_json,
    truncate,
    write,
)
from beam.cli.render.trouble import HeldNotices
from beam.cli.streams import is_colourful, is_terminal

if TYPE_CHECKING:
    from beam import Session, TeamShown

_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95)
_WIDTH_IN_A_PIPE = 200
_LONGEST_NAME = 24
_LANE_LENGTH = 5  # the last characters of a lane's id, which are shown
_SESSION_NAME = re.compile(r"@session-([0-9a-f]{4})[0-9a-f]*$")
_TRAILING_NUMBER = re.compile(r"/\d+$")


class RenderedLine(Struct, frozen=True):
    """One line to print, without its prefix (the time and the agent).

    If the line is too long, `text` is cut, and so is `result`, which keeps a part of the line however long `text` is.
    `time` is never cut. With `is_whole`, nothing is cut.
    """

    mark: str
    text: str
    time: str = ""
    result: str = ""
    is_whole: bool = False  # true if the end of the line is its important part


class EventLine(Struct, frozen=True):
    """One event to print.

    If several roots are shown, `root` is the path of the event's root, and `project` is the folder of that root;
    otherwise both are None. `lane` is the `--once` session of the event, if there is one. `session` is the event's
    session if beam did not start that session. `agent_dir` is the directory of the event's agent, which contains the
    agent's images.
    """

    event: AnyEvent
    root: Path | None = None
    project: Path | None = None
    lane: str | None = None
    session: Session | None = None
    agent_dir: Path | None = None

    @property
    def qualified_event(self) -> AnyEvent:
        """Return the event with an agent name that is unique among all shown roots."""
        return self._with_name(f"{self.root}/", self.lane)

    @property
    def shown_event(self) -> AnyEvent:
        """Return the event with an agent name for people. The name has the form `folder/agent` if several roots are
        shown. For a `--once` session, `:` and the end of the message's id follow. An imported event gets the time when
        it happened."""
        if self.session is not None:
            cli, _, session_id = self.event.agent.partition("~")
            folder = f"{Path(self.session.cwd).name}/" if self.session.cwd else ""
            return replace(self.event, agent=f"{folder}{cli}~{session_id[-4:]}")
        short = self.lane[-_LANE_LENGTH:] if self.lane is not None else None
        shown = self._with_name(f"{self.project.name}/" if self.project is not None else "", short)
        if self.agent_dir is not None:
            shown = events.with_image_in(shown, str(self.agent_dir))
        return replace(shown, ts=shown.imported) if shown.imported else shown

    def _with_name(self, folder: str, lane: str | None) -> AnyEvent:
        lane = f":{lane}" if lane is not None else ""
        if self.root is None and not lane:
            return self.event
        return replace(self.event, agent=f"{folder if self.root is not None else ''}{self.event.agent}{lane}")

    def to_json(self) -> bytes:
        """Return the event as JSON. The fields `root`, `project` and `lane` are added or, for a session that beam did
        not start, `cli`, `session_id` and `folder`."""
        data = events.encode(self.event)
        session = self.session
        cli = self.event.agent.partition("~")[0] if session is not None else None
        places = (
            ("root", self.root),
            ("project", self.project),
            ("lane", self.lane),
            ("cli", cli),
            ("session_id", session.id if session is not None else None),
            ("folder", session.cwd if session is not None else None),
        )
        for name, value in places:
            if value is not None and not hasattr(self.event, name):
                text = os.fsencode(value).decode(errors="backslashreplace")
                data = data[:-1] + b',"%s":%s}' % (name.encode(), msgspec.json.encode(text))
        return data


class Stream:
    """Prints events to a stream: aligned and coloured for a person, or complete as JSON.

    A line that was cut ends with the id of its event (`short_id`). With `verbose`, internal events are printed too, and
    a CLI's notices about a failure are printed on lines of their own before the failure. `days` decides where a date is
    printed between the lines for a person.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        as_json: bool,
        plain: bool = False,
        verbose: bool = False,
        days: Days | None = None,
    ) -> None:
        self._stream = stream
        self._days = days or Days(since(0))
        self._ascii = plain or "utf" not in (getattr(stream, "encoding", None) or "utf-8").lower()
        self._json = as_json
        self._terminal = is_terminal(stream)
        self._colourful = is_colourful(stream) and not plain
        self._colours: dict[str, int] = {}
        self._verbose = verbose
        self._calls = Calls()
        self._trouble = HeldNotices()
        self._long = LongTurns()
        self._used: dict[tuple[str, str], events.MemberUsed] = {}
        self._told_used: events.MemberUsed | None = None
        self._silent: set[str] = set()
        self._failed: str | None = None  # id of the message whose failure was printed last
        self._threads: dict[str, int] = {}
        self._working: dict[str, str] = {}
        self._name_width = 8

    def batch(self, batch: Sequence[EventLine]) -> None:
        """Print events that came together, with their agents' names in one column."""
        if not self._json:
            self._widen_names(line.shown_event for line in batch)
            report = [line.event for line in batch if isinstance(line.event, events.MemberUsed)]
            self._used = {(event.agent, event.ts): event for event in report}
        for line in batch:
            if self._json:
                write(self._stream, safe_json(line.to_json().decode(), self._stream) + "\n", verbatim=True)
            else:
                self.event(line.shown_event)

    def print_team_state(self, shown: TeamShown, now: str) -> None:
        """Print the state of a team at the time `now` (RFC 3339): what each member does, and who is stuck."""
        for member in shown.members:
            if member.colour in team.COLOURS:
                self._colours[f"{member.member}@{shown.team.team}"] = team.COLOURS[member.colour]
        lines = [
            (events.Notice(text=text, ts=now, agent=f"{who}@{shown.team.team}"), mark)
            for who, mark, text in team.state_lines(shown)
        ]
        self._widen_names(event for event, _ in lines)
        for event, mark in lines:
            self._print(event, RenderedLine(mark, event.text))

    def print_event_in_full(self, batch: Sequence[EventLine], event_id: str) -> int:
        """Print the event with this id in full, and return 0. Raises NotFoundError if no event in the batch has this
        id."""
        found = 0
        for line in batch:
            shown = line.shown_event
            if isinstance(shown, events.ToolCalled):
                self._calls.on_called(shown)
            if short_id(shown) == event_id.lower():
                self._print_in_full(line)
                found += 1
        if not found:
            raise NotFoundError(
                f"no event {event_id} is kept", "the id is the last word of a line that was cut", subject=event_id
            )
        return 0

    def event(self, event: AnyEvent) -> None:
        """Print one event. For a person, leave out an event that only carries bookkeeping."""
        if self._json:
            write(self._stream, safe_json(events.encode(event).decode(), self._stream) + "\n", verbatim=True)
            return
        for call in self._calls.due_before(event):
            self._print(call, RenderedLine("⚙", calls.call_text(call)))
        self._print_notices(self._trouble.due_before(event))
        self._long.update(event)
        if not self._verbose and (is_internal(event) or self._trouble.hold_back(event)):
            return
        line = self._render(event)
        if line is not None:
            self._print(event, line)

    def print_running_turn(self, begun: Sequence[EventLine], now: str) -> None:
        """Record a running turn from its events so far (`begun`), and print its progress at the time `now` (RFC
        3339)."""
        for line in begun:
            event = line.shown_event
            if isinstance(event, events.ToolCalled):
                self._calls.on_called(event)
            elif isinstance(event, events.ToolReturned):
                self._calls.take_returned(event)
            self._long.update(event)
        report = self._long.progress_of(begun[0].shown_event.agent, now, self._calls) if begun else None
        if report is not None:
            self._print(report[0], RenderedLine("▶", report[1]), at=now)

    def tick(self, now: str) -> None:
        """Print the calls and the turns that have run for long at the time `now` (RFC 3339), and notices that were held
        back until then."""
        for call in self._calls.due(now):
            self._print(call, RenderedLine("⚙", calls.call_text(call)))
        self._print_notices(self._trouble.due(now))
        for event, text in self._long.due(now, self._calls):
            self._print(event, RenderedLine("…", text), at=now)

    def end(self) -> None:
        """Print everything that was held back, such as calls that did not return, then flush. No more events come after
        this."""
        for call in self._calls.due_at_end():
            self._print(call, RenderedLine("⚙", calls.call_text(call)))
        self._print_notices(self._trouble.due_at_end())
        self.flush()

    def flush(self) -> None:
        """Flush everything that was printed."""
        self._stream.flush()

    def _print_notices(self, notices: Iterable[events.Notice]) -> None:
        for notice in notices:
            self._print(notice, RenderedLine("!", notice.text))

    def _print_in_full(self, line: EventLine) -> None:
        if self._json:
            self.batch((line,))
            return
        event = line.shown_event
        call = self._calls.take_returned(event) if isinstance(event, events.ToolReturned) else None
        rendered = self._render(event)
        if rendered is None and isinstance(event, events.ToolCalled):
            rendered = RenderedLine("⚙", f"{event.name} {bytes(event.input).decode()}")
        if rendered is None:
            return
        text = f"{rendered.text} {rendered.time}".rstrip()
        if call is not None and isinstance(event, events.ToolReturned):
            text = (
                f"{call.name} {bytes(call.input).decode()} {calls.duration_text(call, event)}".rstrip()
                + f"\n{event.output}"
            )
        self._print_date(event.ts)
        shown = escape_controls(f"{time_of_day(event.ts)} {_name_text(event)} {rendered.mark} {text}")
        write(self._stream, (ascii_only(shown) if self._ascii else shown) + "\n")

    def _widen_names(self, batch: Iterable[AnyEvent]) -> None:
        longest = max((display_width(collapse_to_line(_name_text(event))) for event in batch), default=0)
        self._name_width = min(_LONGEST_NAME, max(self._name_width, longest))

    def _print_date(self, ts: str) -> None:
        heading = self._days.heading(ts)
        if heading:
            write(self._stream, f"{ascii_only(heading) if self._ascii else heading}\n")

    def _print(self, event: AnyEvent, line: RenderedLine, *, at: str = "") -> None:
        self._print_date(at or event.ts)
        self._widen_names((event,))
        fit = ascii_only if self._ascii else str
        mark = line.mark.translate(team.ASCII_MARKS) if self._ascii else line.mark
        columns = _columns() if self._terminal else _WIDTH_IN_A_PIPE
        when = f"{time_of_day(at or event.ts)} "
        name = truncate(fit(collapse_to_line(_name_text(event))), self._name_width)
        name += " " * (self._name_width - display_width(name))
        indent = "  " if getattr(event, "parent", None) else ""
        room = max(20, columns - len(when) - display_width(name) - len(indent) - display_width(mark) - 2)
        text, tail = fit(fold(line.text)), fit(f" ({collapse_to_line(line.time)})") if line.time else ""
        result = fit(f" → {fold(line.result)}") if line.result.strip() else ""
        if not line.is_whole and display_width(text) + display_width(result) + len(tail) > room:
            tail += f" {short_id(event)}"
            left = max(8, room - len(tail))
            text = _cut_text(text, max(left - display_width(result), left // 2 if result else left), fit)
            text = _cut_text(text + result, left, fit)
        else:
            text += result
        if not self._colourful:
            write(self._stream, f"{when}{name} {indent}{mark} {text}{tail}\n")
            return
        colour = self._colours.setdefault(event.agent, _COLOURS[len(self._colours) % len(_COLOURS)])
        loud = {"✗": 31, "!": 31, "†": 31, "?": 33}.get(line.mark[:1])
        mark = f"\x1b[{loud}m{mark}\x1b[0m" if loud else f"\x1b[{colour}m{mark}\x1b[0m"
        body = f"{text}\x1b[2m{tail}\x1b[0m" if tail else text
        write(self._stream, f"\x1b[2m{when}\x1b[0m\x1b[{colour}m{name}\x1b[0m {indent}{mark} {body}\n")

    def _render(self, event: AnyEvent) -> RenderedLine | None:
        match event:
            case events.ToolReturned() if event.call_id not in self._silent or event.is_error:
                return self._render_returned(event)
            case events.MemberWorking():
                self._working[event.agent] = event.ts
            case events.MemberIdle():
                seconds = calls.seconds_between(self._working.pop(event.agent, ""), event.ts)
                line = team.team_event_text(event)
                return line and RenderedLine(*line, durations.show(seconds) if seconds is not None else "")
            case events.Text() if (used := self._used.pop((event.agent, event.ts), None)) is not None:
                self._told_used = used
                return RenderedLine("│", event.text, team.usage_text(used))
            case events.MemberUsed() if event is self._told_used:
                return None
            case events.MailSent(kind="message"):
                line = team.team_event_text(event)
                return line and RenderedLine(
                    line[0] + self._thread_number(" ".join(sorted((event.sender, event.to)))), line[1]
                )
            case events.MessageQueued() if event.thread and event.sender != "human":
                mark, text = sign_and_text(event) or ("", "")
                return RenderedLine(mark + self._thread_number(event.thread), text)
            case events.ToolCalled() if team.has_own_event(event):
                self._silent.add(event.call_id)
                return None
            case events.ToolReturned():
                self._silent.discard(event.call_id)
                return None
            case events.ToolCalled():
                self._calls.on_called(event)
                return None
            case events.MemberJoined() if event.colour in team.COLOURS:
                self._colours[event.agent] = team.COLOURS[event.colour]
            case events.MessageDead() if event.message_id == self._failed:
                return None  # the line about its failure says so already
            case events.TurnFinished():
                return self._render_finished(event)
            case events.ImageSeen() if event.path:
                return RenderedLine("·", image_text(event), is_whole=True)
        line = sign_and_text(event)
        return RenderedLine(*line) if line is not None else None

    def _render_finished(self, event: events.TurnFinished) -> RenderedLine:
        mark, text = sign_and_text(event) or ("", "")
        if event.exit_code and event.message_id is not None:
            self._failed = event.message_id
        said = self._trouble.last_notice(event)
        return RenderedLine(mark, f"{text}; its CLI said: {said}" if said else text)

    def _thread_number(self, thread: str) -> str:
        """Return the number, as text, that this stream gives to a conversation."""
        return str(self._threads.setdefault(thread, len(self._threads) + 1))

    def _render_returned(self, event: events.ToolReturned) -> RenderedLine:
        call = self._calls.take_returned(event)
        about = calls.call_text(call) if call is not None else "tool"
        result = "the turn ended first" if event.unfinished else event.output
        mark = "✗" if event.is_error or event.unfinished else "✓"
        return RenderedLine(mark, about, calls.duration_text(call, event) if call is not None else "", result)


def _columns() -> int:
    """Return the current width of the terminal in columns."""
    from shutil import get_terminal_size

    return get_terminal_size((80, 24)).columns


def _name_text(event: AnyEvent) -> str:
    return _SESSION_NAME.sub(r"@\1", event.agent).replace("@session-", "@")


def _cut_text(text: str, width: int, fit: Callable[[str], str]) -> str:
    """Return the text cut to at most `width` columns. `fit` converts `…` for the stream, and the width of the converted
    sign counts."""
    return text if display_width(text) <= width else fit(truncate(text, width + 1 - display_width(fit("…"))))


def short_id(event: AnyEvent) -> str:
    """Return five characters that identify an event. They are the same at any time and from any source of the event."""
    if isinstance(event, events.MailSent):
        key = f"mail/{event.agent}/{event.to}/{event.text}"  # not every source of a mail knows the mail's id
        return _short_id(key)
    key = "" if event.seq else _TRAILING_NUMBER.sub("", getattr(event, "key", ""))
    if not key:
        tag = str(event.__struct_config__.tag)
        key = f"{tag}/{event.agent}/{event.ts}/{event.seq}/{getattr(event, 'call_id', '')}"
    return _short_id(key)


def _short_id(key: str) -> str:
    import base64
    import hashlib

    return base64.b32encode(hashlib.sha256(key.encode("utf-8", "replace")).digest())[:5].decode().lower()
