"""The result of a run: typed values for Python, `--json`, JUnit and CI systems. Does not depend on how the scenario was
run."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from beam.base.errors import ExitCode
from beam.model.outcome import ModelCallCounts, Outcome


class Verdict(StrEnum):
    """How a check, a step or a run ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class CheckResult(Struct, frozen=True, kw_only=True):
    """The result of one check. `name` says what was expected, `detail` what was found. `line` is the line of the check
    in the file; null for a check that CI makes of every turn."""

    name: str
    verdict: Verdict
    detail: str = ""
    kind: str = ""
    line: int | None = None


class TurnResult(Struct, frozen=True, kw_only=True):
    """The result of one turn of a step. `asked` is the beginning of its prompt. `tools` are the names of the tools that
    the turn called, in order; `failed_tools` those of the calls that failed, were denied or did not return. `replayed`
    says how well the recorded turn fits that answered in place of the agent (exact, minor, major); null if the agent
    itself ran. `cost_usd` may be an estimate."""

    agent: str
    outcome: Outcome
    asked: str = ""
    tools: tuple[str, ...] = ()
    failed_tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    cost_usd: float | None = None
    tokens: int | None = None
    replayed: str | None = None


class StepResult(Struct, frozen=True, kw_only=True):
    """The result of one step. `why` says why the step failed or was skipped, or why a chat ended. `exit_code` is that
    of its turn or command. `output` is the output of a command. `score` is a judge's score. `judged` are the turns of
    judges in the step's checks."""

    id: str
    kind: str
    verdict: Verdict
    line: int
    why: str = ""
    exit_code: int = 0
    duration_s: float = 0.0
    turns: tuple[TurnResult, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    output: str = ""
    score: float | None = None
    judged: tuple[TurnResult, ...] = ()
    repeat: int = 1

    @property
    def reply(self) -> str:
        """Return the text of the step: its last answer, the answers of all agents if the step was sent to several, or
        the output of its command."""
        if self.kind == "send" and len(self.turns) > 1:
            return "\n\n".join(f"{turn.agent}:\n{turn.outcome.reply}" for turn in self.turns if turn.outcome.reply)
        return (self.turns[-1].outcome.reply or "") if self.turns else self.output


class WorktreeResult(Struct, frozen=True, kw_only=True):
    """The run's own work tree. `branch` is its branch; "" if nothing was changed, because the branch was then removed.
    `path` is its folder, null if the folder was removed. `diff` has all changes, cut at 1 MiB. `files` are the changed
    files."""

    branch: str = ""
    path: str | None = None
    diff: str = ""
    files: tuple[str, ...] = ()


class ReplayCounts(Struct, frozen=True, kw_only=True):
    """How many turns were answered from a recording, and how well the recorded turns fit: `exact` (the same prompt),
    `minor` (another place in the order), `major` (another prompt), `unmatched` (no recorded turn fits), `live` (run by
    the agent itself).
    """

    exact: int = 0
    minor: int = 0
    major: int = 0
    unmatched: int = 0
    live: int = 0


class Spent(Struct, frozen=True, kw_only=True):
    """What all turns used together. `unpriced` is the number of turns whose cost nobody knows."""

    turns: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0


class RunResult(Struct, frozen=True, kw_only=True):
    """The result of a run: `Beam().run(...)`, and `beam run --json`. `exit_code` is that of `beam run`.

    `file` is the scenario's path as it was given. `repeats` is how often the scenario was to run, and `passes` how many
    of these runs passed. `replay` is null without a replay of turns; in one, tools are not run again, and `note` says
    so. `model_calls` counts the model calls of all turns; null unless they are recorded or replayed.
    """

    v: int = 1
    name: str
    file: str
    verdict: Verdict
    exit_code: int
    why: str = ""
    steps: tuple[StepResult, ...] = ()
    spent: Spent = Spent()
    duration_s: float = 0.0
    repeats: int = 1
    passes: int = 0
    replay: ReplayCounts | None = None
    model_calls: ModelCallCounts | None = None
    worktrees: tuple[WorktreeResult, ...] = ()
    note: str = ""

    @property
    def passed(self) -> bool:
        """Return whether the run passed."""
        return self.verdict is Verdict.PASSED

    def step(self, id: str) -> StepResult:
        """Return the last result of the step with this id. Raises KeyError if there is no such step."""
        for step in reversed(self.steps):
            if step.id == id:
                return step
        raise KeyError(id)


def total(turns: list[TurnResult]) -> Spent:
    """Return what these turns used together."""
    return Spent(
        turns=len(turns),
        cost_usd=round(sum(turn.cost_usd or 0.0 for turn in turns), 9),
        tokens=sum(turn.tokens or 0 for turn in turns),
        unpriced=sum(turn.cost_usd is None for turn in turns),
    )


def run_exit_code(steps: tuple[StepResult, ...]) -> int:
    """Return the exit code of a run: that of the first failed step, or 13 if only a check of that step failed; 0 if no
    step failed."""
    for step in steps:
        if step.verdict is Verdict.FAILED:
            return step.exit_code or int(ExitCode.CHECK_FAILED)
    return 0
