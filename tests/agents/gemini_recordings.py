"""The recordings of Gemini CLI 0.61.0: stdout and stderr of one process each; how it was run is said here."""

from __future__ import annotations

from pathlib import Path

from beam.agents.base import Exit, Turn
from beam.agents.gemini import exec
from tests.agents import recorded
from tests.agents.recorded import Recorded

HERE = Path(__file__).parent.parent / "recordings" / "gemini" / "0.61.0"
_CODES = {  # 0 for all others
    "badflag": 1,
    "err401": 145,
    "err500max2": 244,
    "err503full": 247,
    "nokey": 41,
    "B-r6": 42,
    "C-r2": 42,
    "dup2": 42,
    "resume-bad": 42,
    "samemin-after": 42,
}
_TIMED_OUT = ("err429", "err500", "hang", "refused")
_RESUMED = {
    "B-r1": "22222222-2222-4333-8444-555555555555",
    "B-r2": "22222222-2222-4333-8444-555555555555",
    "B-r3": "22222222-2222-4333-8444-555555555555",
    "B-r6": "22222222-2222-4333-8444-555555555555",
    "C-r2": "33333333-2222-4333-8444-555555555555",
    "resume-bad": "99999999-2222-4333-8444-555555555555",
    "resume-idx": "11111111-2222-4333-8444-555555555555",
    "resume-uuid": "11111111-2222-4333-8444-555555555555",
    "samemin-after": "def03a66-f9a4-4105-8ecc-be377009ef2e",
}
_ACCESS = {"tool-yolo": "full", "tool-autoedit": "edit"}


def names() -> list[str]:
    """Every recording, by the name of its stdout."""
    return sorted(path.name for path in HERE.glob("*.out"))


def load(name: str) -> Recorded:
    """The recording of this stdout."""
    stem = name.removeprefix("g-").removesuffix(".out")
    stopped_by = "timeout" if stem in _TIMED_OUT else None
    exit = Exit(
        code=None if stopped_by else _CODES.get(stem, 0),
        signal="SIGTERM" if stopped_by else None,
        stderr_tail=(HERE / name).with_suffix(".err").read_text("utf-8"),
        stopped_by=stopped_by,
    )
    turn = Turn(
        text="recorded",
        message_id="gemini-1",
        agent="gemini",
        session_id=_RESUMED.get(stem),
        access=_ACCESS.get(stem, "read"),  # type: ignore[arg-type]
    )
    return Recorded(name=name, turn=turn, stdout=(HERE / name).read_bytes(), exit=exit)


def decode(name: str) -> tuple[list[recorded.events.Event], recorded.Verdict]:
    """The events and the verdict of the recording."""
    found = load(name)
    return recorded.decode(exec.decoder, found, [found.stdout])
