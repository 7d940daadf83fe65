"""Recordings of turns: a folder with a file of journal lines for each agent. Each turn is written when it ends. A
replay reads the files, and answers instead of the agents.

A turn is answered by a recorded turn with the same prompt. What happens if there is none is `on_miss`. `stop`: the turn
fails. `nearest`: the agent's next recorded turn answers. `live`: the agent runs, and its turn is added to the
recording. Prompts are compared in the form that journals have: without secrets.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from beam.base import files
from beam.base.errors import BeamError, ConfigError, CorruptError, DiskError, NotFoundError
from beam.conversations.result import ReplayCounts
from beam.model import events
from beam.model.events import Event, MessageQueued, TurnFinished
from beam.model.message import Message, OnMiss, base_of
from beam.proxy.place import OpenFolder
from beam.secrets.redact import redact
from beam.turns.replay import RecordedTurn, without_raw_line

_LARGEST_FILE = 256 << 20
_MAX_TURNS = 100_000
_SHOWN_CHARACTERS = 40


class _Recorded(Struct):
    """One recorded turn, and whether it has answered already."""

    number: int
    prompt: str
    turn: RecordedTurn
    is_used: bool = False


def file_of(folder: Path, agent: str) -> Path:
    """Return the file of an agent's turns in a recording."""
    return folder / f"{base_of(agent)}.jsonl"


def has_turns(folder: Path) -> bool:
    """Return whether the folder exists and has recorded turns of an agent."""
    return next(folder.glob("*.jsonl"), None) is not None


class Recorder:
    """Records turns in a folder; `take` is called with their events. The first turn of an agent replaces the agent's
    file, and later turns are appended to it. With `adds`, the first turn is appended, too. Raises DiskError if the
    folder can't be made or written.

    A turn goes on even if it can't be recorded; `check` raises the error once the turn is over.
    """

    def __init__(self, folder: Path, *, adds: bool = False) -> None:
        nearest = _check_folder(folder)
        self.folder = folder
        self._missing = list(folder.relative_to(nearest).parts)
        self._place = self._close_with_recorder(
            OpenFolder(nearest)
        )  # agents may put a link in the folder's place later
        self._failure: BeamError | None = None
        self._adds = adds
        self._open: dict[str, list[Event]] = {}
        self._begun: set[str] = set()

    def take(self, event: Event) -> None:
        """Take an event of a message. If the event ends a turn, write the turn."""
        if event.message_id is None or self._failure is not None:
            return
        if isinstance(event, MessageQueued):
            self._open[event.message_id] = [event]
            return
        known = self._open.get(event.message_id)
        if known is None:
            return
        if isinstance(event, events.TurnStarted):
            del known[1:]  # an earlier attempt
        known.append(event)
        if isinstance(event, TurnFinished):
            try:
                self._write(event.agent, self._open.pop(event.message_id))
            except BeamError as error:
                error.hint = f"the turn is over, and its answer is kept: beam show {event.message_id}"
                self._failure = error

    def check(self) -> None:
        """Raise the error that kept a turn from being written, if there was one: DiskError or RefusedFileError."""
        if self._failure is not None:
            raise self._failure

    def beside(self, seen: Callable[[Event], None]) -> Callable[[Event], None]:
        """Return a function that gives an event to the recorder, and then to `seen`."""

        def both(event: Event) -> None:
            self.take(event)
            seen(event)

        return both

    def _close_with_recorder(self, place: OpenFolder) -> OpenFolder:
        """Return the same folder, which will be closed when this recorder is garbage-collected."""
        weakref.finalize(self, place.close)
        return place

    def _write(self, agent: str, turn: list[Event]) -> None:
        if any(isinstance(event, events.Notice) and event.code == "replayed" for event in turn):
            return
        path = file_of(self.folder, agent)
        lines = b"".join(events.encode(without_raw_line(event)) + b"\n" for event in turn)
        is_first = path.name not in self._begun and not self._adds
        self._begun.add(path.name)
        while self._missing:
            self._place = self._close_with_recorder(OpenFolder(self._place.path / self._missing[0], within=self._place))
            del self._missing[0]
        if is_first:
            self._place.put(path.name, lines)
            return
        with files.disk_action("write", path):
            handle = self._place.open_to_append(path.name)
            try:
                size = os.fstat(handle).st_size
                try:
                    files.write_all(handle, lines)
                except OSError:
                    os.ftruncate(handle, size)  # a part of a turn would make the whole recording unreadable
                    raise
            finally:
                os.close(handle)


