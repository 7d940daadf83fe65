"""Runs one step of a scenario: its turns or its command, then its checks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from beam.agents import registry
from beam.base import files
from beam.base.errors import BeamError, DiskError, ExitCode, NotFoundError, UsageError
from beam.broker.compose import replace_surrogates
from beam.conversations import chat as chats
from beam.conversations.budget import Meter
from beam.conversations.changes import Repository
from beam.conversations.commands import Ran, run_command
from beam.conversations.expect import Changes, Subject, check, ci_failures, value_text
from beam.conversations.facts import TurnFacts
from beam.conversations.hand_over import ContextMode, quote
from beam.conversations.held import HeldAgents
from beam.conversations.judge import SCHEMA, Score, prompt_of, score_in
from beam.conversations.model_calls import ModelFolders
from beam.conversations.recording import Recorder, Replay, with_recorder
from beam.conversations.result import CheckResult, StepResult, TurnResult, Verdict
from beam.conversations.scenario import (
    Chat,
    Check,
    CheckStep,
    Command,
    Judge,
    Judging,
    Part,
    Run,
    Scenario,
    Send,
    Step,
    TurnOptions,
    checks_of,
)
from beam.model.events import Event
from beam.model.message import Options
from beam.model.outcome import Outcome, Status
from beam.turns.request import face_of

_MOST_FILE = 1 << 20
_CHECK_TIMEOUT_S = 600.0


class _SkipError(Exception):
    """The step can't begin: what it needs of an earlier one is not there."""


