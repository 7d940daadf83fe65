"""Runs a scenario: its steps in order, each repeat with agents, files and recordings of its own."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import msgspec

from beam.base.errors import ExitCode, SignalledError
from beam.broker.inbox import launch
from beam.broker.inbox.context import RootContext
from beam.conversations.budget import BudgetMeter
from beam.conversations.changes import FolderChanges
from beam.conversations.held import HeldAgents
from beam.conversations.model_calls import ModelFolders, sum_counts
from beam.conversations.recording import Recorder, Replay, has_turns
from beam.conversations.repeat_worktree import RepeatWorktrees
from beam.conversations.result import (
    ReplayCounts,
    RunResult,
    StepResult,
    Verdict,
    WorktreeResult,
    run_exit_code,
    total,
)
from beam.conversations.run_options import RunOptions, StepBegan, Warned, Watch
from beam.conversations.scenario import CheckStep, Parallel, Scenario, Spending, Step, checks_of
from beam.conversations.step_files import real_paths
from beam.conversations.steps import StepRunner
from beam.secrets.redact import redact_event
from beam.turns.handle import on_stop_signals

_REPLAY_NOTE = "the turns were answered from a recording: no agent ran, and no tool was run again"
_FILL_NOTE = "some turns were answered from a recording, where no agent and no tool ran; the others by the agents"
_NEEDS_SNAPSHOTS = frozenset({"files_changed", "diff"})


async def play(scenario: Scenario, context: RootContext, options: RunOptions, watch: Watch) -> RunResult:
    """Run the scenario and return its result. `watch` is called when a step begins and when it is over; for parallel
    steps, the calls are in the order of the file.

    Raises SignalledError after a signal, once all turns are over; the `outcome` of the error is the result so far.
    """
    run = _Run(scenario, context, options, lambda progress: watch(redact_event(progress)[0]))
    with on_stop_signals(lambda: run.stop("human (signal)")) as came:
        await asyncio.sleep(0)
        result, _ = redact_event(await run.run_all())  # values that --set filled into a command or a check
    if came:
        raise SignalledError(came[0], result, message="the run was stopped", hint="its turns are in `beam log`")
    return result


class _Run:
    def __init__(self, scenario: Scenario, context: RootContext, options: RunOptions, watch: Watch) -> None:
        self.scenario = scenario
        self.context = context
        self.options = options
        self.watch = watch
        own, given = scenario.limits, options.limits
        limits = Spending(**{
            name: getattr(own, name) if getattr(given, name) is None else getattr(given, name)
            for name in Spending.__struct_fields__
        })  # fmt: skip
        self.limits = limits
        self.meter = BudgetMeter(
            limits, lambda text: watch(Warned(text)), self._on_budget_used_up, self._on_budget_nearly_used_up
        )
        self._mark, self._notified = context.clock.random(4).hex(), 0  # of this run's notifications
        self.agents: HeldAgents | None = None
        self.stopped = ""  # why nothing more is begun
        self.steps: list[StepResult] = []
        self.counts = ReplayCounts()
        self.worktrees: list[WorktreeResult] = []
        self.lost = ""  # why the changes of a work tree could not be committed
        self._real_paths = real_paths(scenario)

    def _on_budget_nearly_used_up(self, text: str) -> None:
        self.watch(Warned(text))
        self._notify(text)

    def _on_budget_used_up(self, why: str) -> None:
        self._stop_at_limit(why)
        self._notify(f"{why}; it is stopped")

    def _notify(self, text: str) -> None:
        self._notified += 1
        key = f"{self.scenario.name}-{self._mark}-{self._notified}"
        launch.notify_budget(self.context, key, agent=self.meter.speaker, text=f"{self.scenario.name}: {text}")

    def _stop_at_limit(self, why: str) -> None:
        self.meter.reached = self.meter.reached or why
        self.stop(why)

    def stop(self, why: str) -> None:
        """Begin nothing more, and end the turns that run; a second call ends them immediately."""
        self.stopped = self.stopped or why
        if self.agents is not None:
            self.agents.stop(why)

    async def run_all(self) -> RunResult:
        """Run all repeats, and return the result of the run."""
        began = self.context.clock.monotonic()
        times = self.options.repeat or self.scenario.times
        worktrees = RepeatWorktrees(self.scenario, self.context, times)
        await worktrees.check_branches(lambda text: self.watch(Warned(text)))
        passes = done = 0
        timer = None
        if self.limits.time is not None:
            why = f"the run took longer than {self.limits.time:g} s, its limit"
            timer = asyncio.get_running_loop().call_later(self.limits.time, self._stop_at_limit, why)
        try:
            for number in range(1, times + 1):
                if self.stopped and number > 1:
                    break
                steps = await self._run_repeat(number, times, worktrees)
                done += 1
                is_good = not any(step.verdict is Verdict.FAILED for step in steps) and not self.stopped
                passes += is_good
                if not is_good and self.options.fail_fast:
                    break
        finally:
            if timer is not None:
                timer.cancel()
        return self._result(times, passes, round(self.context.clock.monotonic() - began, 3))

    def _result(self, times: int, passes: int, duration_s: float) -> RunResult:
        steps = tuple(self.steps)
        rate = self.scenario.pass_rate if self.options.pass_rate is None else self.options.pass_rate
        is_good = passes >= round(rate * times, 9) and not self.stopped  # 0.28 * 25 is a little more than 7
        code, why = run_exit_code(steps), ""
        if is_good:
            code = 0
        elif self.stopped:
            code = int(ExitCode.LIMIT) if self.meter.reached else int(ExitCode.CANCELLED)
            why = self.stopped
        else:
            failed = next((step for step in steps if step.verdict is Verdict.FAILED), None)
            why = f"step {failed.id}: {failed.why}" if failed is not None else ""
            if times > 1:
                why = f"{passes} of {times} runs passed, and {rate:.0%} had to; {why}"
                code = int(ExitCode.CHECK_FAILED)
        turns = [turn for step in steps for turn in (*step.turns, *step.judged)]
        asked = self.options.recording
        if is_good and self.lost:
            is_good, code, why = False, int(ExitCode.FAILED), self.lost
        is_replay = bool(asked.replay) and asked.of_turns
        note = _FILL_NOTE if self.counts.live else _REPLAY_NOTE
        return RunResult(
            name=self.scenario.name,
            file=self.scenario.source.name,
            verdict=Verdict.PASSED if is_good else Verdict.FAILED,
            exit_code=code,
            why=why,
            steps=steps,
            spent=total(turns),
            duration_s=duration_s,
            repeats=times,
            passes=passes,
            replay=self.counts if is_replay else None,
            model_calls=sum_counts(turns, asked) if asked.of_model else None,
            worktrees=tuple(self.worktrees),
            note=note if is_replay and any(turn.replayed for turn in turns) else "",
        )

    # -- one repeat ----------------------------------------------------------------------------------------------------

    async def _run_repeat(self, number: int, times: int, worktrees: RepeatWorktrees) -> list[StepResult]:
        replay = self._open_replay(number)
        record = self._recording_folder(number, times, replay)
        recorder = Recorder(record, adds=replay is not None) if record is not None else None
        context = msgspec.structs.replace(self.context, recordings=replay)
        tree = await worktrees.add(number)
        if tree is not None:
            changes = tree.changes
        else:
            changes = FolderChanges(context.home.project, context.environ, store=context.home.root)
        folder = changes.folder
        context = _with_scenario_settings(context, self.scenario, folder if tree is not None else None)
        self.agents = HeldAgents(context, self.scenario.name, multi_turn=self.scenario.multi_turn_agents())
        asked = self.options.recording
        changes.leave_out([Path(asked.folder)] if asked.folder else [])
        runner = StepRunner(
            self.scenario,
            self.agents,
            self.meter,
            folder=folder,
            changes=changes,
            recorder=recorder,
            replay=replay,
            models=ModelFolders(asked, number, times),
            ci=self.options.ci,
            restores=tree is not None,
            real_paths=self._real_paths,
        )
        found: list[StepResult] = []
        try:
            if tree is not None or self._needs_snapshots():
                await runner.files.begin()
            await self._run_steps(runner, self.scenario.steps, number, found)
        finally:
            await self.agents.close()
            if tree is not None:
                self.worktrees.append(await asyncio.to_thread(tree.end, runner.files.before))
                self.lost = self.lost or tree.lost
            await asyncio.to_thread(changes.close)
            if replay is not None:
                self.counts = _add_counts(self.counts, replay.counts)
        return found

    def _open_replay(self, number: int) -> Replay | None:
        asked = self.options.recording
        if not asked.replay or not asked.of_turns:
            return None
        folder = Path(asked.replay)
        own = folder / str(number)  # of the repeat, or of a step's model calls
        return Replay(own if has_turns(own) else folder, asked.on_miss)

    def _recording_folder(self, number: int, times: int, replay: Replay | None) -> Path | None:
        """Return the folder into which the turns of a repeat are recorded; None if they are not recorded. What a replay
        fills in is added to the turns that it answers from, because the next replay reads those."""
        own = None if times == 1 else str(number)
        asked = self.options.recording
        if asked.record and asked.of_turns:
            return Path(asked.record, own or "")
        if replay is None or replay.on_miss != "live":
            return None
        is_own = own is None or has_turns(replay.folder) or replay.folder.name == own
        return replay.folder if is_own or own is None else replay.folder / own

    def _needs_snapshots(self) -> bool:
        steps = list(self.scenario.all_steps())
        return any(check.kind in _NEEDS_SNAPSHOTS for step in steps for check in checks_of(step)) or any(
            part.kind == "diff" for step in steps for part in getattr(step, "prompt", ())
        )

    async def _run_steps(
        self, runner: StepRunner, steps: tuple[Step, ...], number: int, found: list[StepResult]
    ) -> None:
        for step in steps:
            if isinstance(step, Parallel):
                results = await self._run_parallel(runner, step, number)
            else:
                self.watch(_step_began(step, number))
                results = [await self._run_step(runner, step, number)]
                self.watch(results[0])
            found += results
            self.steps += results
            if self.options.fail_fast and any(result.verdict is Verdict.FAILED for result in results):
                runner.skip_rest("an earlier step failed, and --fail-fast ends the run there")

    async def _run_parallel(self, runner: StepRunner, step: Parallel, number: int) -> list[StepResult]:
        """Run the steps of a parallel step at the same time. `watch` is called with the result of each as soon as that
        step and all steps before it are over."""
        before = await runner.files.snapshot_to_keep()
        if runner.is_replay:
            await runner.files.keep(step.id, before)
        runner.is_parallel = True
        tasks = [asyncio.ensure_future(self._run_step(runner, each, number)) for each in step.steps]
        results = []
        try:
            for each, task in zip(step.steps, tasks, strict=True):
                self.watch(_step_began(each, number))
                results.append(await task)
                self.watch(results[-1])
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
            runner.is_parallel = False
        if not runner.is_replay:
            await runner.files.keep(step.id, before)
        return results

    async def _run_step(self, runner: StepRunner, step: Step, number: int) -> StepResult:
        if self.stopped:
            runner.skip_rest(self.stopped)
        result = await runner.run(step)
        return msgspec.structs.replace(result, repeat=number)


def _step_began(step: Step, number: int) -> StepBegan:
    from beam.conversations.scenario import agents_of

    names = tuple(dict.fromkeys(name for name, _ in agents_of(step)))
    kind = "check" if isinstance(step, CheckStep) else type(step).__name__.lower()
    return StepBegan(id=step.id, kind=kind, agents=names, repeat=number)


def _with_scenario_settings(context: RootContext, scenario: Scenario, folder: Path | None) -> RootContext:
    """Return the context with the scenario's settings for its agents. With a `folder`, the agents work in it."""
    agents = {name: dict(fields) for name, fields in scenario.agents.items()}
    if folder is not None:
        plain = context.config.with_scenario(scenario.path, agents)
        for name in scenario.speakers():
            own = plain.resolve(name).settings.cwd
            agents[name] = {**agents.get(name, {}), "cwd": str(folder / own) if own else str(folder)}
    return msgspec.structs.replace(context, config=context.config.with_scenario(scenario.path, agents))


def _add_counts(one: ReplayCounts, other: ReplayCounts) -> ReplayCounts:
    names = ReplayCounts.__struct_fields__
    return ReplayCounts(**{name: getattr(one, name) + getattr(other, name) for name in names})
