"""Reads a turn on a screen: the agent's transcript, which becomes events and evidence, and the answer on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from beam.agents.base import History, Host, Transcript, Turn, Verdict
from beam.base import files
from beam.base.errors import DiskError
from beam.model.events import Event
from beam.process.pipes import LineSplitter
from beam.pty_adapter import answer
from beam.pty_adapter.screen import Screen, Signal
from beam.pty_adapter.turn_end import TurnEnd
from beam.pty_adapter.typing import Segment
from beam.turns.request import Record

_MAX_LINE_BYTES = 64 << 20  # of a line, as for a headless CLI; the rest of a longer line is dropped
_READS_PER_LISTING = 5  # a directory is listed once in so many reads


class _TranscriptFile:
    """One file that may be the turn's transcript. `read_to` is the offset up to which it was read."""

    def __init__(self, path: Path, transcript: Transcript, read_to: int) -> None:
        self.path = path
        self.transcript = transcript
        self.read_to = read_to
        self._lines = LineSplitter(_MAX_LINE_BYTES)

    def read(self) -> list[Event]:
        """Return the events in what was added to the file."""
        bodies: list[Event] = []
        try:
            for data in files.read_pieces(self.path, self.read_to, follow=True):
                self.read_to += len(data)
                bodies += [body for line in self._lines.feed(data) for body in self.transcript.line(line)]
        except (FileNotFoundError, DiskError):
            return bodies
        return bodies


class TranscriptReader:
    """Reads the agent's transcript from its current end: new lines become events. If the CLI chooses the file's
    name, the transcript is the first matching file that grew and mentions the turn."""

    def __init__(self, history: History, turn: Turn, host: Host, record: Record) -> None:
        self._record = record
        self._transcript_of = partial(history.transcript, turn)
        self._transcript = self._transcript_of()
        self._where = history.where(turn, host)
        self._file: _TranscriptFile | None = None
        self._files: dict[Path, _TranscriptFile] = {}
        self._reads = 0
        if "*" in self._where:
            self._before = {path: _size(path) for path in self._matching_paths()}
        else:
            path = Path(self._where)
            self._file = _TranscriptFile(path, self._transcript, _size(path))

    @property
    def state(self) -> str:
        """Return the transcript's state of the turn: "" (unknown), working, waiting, done."""
        return self._transcript.state

    @property
    def error(self) -> str | None:
        """Return why the turn failed; None if it did not."""
        return self._transcript.error

    def verdict(self) -> Verdict:
        """Return what the transcript says about the turn."""
        return self._transcript.verdict()

    def read(self) -> None:
        """Read what was added to the file."""
        if self._file is None:
            self._find_transcript()
            return
        for body in self._file.read():
            self._record(body)

    def _matching_paths(self) -> Iterable[Path]:
        return Path("/").glob(self._where.lstrip("/"))

    def _find_transcript(self) -> None:
        """Read every matching file until one mentions this turn."""
        if self._reads % _READS_PER_LISTING == 0:
            for path in self._matching_paths():
                if path not in self._files and _size(path) != self._before.get(path):
                    self._files[path] = _TranscriptFile(path, self._transcript_of(), self._before.get(path, 0))
        self._reads += 1
        for file in self._files.values():
            bodies = file.read()
            if file.transcript.state:
                self._file, self._transcript = file, file.transcript
                for body in bodies:
                    self._record(body)
                return


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def reply_on_screen(
    end: TurnEnd, screen: Screen, text: str, segments: Sequence[Segment], prompt_mark: Signal | None
) -> str:
    """Return the answer to `text` as the screen shows it; "" if none is found.

    Each segment has the answer to one Enter. `prompt_mark` is the agent's own signal (OSC 133) of where its last prompt
    begins, None if there is none.
    """
    profile, columns = end.profile, screen.columns
    if not profile.at_cursor:
        return answer.agent_answer(profile, screen.lines(), text, columns=columns)
    parts = []
    for segment in segments:
        last = segment.end
        column = 0
        if last is None:
            mark = prompt_mark if end.via == "osc133" else None
            reading = end.reading.prompt
            last = mark.line if mark else reading if reading is not None else end.position
            column = mark.column if mark else 0
        lines = screen.lines(segment.start)
        shown = lines[: max(0, last - segment.start)]
        part = answer.unwrapped_text(shown, columns=columns)
        if column and len(lines) > len(shown):
            part = f"{part}\n{lines[len(shown)].text[:column]}".lstrip("\n")
        parts.append(part)
    return "\n".join(part for part in parts if part)
