"""Runs the turns of agents in the steps of a run, and has judges score texts."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from beam.agents import registry
from beam.agents.base import Capabilities
from beam.base.errors import BeamError
from beam.conversations.budget import BudgetMeter
from beam.conversations.facts import TurnFacts
from beam.conversations.held import HeldAgents
from beam.conversations.judge import SCHEMA, Score, judge_prompt, score_in
from beam.conversations.model_calls import ModelFolders
from beam.conversations.recording import Recorder
from beam.conversations.scenario import Judging, Scenario, TurnOptions
from beam.model.events import Event
from beam.model.hand_over import ContextMode, quote
from beam.model.message import Options
from beam.model.outcome import Outcome, Status
from beam.turns.choice import face_of
from beam.turns.handle import Stop


class TurnRunner:
    """Runs the turns of a run's agents. It adds up their usage, records them, and keeps the events of agents whose
    turns a later step quotes."""

    def __init__(
        self,
        scenario: Scenario,
        agents: HeldAgents,
        meter: BudgetMeter,
        *,
        recorder: Recorder | None,
        models: ModelFolders,
    ) -> None:
        self._agents = agents
        self._meter = meter
        self._recorder = recorder
        self._models = models
        self._told: dict[str, list[Event]] = {agent: [] for agent in scenario.handed_over()}

    async def say(
        self, step: str, turn: TurnFacts, options: Options, *, limit: Callable[[], str] = lambda: ""
    ) -> Outcome:
        """Run a turn of a step and return its outcome. The facts of the turn are collected in `turn`.

        The turn is ended once `limit` returns a reason; `turn.cut` is then that reason.
        """
        if self._recorder is not None:
            self._recorder.check()  # no turn is begun that could not be recorded
        self._meter.add(turn)
        turn.cwd = self._folder_of(turn.agent)

        told, stop = self._told.get(turn.agent), Stop()

        def seen(event: Event) -> None:
            turn.add_event(event)
            if told is not None:
                told.append(event)
            if self._recorder is not None:
                self._recorder.take(event)
            self._meter.compare_with_limits()
            if stop.reason is None and (why := limit()):
                stop.request("cancelled", by=why)

        options = self._without_unsupported_access(turn.agent, options)
        options = msgspec.structs.replace(options, recording=self._models.next(step, turn.agent))
        turn.outcome = await self._agents.say(turn.agent, turn.prompt, options, seen, stop)
        if turn.outcome.status is Status.CANCELLED and stop.reason is not None and not self._agents.stopped_by:
            turn.cut = limit()
        self._meter.compare_with_limits()
        if self._recorder is not None:
            self._recorder.check()
        return turn.outcome

    def _folder_of(self, agent: str) -> str:
        """Return the folder where the agent works, without links."""
        context = self._agents.context
        return os.path.realpath(context.home.project / (context.config.resolve(agent).settings.cwd or ""))

    def quote_turns(self, agent: str, mode: ContextMode) -> str:
        """Return the quote of that agent's turns in this run. The quote has no times, so that it is the same in a
        replay. Raises NotFoundError if the agent had no turn."""
        return quote(agent, self._told[agent], mode, has_times=False)

    async def score(self, step: str, judging: Judging, subject: str, facts: list[TurnFacts]) -> tuple[Score, TurnFacts]:
        """Have an agent score a text; return the score, and the turn, which is also added to `facts`."""
        turn = TurnFacts(judging.agent, judge_prompt(judging.rubric, subject))
        facts.append(turn)
        outcome = await self.say(step, turn, message_options(judging.options, self._judge_schema(judging)))
        if outcome.status is not Status.COMPLETED:
            return Score(None, f"{judging.agent}: {outcome.status}: {outcome.reason or ''}"), turn
        return score_in(turn), turn

    def _without_unsupported_access(self, agent: str, options: Options) -> Options:
        """Return the options. If the agent's mode has no access levels, the access is left out."""
        can = self._capabilities(agent, options.via)
        return options if can is None or can.access else msgspec.structs.replace(options, access=None)

    def _judge_schema(self, judging: Judging) -> str | None:
        can = self._capabilities(judging.agent, judging.options.via)
        return SCHEMA if can is not None and can.schema else None

    def _capabilities(self, agent: str, via: str | None) -> Capabilities | None:
        """Return the capabilities of the agent in the mode `via`; None if the agent does not have that mode."""
        adapter = registry.adapter(self._agents.context.config.resolve(agent).settings.adapter)
        try:
            return adapter.card.faces[face_of(adapter, via)]
        except BeamError:
            return None


def message_options(options: TurnOptions, schema: str | None) -> Options:
    """Return message options with the values of a step's options. `schema` is a JSON Schema as text, or None."""
    return Options(
        model=options.model,
        access=options.access,
        via=options.via,
        timeout=options.timeout,
        max_turns=options.max_turns,
        budget_usd=options.budget_usd,
        schema=schema,
    )
