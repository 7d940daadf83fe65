"""Runs the checks of a step, including those that need a turn of a judge or a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from beam.conversations.commands import CommandEnd, run_command
from beam.conversations.expect import Subject, check, value_text
from beam.conversations.facts import TurnFacts
from beam.conversations.judge import Score
from beam.conversations.result import CheckResult, Verdict
from beam.conversations.scenario import Check, Command, Judging, Scenario
from beam.conversations.speaking import TurnRunner
from beam.conversations.step_files import StepFiles
from beam.turns.outcome import is_blank

GIT_CHECKS = frozenset({"files_changed", "diff"})
_TIMEOUT_S = 600.0


class CheckRunner:
    """Carries out the checks of a run. Commands run in `folder`, with the scenario's variables in their environment.
    `stopped_by` returns why the run was stopped, "" as long as it was not; a command that runs is then ended."""

    def __init__(
        self,
        scenario: Scenario,
        speaking: TurnRunner,
        files: StepFiles,
        *,
        folder: Path,
        environ: dict[str, str],
        stopped_by: Callable[[], str],
    ) -> None:
        self._scenario = scenario
        self._speaking = speaking
        self._files = files
        self._folder = folder
        self._stopped_by = stopped_by
        self._environ = environ | {f"BEAM_VAR_{name}": value for name, value in scenario.variables.items()}

    async def run(self, command: Command, timeout: float) -> CommandEnd:
        """Run a command of the scenario."""
        return await run_command(command, self._folder, self._environ, timeout, self._stopped_by)

    async def check(
        self, step: str, asked: Check, subject: Subject, judged: list[TurnFacts], *, is_over: bool
    ) -> CheckResult:
        """Return the result of one check of the subject. A judge's turn is added to `judged`.

        In a step that has failed already (`is_over`), no judge is asked. After a stop of the run, no command is begun,
        and an empty answer fails no judge's check.
        """
        line = self._scenario.source.lines.get(asked.at)
        if isinstance(asked.value, Judging):
            if is_over or is_blank(subject.reply):
                return CheckResult(
                    name=f"judge: {value_text(asked.value.rubric)}",
                    kind="judge",
                    verdict=Verdict.SKIPPED if is_over or self._stopped_by() else Verdict.FAILED,
                    detail="there is nothing to judge",
                    line=line,
                )
            score, _ = await self._speaking.score(step, asked.value, subject.reply, judged)
            return judged_check(score, asked.value, line)
        if asked.kind == "command" and not subject.is_replayed:
            name = f"command: {value_text(asked.value)}"
            if why := self._stopped_by():
                return CheckResult(name=name, kind="command", verdict=Verdict.SKIPPED, detail=why, line=line)
            command = asked.value if isinstance(asked.value, (str, tuple)) else ""
            ran = await self.run(command, _TIMEOUT_S)
            detail = f"{ran.why}: {value_text(ran.output[-400:])}" if ran.exit_code else ""
            verdict = Verdict.FAILED if ran.exit_code else Verdict.PASSED
            return CheckResult(name=name, kind="command", verdict=verdict, detail=detail, line=line)
        return check(asked, subject, line)

    async def all_pass(
        self, step: str, checks: tuple[Check, ...], facts: list[TurnFacts], *, is_replayed: bool
    ) -> bool:
        """Return whether all these checks pass now, which ends a chat."""
        needs_git = any(each.kind in GIT_CHECKS for each in checks) and not is_replayed
        changes = await self._files.changes(self._files.before if needs_git else "", facts)
        subject = Subject(
            turns=facts,
            reply=facts[-1].reply,
            find_file=self._files.find_file,
            changed=lambda: changes,
            is_replayed=is_replayed,
        )
        found = [await self.check(step, each, subject, [], is_over=False) for each in checks]
        return all(each.verdict is Verdict.PASSED for each in found)


def judged_check(score: Score, judging: Judging, line: int | None) -> CheckResult:
    """Return a judge's score as the result of a check."""
    name = f"judge: {judging.agent} gives {judging.score:g} of 10 or more"
    if score.score is None:
        return CheckResult(name=name, kind="judge", verdict=Verdict.FAILED, detail=score.reason, line=line)
    verdict = Verdict.PASSED if score.score >= judging.score else Verdict.FAILED
    return CheckResult(name=name, kind="judge", verdict=verdict, detail=f"{score.score:g}: {score.reason}", line=line)