def _check_folder(folder: Path) -> Path:
    """Return the folder or, if it does not exist, its nearest parent folder that does. Makes nothing. Raises DiskError
    if the folder could not be made or written."""
    nearest = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), folder)
    if not nearest.is_dir():
        raise DiskError(f"can't record into {folder}: {nearest} is no folder", "name a folder", subject=str(folder))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise DiskError(f"can't record into {folder}: {nearest} can't be written", "name another", subject=str(folder))
    return nearest


class Replay:
    """Recorded turns of a folder, which answer in place of agents. `counts` says how well the recorded turns fit."""

    def __init__(self, folder: Path, on_miss: OnMiss) -> None:
        self.folder = folder
        self.on_miss = on_miss
        self.counts = ReplayCounts()
        self._turns: dict[str, list[_Recorded]] = {}
        if not folder.is_dir():
            raise NotFoundError(f"there is no recording {folder}", "make one: --record DIR", subject=str(folder))

    @property
    def needs_agents(self) -> bool:
        return self.on_miss == "live"

    def take(self, message: Message) -> RecordedTurn | None:
        agent, prompt = base_of(message.to), redact(message.text)[0]
        turns = self._turns_of(agent)
        position = next((place for place, kept in enumerate(turns) if not kept.is_used), len(turns))
        same = next((kept for kept in turns if not kept.is_used and kept.prompt == prompt), None)
        if same is not None:
            return self._use(same, "exact" if same is turns[position] else "minor")
        if self.on_miss == "nearest" and position < len(turns):
            return self._use(turns[position], "major")
        if self.on_miss == "live":
            self._count("live")
            return None
        self._count("unmatched")
        raise NotFoundError(_miss_reason(agent, prompt, turns, self.folder), _HINT, subject=agent, kind="no_recording")

    def _use(self, kept: _Recorded, fit: str) -> RecordedTurn:
        kept.is_used = True
        self._count(fit)
        return msgspec.structs.replace(kept.turn, fit=fit)

    def _count(self, name: str) -> None:
        self.counts = msgspec.structs.replace(self.counts, **{name: getattr(self.counts, name) + 1})

    def _turns_of(self, agent: str) -> list[_Recorded]:
        if agent not in self._turns:
            self._turns[agent] = _read(file_of(self.folder, agent), agent)
        return self._turns[agent]


_HINT = "record it again (--record), or let something else answer: --on-miss nearest or live"


def _miss_reason(agent: str, prompt: str, turns: list[_Recorded], folder: Path) -> str:
    """Return why no recorded turn has this prompt: where the nearest recorded prompt differs, or that no turn is
    left."""
    left = [kept for kept in turns if not kept.is_used]
    if not left:
        what = f"all {len(turns)} are used" if turns else "there is none of it"
        return f"no recorded turn of {agent} is left in {folder.name}: {what}"
    nearest = max(left, key=lambda kept: _common_length(kept.prompt, prompt))
    at = _common_length(nearest.prompt, prompt)
    line = prompt.count("\n", 0, at) + 1
    start = max(0, at - _SHOWN_CHARACTERS // 2)
    was, now = nearest.prompt[start : start + _SHOWN_CHARACTERS], prompt[start : start + _SHOWN_CHARACTERS]
    return (
        f"no recorded turn of {agent} has this prompt; the nearest is turn {nearest.number}, which differs from "
        f"character {at + 1} (line {line}) on: recorded {was!r}, now {now!r}"
    )


def _common_length(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _read(path: Path, agent: str) -> list[_Recorded]:
    """Return the turns in a file of journal lines. Turns that did not end are left out. Raises ConfigError."""
    try:
        data = files.read(path, _LARGEST_FILE)
    except FileNotFoundError:
        return []
    except DiskError as error:
        raise ConfigError(error.message, "a recording is a folder of JSON Lines", subject=str(path)) from error
    found: list[_Recorded] = []
    prompts: dict[str, str] = {}
    turn: list[Event] = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            event = events.decode(line)
        except CorruptError as error:
            raise ConfigError(f"{path}:{number}:1: {error.message}", "record it again", subject=str(path)) from error
        if event.v != events.VERSION:
            what = f"has version {event.v}, but this beam reads version {events.VERSION}"
            raise ConfigError(f"{path}:{number}:1: {what}", "record it again", subject=str(path))
        if isinstance(event, MessageQueued):
            prompts[event.message_id or ""] = event.text
        elif isinstance(event, events.TurnStarted):
            turn = []
        elif isinstance(event, TurnFinished):
            prompt = prompts.get(event.message_id or "")
            if prompt is not None and len(found) < _MAX_TURNS:
                where = f"turn {len(found) + 1} of {agent} in {path.parent.name}"
                found.append(
                    _Recorded(len(found) + 1, prompt, RecordedTurn(events=tuple(turn), finished=event, where=where))
                )
            turn = []  # a file that only ends turns would hold the same events many times
        else:
            turn.append(event)
    return found