class StepRunner:
    """Runs the steps of one repeat. `folder` is where the agents work. `restores`: what became of the files is
    recorded, and made so again in a replay.
    """

    def __init__(
        self,
        scenario: Scenario,
        agents: HeldAgents,
        meter: Meter,
        *,
        folder: Path,
        repository: Repository,
        recorder: Recorder | None,
        replay: Replay | None,
        models: ModelFolders,
        ci: bool,
        restores: bool,
    ) -> None:
        self.scenario = scenario
        self._agents = agents
        self._meter = meter
        self._folder = folder
        self._repository = repository
        self._recorder = recorder
        self._replay = replay
        self._models = models
        self._ci = ci
        self._restores = restores
        self.before = ""  # the snapshot of all files when the run began
        self._why_skipped = ""
        self.is_parallel = False  # steps run at the same time: nobody knows whose change a change is
        self._results: dict[str, StepResult] = {}
        self._turns: dict[str, list[TurnFacts]] = {}
        self._told: dict[str, list[Event]] = {agent: [] for agent in scenario.handed_over()}  # of whom a step is told
        self._clock = agents.context.clock
        parts = (part for step in scenario.all_steps() for part in getattr(step, "prompt", ()))
        self._leads = {part.value: os.path.realpath(part.value) for part in parts if part.kind == "file"}

    async def begin(self) -> None:
        """Take note of the files as they are before the first step."""
        if await asyncio.to_thread(self._repository.is_there):
            self.before = await asyncio.to_thread(self._repository.snapshot)

    def skip_rest(self, why: str) -> None:
        """Run no step any more."""
        self._why_skipped = self._why_skipped or why

    @property
    def is_answered(self) -> bool:
        """Return whether no agent runs: every turn is answered from a recording."""
        return self._replay is not None and not self._replay.needs_agents

    async def run(self, step: Step) -> StepResult:
        """Run a step and return what it came to."""
        began = self._clock.monotonic()
        if self._why_skipped:
            return self._skipped(step, self._why_skipped)
        before = await self._snapshot() if self._needs_snapshot(step) else ""
        facts: list[TurnFacts] = []
        self._turns[step.id] = facts
        try:
            result = await self._ran(step, facts)
        except _SkipError as why:
            return self._skipped(step, str(why))
        except BeamError as error:
            result = self._made(step, facts, why=str(error), exit_code=int(error.exit_code) or 1)
        result = msgspec.structs.replace(result, duration_s=round(self._clock.monotonic() - began, 3))
        if not isinstance(step, Run) and not self.is_parallel:
            await self.keep_files(step.id, before)
        result = await self._checked(step, result, facts, before)
        self._results[step.id] = result
        return result

    async def _ran(self, step: Step, facts: list[TurnFacts]) -> StepResult:
        match step:
            case Send():
                return await self._send(step, facts)
            case Chat():
                return await self._chat(step, facts)
            case Judge():
                return await self._judge(step, facts)
            case Run():
                return await self._run(step)
        return self._made(step, facts)

    # -- kinds of steps ------------------------------------------------------------------------------------------------

    async def _send(self, step: Send, facts: list[TurnFacts]) -> StepResult:
        prompt = await self._prompt(step.prompt)
        if step.context_from is not None:
            prompt = f"{prompt}\n\n{self._handed_over(step.context_from, step.context)}"
        options = _asked(step.options, step.schema)
        facts += [TurnFacts(agent, prompt) for agent in step.agents]
        said = await asyncio.gather(*(self._say(step.id, each, options) for each in facts), return_exceptions=True)
        for error in said:
            if isinstance(error, BaseException):
                raise error
        return self._made(step, facts)

    async def _chat(self, step: Chat, facts: list[TurnFacts]) -> StepResult:
        floor = chats.Floor(step, await self._prompt(step.prompt))
        options, until, began = _asked(step.options, None), step.until, self._clock.monotonic()
        speaker: str | None = floor.first()
        why = ""
        while not why:
            if step.moderator is not None:
                speaker, why = await self._chosen(step, floor, facts)
                if why:
                    break
            if speaker is None:
                why = "nobody was addressed"
                break
            turn = TurnFacts(speaker, floor.prompt(speaker))
            facts.append(turn)
            outcome = await self._say(step.id, turn, options)
            if outcome.exit_code or not turn.reply.strip():
                why = "" if outcome.exit_code else f"{speaker} fell silent"
                break
            floor.add(speaker, turn.reply)
            if until.phrase is not None and until.phrase in turn.reply:
                why = f"{speaker} said {value_text(until.phrase)!r}"
            elif until.check and await self._holds(step.id, until.check, [turn]):
                why = f"what was to be checked is so: {until.check[0].kind}"
            else:
                why = chats.limit_reached(until, facts, step.moderator, self._clock.monotonic() - began)
                speaker = floor.after(speaker, turn.reply)
        result = self._made(step, facts)
        return result if result.why else msgspec.structs.replace(result, why=f"ended: {why}")

    async def _chosen(self, step: Chat, floor: chats.Floor, facts: list[TurnFacts]) -> tuple[str | None, str]:
        """Ask the moderator who speaks next; return that agent, or why the chat is over."""
        assert step.moderator is not None
        turn = TurnFacts(step.moderator, floor.question())
        facts.append(turn)
        outcome = await self._say(step.id, turn, _asked(step.options, None))
        if outcome.exit_code:
            return None, f"{step.moderator} failed"
        named = chats.chosen(turn.reply, step.agents)
        if named == chats.DONE:
            return None, f"{step.moderator} said that it is settled"
        return named, "" if named is not None else f"{step.moderator} named nobody: {value_text(turn.reply)!r}"

    async def _judge(self, step: Judge, facts: list[TurnFacts]) -> StepResult:
        score, turn = await self._score(step.id, step.judging, self._said(step.of), facts)
        result = self._made(step, facts)
        if result.verdict is Verdict.FAILED:
            return result
        checked = _judged(score, step.judging, self._line(step))
        return msgspec.structs.replace(result, checks=(checked,), score=score.score, why=turn.agent and score.reason)

    async def _run(self, step: Run) -> StepResult:
        if self._is_replayed():
            raise _SkipError(
                "the turns are replayed: no tool was run again, so the files are not what it would work on"
            )
        ran = await self._command(step.command, step.timeout)
        result = self._made(step, [], why=ran.why, exit_code=ran.exit_code, output=ran.output)
        if ran.exit_code and any(each.kind == "exit_code" for each in step.expect):
            return msgspec.structs.replace(result, verdict=Verdict.PASSED)
        if ran.exit_code:
            return msgspec.structs.replace(result, exit_code=int(ExitCode.CHECK_FAILED))
        return result

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _say(self, step: str, turn: TurnFacts, options: Options) -> Outcome:
        if self._recorder is not None:
            self._recorder.check()  # no turn is begun that could not be recorded
        self._meter.add(turn)

        told = self._told.get(turn.agent)

        def seen(event: Event) -> None:
            turn.take(event)
            if told is not None:
                told.append(event)
            with_recorder(self._recorder, event)
            self._meter.look()

        options = self._fitting(turn.agent, options)
        options = msgspec.structs.replace(options, model_calls=self._models.next(step, turn.agent))
        turn.outcome = await self._agents.say(turn.agent, turn.prompt, options, seen)
        self._meter.look()
        if self._recorder is not None:
            self._recorder.check()
        return turn.outcome

    def _fitting(self, agent: str, options: Options) -> Options:
        """Return the options without an access where the agent has none that could be set."""
        settings = self._agents.context.config.resolve(agent).settings
        adapter = registry.adapter(settings.adapter)
        try:
            can = adapter.card.faces[face_of(adapter, options.via)]
        except BeamError:
            return options
        return options if can.access else msgspec.structs.replace(options, access=None)

    async def _score(
        self, step: str, judging: Judging, subject: str, facts: list[TurnFacts]
    ) -> tuple[Score, TurnFacts]:
        turn = TurnFacts(judging.agent, prompt_of(judging.rubric, subject))
        facts.append(turn)
        outcome = await self._say(step, turn, _asked(judging.options, self._judge_schema(judging)))
        if outcome.status is not Status.COMPLETED:
            return Score(None, f"{judging.agent}: {outcome.status}: {outcome.reason or ''}"), turn
        return score_in(turn), turn

    def _judge_schema(self, judging: Judging) -> str | None:
        settings = self._agents.context.config.resolve(judging.agent).settings
        adapter = registry.adapter(settings.adapter)
        try:
            return SCHEMA if adapter.card.faces[face_of(adapter, judging.options.via)].schema else None
        except BeamError:
            return None

    async def _prompt(self, parts: tuple[Part, ...]) -> str:
        texts = []
        for part in parts:
            match part.kind:
                case "file":
                    texts.append(self._file(part.value))
                case "reply":
                    texts.append(self._said(part.value))
                case "diff":
                    texts.append(await self._diff())
                case _:
                    texts.append(part.value)
        return replace_surrogates("\n\n".join(texts))

    def _said(self, step: str) -> str:
        result = self._results.get(step)
        if result is None or result.verdict is Verdict.SKIPPED:
            raise _SkipError(f"step {step} was not run")
        if not result.reply.strip():
            raise _SkipError(f"step {step} said nothing")
        return result.reply

    def _handed_over(self, agent: str, mode: ContextMode) -> str:
        """Return the quote of that agent's turns in this run. It says no times, so that a replay has the same."""
        try:
            return quote(agent, self._told[agent], mode, has_times=False)
        except NotFoundError:
            raise _SkipError(f"{agent} had no turn before") from None

    def _file(self, path: str) -> str:
        """Return the text of a file for a prompt. Raises UsageError if a link leads elsewhere since the run began."""
        if os.path.realpath(path) != self._leads[path]:
            what = f"{path} led to {self._leads[path]} when the run began, and leads elsewhere now"
            raise UsageError(what, "an agent may have put a link there", subject=path)
        try:
            return files.read(Path(self._leads[path]), _MOST_FILE).decode("utf-8", "replace")
        except FileNotFoundError as error:
            raise UsageError(f"{path} is gone", "it was there when the run began", subject=path) from error

    async def _diff(self) -> str:
        if not self.before:
            return "(there is no git repository, so nobody knows what was changed)"
        now = await asyncio.to_thread(self._repository.snapshot)
        text = await asyncio.to_thread(self._repository.diff, self.before, now)
        return text or "(no file was changed)"

    # -- checks --------------------------------------------------------------------------------------------------------

    async def _checked(self, step: Step, result: StepResult, facts: list[TurnFacts], before: str) -> StepResult:
        if isinstance(step, CheckStep):
            of = self._results.get(step.of)
            if step.of and (of is None or of.verdict is Verdict.SKIPPED):
                return self._skipped(step, f"step {step.of} was not run")
            facts = self._turns.get(step.of, [])
            result, about = result, of or result
        else:
            about = result
        changes = await self._changes(before or self.before, step)
        subject = Subject(
            turns=facts,
            reply=about.reply,
            exit_code=_first_code(facts, about),
            duration_s=about.duration_s,
            look=self._look,
            changed=lambda: changes,
            is_replayed=self._is_replayed(),
        )
        judged: list[TurnFacts] = []
        is_over = result.verdict is Verdict.FAILED
        found = [
            *result.checks,
            *[await self._check(step.id, each, subject, judged, is_over=is_over) for each in step.expect],
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
            result, checks=tuple(found), judged=tuple(_turn_result(each) for each in judged if each.outcome)
        )

    async def _check(
        self, step: str, asked: Check, subject: Subject, judged: list[TurnFacts], *, is_over: bool
    ) -> CheckResult:
        line = self.scenario.source.lines.get(asked.at)
        if isinstance(asked.value, Judging):
            if is_over or not subject.reply.strip():
                return CheckResult(
                    name=f"judge: {value_text(asked.value.rubric)}",
                    kind="judge",
                    verdict=Verdict.SKIPPED,
                    detail="there is nothing to judge",
                    line=line,
                )
            score, _ = await self._score(step, asked.value, subject.reply, judged)
            return _judged(score, asked.value, line)
        if asked.kind == "command" and not subject.is_replayed:
            command = asked.value if isinstance(asked.value, (str, tuple)) else ""
            ran = await self._command(command, _CHECK_TIMEOUT_S)
            detail = f"{ran.why}: {value_text(ran.output[-400:])}" if ran.exit_code else ""
            verdict = Verdict.FAILED if ran.exit_code else Verdict.PASSED
            name = f"command: {value_text(asked.value)}"
            return CheckResult(name=name, kind="command", verdict=verdict, detail=detail, line=line)
        return check(asked, subject, line)

    async def _holds(self, step: str, checks: tuple[Check, ...], facts: list[TurnFacts]) -> bool:
        """Return whether all these are so now, which ends a chat."""
        changes = await self._changes(self.before, None) if any(c.kind in _OF_GIT for c in checks) else Changes()
        subject = Subject(
            turns=facts,
            reply=facts[-1].reply,
            look=self._look,
            changed=lambda: changes,
            is_replayed=self._is_replayed(),
        )
        found = [await self._check(step, each, subject, [], is_over=False) for each in checks]
        return all(each.verdict is Verdict.PASSED for each in found)

    async def _command(self, command: Command, timeout: float) -> Ran:
        environ: dict[str, str] = dict(self._agents.context.environ)
        environ |= {f"BEAM_VAR_{name}": value for name, value in self.scenario.variables.items()}
        return await run_command(command, self._folder, environ, timeout)

    def _look(self, path: str) -> str | None:
        """Return the text of a file of the folder; no link leads out of it."""
        target = self._folder / path
        try:
            if not target.resolve().is_relative_to(self._folder.resolve()):
                return None
            if target.is_dir():
                return ""
            return files.read(target, _MOST_FILE, follow=True).decode("utf-8", "replace")
        except (OSError, ValueError, DiskError):
            return None

    # -- files ---------------------------------------------------------------------------------------------------------

    def _needs_snapshot(self, step: Step) -> bool:
        if isinstance(step, CheckStep):
            return False
        return (self._restores and (self._recorder or self._replay) is not None) or any(
            each.kind in _OF_GIT for each in checks_of(step)
        )

    async def snapshot_to_keep(self) -> str:
        """Return a snapshot for `keep_files`; "" where nothing is to be kept."""
        return await self._snapshot() if self._restores and (self._recorder or self._replay) is not None else ""

    async def _snapshot(self) -> str:
        return await asyncio.to_thread(self._repository.snapshot) if self.before else ""

    async def _changes(self, before: str, step: Step | None) -> Changes:
        needed = step is None or any(each.kind in _OF_GIT for each in step.expect)
        if not before or not needed or self._is_replayed():
            return Changes()
        now = await asyncio.to_thread(self._repository.snapshot)
        return await asyncio.to_thread(self._repository.changes, before, now)

    async def keep_files(self, step: str, before: str) -> None:
        """Record what became of the files of a work tree since that snapshot, or in a replay make it so again."""
        if not self._restores or not before:
            return
        if self._replay is not None and self.is_answered:
            path = self._replay.folder / f"{step}.patch"
            try:
                patch = files.read(path, 64 << 20, follow=True)
            except FileNotFoundError:
                return
            wrong = await asyncio.to_thread(self._repository.apply, patch)
            if wrong:
                raise UsageError(f"the recorded changes of step {step} don't fit: {wrong}", "record it again")
        elif self._recorder is not None:
            now = await asyncio.to_thread(self._repository.snapshot)
            patch = await asyncio.to_thread(self._repository.patch, before, now)
            path = self._recorder.folder / f"{step}.patch"
            if patch or path.exists():
                files.make_directory(path.parent)
                files.replace(path, patch)

    def _is_replayed(self) -> bool:
        """Return whether the files are not what they would be, because no tool ran."""
        if self._replay is None or self._restores:
            return False
        return any(turn.replayed for turns in self._turns.values() for turn in turns)

    # -- results -------------------------------------------------------------------------------------------------------

    def _made(
        self, step: Step, facts: list[TurnFacts], *, why: str = "", exit_code: int = 0, output: str = ""
    ) -> StepResult:
        """Return the result of a step before its checks: failed where a turn is, unless that is expected."""
        failed = next((turn for turn in facts if _is_failure(turn, step)), None)
        if failed is not None and failed.outcome is not None and not why:
            outcome = failed.outcome
            word = f"{outcome.status} ({outcome.class_})" if outcome.class_ else str(outcome.status)
            why, exit_code = f"{failed.agent}: {word}: {outcome.reason or 'no reason given'}", outcome.exit_code
        if self._agents.stopped_by and exit_code and not isinstance(step, Run):
            why = self._agents.stopped_by
        return StepResult(
            id=step.id,
            kind=_kind(step),
            verdict=Verdict.FAILED if exit_code else Verdict.PASSED,
            line=self._line(step),
            why=why,
            exit_code=exit_code,
            turns=tuple(_turn_result(turn) for turn in facts if turn.outcome is not None),
            output=output,
        )

    def _skipped(self, step: Step, why: str) -> StepResult:
        result = StepResult(id=step.id, kind=_kind(step), verdict=Verdict.SKIPPED, line=self._line(step), why=why)
        self._results[step.id] = result
        return result

    def _line(self, step: Step) -> int:
        return self.scenario.source.lines.get(step.at, 1)


