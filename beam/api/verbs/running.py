"""Methods for conversations of several agents: read, check, trust and run a scenario, chat, and compare turns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from beam.agents import registry
from beam.api import methods
from beam.api.methods import coroutine_verb
from beam.api.verbs.opened import OpenedRoot
from beam.api.verbs.sending import SendVerbs
from beam.base import durations
from beam.base.errors import BeamError, ExitCode, SignalledError, UsageError
from beam.model.message import Access, Message, Recording
from beam.model.outcome import ANSWERS, Outcome, Status

if TYPE_CHECKING:
    from signal import Signals

    from beam.api.deciding import OnAsk
    from beam.conversations.comparing import Comparison
    from beam.conversations.live_chat import LiveChat
    from beam.conversations.machine import PlanStep
    from beam.conversations.result import RunResult
    from beam.conversations.run_options import RunProgress
    from beam.conversations.scenario import Scenario
    from beam.model.events import Event
    from beam.turns.handle import StopReason


class RunVerbs(OpenedRoot):
    """Run scenarios."""

    def scenario(
        self, file: str | Path, *, variables: Mapping[str, str] | None = None, name: str | None = None
    ) -> Scenario:
        """Return the scenario in a file, with these values for its variables. `name` replaces the scenario's own name.

        Raises ConfigError with line and column, NotFoundError, UsageError for a variable that the scenario does not
        have.
        """
        from msgspec.structs import replace

        from beam.conversations.language import FILE
        from beam.conversations.read import read

        found = read((self._cwd / file).absolute(), variables or {}, shown=str(file))
        if name is None:
            return found
        return replace(found, name=str(FILE.fields["name"].read(name, ("--name",), found.source)))

    def plan(self, scenario: Scenario, *, replay: bool = False) -> list[PlanStep]:
        """Check a scenario against this machine and return the steps that would be run. Nothing is run or changed.

        With `replay` the agents' CLIs need not be installed. Raises NotFoundError, ConfigError, UsageError.
        """
        from beam.conversations.machine import check_machine, plan

        check_machine(scenario, self.context, needs_agents=not replay)
        return plan(scenario, self.context)

    def scenario_wants(self, scenario: Scenario) -> list[str]:
        """Return the parts of the scenario that take effect only after a person trusts the file, one sentence each."""
        from beam.conversations.trusted import findings_of_scenario

        return [
            each.name if each.says else f"it runs {each.name}" for each in findings_of_scenario(scenario, self.context)
        ]

    def trust_scenario(self, scenario: Scenario) -> None:
        """Trust a scenario's file, and the programs of this folder that the scenario names, as they are now."""
        from beam.conversations.trusted import trust

        self.check_person("trusts a scenario")
        trust(scenario, self.context)

    def untrusted_scenario(self, scenario: Scenario) -> str | None:
        """Return why the scenario can't run before a person trusts its file; None if it can."""
        from beam.base.errors import UntrustedError
        from beam.conversations.trusted import check_trusted

        try:
            check_trusted(scenario, self.context)
        except UntrustedError as error:
            return str(error)
        return None

    @coroutine_verb
    async def run(
        self,
        scenario: Scenario | str | Path,
        *,
        variables: Mapping[str, str] | None = None,
        ci: bool | None = None,
        fail_fast: bool = False,
        budget_usd: float | None = None,
        max_tokens: int | None = None,
        repeat: int | None = None,
        pass_rate: float | None = None,
        recording: Recording | None = None,
        seen: Callable[[RunProgress], None] | None = None,
    ) -> RunResult:
        """Run a scenario, given as an object or as its file, and return its result. A failed check is a result, not an
        error.

        `variables` are the values of variables if a file is given. `ci`: apply the stricter checks for CI, for example
        that no answer is missing (None: if `$CI` is set). `recording` says what is recorded or replayed. `seen` is
        called for each step when the step begins and when it is over.

        Raises ConfigError with line and column, NotFoundError (no such agent; its CLI is missing), UntrustedError,
        UsageError; SignalledError after a signal, whose `outcome` is the result so far.
        """
        from beam.conversations.machine import check_machine
        from beam.conversations.model_calls import check_replay
        from beam.conversations.play import play
        from beam.conversations.run_options import RunOptions
        from beam.conversations.scenario import Spending
        from beam.conversations.trusted import check_trusted
        from beam.root import discovery

        self.check_person("runs a scenario")
        recording = self._checked_recording(recording or Recording())
        for name, number in (("budget_usd", budget_usd), ("pass_rate", pass_rate)):
            if number is not None and not 0 <= number < float("inf"):
                raise UsageError(f"{name} is {number}", "give a number from 0", subject=name)
        if isinstance(scenario, (str, Path)):
            scenario = self.scenario(scenario, variables=variables)
        discovery.check_folder(self.home, self.environ)
        check_machine(scenario, self.context, needs_agents=recording.needs_agents, needs_proxies=recording.of_model)
        check_trusted(scenario, self.context)
        check_replay(recording)
        options = RunOptions(
            ci=self.environ.get("CI", "") not in ("", "0", "false") if ci is None else ci,
            fail_fast=fail_fast,
            limits=Spending(cost_usd=budget_usd, tokens=max_tokens),
            repeat=repeat,
            pass_rate=pass_rate,
            recording=recording,
        )
        return await play(scenario, self.context, options, seen or _ignore)


