"""The result of a run: typed values for Python, `--json`, JUnit and CI systems. Does not depend on how it was run."""

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
    """One check. `name` says what was expected, `detail` what was found. `line` is that of the check in the file; null
    for a check that CI makes of every turn.
    """

    name: str
    verdict: Verdict
    detail: str = ""
    kind: str = ""
    line: int | None = None


class TurnResult(Struct, frozen=True, kw_only=True):
    """One turn of a step. `tools` are the names of the tools that it called, in order. `replayed` says how well the
    recorded turn fits that answered in its place (exact, minor, major); null for a turn of a live agent. `cost_usd` may
    be an estimate.
    """

    agent: str
    outcome: Outcome
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    cost_usd: float | None = None
    tokens: int | None = None
    replayed: str | None = None


class StepResult(Struct, frozen=True, kw_only=True):
    """One step. `why` says why it failed, was skipped, or (a chat) ended. `exit_code` is that of its turn or command;
    `output` what a command printed; `score` what a judge gave. `judged` are the turns of judges in its checks.
    """

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
        """Return what the step said: its last answer, each agent's where several were asked, or a command's output."""
        if self.kind == "send" and len(self.turns) > 1:
            return "\n\n".join(f"{turn.agent}:\n{turn.outcome.reply}" for turn in self.turns if turn.outcome.reply)
        return (self.turns[-1].outcome.reply or "") if self.turns else self.output


class WorktreeResult(Struct, frozen=True, kw_only=True):
    """The run's own work tree: its branch ("" if nothing was changed, so that it was removed), its folder if that was
    kept, and all changes as a diff (cut at 1 MiB).
    """

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
    """What all turns used together. `unpriced` counts turns whose cost nobody knows."""

    turns: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0


class RunResult(Struct, frozen=True, kw_only=True):
    """The result of a run: `Beam().run(...)`, and `beam run --json`. `exit_code` is that of `beam run`.

    `file` is the scenario's path as it was given. `passes` of `repeats` runs passed. `replay` is null without --replay;
    in a replay tools are not run again, and `note` says so. `model_calls` counts the model calls of all turns, null
    without --record-model or --replay-model.
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
        """Return the last result of the step of that name. Raises KeyError."""
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


def code_of(steps: tuple[StepResult, ...]) -> int:
    """Return the exit code of a run: that of the first step that failed; 13 if it was a check."""
    for step in steps:
        if step.verdict is Verdict.FAILED:
            return step.exit_code or int(ExitCode.CHECK_FAILED)
    return 0
