"""The result of a step: the results of its turns, and whether one of them is a failure. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from beam.conversations.facts import TurnFacts
from beam.conversations.result import StepResult, TurnResult
from beam.conversations.scenario import CheckStep, Step
from beam.model.outcome import Class, Status
from beam.secrets.redact import redact_beginning

_MAX_ASKED = 2000  # characters

_ALLOWED: Mapping[str, Status | Class] = {
    "denied": Status.DENIED,
    "truncated": Status.TRUNCATED,
    "empty": Class.EMPTY,
}


def is_failure(turn: TurnFacts, step: Step, allow: frozenset[str]) -> bool:
    """Return whether the turn makes its step fail. It does if it ended without success, no limit of the step cut it,
    the step doesn't check how it ends, and neither the step nor its scenario (`allow`) allows it."""
    outcome = turn.outcome
    if outcome is None or not outcome.exit_code or turn.cut:
        return False
    if any(_ALLOWED.get(word) in (outcome.status, outcome.class_) for word in step.allow | allow if word in _ALLOWED):
        return False
    return not any(each.kind in ("status", "exit_code") for each in step.expect)


def first_exit_code(facts: list[TurnFacts], about: StepResult) -> int:
    """Return the exit code of the first turn without success; if there is no such turn, that of the step `about`."""
    codes = [turn.outcome.exit_code for turn in facts if turn.outcome is not None]
    return next((code for code in codes if code), about.exit_code)


def kind_of(step: Step) -> str:
    """Return the kind of the step, which is its key in the file (`send`, `chat` …)."""
    return "check" if isinstance(step, CheckStep) else type(step).__name__.lower()


def turn_result(turn: TurnFacts) -> TurnResult:
    """Return the result of a turn that is over."""
    assert turn.outcome is not None
    return TurnResult(
        agent=turn.agent,
        outcome=turn.outcome,
        asked=redact_beginning(turn.prompt, _MAX_ASKED),
        tools=tuple(tool.name for tool in turn.tools),
        failed_tools=tuple(tool.name for tool in turn.tools if turn.failure_of(tool)),
        files=tuple(dict.fromkeys(file.path for file in turn.files)),
        cost_usd=turn.cost_usd,
        tokens=turn.tokens,
        replayed=turn.replayed or None,
    )