def _ignore(progress: RunProgress) -> None:
    """Ignore the progress of a run; the default for `seen`."""


_LONGEST_RECALLED = 20_000  # characters


class ChatVerbs(OpenedRoot):
    """Talk with agents, and have them talk with each other."""

    def chat_mode(self, agent: str, via: str | None = None) -> str | None:
        """Return the mode for an agent's turns in a chat: `via`, else `dialogue` if the agent has that mode, because
        its process can stay between turns and can ask for permission. None leaves the mode to beam."""
        card = registry.adapter(self.context.config.resolve(agent).settings.adapter).card
        if via is not None or "dialogue" not in card.faces or "dialogue" in card.never_auto:
            return via
        return "dialogue"

    @contextlib.contextmanager
    def ending_signals(self, end: Callable[[], None]) -> Iterator[list[Signals]]:
        """Call `end` for each signal INT, TERM or HUP inside the context, during turns and between them. Yield a list
        to which each of these signals is added when it comes. Needs a running event loop."""
        from beam.turns.handle import Stop, stop_on_signals

        class End(Stop):
            def request(self, reason: StopReason, *, by: str | None = None, why: str = "") -> None:
                end()

        with stop_on_signals(End(), by="human (signal)") as came:
            yield came

    def recalled(self, agent: str, limit: int = 200) -> list[str]:
        """Return the last texts that a person sent to the agent, oldest first, each text once."""
        from beam.model import events
        from beam.store.reader import Reader

        texts: dict[str, None] = {}
        for event in Reader(self._existing_paths(agent).journal).poll():
            if not isinstance(event, events.MessageQueued) or event.sender != "human":
                continue
            if 0 < len(event.text) <= _LONGEST_RECALLED:
                texts.pop(event.text, None)
                texts[event.text] = None
        return list(texts)[-limit:]

    def live_chat(
        self,
        agents: Sequence[str],
        topic: str,
        *,
        by_address: bool = False,
        moderator: str | None = None,
        phrase: str | None = None,
        turns: int = 20,
        cost_usd: float | None = None,
        tokens: int | None = None,
        time: float | str | None = None,
    ) -> LiveChat:
        """Return a conversation of agents about a topic. It ends as soon as `phrase` is said, `turns` turns are taken,
        `cost_usd` or `tokens` are used up, or `time` seconds have passed.

        The caller runs its turns. With `by_address`, each agent names the next speaker (`@NAME`); with a `moderator`,
        that agent names the next speaker; otherwise the agents speak in turn. Raises UsageError, NotFoundError.
        """
        from beam.conversations.live_chat import LiveChat
        from beam.conversations.scenario import Until

        methods.check_is_text(topic=topic)
        agents = methods.agent_names(agents)
        names = [*agents, *([moderator] if moderator is not None else [])]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise UsageError(f"{name} is named twice", "name each agent once", subject=name)
            if "@" in name:
                raise UsageError(
                    f"{name} names a session; each agent speaks in one of the chat's own", "name the agent alone"
                )
            self.context.config.resolve(name)
        if len(agents) < 2:
            raise UsageError("a conversation needs two agents", "beam chat A B --topic TEXT")
        if by_address and moderator is not None:
            raise UsageError("either a moderator names the next speaker, or the agents do", "leave one out")
        if not topic.strip():
            raise UsageError("the topic is empty", "say what it is about: --topic TEXT")
        until = Until(phrase=phrase, turns=turns, cost_usd=cost_usd, tokens=tokens, time=durations.seconds(time))
        return LiveChat(
            agents, topic, order="address" if by_address else "round_robin", moderator=moderator, until=until
        )


