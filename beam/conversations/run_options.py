"""The options of a run of a scenario, and the progress that it reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from beam.conversations.model_calls import RunModelCalls
from beam.conversations.recording import ReplayMode
from beam.conversations.result import StepResult
from beam.conversations.scenario import Spending


class RunOptions(Struct, frozen=True, kw_only=True):
    """How a scenario is run. `ci`: what CI demands of each turn is checked. `limits` are over those of the file;
    `repeat` and `pass_rate` of None leave them to the file. `record` and `replay` are folders of recorded turns,
    `model_calls` says what happens with the calls of their models.
    """

    ci: bool = False
    fail_fast: bool = False
    limits: Spending = Spending()
    repeat: int | None = None
    pass_rate: float | None = None
    record: Path | None = None
    replay: Path | None = None
    replay_mode: ReplayMode = "strict"
    model_calls: RunModelCalls = RunModelCalls()


class StepBegan(Struct, frozen=True, kw_only=True):
    """A step began: its name, what kind it is, and with whom. `repeat` counts from 1."""

    id: str
    kind: str
    agents: tuple[str, ...] = ()
    repeat: int = 1


class Warned(Struct, frozen=True):
    """Something a person should know while the run goes on."""

    text: str


RunProgress = StepBegan | StepResult | Warned
Watch = Callable[[RunProgress], None]
