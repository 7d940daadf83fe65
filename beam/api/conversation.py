"""A conversation between agents that a Python program controls. The program runs the agents' turns, may add texts of
its own, and gets the result.

The code that also serves `beam chat` and scenarios decides who speaks next, which prompt each agent gets, and when the
conversation ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Unpack

from msgspec import Struct, structs

from beam.api.methods import coroutine_verb
from beam.base.errors import NotFoundError, UnfinishedError, UsageError
from beam.conversations.chat import HUMAN
from beam.model.message import OptionFields, Options, with_fields
from beam.model.outcome import Outcome, Status

if TYPE_CHECKING:
    from beam.api.beam import Beam
    from beam.api.deciding import OnAsk
    from beam.api.stream import Stream
    from beam.conversations.live_chat import NextTurn
    from beam.model.events import Event
    from beam.model.message import Message

_OWN_PARAMETERS = (
    "by_address",
    "moderator",
    "phrase",
    "until",
    "turns",
    "cost_usd",
    "tokens",
    "time",
    "name",
    "on_ask",
    "options",
)


class Spoken(Struct, frozen=True, kw_only=True):
    """One text of a conversation. `agent` is the agent that said it, or in whose name a person said it; `human` for a
    text in a person's own name. `is_of_person`: a person said it."""

    agent: str
    text: str
    is_of_person: bool = False


class ConversationResult(Struct, frozen=True, kw_only=True):
    """The result of a conversation: why it is over, its exit code, the texts (`said`), and the outcome of each turn,
    including a moderator's. `turns` counts only the turns of the speakers. `cost_usd` and `tokens` are None if they are
    not known for any turn."""

    why: str
    exit_code: int
    turns: int
    cost_usd: float | None
    tokens: int | None
    said: tuple[Spoken, ...]
    outcomes: tuple[Outcome, ...]