class CompareVerbs(SendVerbs):
    """Send to several agents at the same time."""

    @coroutine_verb
    async def deliver_several(
        self,
        messages: Sequence[Message],
        *,
        seen: Callable[[Event], None] | None = None,
        ended: Callable[[Message, Outcome | BeamError], None] | None = None,
        on_ask: OnAsk | None = None,
    ) -> list[Outcome | BeamError]:
        """Send messages that were built by `message()` to different agents at the same time. Return the result of each
        in the same order: its outcome, or the error because of which it was not sent.

        `ended` is called with each message and its result, in the order of `messages`, as soon as that message and all
        before it are over. `on_ask` decides the agents' permission requests, as in `send`. It gets the requests of one
        agent one after the other, but may run for several agents at the same time. Raises UsageError if an agent is
        named twice. After a signal, waits until all messages are over, then raises SignalledError.
        """
        import asyncio

        doubled = [one.to for at, one in enumerate(messages) if one.to in {other.to for other in messages[:at]}]
        if doubled:
            raise UsageError(f"{doubled[0]} is named twice", "name each agent once", subject=doubled[0])
        tasks = [asyncio.ensure_future(self.deliver.aio(message, seen, on_ask=on_ask)) for message in messages]
        found: list[Outcome | BeamError] = []
        signalled: SignalledError | None = None
        try:
            for message, task in zip(messages, tasks, strict=True):
                try:
                    found.append(await task)
                except SignalledError as error:
                    signalled = signalled or error
                    found.append(error.outcome if isinstance(error.outcome, Outcome) else error)
                except BeamError as error:
                    found.append(error)
                if ended is not None:
                    ended(message, found[-1])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if signalled is not None:
            raise signalled
        return found

    @coroutine_verb
    async def compare(
        self,
        judge: str,
        question: str,
        outcomes: Sequence[Outcome],
        *,
        rubric: str | None = None,
        seen: Callable[[Event], None] | None = None,
    ) -> Comparison:
        """Have the agent `judge` score the answers in these outcomes, and return its verdict. The judge sees numbers in
        place of the agents' names, has only the access `read`, and answers in a session of one turn.

        Outcomes without an answer are left out. Raises UsageError for fewer than two answers, and the errors of `send`.
        """
        from beam.conversations.comparing import RUBRIC, SCHEMA, Answer, Comparison, comparison_prompt, verdict_in
        from beam.conversations.facts import TurnFacts
        from beam.turns.choice import face_of
        from beam.turns.outcome import is_blank

        answers = [
            Answer(each.agent, each.reply)
            for each in outcomes
            if each.reply is not None and not is_blank(each.reply) and each.status in ANSWERS
        ]  # fmt: skip
        if len(answers) < 2:
            raise UsageError("there are fewer than two answers to compare", "a judge compares those that came")
        settings = self.context.config.resolve(judge).settings
        can = registry.adapter(settings.adapter)
        face = can.card.faces[face_of(can, None)]
        access: Access | None = "read" if face.access else None
        facts = TurnFacts(judge, comparison_prompt(rubric or RUBRIC, question, answers))
        outcome = facts.outcome = await self.send.aio(
            judge, facts.prompt, once=True, access=access, schema=SCHEMA if face.schema else None, seen=seen
        )
        if outcome.status is not Status.COMPLETED:
            return Comparison(
                judge=judge,
                reason=f"{outcome.status}: {outcome.reason or ''}".removesuffix(": "),
                message_id=outcome.message_id,
                exit_code=outcome.exit_code,
            )
        verdict = verdict_in(facts, answers)
        code = 0 if verdict.scores else int(ExitCode.CHECK_FAILED)
        return structs.replace(verdict, message_id=outcome.message_id, exit_code=code)