_OF_GIT = frozenset({"files_changed", "diff"})
_ALLOWED_STATUS: Mapping[str, Status] = {"denied": Status.DENIED, "truncated": Status.TRUNCATED}


def _is_failure(turn: TurnFacts, step: Step) -> bool:
    outcome = turn.outcome
    if outcome is None or not outcome.exit_code:
        return False
    if any(_ALLOWED_STATUS.get(word) is outcome.status for word in step.allow):
        return False
    return not any(each.kind in ("status", "exit_code") for each in step.expect)


def _first_code(facts: list[TurnFacts], about: StepResult) -> int:
    codes = [turn.outcome.exit_code for turn in facts if turn.outcome is not None]
    return next((code for code in codes if code), about.exit_code)


def _kind(step: Step) -> str:
    return "check" if isinstance(step, CheckStep) else type(step).__name__.lower()


def _asked(options: TurnOptions, schema: str | None) -> Options:
    return Options(
        model=options.model,
        access=options.access,
        via=options.via,
        timeout=options.timeout,
        max_turns=options.max_turns,
        budget_usd=options.budget_usd,
        schema=schema,
    )


def _turn_result(turn: TurnFacts) -> TurnResult:
    assert turn.outcome is not None
    return TurnResult(
        agent=turn.agent,
        outcome=turn.outcome,
        tools=tuple(tool.name for tool in turn.tools),
        files=tuple(dict.fromkeys(file.path for file in turn.files)),
        cost_usd=turn.cost_usd,
        tokens=turn.tokens,
        replayed=turn.replayed or None,
    )


def _judged(score: Score, judging: Judging, line: int | None) -> CheckResult:
    name = f"judge: {judging.agent} gives {judging.score:g} of 10 or more"
    if score.score is None:
        return CheckResult(name=name, kind="judge", verdict=Verdict.FAILED, detail=score.reason, line=line)
    verdict = Verdict.PASSED if score.score >= judging.score else Verdict.FAILED
    return CheckResult(name=name, kind="judge", verdict=verdict, detail=f"{score.score:g}: {score.reason}", line=line)
