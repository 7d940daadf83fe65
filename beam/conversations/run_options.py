"""The options of a run of a scenario, and the progress that it reports."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from beam.conversations.result import StepResult
from beam.conversations.scenario import Spending
from beam.model.message import Recording


class RunOptions(Struct, frozen=True, kw_only=True):
    """How a scenario is run. With `ci`, the checks that CI makes of each turn are made, too. `limits` replace those of
    the file. If `repeat` or `pass_rate` is None, the value in the file applies. `recording` says
    what is recorded or replayed."""

    ci: bool = False
    fail_fast: bool = False
    limits: Spending = Spending()
    repeat: int | None = None
    pass_rate: float | None = None
    recording: Recording = Recording()


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
