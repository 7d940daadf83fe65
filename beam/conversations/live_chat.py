"""A conversation of agents that a person watches and may join: which agent speaks next and with which prompt, what all
turns have used, and when and why the conversation ends.

Pure: the caller runs the turns, and tells the conversation how each turn ended. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from beam.base.errors import ExitCode
from beam.conversations.chat import (
    DONE,
    HUMAN,
    ChatLine,
    ChatState,
    addressed,
    budget_reached,
    chosen_speaker,
    limit_reached,
)
from beam.conversations.expect import value_text
from beam.conversations.facts import TurnFacts
from beam.conversations.scenario import Chat, Until
from beam.model.events import Event
from beam.model.outcome import Outcome, Status
from beam.turns.outcome import is_blank


class NextTurn(Struct, frozen=True):
    """The turn to run next: its agent and its prompt. `is_first`: it is the agent's first turn. `is_choice`: in this
    turn, the moderator names the next speaker."""

    agent: str
    prompt: str
    is_first: bool
    is_choice: bool = False


class LiveChat:
    """A conversation about a topic. `why` says why the conversation is over; it is "" until then. `code` is the exit
    code of the conversation."""

    def __init__(
        self, agents: Sequence[str], topic: str, *, order: str = "round_robin", moderator: str | None = None,
        until: Until | None = None,
    ) -> None:  # fmt: skip
        self.agents = tuple(agents)
        self.moderator = moderator
        self.until = until or Until()
        self.why = ""
        self.code = 0
        self._floor = ChatState(Chat(id="chat", agents=self.agents, prompt=(), order=order, moderator=moderator), topic)
        self._order = "moderator" if moderator is not None else order
        self._speaker: str | None = None if moderator is not None else self.agents[0]
        self._facts: list[TurnFacts] = []
        self._given: str | None = None  # the agent that was chosen to speak next while a turn ran
        self._now: tuple[NextTurn, TurnFacts] | None = None
        self._began: set[str] = set()
        self._spent = ""  # which budget is used up
        self._question = ""  # the moderator's prompt, until it has answered
        self._asked = 0  # how many lines there were when the moderator's prompt was made

    # -- turns ---------------------------------------------------------------------------------------------------------

    def next(self) -> NextTurn | None:
        """Return the turn that is to be run now; None if the conversation is over."""
        if self.why:
            return None
        choice = self._speaker is None and self.moderator is not None
        agent = self.moderator if choice else self._speaker
        assert agent is not None
        prompt = self._moderator_prompt() if choice else self._floor.prompt(agent)
        self._given = None
        turn = NextTurn(agent, prompt, agent not in self._began, choice)
        self._now = (turn, TurnFacts(agent, prompt))
        return turn

    def _moderator_prompt(self) -> str:
        """Return the prompt for the moderator. If its last turn was cancelled, that is the same prompt again, and what
        was said since."""
        if not self._question or self._asked < len(self._floor.lines):
            parts = (self._question, self._floor.moderator_prompt())
            self._question, self._asked = "\n\n".join(filter(None, parts)), len(self._floor.lines)
        return self._question

    def event(self, event: Event) -> None:
        """Add an event of the running turn."""
        if self._now is not None:
            self._now[1].add_event(event)
            self._spent = self._spent or budget_reached(self.until, self._all_facts())
            if event.turn is not None:
                self._began.add(self._now[0].agent)

    def on_ended(self, outcome: Outcome, seconds: float) -> None:
        """Take the outcome of the turn that has just ended. `seconds` is the time since the conversation began.

        The usage of a cancelled turn is counted, and the same agent speaks again. When a budget is used up, the
        conversation ends with exit code 7, unless the agent has just said the phrase that ends it.
        """
        assert self._now is not None
        (turn, facts), self._now = self._now, None
        facts.outcome = outcome
        self._facts.append(facts)
        self._spent = self._spent or budget_reached(self.until, self._all_facts())
        if outcome.status is Status.CANCELLED:
            self._end(self._spent, ExitCode.LIMIT)
        elif outcome.exit_code:
            self._end(f"{turn.agent} failed ({outcome.status})", outcome.exit_code)
        elif turn.is_choice:
            self._take_choice(turn, facts)
            self._end(self._spent, ExitCode.LIMIT)
        elif is_blank(facts.reply):
            self._end(f"{turn.agent} fell silent")
        else:
            self._add_answer(turn, facts, seconds)

    def _add_answer(self, turn: NextTurn, facts: TurnFacts, seconds: float) -> None:
        self._floor.add(turn.agent, facts.reply)
        phrase = self.until.phrase
        if phrase is not None and phrase in facts.reply:
            self._end(f"{turn.agent} said {value_text(phrase)!r}")
            return
        self._end(self._spent, ExitCode.LIMIT)
        self._end(limit_reached(self.until, self._spoken_facts(), self.moderator, seconds))
        self._pass_on(turn.agent, facts.reply)

    def _pass_on(self, agent: str, text: str) -> None:
        """Set who speaks after this agent. End the conversation if its rules need an addressed agent and `text`
        addresses none."""
        if self._given is not None:
            self._speaker, self._given = self._given, None
            return
        if self._order == "moderator":
            self._speaker = None
            return
        self._speaker = self._floor.next_speaker(agent, text)
        if self._speaker is None and not self.why:
            self._end("nobody was addressed")

    def _take_choice(self, turn: NextTurn, facts: TurnFacts) -> None:
        self._question = ""
        named = chosen_speaker(facts.reply, self.agents)
        if named == DONE:
            self._end(f"{turn.agent} said that it is settled")
        elif named is None:
            self._end(f"{turn.agent} named nobody: {value_text(facts.reply)!r}")
        else:
            self._speaker = self._given or named

    def _end(self, why: str, code: int = 0) -> None:
        if why and not self.why:
            self.why, self.code = why, int(code)

    def _spoken_facts(self) -> list[TurnFacts]:
        """Return the facts of all turns but those that a person cancelled."""
        return [each for each in self._facts if each.outcome and each.outcome.status is not Status.CANCELLED]

    @property
    def must_stop(self) -> bool:
        """Return whether the running turn is to be ended, because it used up a budget."""
        return self._now is not None and bool(self._spent)

    # -- a person ------------------------------------------------------------------------------------------------------

    def step_in(self, text: str, name: str = HUMAN) -> None:
        """Say something as a person (`human`) or in an agent's name, between two turns.

        A text in an agent's name counts as that agent's turn. A text with `@NAME` gives the next turn to the agent
        NAME.
        """
        self._floor.step_in(text, name)
        named = next(iter(addressed(text, self.agents)), None)
        if named is not None and named != name:
            self._speaker = named
        elif name in self.agents and self._order != "address":
            self._pass_on(name, text)

    def give_floor(self, agent: str) -> None:
        """Have this agent speak next: after the running turn, if there is one."""
        self._speaker = self._given = agent

    def stop(self, why: str) -> None:
        """End the conversation."""
        self._end(why)

    @property
    def lines(self) -> tuple[ChatLine, ...]:
        """Return all texts of the conversation, in order."""
        return tuple(self._floor.lines)

    # -- figures -------------------------------------------------------------------------------------------------------

    @property
    def hops(self) -> int:
        """Return how many turns have ended, not counting the moderator's turns and cancelled turns."""
        return sum(each.agent != self.moderator for each in self._spoken_facts())

    @property
    def cost_usd(self) -> float | None:
        """Return the cost so far, including the running turn; None if the cost of no turn is known."""
        known = [each.cost_usd for each in self._all_facts() if each.cost_usd is not None]
        return sum(known) if known else None

    @property
    def tokens(self) -> int | None:
        """Return the number of tokens so far, including the running turn; None if the tokens of no turn are known."""
        known = [each.tokens for each in self._all_facts() if each.tokens is not None]
        return sum(known) if known else None

    def _all_facts(self) -> list[TurnFacts]:
        return [*self._facts, *([self._now[1]] if self._now is not None else [])]
