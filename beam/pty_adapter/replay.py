"""Feeds a recorded terminal to the state machine that detects the end of a turn, with the times of the recording.

Reads asciicasts, and raw bytes with the times of their arrival (`NAME.raw`, `NAME.timeline.jsonl`). Pure.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from msgspec import Struct, structs

from beam.agents import registry
from beam.agents.base import HasTerminal
from beam.base.errors import UnsupportedError
from beam.model.screen_profile import GENERIC_PROFILE, Profile
from beam.pty_adapter import cast
from beam.pty_adapter.cast import Cast, Moment, NoCastError
from beam.pty_adapter.explain import DecidingRow, deciding_rows, is_unknown_screen
from beam.pty_adapter.screen import Screen, Signal, View
from beam.pty_adapter.turn_end import STRANGE_S, State, TurnEnd

TICK_S = 0.05
FRAME_S = 0.25
AFTER_S = 5.0  # after the last moment: silence may decide something
_PASTE = re.compile(r"\x1b\[20[01]~")
_TITLES = (0, 1, 2)


class Observation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One observation at `t` seconds: a new `state` with its evidence (`via`, `reason`), a `dialog` on the screen, a
    `signal` (the number of an OSC sequence) with its `text`, a new `title`, a `mark` of the recording, or a pressed
    `key` (Enter). If explanations were requested, `because` are the rows that decided, and `unknown` are the rows of a
    screen that stopped changing and matches nothing in the profile."""

    t: float
    state: str | None = None
    via: str | None = None
    reason: str | None = None
    dialog: str | None = None
    signal: int | None = None
    text: str | None = None
    title: str | None = None
    mark: str | None = None
    key: str | None = None
    because: tuple[DecidingRow, ...] = ()
    unknown: tuple[str, ...] = ()


def read(
    data: bytes, timeline: bytes | None = None, *, columns: int = 100, rows: int = 40, enters: Sequence[float] = ()
) -> Cast:
    """Return the recording in `data`. If there is a `timeline`, or if `data` is not an asciicast, `data` is the raw
    output of a terminal with this number of columns and rows.

    `enters` are the times (seconds) at which Enter was pressed, for a recording that does not contain them. Raises
    NoCastError.
    """
    recording = cast.read(data) if timeline is None and data[:1] == b"{" else _read_raw(data, timeline, columns, rows)
    if not enters:
        return recording
    moments = [*recording.moments, *(Moment(seconds, "i", "\r") for seconds in enters)]
    return structs.replace(recording, moments=tuple(sorted(moments, key=lambda moment: moment.seconds)))


