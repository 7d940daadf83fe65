"""A run of a scenario as lines for people: its plan, each step, and its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from beam import RunResult, StepResult, durations
from beam.cli.render.text import collapse_to_line, truncate

if TYPE_CHECKING:
    from beam import PlanStep

_VERDICT_WORDS = {"passed": "ok", "failed": "FAIL", "skipped": "skip"}
_WIDTH = 400


def plan_lines(name: str, steps: Sequence[PlanStep]) -> Iterator[str]:
    """Yield the plan of a run, a line each."""
    yield f"{name}: {len(steps)} step{'s' * (len(steps) != 1)}; everything in the file is right, and nothing was run"
    wide = max((len(step.id) for step in steps), default=0)
    for step in steps:
        who = f" {', '.join(step.agents)}" if step.agents else ""
        checks = f"; checks {', '.join(step.checks)}" if step.checks else ""
        inside = "  " if step.parallel_in is not None else ""
        line = f"{inside}{step.id:<{wide}}  {step.kind}{who}: {collapse_to_line(step.does)}{checks}"
        yield truncate(line, _WIDTH)


def step_lines(step: StepResult) -> Iterator[str]:
    """Yield the lines that report a finished step, for people: its verdict, and each check that did not pass."""
    who = " ".join(dict.fromkeys(turn.agent for turn in step.turns))
    head = f"{_VERDICT_WORDS[step.verdict]:<4}  {step.id}  {step.kind}{f' {who}' if who else ''}"
    time_taken = f"  {durations.show(step.duration_s)}" if step.verdict != "skipped" else ""
    again = f"  (run {step.repeat})" if step.repeat > 1 else ""
    is_below = any(step.why == f"{check.name}: {check.detail}" for check in step.checks)
    why = f"  {collapse_to_line(step.why)}" if step.why and not is_below else ""
    yield truncate(f"{head}{time_taken}{again}{why}", _WIDTH)
    for check in step.checks:
        if check.verdict != "passed":
            detail = f": {collapse_to_line(check.detail)}" if check.detail else ""
            yield truncate(f"      {_VERDICT_WORDS[check.verdict]:<4}  {collapse_to_line(check.name)}{detail}", _WIDTH)


def result_lines(result: RunResult) -> Iterator[str]:
    """Yield the lines that report the result of a run, for people."""
    spent = result.spent
    cost = f"${spent.cost_usd:.4f}" if spent.turns > spent.unpriced else ""
    figures = [
        f"{len(result.steps)} step{'s' * (len(result.steps) != 1)}",
        f"{spent.turns} turn{'s' * (spent.turns != 1)}",
        f"{spent.tokens:,} tokens" if spent.tokens else "",
        cost,
        durations.show(result.duration_s),
    ]
    yield f"{result.verdict}: {', '.join(figure for figure in figures if figure)}"
    if result.why:
        yield truncate(collapse_to_line(result.why), _WIDTH)
    if result.repeats > 1:
        yield f"{result.passes} of {result.repeats} runs passed"
    if result.replay is not None:
        counts = result.replay
        told = f"{counts.exact} exact, {counts.minor} minor, {counts.major} major, {counts.unmatched} unmatched"
        yield f"replayed: {told}, {counts.live} live"
    if result.model_calls is not None:
        yield result.model_calls.told
    if result.note:
        yield result.note
    for tree in result.worktrees:
        where = f", in {tree.path}" if tree.path is not None else ""
        if tree.branch:
            yield collapse_to_line(f"branch {tree.branch}: {len(tree.files)} files changed{where}")
