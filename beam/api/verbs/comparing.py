"""Methods to send one text to several agents at the same time, and to have another agent compare their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from beam.agents import registry
from beam.api.both import coroutine_verb
from beam.api.verbs.sending import SendVerbs
from beam.base.errors import BeamError, ExitCode, SignalledError, UsageError
from beam.model.message import Access, Message
from beam.model.outcome import ANSWERS, Outcome, Status

if TYPE_CHECKING:
    from beam.api.deciding import OnAsk
    from beam.conversations.comparing import Comparison
    from beam.model.events import Event


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
