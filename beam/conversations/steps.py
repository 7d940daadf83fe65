"""Runs one step of a scenario: its turns or its command, then its checks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec

from beam.base.errors import BeamError, ExitCode, NotFoundError
from beam.base.typed_values import replace_surrogates
from beam.conversations import chat as chats
from beam.conversations.budget import BudgetMeter
from beam.conversations.changes import FolderChanges
from beam.conversations.checking import GIT_CHECKS, CheckRunner, judged_check
from beam.conversations.expect import Subject, ci_failures, value_text
from beam.conversations.facts import TurnFacts
from beam.conversations.held import HeldAgents
from beam.conversations.model_calls import ModelFolders
from beam.conversations.recording import Recorder, Replay
from beam.conversations.result import StepResult, Verdict
from beam.conversations.scenario import (
    Chat,
    CheckStep,
    Judge,
    Part,
    Run,
    Scenario,
    Send,
    Step,
    checks_of,
)
from beam.conversations.speaking import TurnRunner, message_options
from beam.conversations.step_files import StepFiles
from beam.conversations.step_result import first_exit_code, is_failure, kind_of, turn_result
from beam.model.hand_over import ContextMode
from beam.model.outcome import Class
from beam.turns.outcome import is_blank


class _SkipError(Exception):
    """The step can't begin, because something that it needs of an earlier step is missing."""


