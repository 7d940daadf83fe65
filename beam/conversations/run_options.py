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
    """How a scenario is run. With `ci`, the checks that CI makes of each turn are made, too. `limits` replace those of
    the file. If `repeat` or `pass_rate` is None, the value in the file applies. `record` and `replay` are folders of
    recorded turns. `model_calls` says how model calls are recorded or replayed."""

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
    """A step began: its name, its kind, and the agents that take part. `repeat` counts from 1."""

    id: str
    kind: str
    agents: tuple[str, ...] = ()
    repeat: int = 1


class Warned(Struct, frozen=True):
    """A warning for a person while the run goes on."""

    text: str


RunProgress = StepBegan | StepResult | Warned
Watch = Callable[[RunProgress], None]
