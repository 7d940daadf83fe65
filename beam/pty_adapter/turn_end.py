"""The state machine of a turn on a terminal, with the evidence for each state.

    STARTING   nothing is known yet
    READY      the agent takes a message
    SENT       Enter was pressed; no evidence yet that the agent took the text
    ACCEPTED   the agent took the text
    BUSY       the agent works
    WAITING    the agent asks something: a known dialog, or a screen that fits no other state
    DONE       the agent is idle again
    ERROR      the agent is idle again and reports that the turn failed
    EXITED     the agent's process ended
    STALLED    nobody knows what the agent waits for

These kinds of evidence can end a turn, the strongest first: the agent's own transcript, the state that the agent
reports to the terminal (OSC 7501, 133), its window title, the structure of its screen. A title or a screen counts only
after it has shown work in this turn, and only if it stays the same for a time. If stronger evidence says that the agent
works, weaker evidence is ignored. Silence never means that a turn is done; after a long silence the state is STALLED.

A command that runs in a shell can print any report and any prompt. So OSC 7501 counts only if the profile says that the
agent sends it, and OSC 133 only if the profile says so or the program sent it before its first message. OSC 133 also
needs the prompt on the screen. If the profile names OSC 133, the prompt counts only while the program itself has the
terminal: it reads single keys, in the foreground, as it did before the message was typed.

Sans-I/O: views, signals and times in seconds go in. Does not depend on bytes, processes, agents.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import structs

from beam.model.screen_profile import Profile
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.block import Block, pattern
from beam.pty_adapter.explain import is_unknown_screen
from beam.pty_adapter.profile import Reading
from beam.pty_adapter.screen import Signal, View

READY_S = 0.3  # a start-up screen may flicker
SIGNAL_S = 0.2  # the last paint may follow the signal
TITLE_S = 0.8
SCREEN_S = 1.2
TEXT_TAKEN_TIMEOUT_S = 10.0  # after Enter, until something shows that the text was taken
REDRAW_S = 60.0  # the same, while the composer is not on the screen: the agent draws something else
BARE_S = 5.0  # a prompt that comes back without an answer
UNKNOWN_S = 3.0
STRANGE_S = 4.5
PATIENCE_S = 3.0  # added, if a transcript should report the end first
WAITS_S = 30.0  # added, if a transcript says that the agent waits for work in the background


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    SENT = "sent"
    ACCEPTED = "accepted"
    BUSY = "busy"
    WAITING = "waiting"
    DONE = "done"
    ERROR = "error"
    EXITED = "exited"
    STALLED = "stalled"


_FINAL_STATES = frozenset({State.DONE, State.ERROR, State.EXITED, State.STALLED})
_ALWAYS_POSSIBLE = frozenset({State.WAITING, State.EXITED, State.STALLED})
TRANSITIONS: dict[State, frozenset[State]] = {
    State.STARTING: _ALWAYS_POSSIBLE | {State.READY},
    State.READY: _ALWAYS_POSSIBLE | {State.SENT, State.STARTING},
    State.SENT: _ALWAYS_POSSIBLE | {State.ACCEPTED, State.BUSY},
    State.ACCEPTED: _ALWAYS_POSSIBLE | {State.BUSY, State.DONE, State.ERROR},
    State.BUSY: _ALWAYS_POSSIBLE | {State.DONE, State.ERROR},
    State.WAITING: _ALWAYS_POSSIBLE
    | {State.STARTING, State.BUSY, State.DONE, State.ERROR},  # a transcript may know better
    **{state: frozenset() for state in _FINAL_STATES},
}
_PROMPT_MARK_OSC = 133  # the number of the escape sequence that marks a prompt
STRUCTURED_EVIDENCE = ("history", "osc7501", "osc133")


class IllegalMoveError(Exception):
    """The transition between two states is not allowed. The state is unchanged."""


class TurnEnd:
    """The state machine for one turn. `has_history`: a transcript will report when the turn ends. `resumes`: the agent
    was started to continue a session. `marks_prompt`: in an earlier turn, the program was found to mark its prompt."""

    def __init__(
        self,
        profile: Profile,
        *,
        now: float,
        has_history: bool = False,
        resumes: bool = False,
        marks_prompt: bool = False,
    ) -> None:
        self.profile = profile
        self.state = State.STARTING
        self.via = ""  # what decided the state
        self.reading = Reading()
        self.reason = ""
        self.marks_prompt = marks_prompt or _PROMPT_MARK_OSC in profile.signals
        self._patience = PATIENCE_S if has_history else 0.0
        self._waits = 0.0  # seconds
        self._loaded = not (resumes and profile.resumed_rows)
        self._since = now
        self._changed = now
        self._idle_since: float | None = None
        self._view = View(())
        self._sent_at: float | None = None
        self._composer_missing_at = now  # when the composer was last seen to be missing
        self._sending = False
        self._text = ""
        self._command = False
        self._echoes = 0
        self._position = 0
        self._entered_at = (0, 0)  # rows begun by then, and the number of the last climb
        self._pastes_ended = 0
        self._work_evidence: set[str] = set()  # which evidence has shown the agent at work since Enter
        self._signal: tuple[Signal, float] | None = None  # the signal that says that the turn is over, and when it came
        self._learned = False
        self._by_lines = False
        self._keys = True
        self._foreground = 0  # the process group in the foreground of the terminal; 0: unknown
        self._at_prompt = True, 0  # the same two, when the message was typed
        self._spent: Block | None = None  # the dialog that has its answer, while it is left where it was
        self._answered: Block | None = None  # the last such dialog: what is left of it asks nothing
        self._read_by: Profile | None = None

    @property
    def ended(self) -> bool:
        """Return whether the state is final."""
        return self.state in _FINAL_STATES

    @property
    def is_structured(self) -> bool:
        """Return whether the evidence for the state is a report of the agent itself, and not a screen or a report that
        a command could have printed."""
        if self.via == f"osc{_PROMPT_MARK_OSC}":
            return _PROMPT_MARK_OSC in self.profile.signals and self._at_prompt[0]
        return self.via in STRUCTURED_EVIDENCE

    @property
    def position(self) -> int:
        """Return the cursor's line, counted from the first line ever shown."""
        return self._view.scrolled + self._view.row

    # -- what happens --------------------------------------------------------------------------------------------------

    def begin_message(self, text: str, *, command: bool = False) -> None:
        """Begin a message: its text will be typed from now on.

        A `command` is carried out by the agent's screen itself, and no transcript reports it. Raises IllegalMoveError
        unless the agent is ready.
        """
        if self.state is not State.READY:
            raise IllegalMoveError(f"nothing is typed while the agent is {self.state}")
        if not self.profile.prompt:
            known = profiles.learn_prompt(self.profile, self._view)
            self._learned = known is not None
            self._by_lines = not self._keys  # the system edits its lines: it can't draw a prompt while it works
            self.profile = known or self.profile
        self._sending, self._text, self._command = True, text, command
        self._at_prompt = self._keys, self._foreground
        self._patience = 0.0 if command else self._patience
        self._echoes = profiles.count_echoes(self.profile, self._view, text)
        self._pastes_ended = self._view.pastes_ended

    def on_entered(self, now: float, *, last: bool = True) -> None:
        """Record that Enter was pressed. `last`: nothing more is typed for this turn."""
        if self.state is State.READY:
            self._move(State.SENT, now, "")
        if last:
            self._sending = False
            self._sent_at = now
            self._position = self.position
            self._entered_at = self._view.rows_begun, self._view.climbs[-1][0] if self._view.climbs else 0
            self._idle_since = None
            self._signal = None

    def on_exited(self, now: float) -> None:
        """Record that the agent's process ended."""
        if not self.ended:
            self._move(State.EXITED, now, "exit")

    @property
    def is_starting(self) -> bool:
        """Return whether no message was sent yet."""
        return self._sent_at is None

    def is_strange(self, now: float) -> bool:
        """Return whether a starting agent's screen has not changed for some time, but shows nothing that the agent's
        profile describes."""
        starts = self.state is State.STARTING and bool(self.profile.prompt) and not self.profile.at_cursor
        return starts and now - self._changed >= STRANGE_S and is_unknown_screen(self.profile, self._view, self.reading)

    def on_answered(self, now: float, block: Block | None = None) -> None:
        """Record that the open dialog was answered.

        The screen before the answer is no longer evidence. The dialog in `block` is ignored as long as its rows stay in
        place.
        """
        self._spent = self._answered = block
        self.reading = self._without_answered(self.reading, self._view)
        if self.state is State.WAITING:
            self._move(State.STARTING if self._sent_at is None else State.BUSY, now, "")
            self._idle_since = None
            self._work_evidence.add("screen")

    def report_state(self, state_name: str, now: float, *, error: str | None = None) -> None:
        """Record the state that the agent's transcript reports: `working`, `waiting` (for work in the background) or
        `done`. `error` is the reason if the turn failed."""
        if self._sent_at is None or self.ended:
            return
        self._waits = WAITS_S if state_name == "waiting" else 0.0
        if state_name == "done" and self.reading.block is None:
            self._accept(now, "history")
            self.reason = error or ""
            self._move(State.ERROR if error else State.DONE, now, "history")
        elif state_name in ("working", "waiting"):
            self._work_evidence.add("history")
            self._accept(now, "history")

    def record_signals(self, signals: Iterable[Signal], now: float) -> None:
        """Record signals of the agent to the terminal."""
        for signal in signals:
            state_name = _reported_state(signal)
            if state_name == "" or self.ended:
                continue
            if (
                signal.number == _PROMPT_MARK_OSC
                and state_name == "done"
                and self._sent_at is None
                and not self._sending
            ):
                self.marks_prompt = True
            if not self._is_own_signal(signal):
                continue
            name = f"osc{signal.number}"
            if state_name == "asking":
                if self.state is not State.WAITING:
                    self._move(State.WAITING, now, name)
            elif self._sent_at is None:
                continue
            elif state_name == "working":
                self._work_evidence.add(name)
                self._signal = None
                self._accept(now, name)
            elif name in self._work_evidence or signal.number == _PROMPT_MARK_OSC:
                self._signal = (signal, now)

    def look(
        self, view: View, now: float, *, whole: bool = True, reads_keys: bool = True, foreground: int = 0
    ) -> State:
        """Record this view of the screen and return the resulting state.

        A view that is not `whole` shows an incomplete frame. It may show that the agent works or asks, but never that
        the agent is done. `reads_keys`: the terminal is in raw mode. `foreground` is the process group in the
        foreground of the terminal, 0 if it is unknown.
        """
        if self.ended:
            return self.state
        before = self._view
        if (view.rows, view.scrolled, view.row, view.column) != (
            before.rows,
            before.scrolled,
            before.row,
            before.column,
        ):
            self._changed = now
        if view is not before or self._read_by is not self.profile:
            self.reading, self._read_by = self._without_answered(profiles.read(self.profile, view), view), self.profile
        self._view = view
        self._keys, self._foreground = reads_keys, foreground
        if whole and (self.reading.idle or self._is_at_mark()) and not self._runs_command():
            self._idle_since = now if self._idle_since is None else self._idle_since
        else:
            self._idle_since = None
        self._loaded = self._loaded or profiles.has_resumed(self.profile, view)
        self._notice_work(view)
        self._step(now, whole=whole)
        return self.state

    # -- what follows --------------------------------------------------------------------------------------------------

    def _is_own_signal(self, signal: Signal) -> bool:
        """Return whether this report to the terminal can be the agent's own."""
        if signal.number in self.profile.signals:
            return True
        return signal.number == _PROMPT_MARK_OSC and self.marks_prompt and self.profile.at_cursor

    def _is_at_mark(self) -> bool:
        """Return whether the cursor is at an empty prompt that begins at the program's last mark.

        Such a prompt may follow an answer in the same row.
        """
        if self._signal is None or not self.profile.at_cursor or self._signal[0].number != _PROMPT_MARK_OSC:
            return False
        mark = self._signal[0]
        return profiles.has_prompt_at(self.profile, self._view, mark.line, mark.column)

    def _runs_command(self) -> bool:
        """Return whether a shell runs a command, because it does not read keys or is not in the foreground as it was
        at its prompt.

        Only programs that mark their prompt are known to behave so.
        """
        if self._sent_at is None or not self.profile.at_cursor or _PROMPT_MARK_OSC not in self.profile.signals:
            return False
        read_keys, foreground = self._at_prompt
        is_behind = foreground and self._foreground and self._foreground != foreground
        return bool(is_behind) or (read_keys and not self._keys)

    def _without_answered(self, reading: Reading, view: View) -> Reading:
        """Return the reading without a dialog that was already answered or that can't appear now.

        Dialogs about trust and access appear only before the first message.
        """
        if reading.question and self._answered is not None:
            asks = profiles.asks_something_else(self.profile, view, self._answered)
            reading = structs.replace(reading, question=asks)
        block, spent = reading.block, self._spent
        if spent is not None and not (block and block.line == spent.line and block.found.startswith(spent.found)):
            spent = self._spent = None
        if block is None or (spent is None and (self.is_starting or block.dialog.kind not in ("trust", "full"))):
            return reading
        return structs.replace(reading, block=None)

    def _notice_work(self, view: View) -> None:
        if self._sent_at is None:
            return
        profile = self.profile
        if self.reading.busy or (profile.at_cursor and self.reading.prompt is None and not self.reading.more):
            self._work_evidence.add("screen")
        if profile.at_cursor and view.pastes_ended > self._pastes_ended:
            self._work_evidence.add("screen")
        if self._title_says(profile.titles_busy):
            self._work_evidence.add("title")

    def _step(self, now: float, *, whole: bool) -> None:
        reading, quiet = self.reading, now - self._changed
        if reading.block is not None:
            if self.state is not State.WAITING:
                self._move(State.WAITING, now, "screen")
            return
        match self.state:
            case State.WAITING:
                if self.via == "screen" or reading.idle or reading.busy:
                    self.on_answered(now)
            case State.STARTING:
                self._start(now, quiet, whole=whole)
            case State.READY | State.SENT | State.ACCEPTED | State.BUSY if self._sent_at is not None:
                self._run(now, quiet, whole=whole)

    def _start(self, now: float, quiet: float, *, whole: bool) -> None:
        reading = self.reading
        known = bool(self.profile.prompt)
        if (
            whole
            and reading.ready
            and self._loaded
            and self._idle_since is not None
            and now - self._idle_since >= READY_S
        ):
            self._move(State.READY, now, "screen")
        elif not known and self._may_be_prompt() and quiet >= 1.0 and not reading.question:
            self._move(State.READY, now, "quiet")
        elif reading.question and quiet >= UNKNOWN_S:
            self._unknown(now)
        elif not known and quiet > self.profile.stall_seconds:
            self._stall(now, "it shows no prompt: nothing would tell when such a program is done")
        elif now - self._since > self.profile.start_seconds:
            self._stall(now, f"it was not ready after {self.profile.start_seconds:.0f} s")

    def _may_be_prompt(self) -> bool:
        """Return whether the screen of a program without a profile may show its prompt.

        If the operating system edits the program's input lines, the prompt is the text before the cursor, and there
        must be one.
        """
        return bool(self._view.text) and (self._keys or profiles.learn_prompt(self.profile, self._view) is not None)

    def _run(self, now: float, quiet: float, *, whole: bool) -> None:
        reading = self.reading
        assert self._sent_at is not None
        if self._work_evidence:
            self._accept(now, "screen")
        elif self.state is State.SENT and self._is_echoed():
            self._move(State.ACCEPTED, now, "screen")
        if self.state in (State.ACCEPTED, State.BUSY):
            if whole and (via := self._end_evidence(now)):
                error = self._error()
                self.reason = error or ""
                self._move(State.ERROR if error else State.DONE, now, via)
                return
            if reading.busy and self.state is not State.BUSY:
                self._move(State.BUSY, now, "screen")
        composes = bool(self.profile.prompt and self._view.text.strip()) and not self.profile.at_cursor
        is_unread = reading.question or (composes and reading.prompt is None)
        if is_unread and not reading.busy and quiet >= UNKNOWN_S:
            self._unknown(now)
        elif self.state is State.SENT and self._is_lost(now) and not self.profile.at_cursor:
            self._stall(now, f"nothing showed within {now - self._sent_at:.0f} s that the agent took the text")
        elif quiet > self.profile.stall_seconds:
            self._stall(now, f"nothing changed for {self.profile.stall_seconds:.0f} s")

    def _is_lost(self, now: float) -> bool:
        """Return whether the agent should have taken the text by now, so that the text seems lost."""
        assert self._sent_at is not None
        if self.profile.prompt and self.reading.prompt is None:
            self._composer_missing_at = now
        return (
            now - max(self._sent_at, self._composer_missing_at) > TEXT_TAKEN_TIMEOUT_S or now - self._sent_at > REDRAW_S
        )

    def _end_evidence(self, now: float) -> str:
        """Return the evidence that the turn is over; "" if there is none."""
        if self._sending:
            return ""
        if self._signal is not None:
            signal, since = self._signal
            if not self.profile.at_cursor:
                return f"osc{signal.number}" if now - since >= SIGNAL_S + self._patience else ""
            if self._idle_since is None:
                return ""
            if now - max(since, self._idle_since) >= SIGNAL_S + self._patience:
                return f"osc{signal.number}"
        if self._idle_since is None or self._says_working():
            return ""
        idle = now - self._idle_since - self._patience - self._waits
        profile = self.profile
        if self._title_says(profile.titles_idle) and "title" in self._work_evidence and idle >= TITLE_S:
            return "title"
        if idle < SCREEN_S:
            return ""
        if profile.at_cursor:
            has_worked = "screen" in self._work_evidence or not self._learned or self._by_lines
            return "screen" if self.position > self._position and (has_worked or self._wrote_below_prompt(now)) else ""
        if "screen" in self._work_evidence:
            return "screen"
        return "screen" if self._has_finished_line() else ""

    def _wrote_below_prompt(self, now: float) -> bool:
        """Return whether the program left the row of its prompt and wrote only below that row: an answer, and a new
        prompt.

        The program may do this between two views, so that no view shows it at work. If the program moved its cursor up,
        it may only have drawn its prompt in another place, which does not count.
        """
        view = self._view
        begun, number = self._entered_at
        climbs = [climb for climb in view.climbs if climb[0] > number]
        if view.alternate or view.rows_begun == begun or self.reading.prompt is None:
            return False
        if climbs and (climbs[0][0] > number + 1 or any(row != begun or to < self._position for _, row, to in climbs)):
            return False
        between = view.rows[max(0, self._position + 1 - view.scrolled) : self.reading.prompt - view.scrolled]
        return any(row.strip() for row in between) or now - self._changed >= BARE_S

    def _says_working(self) -> bool:
        """Return whether evidence stronger than the screen says that the agent still works."""
        if self._signal is None and self._work_evidence & set(STRUCTURED_EVIDENCE) - {"history"}:
            return self._error() is None  # some agents forget to report the end when they fail
        return self._title_says(self.profile.titles_busy) or self._title_says(self.profile.titles_asking)

    def _title_says(self, text: str) -> bool:
        return bool(text and pattern(text).search(self._view.title))

    def _error(self) -> str | None:
        """Return the reason why this turn failed, as the screen reports it; None if it reports none. Errors of earlier
        turns do not count."""
        return profiles.error_in(self.profile, profiles.answer_rows(self.profile, self._view, self._text))

    def _has_finished_line(self) -> bool:
        return profiles.has_finished(self.profile, profiles.answer_rows(self.profile, self._view, self._text))

    def _is_echoed(self) -> bool:
        if self.profile.at_cursor:
            return self.position > self._position
        if self._command and self.reading.prompt is not None and not self.reading.typed:
            self._work_evidence.add("screen")
            return True
        return not self.reading.typed and profiles.count_echoes(self.profile, self._view, self._text) > self._echoes

    def _accept(self, now: float, via: str) -> None:
        if self.state is State.SENT:
            self._move(State.ACCEPTED, now, via)

    def _unknown(self, now: float) -> None:
        self._move(State.WAITING, now, "unknown")

    def _stall(self, now: float, reason: str) -> None:
        self.reason = reason
        self._move(State.STALLED, now, "quiet")

    def _move(self, state: State, now: float, via: str) -> None:
        if state is self.state:
            return
        if state not in TRANSITIONS[self.state]:
            raise IllegalMoveError(f"no turn goes from {self.state} to {state}")
        self.state, self.via, self._since = state, via, now


def _reported_state(signal: Signal) -> str:
    """Return the state that a signal of the agent reports: working, done or asking; "" if the signal reports no
    state."""
    if signal.number == 7501:
        words = dict(part.partition("=")[::2] for part in signal.text.split(":"))
        return {"working": "working", "done": "done", "idle": "done", "blocked": "asking"}.get(
            words.get("state", ""), ""
        )
    if signal.number == _PROMPT_MARK_OSC:
        return {"A": "done", "C": "working"}.get(signal.text[:1], "")
    return ""