class StepRunner:
    """Runs the steps of one repeat. `folder` is where the agents work. `restores`: changes of the files are recorded,
    and applied again in a replay. `real_paths` is where the paths of the prompts' files led when the whole run began.
    """

    def __init__(
        self,
        scenario: Scenario,
        agents: HeldAgents,
        meter: BudgetMeter,
        *,
        folder: Path,
        changes: FolderChanges,
        recorder: Recorder | None,
        replay: Replay | None,
        models: ModelFolders,
        ci: bool,
        restores: bool,
        real_paths: Mapping[str, str],
    ) -> None:
        self.scenario = scenario
        self.files = StepFiles(
            folder, changes, recorder=recorder, replay=replay, restores=restores, real_paths=real_paths
        )
        self.is_parallel = False  # steps run at the same time: nobody knows which of them made a change
        self._agents = agents
        self._speaking = TurnRunner(scenario, agents, meter, recorder=recorder, models=models)
        environ = dict(agents.context.environ)
        self._checking = CheckRunner(
            scenario,
            self._speaking,
            self.files,
            folder=folder,
            environ=environ,
            stopped_by=lambda: agents.stopped_by,
        )
        self._replay = replay
        self._ci = ci
        self._why_skipped = ""
        self._results: dict[str, StepResult] = {}
        self._turns: dict[str, list[TurnFacts]] = {}
        self._clock = agents.context.clock

    def skip_rest(self, why: str) -> None:
        """Let `run` skip all further steps. If this is called again, the first reason stays."""
        self._why_skipped = self._why_skipped or why

    @property
    def is_replay(self) -> bool:
        """Return whether no agent runs: every turn is answered from a recording."""
        return self._replay is not None and not self._replay.needs_agents

    async def run(self, step: Step) -> StepResult:
        """Run a step and return its result."""
        began = self._clock.monotonic()
        if self._why_skipped:
            return self._skip(step, self._why_skipped)
        before = await self.files.snapshot() if self._needs_snapshot(step) else ""
        facts: list[TurnFacts] = []
        self._turns[step.id] = facts
        try:
            result = await self._run_by_kind(step, facts)
        except _SkipError as why:
            return self._skip(step, str(why))
        except BeamError as error:
            result = self._make_result(step, facts, why=str(error), exit_code=int(error.exit_code) or 1)
        result = msgspec.structs.replace(result, duration_s=round(self._clock.monotonic() - began, 3))
        if not isinstance(step, Run) and not self.is_parallel:
            await self.files.keep(step.id, before)
        result = await self._run_checks(step, result, facts, before)
        self._results[step.id] = result
        return result

    async def _run_by_kind(self, step: Step, facts: list[TurnFacts]) -> StepResult:
        match step:
            case Send():
                return await self._send(step, facts)
            case Chat():
                return await self._chat(step, facts)
            case Judge():
                return await self._judge(step, facts)
            case Run():
                return await self._run(step)
        return self._make_result(step, facts)

    # -- kinds of steps ------------------------------------------------------------------------------------------------

    async def _send(self, step: Send, facts: list[TurnFacts]) -> StepResult:
        prompt = await self._prompt(step.prompt)
        if step.context_from is not None:
            prompt = f"{prompt}\n\n{self._quote_turns(step.context_from, step.context)}"
        options = message_options(step.options, step.schema)
        facts += [TurnFacts(agent, prompt) for agent in step.agents]
        said = await asyncio.gather(
            *(self._speaking.say(step.id, each, options) for each in facts), return_exceptions=True
        )
        for error in said:
            if isinstance(error, BaseException):
                raise error
        return self._make_result(step, facts)

    async def _chat(self, step: Chat, facts: list[TurnFacts]) -> StepResult:
        floor = chats.ChatState(step, await self._prompt(step.prompt))
        options, until, began = message_options(step.options, None), step.until, self._clock.monotonic()
        speaker: str | None = floor.first_speaker()
        why = ""
        while not why:
            if step.moderator is not None:
                speaker, why = await self._ask_moderator(step, floor, facts)
                if why:
                    break
            if speaker is None:
                why = "nobody was addressed"
                break
            turn = TurnFacts(speaker, floor.prompt(speaker))
            facts.append(turn)
            outcome = await self._speaking.say(
                step.id, turn, options, limit=partial(chats.budget_reached, until, facts)
            )
            if turn.cut:
                why = turn.cut
                break
            if outcome.exit_code or is_blank(turn.reply):
                is_silent = not outcome.exit_code or outcome.class_ is Class.EMPTY
                why = f"{speaker} fell silent" if is_silent else f"{speaker}'s turn was {outcome.status}"
                break
            floor.add(speaker, turn.reply)
            if until.phrase is not None and until.phrase in turn.reply:
                why = f"{speaker} said {value_text(until.phrase)!r}"
            elif until.check and await self._chat_check_passes(step, turn):
                why = f"the check of `until` passed: {until.check[0].kind}"
            else:
                why = chats.limit_reached(until, facts, step.moderator, self._clock.monotonic() - began)
                speaker = floor.next_speaker(speaker, turn.reply)
        result = self._make_result(step, facts)
        return result if result.why else msgspec.structs.replace(result, why=f"ended: {why}")

    async def _ask_moderator(
        self, step: Chat, floor: chats.ChatState, facts: list[TurnFacts]
    ) -> tuple[str | None, str]:
        """Ask the moderator who speaks next; return that agent, or why the chat is over."""
        assert step.moderator is not None
        turn = TurnFacts(step.moderator, floor.moderator_prompt())
        facts.append(turn)
        limit = partial(chats.budget_reached, step.until, facts)
        outcome = await self._speaking.say(step.id, turn, message_options(step.options, None), limit=limit)
        if turn.cut:
            return None, turn.cut
        if outcome.exit_code:
            return None, f"{step.moderator} failed"
        named = chats.chosen_speaker(turn.reply, step.agents)
        if named == chats.DONE:
            return None, f"{step.moderator} said that it is settled"
        return named, "" if named is not None else f"{step.moderator} named nobody: {value_text(turn.reply)!r}"

    async def _judge(self, step: Judge, facts: list[TurnFacts]) -> StepResult:
        score, turn = await self._speaking.score(step.id, step.judging, self._reply_of(step.of), facts)
        result = self._make_result(step, facts)
        if result.verdict is Verdict.FAILED:
            return result
        checked = judged_check(score, step.judging, self._line(step))
        return msgspec.structs.replace(result, checks=(checked,), score=score.score, why=turn.agent and score.reason)

    async def _run(self, step: Run) -> StepResult:
        if self._is_replayed():
            raise _SkipError(
                "the turns are replayed: no tool was run again, so the files are not what it would work on"
            )
        ran = await self._checking.run(step.command, step.timeout)
        result = self._make_result(step, [], why=ran.why, exit_code=ran.exit_code, output=ran.output)
        if ran.is_stopped:
            return msgspec.structs.replace(result, exit_code=int(ExitCode.CANCELLED))
        if ran.exit_code and any(each.kind == "exit_code" for each in step.expect):
            return msgspec.structs.replace(result, verdict=Verdict.PASSED)
        if ran.exit_code:
            return msgspec.structs.replace(result, exit_code=int(ExitCode.CHECK_FAILED))
        return result

    async def _chat_check_passes(self, step: Chat, turn: TurnFacts) -> bool:
        return await self._checking.all_pass(step.id, step.until.check, [turn], is_replayed=self._is_replayed())

    # -- prompts -------------------------------------------------------------------------------------------------------

    async def _prompt(self, parts: tuple[Part, ...]) -> str:
        texts = []
        for part in parts:
            match part.kind:
                case "file":
                    texts.append(self.files.prompt_file_text(part.value))
                case "reply":
                    texts.append(self._reply_of(part.value))
                case "diff":
                    texts.append(await self.files.diff())
                case _:
                    texts.append(part.value)
        return replace_surrogates("\n\n".join(texts))

    def _reply_of(self, step: str) -> str:
        result = self._results.get(step)
        if result is None or result.verdict is Verdict.SKIPPED:
            raise _SkipError(f"step {step} was not run")
        if result.verdict is Verdict.FAILED:
            raise _SkipError(f"step {step} failed")
        if is_blank(result.reply):
            raise _SkipError(f"step {step} said nothing")
        return result.reply

    def _quote_turns(self, agent: str, mode: ContextMode) -> str:
        try:
            return self._speaking.quote_turns(agent, mode)
        except NotFoundError:
            raise _SkipError(f"{agent} had no turn before") from None

    # -- checks --------------------------------------------------------------------------------------------------------

    async def _run_checks(self, step: Step, result: StepResult, facts: list[TurnFacts], before: str) -> StepResult:
        if isinstance(step, CheckStep):
            of = self._results.get(step.of)
            if step.of and (of is None or of.verdict is Verdict.SKIPPED):
                return self._skip(step, f"step {step.of} was not run")
            facts = self._turns.get(step.of, [])
            result, about = result, of or result
        else:
            about = result
        needs_git = any(each.kind in GIT_CHECKS for each in step.expect) and not self._is_replayed()
        changes = await self.files.changes((before or self.files.before) if needs_git else "", facts)
        subject = Subject(
            turns=facts,
            reply=about.reply,
            exit_code=first_exit_code(facts, about),
            duration_s=about.duration_s,
            find_file=self.files.find_file,
            changed=lambda: changes,
            is_replayed=self._is_replayed(),
        )
        judged: list[TurnFacts] = []
        is_over = result.verdict is Verdict.FAILED
        found = [
            *result.checks,
            *[await self._checking.check(step.id, each, subject, judged, is_over=is_over) for each in step.expect],
        ]
        if self._ci:
            found += ci_failures(facts if not isinstance(step, CheckStep) else [], step.allow | self.scenario.allow)
        failed = [each for each in found if each.verdict is Verdict.FAILED]
        if failed and not is_over:
            result = msgspec.structs.replace(
                result,
                verdict=Verdict.FAILED,
                why=f"{failed[0].name}: {failed[0].detail}",
                exit_code=int(ExitCode.CHECK_FAILED),
            )
        return msgspec.structs.replace(
            result, checks=tuple(found), judged=tuple(turn_result(each) for each in judged if each.outcome)
        )

    def _needs_snapshot(self, step: Step) -> bool:
        if isinstance(step, CheckStep):
            return False
        return self.files.keeps_changes or any(each.kind in GIT_CHECKS for each in checks_of(step))

    def _is_replayed(self) -> bool:
        """Return whether the files lack the tools' changes, because no tool ran."""
        if self._replay is None or self.files.restores:
            return False
        return any(turn.replayed for turns in self._turns.values() for turn in turns)

    # -- results -------------------------------------------------------------------------------------------------------

    def _make_result(
        self, step: Step, facts: list[TurnFacts], *, why: str = "", exit_code: int = 0, output: str = ""
    ) -> StepResult:
        """Return the result of a step before its checks. The result is failed if a turn failed, unless the step expects
        the failure."""
        failed = next((turn for turn in facts if is_failure(turn, step, self.scenario.allow)), None)
        if failed is not None and failed.outcome is not None and not why:
            outcome = failed.outcome
            word = f"{outcome.status} ({outcome.class_})" if outcome.class_ else str(outcome.status)
            why, exit_code = f"{failed.agent}: {word}: {outcome.reason or 'no reason given'}", outcome.exit_code
        if self._agents.stopped_by and exit_code and not isinstance(step, Run):
            why = self._agents.stopped_by
        return StepResult(
            id=step.id,
            kind=kind_of(step),
            verdict=Verdict.FAILED if exit_code else Verdict.PASSED,
            line=self._line(step),
            why=why,
            exit_code=exit_code,
            turns=tuple(turn_result(turn) for turn in facts if turn.outcome is not None),
            output=output,
        )

    def _skip(self, step: Step, why: str) -> StepResult:
        result = StepResult(id=step.id, kind=kind_of(step), verdict=Verdict.SKIPPED, line=self._line(step), why=why)
        self._results[step.id] = result
        return result

    def _line(self, step: Step) -> int:
        return self.scenario.source.lines.get(step.at, 1)
