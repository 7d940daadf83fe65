"""The rules of a chat: which agent speaks next, the prompt of that agent, and when the chat ends. Values in, values
out.

An agent's first prompt has the topic, a sentence by beam about the chat, and the texts so far. Above each text stands a
line that names its speaker, and the text itself is quoted. So a text that imitates a person or another agent can't pass
for their text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from beam.conversations.facts import TurnFacts
from beam.conversations.scenario import Chat, Until
from beam.model.quoted import MARK, quoted

DONE = "DONE"
HUMAN = "human"
NOTHING_NEW = "Nobody has said anything since. You have the floor again."
_QUOTES_NOTE = (
    f'What is said comes with "{MARK.strip()}" before each of its lines, below a line that names who said it.'
)


class ChatLine(Struct, frozen=True):
    """One text in a chat, and the name of its speaker. `is_of_person`: a person wrote the text, in that agent's name or
    as `human`."""

    agent: str
    text: str
    is_of_person: bool = False


class ChatState:
    """The state of a chat: all texts so far, and how many of them each agent has received."""

    def __init__(self, chat: Chat, opening: str) -> None:
        self._chat = chat
        self._opening = opening
        self.lines: list[ChatLine] = []
        self._told: dict[str, int] = {}  # how many lines each agent has received

    def first_speaker(self) -> str:
        """Return the agent that speaks first, if there is no moderator."""
        return self._chat.agents[0]

    def add(self, agent: str, text: str) -> None:
        """Add a text that the agent said. The agent then counts as having received all texts so far."""
        self.lines.append(ChatLine(agent, text))
        self._told[agent] = len(self.lines)

    def step_in(self, text: str, name: str = HUMAN) -> None:
        """Add a person's text, in the name of an agent or as `human`. The next prompt of every agent has this text,
        even that of the agent in whose name it was said."""
        self.lines.append(ChatLine(name, text, is_of_person=True))

    def next_speaker(self, agent: str, text: str) -> str | None:
        """Return the agent that speaks next, after this agent has said this text. With the order `address`, return None
        if the text addresses no other agent."""
        agents = self._chat.agents
        if self._chat.order != "address":
            return agents[(agents.index(agent) + 1) % len(agents)]
        return next((name for name in addressed(text, agents) if name != agent), None)

    def prompt(self, agent: str) -> str:
        """Return the next prompt for this agent: the opening, if it has not spoken yet, and the others' texts since its
        last turn. If there is neither, the prompt says so.
        """
        is_new = agent not in self._told
        since = [line for line in self.lines[self._told.get(agent, 0) :] if line.agent != agent or line.is_of_person]
        parts = []
        if is_new:
            others = ", ".join(name for name in self._chat.agents if name != agent)
            address = " Begin with @NAME to say who speaks next." if self._chat.order == "address" else ""
            parts.append(self._opening)
            parts.append(f"You are {agent} in a conversation with {others}.{address} {_QUOTES_NOTE}")
        parts += [f"{_speaker_label(line, agent)}:\n{quoted(line.text)}" for line in since]
        return "\n\n".join(parts or [NOTHING_NEW])

    def moderator_prompt(self) -> str:
        """Return the prompt that asks the moderator who speaks next."""
        names = ", ".join(self._chat.agents)
        told = self.lines[self._told.get("", 0) :]
        is_new = not self._told.get("", 0) and not self._told.get("moderated", 0)
        self._told[""], self._told["moderated"] = len(self.lines), 1
        said = "\n\n".join(f"{line.agent}:\n{quoted(line.text)}" for line in told)
        head = (
            f"You moderate a conversation of {names}. {_QUOTES_NOTE} It is about:\n\n{self._opening}\n\n"
            if is_new
            else ""
        )
        question = f"Who speaks next? Answer with one name of {names}, or with {DONE} if it is settled."
        return f"{head}{said}\n\n{question}".lstrip()


def addressed(text: str, agents: Sequence[str]) -> list[str]:
    """Return the agents that the text names as `@NAME`, in order. An address such as me@example.org names none, and a
    `_` or `-` behind a name (`_@NAME_` is emphasis) does not hide it."""
    words: list[str] = re.findall(r"(?<![a-z0-9])@([a-z0-9][a-z0-9_-]*)", text.lower())
    names = (word if word in agents else word.rstrip("_-") for word in words)
    return [name for name in names if name in agents]


def _speaker_label(line: ChatLine, agent: str) -> str:
    return "A person, in your name" if line.agent == agent and line.is_of_person else line.agent


def limit_reached(until: Until, facts: Sequence[TurnFacts], moderator: str | None, seconds: float) -> str:
    """Return which limit a chat has reached with its turns and its time so far; "" for none."""
    if sum(each.agent != moderator for each in facts) >= until.turns:
        return f"{until.turns} turns were taken"
    if spent := budget_reached(until, facts):
        return spent
    if until.time is not None and seconds >= until.time:
        return f"it took {until.time:g} s"
    return ""


def budget_reached(until: Until, facts: Sequence[TurnFacts]) -> str:
    """Return which budget the turns of a chat have used up, the running turn included; "" for none."""
    if until.cost_usd is not None and sum(each.cost_usd or 0 for each in facts) >= until.cost_usd:
        return f"it cost ${until.cost_usd:g}"
    if until.tokens is not None and sum(each.tokens or 0 for each in facts) >= until.tokens:
        return f"it used {until.tokens} tokens"
    return ""


def chosen_speaker(answer: str, agents: Sequence[str]) -> str | None:
    """Return the agent that a moderator's answer names, or DONE; None if the answer has neither."""
    words: list[str] = re.findall(r"[A-Za-z0-9_-]+", answer)
    for word in words:
        if word.lower() in agents:
            return word.lower()
        if word == DONE:
            return DONE
    return None
