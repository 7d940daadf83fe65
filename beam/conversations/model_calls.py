"""The folders in which the model calls of a run's turns are recorded or replayed, and the total counts of these calls.

Each turn has a folder of its own, `STEP/AGENT-N`. So turns that run at the same time never share a folder, and a step
finds its calls again after it was moved in the scenario file. This module only checks which folders exist; it changes
none.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from beam.base.errors import NotFoundError
from beam.conversations.result import TurnResult
from beam.model.message import ModelCalls
from beam.model.outcome import ModelCallCounts

FIGURES = ("calls", "live", "exact", "minor", "major", "unmatched", "filled")
_TURN_FILE = "recording.json"  # in each folder of a turn


class RunModelCalls(Struct, frozen=True, kw_only=True):
    """How the model calls of all turns of a run are recorded or replayed. `record` and `replay` are folders. `fill`: a
    call that has no recording goes to the model. `exact_at_least`: the run fails if fewer calls than this were replayed
    exactly, in all its turns together."""

    record: Path | None = None
    replay: Path | None = None
    fill: bool = False
    exact_at_least: int | None = None

    @property
    def is_asked(self) -> bool:
        """Return whether model calls are recorded or replayed; turns need a proxy for that."""
        return self.record is not None or self.replay is not None

    @property
    def folder(self) -> Path | None:
        """Return the folder that is written or read; None if there is none."""
        return self.record or self.replay


class ModelFolders:
    """Chooses the folder of each turn of one repeat. `number` is the repeat's number, `times` the number of all
    repeats."""

    def __init__(self, asked: RunModelCalls, number: int, times: int) -> None:
        self._asked = asked
        folder = asked.folder
        if folder is not None and (times > 1 if asked.record is not None else _is_of_repeat(folder / str(number))):
            folder = folder / str(number)
        self._folder = folder
        self._turn_numbers: dict[tuple[str, str], int] = {}

    def next(self, step: str, agent: str) -> ModelCalls | UnsetType:
        """Return how, and in which folder, the model calls of this agent's next turn in this step are recorded or
        replayed; UNSET if they are neither recorded nor replayed."""
        if self._folder is None:
            return UNSET
        number = self._turn_numbers[step, agent] = self._turn_numbers.get((step, agent), 0) + 1
        folder = str(self._folder.absolute() / step / f"{agent}-{number}")
        if self._asked.record is not None:
            return ModelCalls(record=folder)
        if self._asked.fill and not Path(folder).is_dir():
            return ModelCalls(record=folder)  # a turn that is new in the file
        return ModelCalls(replay=folder, fill=self._asked.fill)


def _is_of_repeat(folder: Path) -> bool:
    """Return whether the folder is that of a repeat. It may also be that of a step whose name is a number."""
    return folder.is_dir() and not any((turn / _TURN_FILE).exists() for turn in folder.iterdir())


def check_replay(asked: RunModelCalls) -> None:
    """Raise NotFoundError if the folder to replay does not exist, unless missing recordings are to be filled in."""
    if asked.replay is not None and not asked.fill and not asked.replay.is_dir():
        raise NotFoundError(
            f"{asked.replay} has no recorded model calls",
            "record them: beam run FILE --record-model DIR",
            subject=str(asked.replay),
        )


def sum_counts(turns: list[TurnResult], asked: RunModelCalls) -> ModelCallCounts:
    """Return the sums of the model call counts of all these turns."""
    known = [each for turn in turns if isinstance(each := turn.outcome.model_calls, ModelCallCounts)]
    sums = {name: sum(getattr(each, name) for each in known) for name in FIGURES}
    return ModelCallCounts(**sums, recording=str(asked.folder or ""))
