"""Types a message into an agent's screen: pastes it once, checks that it is visible, and presses Enter until the agent
has taken it.

The text is pasted once, as a whole or in pieces, and never again. Enter is a separate key. It is repeated at most
twice, and only while the text is still in the composer. Does not depend on bytes, processes, or the answer.
"""

from __future__ import annotations

import re
from typing import Protocol

from beam.base.errors import UnsupportedError
from beam.model.screen_profile import Profile
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.block import pattern
from beam.pty_adapter.profile import Reading
from beam.pty_adapter.screen import View
from beam.pty_adapter.turn_end import State, TurnEnd

KEYS_S = 5.0  # in which the agent must begin to read key by key
ECHO_S = 10.0  # a screen that is still starting shows the text late
SETTLE_S = 0.1  # between the echo and Enter: some agents take an Enter right after a paste for a line break
PASTED_S = (0.3, 1.0)  # the same after a paste: as long as the echo took, but in these limits
TAKEN_S = 3.0  # a busy machine takes the text late, and another Enter would reach whatever follows
ENTERS = 3
NEXT_LINE_S = 60.0
_PIECE = re.compile(r"(?=[\s\S])(?:[^\n]{0,200}\n?){1,2}")


class KeyPort(Protocol):
    """The terminal and the clock that typing needs. `until` watches the screen until the condition `claim` is true, and
    returns whether it became true in time; `now` returns monotonic seconds."""

    async def press(self, keys: str) -> None: ...
    async def paste(self, text: str) -> None: ...
    def reads_keys(self) -> bool: ...
    def takes_pastes(self) -> bool: ...
    def view(self) -> View: ...
    def now(self) -> float: ...
    async def until(self, claim: Claim, seconds: float) -> bool: ...


class Claim(Protocol):
    def __call__(self) -> bool: ...


class NotTakenError(Exception):
    """The agent did not take the text, which may still be on its screen. The message says which step of typing
    failed."""


class Segment:
    """The lines on the screen that answer one Enter: from line `start` to the line of the next prompt, `end` (None: not
    known yet)."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end: int | None = None


def check_message(agent: str, profile: Profile, text: str, *, command: bool = False) -> None:
    """Raise UnsupportedError for a message that this agent would take for a command even with a blank before it. A
    `command` is not checked."""
    if not command and profile.never and pattern(profile.never).match(text):
        raise UnsupportedError(
            f"{agent} would take {text.strip()[:40]!r} on its screen for a command, and not for a message",
            "begin it with another word, or send it by another face",
            subject=agent,
        )


async def type_message(port: KeyPort, end: TurnEnd, text: str, *, command: bool = False) -> list[Segment]:
    """Type the message and send it; return one segment for each Enter.

    A `command` (`/context`) is meant for the agent's own screen and is typed as plain keys. Any other text is sent as a
    message, whatever its first character is. Raises NotTakenError.
    """
    profile = end.profile
    if profile.special and not command and pattern(profile.special).match(text):
        text = f" {text}"
    if profile.bracketed and not await port.until(port.takes_pastes, KEYS_S):
        raise NotTakenError("the agent does not take pastes")
    if profile.bracketed or profile.at_cursor:
        await port.until(port.reads_keys, KEYS_S)
    if end.ended:  # during the wait
        raise NotTakenError("the agent ended before it was given the message")
    if end.state is not State.READY:
        raise NotTakenError(f"the agent was {end.state} when it was to be given the message")
    end.begin_message(text, command=command)
    profile = end.profile
    plain = command or not port.takes_pastes()
    by_line = profile.by_line or (plain and "\n" in text)
    if by_line or profile.at_cursor:  # a line editor shows an empty row for a line break at the end
        text = text.rstrip("\n")
    lines = text.split("\n") if by_line else [text]
    segments: list[Segment] = []
    for number, line in enumerate(lines):
        if number and not await port.until(lambda: _is_at_next_prompt(end, segments[-1]), NEXT_LINE_S):
            raise NotTakenError(f"after line {number} there was no prompt for the next one")
        segments.append(await _type_line(port, end, line, plain=plain, last=number == len(lines) - 1))
    if profile.more and await port.until(lambda: end.reading.more and _is_below(end, segments[-1]), 0.3):
        segments[-1].end = end.position
        segments.append(await _type_line(port, end, "", plain=True, last=True))
    await _await_taken(port, end)
    return segments


async def _type_line(port: KeyPort, end: TurnEnd, line: str, *, plain: bool, last: bool) -> Segment:
    profile = end.profile
    if line:
        began = port.now()
        if plain:
            await port.press(_keys(line, profile))
        else:
            for piece in _pieces(line, profile):
                await port.paste(piece)
        seconds = ECHO_S + len(line) / 20_000
        if not await port.until(lambda: profiles.shows_text(profile, port.view(), end.reading, line), seconds):
            raise NotTakenError("the agent did not show the text that was typed")
        shortest, longest = PASTED_S
        took = port.now() - began
        await port.until(lambda: False, SETTLE_S if plain else min(longest, max(shortest, took)))
    has_asked = end.is_starting and end.state not in (State.READY, State.SENT)  # SENT: after an earlier line
    if has_asked or end.reading.block is not None:  # Enter would answer it
        raise NotTakenError("the agent asked something before the text was entered")
    segment = Segment(end.position + 1)
    end.on_entered(port.now(), last=last)
    await port.press(profile.submit)
    return segment


def _pieces(text: str, profile: Profile) -> list[str]:
    """Return the pieces to paste: the whole text, or several pieces if the agent would treat one long paste as somebody
    else's text."""
    rows = sum(1 + len(row) // (profile.columns // 2) for row in text.split("\n"))
    return _PIECE.findall(text) if rows <= profile.pieced_rows else [text]


async def _await_taken(port: KeyPort, end: TurnEnd) -> None:
    """Press Enter again while the text is still in the composer, until the agent has taken it or the attempts are used
    up."""
    typed = end.reading.typed
    for _ in range(ENTERS - 1):
        if await port.until(lambda: end.state is not State.SENT, TAKEN_S):
            return
        if end.profile.at_cursor or not typed or end.reading.typed != typed:
            return
        await port.press(end.profile.submit)


def _is_at_next_prompt(end: TurnEnd, segment: Segment) -> bool:
    """Return whether another line can be typed, at a prompt below the last segment. If so, set the end of that
    segment."""
    reading: Reading = end.reading
    if not (reading.more or (reading.prompt is not None and not reading.typed)) or not _is_below(end, segment):
        return False
    segment.end = end.position
    return True


def _is_below(end: TurnEnd, segment: Segment) -> bool:
    return end.position >= segment.start


def _keys(line: str, profile: Profile) -> str:
    """Return the keys that type the line. For a line editor, each tab is quoted (Ctrl+V), because an unquoted tab would
    complete a word."""
    from beam.pty_adapter.terminal import typable

    clean = typable(line)
    return clean.replace("\t", "\x16\t") if profile.at_cursor else clean