def _read_raw(data: bytes, timeline: bytes | None, columns: int, rows: int) -> Cast:
    moments, at, now = [], 0, 0.0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for number, line in enumerate((timeline or b"").splitlines(), 1):
        try:
            entry = json.loads(line)
            now = float(entry["t"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise NoCastError(f"line {number} of the timeline has no time") from error
        if not -cast.LONGEST_S <= now <= cast.LONGEST_S:
            raise NoCastError(f"line {number} of the timeline has an impossible time")
        size = entry.get("n")
        if isinstance(size, int):
            moments.append(Moment(now, "o", decoder.decode(data[at : at + size])))
            at += size
    moments.append(Moment(now, "o", decoder.decode(data[at:])))
    return Cast(columns=columns, rows=rows, title="", moments=tuple(moments))


def replay(recording: Cast, profile: Profile, *, explain: bool = False) -> Iterator[Observation]:
    """Yield the observations of the state machine in order. With `explain`, the observations contain the rows that
    decided."""
    return _Replay(recording, profile, explain=explain).run()


def profile_of(adapter: str | None) -> Profile:
    """Return the profile of this adapter's screen. If `adapter` is None, return the generic profile for any program.

    Raises NotFoundError for an unknown adapter, UnsupportedError for an adapter without a screen profile.
    """
    if adapter is None:
        return GENERIC_PROFILE
    found = registry.adapter(adapter)
    if not isinstance(found, HasTerminal):
        raise UnsupportedError(f"{adapter} has no terminal face", "beam agent list --all", subject=adapter)
    return found.terminal.profile


class _Replay:
    def __init__(self, recording: Cast, profile: Profile, *, explain: bool) -> None:
        self.explain = explain
        self.changed = 0.0
        self.unknown = ""
        self.recording = recording
        self.profile = profile
        self.screen = Screen(recording.columns, recording.rows)
        self.end = TurnEnd(profile, now=0.0)
        self.view = View(())
        self.fed = -1
        self.framed = 0.0
        self.is_sending = False
        self.state: tuple[State, str] = (State.STARTING, "")
        self.dialog: str | None = None
        self.last = _last_enters(recording, profile)

    def run(self) -> Iterator[Observation]:
        yield Observation(t=0.0, state=self.state[0])
        now, number = 0.0, 0
        moments = self.recording.moments
        until = (moments[-1].seconds if moments else 0.0) + AFTER_S
        while now <= until and not self.end.ended:
            while number < len(moments) and moments[number].seconds <= now:
                yield from self._moment(number, moments[number])
                number += 1
            yield from self._look(now)
            now = round(now + TICK_S, 3)

    def _moment(self, number: int, moment: Moment) -> Iterator[Observation]:
        if moment.kind == "o":
            self.screen.feed(moment.text.encode("utf-8", "replace"))
        elif moment.kind == "m":
            yield Observation(t=moment.seconds, mark=moment.text)
        elif moment.text == self.profile.submit:
            yield from self._enter(number, moment.seconds)
        elif self.end.state is State.READY and not self.is_sending:
            self._begin(number)

    def _enter(self, number: int, now: float) -> Iterator[Observation]:
        yield Observation(t=now, key="enter")
        if self.end.state is State.STARTING:  # whoever recorded it did not wait
            self.end.state = State.READY
        if self.end.state is State.READY and not self.is_sending:
            self._begin(number)
        if self.is_sending:
            self.end.on_entered(now, last=number in self.last)
            self.is_sending = number not in self.last
        yield from self._state(now)

    def _begin(self, number: int) -> None:
        """Begin a message. Its text is the text that is typed from this moment on, up to Enter."""
        moments = self.recording.moments
        following = (moments[at] for at in range(number, len(moments)))
        typed = (moment for moment in following if moment.kind == "i")
        text = "".join(moment.text for moment in takewhile(lambda each: each.text != self.profile.submit, typed))
        self.end.begin_message(_PASTE.sub("", text))
        self.is_sending = True

    def _look(self, now: float) -> Iterator[Observation]:
        signals = self.screen.take_signals()
        for signal in signals:
            yield _observe_signal(signal, now)
        if not self.screen.is_drawing:
            self.framed = now
        if self.fed != self.screen.bytes:
            before, self.view, self.fed = self.view, self.screen.view(), self.screen.bytes
            self.changed = now if before.rows != self.view.rows else self.changed
        self.end.record_signals(signals, now)
        self.end.look(self.view, now, whole=now - self.framed < TICK_S or now - self.framed > FRAME_S)
        dialog = self.end.reading.dialog.name if self.end.reading.dialog is not None else None
        if dialog != self.dialog:
            self.dialog = dialog
            if dialog is not None:
                yield Observation(t=now, dialog=dialog, because=self._deciding_rows())
        if (
            self.explain
            and now - self.changed >= STRANGE_S
            and is_unknown_screen(self.end.profile, self.view, self.end.reading)
        ):
            yield from self._unknown(now)
        yield from self._state(now)

    def _deciding_rows(self) -> tuple[DecidingRow, ...]:
        return deciding_rows(self.end.profile, self.view, self.end.reading) if self.explain else ()

    def _unknown(self, now: float) -> Iterator[Observation]:
        """Yield an observation of a screen that matches nothing in the profile, once for each such screen."""
        if self.unknown != self.view.text:
            self.unknown = self.view.text
            rows = tuple(row for row in self.view.rows if row.strip())
            yield Observation(t=now, unknown=rows, because=self._deciding_rows())

    def _state(self, now: float) -> Iterator[Observation]:
        if (self.end.state, self.end.via) != self.state:
            self.state = (self.end.state, self.end.via)
            why = self.end.via or None, self.end.reason or None
            yield Observation(t=now, state=self.end.state, via=why[0], reason=why[1], because=self._deciding_rows())


def _last_enters(recording: Cast, profile: Profile) -> set[int]:
    """Return the numbers of the moments that are the last Enter of a message. Every Enter counts as such, unless beam's
    marks in the recording show which Enters belong to one message."""
    found: set[int] = set()
    inside, last = False, -1  # of this message
    for number, moment in enumerate(recording.moments):
        if moment.kind == "m":
            inside, last = moment.text == "typing", -1
        elif moment.kind == "i" and moment.text == profile.submit:
            if inside:
                found.discard(last)
            found.add(number)
            last = number
    return found


def _observe_signal(signal: Signal, now: float) -> Observation:
    if signal.number in _TITLES:
        return Observation(t=now, title=signal.text)
    return Observation(t=now, signal=signal.number, text=signal.text)
