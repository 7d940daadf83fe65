"""A run of a scenario as people read it: its plan, each step, and what it came to."""

from __future__ import annotations

from typing import Any

import pytest

from beam import RunResult, StepResult
from beam.cli.render.run import plan_lines, result_lines, step_lines
from beam.conversations.machine import PlanStep
from beam.conversations.result import CheckResult, ReplayCounts, Spent, TurnResult, Verdict, WorktreeResult
from beam.model.outcome import ModelCallCounts, Outcome, Status


def test_a_plan_has_a_line_a_step_with_its_agents_and_its_checks() -> None:
    steps = [
        PlanStep(
            id="ask", kind="send", line=1, does="what\nnow", agents=("a (codex)", "b (claude)"), checks=("ok", "x")
        ),
        PlanStep(id="longer", kind="run", line=2, does="make", parallel_in="ask"),
    ]
    assert list(plan_lines("talk", steps)) == [
        "talk: 2 steps; everything in the file is right, and nothing was run",
        "ask     send a (codex), b (claude): what now; checks ok, x",
        "  longer  run: make",
    ]
    assert next(plan_lines("talk", steps[:1])).startswith("talk: 1 step; ")
    assert list(plan_lines("talk", [])) == ["talk: 0 steps; everything in the file is right, and nothing was run"]
    (_, line) = plan_lines("talk", [PlanStep(id="a", kind="run", line=1, does="x" * 500)])
    assert (len(line), line[-1]) == (400, "…")


def turn(agent: str) -> TurnResult:
    done = Outcome(status=Status.COMPLETED, turn=1, attempt=1, message_id="m", agent=agent)
    return TurnResult(agent=agent, outcome=done)


def step(verdict: Verdict, **more: Any) -> StepResult:
    return StepResult(id="ask", kind="send", verdict=verdict, line=1, **more)


FAILED = CheckResult(name="says ok", verdict=Verdict.FAILED, detail="it says\nno")
SKIPPED = CheckResult(name="lints", verdict=Verdict.SKIPPED)
PASSED = CheckResult(name="fast", verdict=Verdict.PASSED)


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (step(Verdict.PASSED, duration_s=2.5, turns=(turn("a"), turn("b"), turn("a"))), ["ok    ask  send a b  2.5s"]),
        (step(Verdict.SKIPPED, why="a step\nbefore failed"), ["skip  ask  send  a step before failed"]),
        (step(Verdict.FAILED, duration_s=1.0, repeat=2, why="late"), ["FAIL  ask  send  1s  (run 2)  late"]),
        (
            step(Verdict.FAILED, duration_s=1.0, why="says ok: it says\nno", checks=(PASSED, FAILED, SKIPPED)),
            ["FAIL  ask  send  1s", "      FAIL  says ok: it says no", "      skip  lints"],
        ),
        (step(Verdict.PASSED, duration_s=1.0, repeat=1, checks=(PASSED,)), ["ok    ask  send  1s"]),
    ],
)
def test_a_step_is_reported_with_its_checks_that_did_not_pass(result: StepResult, lines: list[str]) -> None:
    assert list(step_lines(result)) == lines


def test_a_line_about_a_step_has_a_bound() -> None:
    check = CheckResult(name="n" * 500, verdict=Verdict.FAILED)
    assert [len(line) for line in step_lines(step(Verdict.FAILED, why="w" * 500, checks=(check,)))] == [400, 400]


def result(verdict: Verdict = Verdict.PASSED, **more: Any) -> RunResult:
    return RunResult(name="talk", file="talk.yaml", verdict=verdict, exit_code=0, duration_s=2.0, **more)


@pytest.mark.parametrize(
    ("run", "lines"),
    [
        (result(), ["passed: 0 steps, 0 turns, 2s"]),
        (
            result(
                Verdict.FAILED,
                why="too\nlate",
                steps=(step(Verdict.FAILED),),
                spent=Spent(turns=1, cost_usd=0.5, tokens=1200),
                repeats=3,
                passes=2,
                replay=ReplayCounts(exact=1, minor=2, major=3, unmatched=4, live=5),
                model_calls=ModelCallCounts(calls=1, live=1, recording="calls"),
                note="tools were not run",
                worktrees=(
                    WorktreeResult(branch="beam/talk", path="/w", files=("a", "b")),
                    WorktreeResult(branch="beam/other", files=("a",)),
                    WorktreeResult(path="/kept"),
                ),
            ),
            [
                "failed: 1 step, 1 turn, 1,200 tokens, $0.5000, 2s",
                "too late",
                "2 of 3 runs passed",
                "replayed: 1 exact, 2 minor, 3 major, 4 unmatched, 5 live",
                ModelCallCounts(calls=1, live=1, recording="calls").told,
                "tools were not run",
                "branch beam/talk: 2 files changed, in /w",
                "branch beam/other: 1 files changed",
            ],
        ),
        (
            result(steps=(step(Verdict.PASSED),) * 2, spent=Spent(turns=2, unpriced=2)),
            ["passed: 2 steps, 2 turns, 2s"],
        ),
        (result(spent=Spent(turns=2, unpriced=1)), ["passed: 0 steps, 2 turns, $0.0000, 2s"]),
    ],
)
def test_a_result_says_what_the_run_came_to(run: RunResult, lines: list[str]) -> None:
    assert list(result_lines(run)) == lines