class Conversation:
    """Agents that talk about a topic: `Conversation(beam, ["writer", "reviewer"], "Find a title.", turns=6).run()`.

    The agents speak in turn. With `by_address`, each agent names the next speaker (`@NAME`); with a `moderator`, that
    agent names the next speaker. The conversation is over when a text contains the `phrase`, when `until` returns True
    for a text, after `turns` turns of all agents together, when `cost_usd` or `tokens` are used up, or after `time`
    seconds. It is also over when an agent fails, says nothing or addresses nobody. Each agent speaks in a new session,
    AGENT@`name`.

    `on_ask` decides the agents' permission requests, as in `Beam.send`. `options`, or its fields as keywords, apply to
    every turn. Raises NotFoundError for an unknown agent, UsageError for other invalid arguments.
    """

    def __init__(
        self,
        beam: Beam,
        agents: Sequence[str],
        topic: str,
        *,
        by_address: bool = False,
        moderator: str | None = None,
        phrase: str | None = None,
        until: Callable[[Spoken], bool] | None = None,
        turns: int = 20,
        cost_usd: float | None = None,
        tokens: int | None = None,
        time: float | str | None = None,
        name: str = "chat",
        on_ask: OnAsk | None = None,
        options: Options | None = None,
        **more: Unpack[OptionFields],
    ) -> None:
        beam.check_person("has agents talk with each other")
        self._options = with_fields(options, more, known=_OWN_PARAMETERS)
        self._beam = beam
        self._chat = beam.live_chat(
            agents, topic, by_address=by_address, moderator=moderator, phrase=phrase, turns=turns, cost_usd=cost_usd,
            tokens=tokens, time=time,
        )  # fmt: skip
        self._until = until
        self._name = name
        self._on_ask = on_ask
        self._waiting: list[tuple[str, str]] = []
        self._outcomes: list[Outcome] = []
        self._code = 0
        self._message: Message | None = None  # of the turn that runs

    # -- while it goes on ----------------------------------------------------------------------------------------------

    def say(self, text: str, name: str = HUMAN) -> None:
        """Add a text to the conversation after the running turn: as a person, or as the turn of the agent `name`. If
        the text names an agent (`@NAME`), that agent has the next turn. Raises UsageError if the text is empty, or if
        `name` takes no part."""
        if name != HUMAN:
            self._check_speaker(name)
        if not text.strip():
            raise UsageError("the text is empty", "say something, or nothing at all")
        self._waiting.append((text, name))

    def give_floor(self, agent: str) -> None:
        """Give the next turn to this agent."""
        self._check_speaker(agent)
        self._chat.give_floor(agent)

    def stop(self, why: str = "the program ended it") -> None:
        """End the conversation after the running turn."""
        self._chat.stop(why)

    def _check_speaker(self, agent: str) -> None:
        if agent not in self._chat.agents:
            raise UsageError(f"{agent} does not take part", f"{', '.join(self._chat.agents)} do", subject=agent)

    # -- running it ----------------------------------------------------------------------------------------------------

    @coroutine_verb
    async def run(self, seen: Callable[[Event], None] | None = None) -> ConversationResult:
        """Let the agents talk until the conversation is over, and return its result. `seen` is called with each event
        of the turns.

        If a turn fails, the result has that turn's exit code. Raises the errors of `Beam.send`, UsageError if the
        conversation ran before, SignalledError after a signal.
        """
        if self._outcomes or self._message is not None:
            raise UsageError("this conversation was held before", "make another one")
        for agent in dict.fromkeys(filter(None, (*self._chat.agents, self._chat.moderator))):
            self._make_message(agent, "?", is_first=True)  # an error for any agent comes before the first turn
        began = monotonic()
        while (turn := self._next()) is not None:
            self._message = self._make_message(turn.agent, turn.prompt, is_first=turn.is_first)
            outcome = await self._run_turn(self._message, seen)
            self._outcomes.append(outcome)
            self._on_turn_ended(turn, outcome, monotonic() - began)
        return self._result()

    async def _run_turn(self, message: Message, seen: Callable[[Event], None] | None) -> Outcome:
        """Run one turn and return its outcome. The turn is interrupted if it uses up a budget of the conversation."""
        import asyncio

        ends: list[asyncio.Task[None]] = []

        def both(event: Event) -> None:
            self._chat.event(event)
            if self._chat.must_stop and not ends:
                ends.append(asyncio.ensure_future(self._interrupt()))
            if seen is not None:
                seen(event)

        outcome = await self._beam.deliver.aio(message, both, on_ask=self._on_ask)
        for each in ends:
            await each
        return outcome

    def stream(self) -> Stream[ConversationResult]:
        """Return an iterator over the events of all turns as they come, for a `for` loop or an `async for`. After the
        last event, its `result` is the result of the conversation.

        Leaving the loop ends the conversation and its running turn.
        """
        from beam.api.stream import Stream

        async def leave() -> None:
            self._chat.stop("the program left it")
            await self._interrupt()

        return Stream(self.run.aio, leave)

    async def _interrupt(self) -> None:
        """Interrupt the running turn."""
        if self._message is not None:
            with contextlib.suppress(NotFoundError, UnfinishedError):  # it has just ended on its own
                await self._beam.interrupt.aio(self._message.id)

    def _make_message(self, agent: str, text: str, *, is_first: bool) -> Message:
        options = structs.replace(self._options, new=is_first, via=self._beam.chat_mode(agent, self._options.via))
        return self._beam.message(f"{agent}@{self._name}", text, options=options)

    def _next(self) -> NextTurn | None:
        """Add the texts from `say` to the conversation, and return the next turn; None if the conversation is over."""
        waiting, self._waiting = self._waiting, []
        for text, name in waiting:
            self._chat.step_in(text, name)
        return self._chat.next()

    def _on_turn_ended(self, turn: NextTurn, outcome: Outcome, seconds: float) -> None:
        self._chat.on_ended(outcome, seconds)
        if outcome.status is Status.CANCELLED and not self._chat.why:
            self._chat.stop(f"{turn.agent} was interrupted")
            self._code = outcome.exit_code
        if self._until is None or turn.is_choice or outcome.exit_code:
            return
        if self._until(Spoken(agent=turn.agent, text=outcome.reply or "")):
            self._chat.stop(f"{turn.agent}'s text meets `until`")

    def _result(self) -> ConversationResult:
        chat = self._chat
        said = tuple(Spoken(agent=line.agent, text=line.text, is_of_person=line.is_of_person) for line in chat.lines)
        return ConversationResult(
            why=chat.why, exit_code=self._code or chat.code, turns=chat.hops, cost_usd=chat.cost_usd,
            tokens=chat.tokens, said=said, outcomes=tuple(self._outcomes),
        )  # fmt: skip
