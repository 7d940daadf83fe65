"""The folders in which the model calls of a run's turns are recorded or replayed, and the total counts of these calls.

Each turn has a folder of its own, `STEP/AGENT-N`. So turns that run at the same time never share a folder, and a step
finds its calls again after it was moved in the scenario file. This module only checks which folders exist; it changes
none.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET, UnsetType

from beam.base.errors import NotFoundError
from beam.conversations.result import TurnResult
from beam.model.message import Recording
from beam.model.outcome import ModelCallCounts

FIGURES = ("calls", "live", "exact", "minor", "major", "unmatched", "filled")
_TURN_FILE = "recording.json"  # in each folder of a turn


class ModelFolders:
    """Chooses the folder of each turn of one repeat. `number` is the repeat's number, `times` the number of all
    repeats."""

    def __init__(self, asked: Recording, number: int, times: int) -> None:
        self._asked = asked
        self._folder = Path(asked.folder) if asked.of_model else None
        if self._folder is not None and (times > 1 if asked.record else _is_of_repeat(self._folder / str(number))):
            self._folder /= str(number)
        self._turn_numbers: dict[tuple[str, str], int] = {}

    def next(self, step: str, agent: str) -> Recording | UnsetType:
        """Return how, and in which folder, the model calls of this agent's next turn in this step are recorded or
        replayed; UNSET if they are neither recorded nor replayed."""
        if self._folder is None:
            return UNSET
        number = self._turn_numbers[step, agent] = self._turn_numbers.get((step, agent), 0) + 1
        folder = str(self._folder / step / f"{agent}-{number}")
        is_new = self._asked.on_miss == "live" and not Path(folder).is_dir()  # a turn that is new in the file
        if self._asked.record or is_new:
            return Recording(record=folder, depth="model")
        return Recording(replay=folder, depth="model", on_miss=self._asked.on_miss)


def _is_of_repeat(folder: Path) -> bool:
    """Return whether the folder is that of a repeat. It may also be that of a step whose name is a number."""
    return folder.is_dir() and not any((turn / _TURN_FILE).exists() for turn in folder.iterdir())


def check_replay(asked: Recording) -> None:
    """Raise NotFoundError if the folder whose model calls are replayed does not exist, unless the model answers what is
    missing."""
    if asked.replay and asked.of_model and asked.on_miss == "stop" and not Path(asked.replay).is_dir():
        raise NotFoundError(
            f"{asked.replay} has no recorded model calls",
            "record them: beam run FILE --record DIR --depth model",
            subject=asked.replay,
        )


def sum_counts(turns: list[TurnResult], asked: Recording) -> ModelCallCounts:
    """Return the sums of the model call counts of all these turns."""
    known = [each for turn in turns if isinstance(each := turn.outcome.model_calls, ModelCallCounts)]
    sums = {name: sum(getattr(each, name) for each in known) for name in FIGURES}
    return ModelCallCounts(**sums, recording=asked.folder)
