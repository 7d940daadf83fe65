"""Reports and the words of checks, to the letter: they are compared with files.

BEAM_WRITE_REPORTS=1 writes the files anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.base.errors import ConfigError, NotFoundError
from beam.conversations import github, gitlab
from beam.conversations.expect import Changes, Subject, check
from beam.conversations.junit import junit, refusal_report
from beam.conversations.refusal import refusal_of
from beam.conversations.result import (
    CheckResult,
    ReplayCounts,
    RunResult,
    Spent,
    StepResult,
    TurnResult,
    Verdict,
    WorktreeResult,
    run_exit_code,
    total,
)
from beam.conversations.scenario import Check
from beam.model.hand_over import _text
from beam.model.outcome import Class, ModelCallCounts, Outcome, Status
from tests.conversations.test_expect import HOLDS, JSON, SUBJECT

REPORTS = Path(__file__).with_name("reports")


def turn(status: Status = Status.COMPLETED, **more: Any) -> TurnResult:
    given: dict[str, Any] = {"reply": "done", "exit_code": 0 if status is Status.COMPLETED else 1, **more}
    outcome = Outcome(message_id="a-1", agent="a@s", turn=1, attempt=1, status=status, **given)
    return TurnResult(
        agent="a",
        outcome=outcome,
        asked="Do it.\nThen say so.",
        tools=("Bash", "Edit"),
        files=("a.py",),
        cost_usd=0.5,
        tokens=70,
    )


PASSED = StepResult(
    id="one", kind="send", verdict=Verdict.PASSED, line=3, duration_s=1.5, turns=(turn(),),
    checks=(CheckResult(name="contains: done", verdict=Verdict.PASSED, kind="contains", line=4),),
)  # fmt: skip
FAILED = StepResult(
    id="two", kind="send", verdict=Verdict.FAILED, line=5, why="a: failed (crashed): it fell", exit_code=1,
    turns=(turn(), turn(Status.FAILED, class_=Class.CRASHED, reason="it fell")), duration_s=2.25,
)  # fmt: skip
CHECKED = StepResult(
    id="three", kind="check", verdict=Verdict.FAILED, line=7, why="contains: x: 'x' is not in it", exit_code=13,
    checks=(
        CheckResult(name="contains: x", verdict=Verdict.FAILED, kind="contains", line=8, detail="'x' is not in it"),
        CheckResult(name="command: ok", verdict=Verdict.SKIPPED, kind="command", line=9, detail="replayed"),
        CheckResult(name="ci: not empty", verdict=Verdict.PASSED),
    ),
)  # fmt: skip
SKIPPED = StepResult(id="four", kind="run", verdict=Verdict.SKIPPED, line=9, why="step one was not run", repeat=2)
RAN = StepResult(id="five", kind="run", verdict=Verdict.PASSED, line=11, output="ran\nwell\n")
JUDGED = StepResult(
    id="six",
    kind="judge",
    verdict=Verdict.PASSED,
    line=12,
    score=8.0,
    why="good work",
    turns=(turn(),),
    judged=(turn(),),
)


def run(*steps: StepResult, **more: Any) -> RunResult:
    is_good = not any(step.verdict is Verdict.FAILED for step in steps)
    given: dict[str, Any] = {
        "name": "s",
        "file": "s.yaml",
        "verdict": Verdict.PASSED if is_good else Verdict.FAILED,
        "exit_code": run_exit_code(steps),
        "why": "" if is_good else "step two: a: failed (crashed): it fell",
        "steps": steps,
        "spent": total([each for step in steps for each in step.turns]),
        "duration_s": 4.75,
        "passes": int(is_good),
    }
    return RunResult(**{**given, **more})


RUNS = {
    "all passed": run(PASSED, RAN, JUDGED),
    "a turn failed": run(PASSED, FAILED, CHECKED, SKIPPED),
    "a check failed": run(CHECKED),
    "nothing was run": run(),
    "repeats, a replay and a work tree": run(
        PASSED,
        SKIPPED,
        structs.replace(FAILED, repeat=2),
        repeats=2,
        passes=1,
        replay=ReplayCounts(exact=2, minor=1, major=3, unmatched=4, live=5),
        model_calls=ModelCallCounts(calls=3, live=1, exact=2, recording="/r"),
        worktrees=(WorktreeResult(branch="beam/s", path="/w", diff="+x", files=("a.py", "b.py")), WorktreeResult()),
        note="the turns were answered from a recording",
    ),
    "an unpriced turn": run(PASSED, spent=Spent(turns=2, cost_usd=0.0, tokens=0, unpriced=2)),
    "a run that was stopped": run(PASSED, verdict=Verdict.FAILED, exit_code=9, why="human (signal)"),
}
REFUSALS = {
    "a wrong file": refusal_of("s.yaml", ConfigError("s.yaml:3:5: unknown key", "did you mean send?")),
    "no agent": refusal_of("s.yaml", NotFoundError("no agent x", "beam agent list")),
}


def junit_lines() -> Iterator[str]:
    for name, result in RUNS.items():
        yield f"== {name}"
        yield junit(result).decode()
    for name, refusal in REFUSALS.items():
        yield f"== {name}"
        yield refusal_report(refusal).decode()


def github_lines() -> Iterator[str]:
    for name, result in RUNS.items():
        yield f"== {name}"
        for step in result.steps:
            yield from github.step_lines(result.file, step)
        yield f"failure {github.failure(result)}"
        yield github.warning("take care", result.file)
        yield github.summary(result)
    for name, refusal in REFUSALS.items():
        yield f"== {name}"
        yield github.refusal_line(refusal)
        yield github.refusal_summary(refusal)


def gitlab_lines() -> Iterator[str]:
    for result in RUNS.values():
        for step in result.steps:
            yield from map(repr, gitlab.step_lines(step, 1_700_000_000))


def words() -> Iterator[str]:
    others = {
        "in a replay": structs.replace(SUBJECT, is_replayed=True),
        "outside of git": structs.replace(SUBJECT, changed=lambda: Changes(named=("src/a.py",))),
        "without an answer or a turn": Subject(),
    }
    for kind, good, bad in HOLDS:
        for value in (good, bad):
            asked = Check(kind=kind, value=value)
            for name, subject in {"": JSON if kind == "schema" else SUBJECT, **others}.items():
                try:
                    found = check(asked, subject, 3)
                except (IndexError, StopIteration, KeyError) as error:
                    yield f"{kind} {name}: {type(error).__name__}"
                    continue
                yield f"{found.name} [{found.kind}, line {found.line}] {name}: {found.verdict} ({found.detail})"


WRITTEN = {"junit": junit_lines, "github": github_lines, "gitlab": gitlab_lines, "checks": words}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_is_as_it_was(name: str) -> None:
    path = REPORTS / f"{name}.txt"
    found = "\n".join(WRITTEN[name]()) + "\n"
    if os.environ.get("BEAM_WRITE_REPORTS"):
        REPORTS.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize(
    ("value", "is_so"),
    [
        ({"least": 2}, True), ({"least": 3}, False), ({"most": 2}, True), ({"most": 1}, False), ({}, True),
        ({"only": ("src", "made.txt")}, True), ({"only": ("src/*",)}, False), ({"never": ("*.txt",)}, False),
        ({"never": ("other/",)}, True), (2, True), (3, False), (True, True), (False, False),
    ],
)  # fmt: skip
def test_files_that_changed_are_counted_and_named(value: Any, is_so: bool) -> None:
    found = check(Check(kind="files_changed", value=value), SUBJECT, None)
    assert (found.verdict is Verdict.PASSED) == is_so


def test_no_change_is_not_few_changes() -> None:
    nothing = Subject(changed=lambda: Changes(known=True))
    found = check(Check(kind="files_changed", value={"most": 1}), nothing, None)
    assert (found.verdict, found.detail) == (Verdict.PASSED, "no file was changed")


@pytest.mark.parametrize(
    ("text", "lines"), [("abc", ["    abc"]), ("abcd", ["    abcd"]), ("abcde", ["    abcd… [1 more characters]"])]
)
def test_a_text_is_handed_over_up_to_its_limit(text: str, lines: list[str]) -> None:
    assert _text(text, 4, is_short=False) == lines


def test_a_step_says_its_last_answer_each_agents_or_its_output() -> None:
    several = structs.replace(PASSED, turns=(turn(reply="1"), turn(reply=None), turn(reply="3")))
    assert several.reply == "a:\n1\n\na:\n3"
    assert structs.replace(several, kind="chat").reply == "3"
    assert (RAN.reply, SKIPPED.reply, structs.replace(PASSED, turns=(turn(reply=None),)).reply) == (
        "ran\nwell\n",
        "",
        "",
    )
    result = run(PASSED, structs.replace(PASSED, repeat=2))
    assert (result.step("one").repeat, result.passed, run(FAILED).passed) == (2, True, False)
    with pytest.raises(KeyError):
        result.step("none")
    without_code = structs.replace(FAILED, exit_code=0)
    found = [run_exit_code(steps) for steps in ((), (PASSED,), (PASSED, FAILED, CHECKED), (without_code,))]
    assert found == [0, 0, 1, 13]
    assert total([turn(), structs.replace(turn(), cost_usd=None, tokens=None)]) == Spent(
        turns=2, cost_usd=0.5, tokens=70, unpriced=1
    )
