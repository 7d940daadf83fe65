"""Where the terminal of an agent stays between its turns, if its holder lives longer than one.

The next turn that wants the same (`ReuseKey`) types into it; any other ends it first. Owns when it is over: too long
idle, exited, another session. Must not know queues, locks or other agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from beam.base import durations
from beam.base.clock import Clock
from beam.base.errors import BeamError
from beam.model import events
from beam.model.events import Event
from beam.model.settings import AgentSettings

if TYPE_CHECKING:
    from beam.turns.terminal.living import Living


class Note(Protocol):
    """Writes an event that belongs to no turn into the journal."""

    def __call__(self, body: Event, *, sync: bool = False) -> Event: ...


class ReuseKey(Struct, frozen=True, kw_only=True):
    """What two turns must have in common to run in one process."""

    adapter: str
    executable: str
    session_id: str | None
    model: str | None
    access: str
    cwd: str
    settings: AgentSettings
    folder_trusted: bool
    leave_out: bool
    folder_env: Mapping[str, str]


class ProcessKeeper:
    """The terminal of one agent. `directory` is the agent's; `note` writes what happens between turns; `keeps`: a
    terminal may stay here after its turn."""

    def __init__(self, directory: Path, note: Note, clock: Clock, *, keeps: bool = False) -> None:
        self.directory = directory
        self.keeps = keeps
        self.clock = clock
        self.living: Living | None = None  # between turns only
        self.likeness: ReuseKey | None = None
        self.unwanted = ""  # why it has to go, if somebody said so
        self.on_exit: Callable[[], None] = _nobody
        self._note = note
        self._seconds = 0.0
        self._since = 0.0

    @property
    def socket(self) -> Path:
        """Where others look at it."""
        return self.directory / "terminal.sock"

    def cast(self, turn: int) -> Path:
        """Where the recording of a turn belongs."""
        return self.directory / "casts" / f"{turn}.cast"

    def needs(self, scratch: Path) -> bool:
        """Whether the kept terminal was started with files in there; then it removes them itself."""
        return self.living is not None and self.living.scratch == scratch

    def park(self, living: Living, likeness: ReuseKey, seconds: float) -> None:
        """It stays, for at most so long without a turn or a viewer."""
        self.living, self.likeness = living, likeness
        self.unwanted = ""
        self._seconds, self._since = seconds, self.clock.monotonic()
        living.notice = lambda text: self.noticed(f"{text}, between two turns")
        living.ended.add_done_callback(lambda _: self.on_exit())

    def noticed(self, text: str) -> None:
        """Says it in the journal, outside any turn. What can't be written is not worth the terminal."""
        try:
            self._note(events.Notice(code="terminal", text=text))
        except BeamError as error:
            self.unwanted = error.message

    async def take(self, likeness: ReuseKey) -> Living | None:
        """The terminal, for a turn that wants this; None where there is none, and one that is unlike was ended."""
        living, same = self.living, self.likeness == likeness
        if living is not None and same and not living.gone and not self.unwanted:
            self.living = None
            return living
        await self.end(self.unwanted or ("" if same else "the next turn wants another session or other settings"))
        return None

    def over(self, session_id: str | None) -> str:
        """Why it has to go now; "" while it may stay. `session_id` is the agent's current one."""
        living = self.living
        if living is None:
            return ""
        if living.gone:
            return "it exited"
        if self.unwanted:
            return self.unwanted
        if self.likeness is not None and self.likeness.session_id != session_id:
            return "its session was put aside"
        if living.viewers.count:
            self._since = self.clock.monotonic()
        if self.clock.monotonic() - self._since >= self._seconds:
            return f"no turn for {durations.show(self._seconds)}"
        return ""

    def due(self) -> float | None:
        """When time alone is a reason to look again (monotonic seconds); None without a terminal."""
        return None if self.living is None else self._since + self._seconds

    async def end(self, why: str, *, hard: Callable[[], bool] = lambda: False) -> None:
        """Asks it to quit, ends it with all that it started, and says so in the journal."""
        living, self.living, self.likeness = self.living, None, None
        if living is None:
            return
        exited_itself = living.gone
        try:
            ended = await living.quit(hard=hard)
        finally:
            await asyncio.shield(living.close(why or "it exited"))
        self._note(living.exited(ended, None if exited_itself else why), sync=True)

    def drop(self) -> None:
        """Ends it at once, unsaid: the next holder finds it in the journal, and nothing of it."""
        living, self.living, self.likeness = self.living, None, None
        if living is not None:
            living.drop()


def _nobody() -> None:
    """Nobody waits for it."""
