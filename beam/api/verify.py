"""Verifies a journal: every line of every segment, its hash, and each segment's reference to the one before.

Does not depend on how a journal is written or repaired.
"""

from __future__ import annotations

from pathlib import Path

from beam.base import files
from beam.base.errors import BeamError, CorruptError, DiskError
from beam.model import events
from beam.model.state import State, apply
from beam.store.chain import ChainCheck
from beam.store.segment import LineDecoder, Segment, check_version, segment_name, segments, whole_lines


def find_damage(journal: Path) -> list[str]:
    """Return a line for each problem in a journal: damaged lines that no notice covers (a notice has the range of bytes
    that readers skip), lines that were changed, gaps in the event numbers (`seq`), segments that do not begin where the
    segment before ended, and segments whose name is another one's."""
    found: list[str] = []
    before: _SegmentEnd | None = None
    for name in segments(journal):
        path = journal / name
        try:
            segment = Segment.read(path)
        except CorruptError as error:
            found.append(error.message)
            found += _every_bad_line(path)
            before = None
            continue
        except BeamError as error:
            found.append(error.message)
            continue
        if before is not None and segment.after != before.hash:
            found.append(f"{path}:1: it follows another segment than {before.name}, or that one was cut short")
        if before is not None:
            found += before.differences(path, segment)
        check = ChainCheck()
        found += _changed_lines(path, segment, check)
        expected = segment.state.seq + 1
        if name != segment_name(expected):
            found.append(f"{path}: it begins with event {expected}, so its name should be {segment_name(expected)}")
        for event in segment.events:
            if event.seq != expected:
                found.append(f"{path}: event {event.seq} stands where {expected} should")
            apply(segment.state, event)
            expected = event.seq + 1
        before = _SegmentEnd(name, check.last, segment.state)
    return found


class _SegmentEnd:
    """The end of a segment: its last hash, and the state after its lines."""

    def __init__(self, name: str, hash: str, state: State) -> None:
        self.name, self.hash, self.state = name, hash, state

    def differences(self, path: Path, next_segment: Segment) -> list[str]:
        """Return a line for each difference between this state and the next segment's snapshot."""
        return [
            f"{path}:1: its snapshot says {what} {problems}, and the lines of {self.name} add up to {true}"
            for what, true, problems in zip(
                ("seq", "turn", "session", "paused"), _counts(self.state), _counts(next_segment.state), strict=True
            )
            if true != problems
        ]


def _counts(state: State) -> tuple[object, ...]:
    return (state.seq, state.turn, state.session.session_id if state.session is not None else None, state.paused)


def _changed_lines(path: Path, segment: Segment, check: ChainCheck) -> list[str]:
    """Return a line for each place where the journal was changed after it was written. Lines that a notice covers were
    damaged in a crash, and are left out."""
    covered = [event.covers for event in segment.events if isinstance(event, events.Notice) and event.covers]
    covered += [segment.uncovered] if segment.uncovered is not None else []
    problems = []
    for bad_line in check.feed(files.read_pieces(path)):
        if any(begin <= bad_line.begin <= end for begin, end in covered):
            continue
        lines = f"{bad_line.line}" if bad_line.since == bad_line.line else f"{bad_line.since}-{bad_line.line}"
        problems.append(f"{path}:{lines}: not what was written there: the hash is another")
    return problems


def _every_bad_line(path: Path) -> list[str]:
    found = []
    try:
        for number, line in enumerate(whole_lines(files.read_pieces(path)), 1):
            if number > 1:
                whole = b"\0" if line is None else line
                try:
                    list(LineDecoder(path).feed(whole + b"\n", 0))
                    check_version(path, events.decode(whole).v)
                except CorruptError as error:
                    found.append(f"{path}:{number}: {error.message}")
    except (FileNotFoundError, DiskError):
        return found  # that it can't be read was reported already
    return found
