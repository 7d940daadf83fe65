"""A scenario as values: the content of a scenario file. The values are immutable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from beam.config.source import Source
from beam.model.hand_over import ContextMode
from beam.model.message import Access

At = tuple[str, ...]
Command = str | tuple[str, ...]  # a text for the shell, or words


class Part(Struct, frozen=True, kw_only=True):
    """A part of a prompt. `kind`: text, file (a path), reply (of a step) or diff (of all files so far)."""

    kind: str
    value: str
    at: At = ()


class TurnOptions(Struct, frozen=True, kw_only=True):
    """The options of a turn. None means that the agent's settings decide. Times are in seconds."""

    model: str | None = None
    access: Access | None = None
    via: str | None = None
    timeout: float | None = None
    max_turns: int | None = None
    budget_usd: float | None = None

    def with_defaults(self, general: TurnOptions) -> TurnOptions:
        """Return these options, with the values of `general` in place of unset ones."""
        names = self.__struct_fields__
        own = {name: getattr(self, name) for name in names}
        return TurnOptions(**{name: getattr(general, name) if own[name] is None else own[name] for name in names})


class Check(Struct, frozen=True, kw_only=True):
    """One expectation: its kind (a key of `expect:`), and the value of that key in the file."""

    kind: str
    value: object
    at: At = ()


class Judging(Struct, frozen=True, kw_only=True):
    """How an agent scores something. `score` is the lowest passing score, from 0 to 10."""

    agent: str
    rubric: str
    score: float = 7.0
    options: TurnOptions = TurnOptions()


class Step(Struct, frozen=True, kw_only=True):
    """The common fields of all steps. `id` is the name of the step in the results. `allow` are the words for what does
    not count as a failure in CI."""

    id: str
    at: At = ()
    expect: tuple[Check, ...] = ()
    allow: frozenset[str] = frozenset()


class Send(Step, frozen=True, kw_only=True):
    """Sends one prompt to each of these agents, at the same time. `schema` is a JSON Schema as text.

    `context_from` is the agent whose turns of this run so far are quoted below the prompt; `context` says how much of
    them.
    """

    agents: tuple[str, ...]
    prompt: tuple[Part, ...]
    context_from: str | None = None
    context: ContextMode = "recent"
    options: TurnOptions = TurnOptions()
    schema: str | None = None


class Until(Struct, frozen=True, kw_only=True):
    """The conditions that end a chat. `turns` counts the turns of all speakers, not those of the moderator."""

    phrase: str | None = None
    check: tuple[Check, ...] = ()
    turns: int = 20
    cost_usd: float | None = None
    tokens: int | None = None
    time: float | None = None


class Chat(Step, frozen=True, kw_only=True):
    """Has agents talk with each other. `order`: round_robin, moderator or address."""

    agents: tuple[str, ...]
    prompt: tuple[Part, ...]
    order: str = "round_robin"
    moderator: str | None = None
    until: Until = Until()
    options: TurnOptions = TurnOptions()


class Judge(Step, frozen=True, kw_only=True):
    """Has an agent score the text of an earlier step."""

    judging: Judging
    of: str


class Run(Step, frozen=True, kw_only=True):
    """Runs a command."""

    command: Command
    timeout: float = 600.0


class CheckStep(Step, frozen=True, kw_only=True):
    """Checks an earlier step. `of` is the id of that step; "" to check only the files."""

    of: str = ""


class Parallel(Step, frozen=True, kw_only=True):
    """Runs these steps at the same time."""

    steps: tuple[Step, ...]


class Worktree(Struct, frozen=True, kw_only=True):
    """The settings of the git work tree that a run has for itself. `start` is the commit that the work tree begins
    with. `branch` is the name of its branch; "" if beam is to make a name."""

    keep: bool = False
    start: str = "HEAD"
    branch: str = ""


class Spending(Struct, frozen=True, kw_only=True):
    """The limits of the whole run. None means no limit."""

    cost_usd: float | None = None
    tokens: int | None = None
    time: float | None = None


class Scenario(Struct, frozen=True, kw_only=True):
    """The content of a scenario file, after all checks that need no agent, no CLI and no git on this machine. `folder`
    is the folder of the file: paths in the file start there. `agents` are settings of agents for this run alone.
    `schemas` are the paths of files with a JSON Schema."""

    name: str
    path: Path
    folder: Path
    source: Source
    digest: str = ""
    description: str = ""
    variables: Mapping[str, str] = {}
    agents: Mapping[str, Mapping[str, object]] = {}
    worktree: Worktree | None = None
    limits: Spending = Spending()
    allow: frozenset[str] = frozenset()
    times: int = 1
    pass_rate: float = 1.0
    steps: tuple[Step, ...] = ()
    schemas: tuple[str, ...] = ()

    def all_steps(self) -> Iterator[Step]:
        """Yield each step in the order of the file. The steps inside of a parallel step come after it."""
        return _each_step(self.steps)

    def handed_over(self) -> frozenset[str]:
        """Return the agents whose turns a later step quotes for another agent."""
        return frozenset(
            step.context_from for step in self.all_steps() if isinstance(step, Send) and step.context_from is not None
        )

    def multi_turn_agents(self) -> frozenset[str]:
        """Return the agents that may take more than one turn in a run."""
        turns: Counter[str] = Counter()
        for step in self.all_steps():
            for name, _ in agents_of(step):
                turns[name] += 2 if isinstance(step, Chat) else 1
        return frozenset(name for name, count in turns.items() if count > 1)

    def speakers(self) -> dict[str, At]:
        """Return each agent that takes part, and where the file names it first."""
        found: dict[str, At] = {}
        for step in self.all_steps():
            for name, at in agents_of(step):
                found.setdefault(name, at)
        return found


def _each_step(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Parallel):
            yield from _each_step(step.steps)


def agents_of(step: Step) -> Iterator[tuple[str, At]]:
    """Yield the agents that a step names, each with its place in the file."""
    match step:
        case Send() | Chat():
            key = "send" if isinstance(step, Send) else "chat"
            for number, name in enumerate(step.agents):
                yield name, (*step.at, key, str(number))
            if isinstance(step, Chat) and step.moderator is not None:
                yield step.moderator, (*step.at, "moderator")
        case Judge():
            yield step.judging.agent, (*step.at, "judge")
    for check in checks_of(step):
        if isinstance(check.value, Judging):
            yield check.value.agent, check.at


def checks_of(step: Step) -> tuple[Check, ...]:
    """Return the checks of a step. For a chat, these include the checks that end it."""
    return (*step.expect, *step.until.check) if isinstance(step, Chat) else step.expect
