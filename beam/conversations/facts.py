"""Facts about finished turns, collected from journal events in the same way for every agent CLI."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from beam.agents import registry
from beam.agents.base import HasRules
from beam.base.errors import BeamError
from beam.base.typed_values import one_line
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Outcome, Usage
from beam.model.prices import estimated_usd
from beam.turns.outcome import is_work

_MAX_CALLS = 20_000
_LONGEST_OUTPUT = 4000  # characters of a tool's output that are kept
_LONGEST_REASON = 100


class ToolUse(Struct, kw_only=True):
    """One call of a tool. `word` is the tool's name in rules (`Bash`, `Edit` …), "" if it has none. `is_done`: the call
    returned a result that is no error."""

    name: str
    call_id: str = ""
    input: object = None
    word: str = ""
    output: str = ""
    is_error: bool = False
    is_done: bool = False


class FileChange(Struct, frozen=True):
    """A file that the agent reports as changed. `path` is that of `file.changed`; `kind`: add, update, delete."""

    path: str
    kind: str


class _AttemptUsage(Struct, frozen=True):
    """What one attempt used; None if nobody knows."""

    cost_usd: float | None
    tokens: int | None


class TurnFacts:
    """The facts of one turn, collected from its events. If its message is tried again, the facts are those of the last
    attempt, but the cost and the tokens those of all attempts."""

    def __init__(self, agent: str, prompt: str) -> None:
        self.agent = agent
        self.prompt = prompt
        self.cwd = ""  # where the agent works, if the run knows it
        self.adapter = ""
        self.turn: int | None = None
        self.tools: list[ToolUse] = []
        self.files: list[FileChange] = []
        self.so_far = Usage()
        self.cost_so_far: float | None = None
        self._model = ""
        self._called: list[events.ModelCalled] = []  # the calls that cost something
        self._used: dict[int, _AttemptUsage] = {}  # by attempt, for the attempts that are over
        self.replayed = ""  # exact, minor or major, if the turn was answered from a recording
        self.outcome: Outcome | None = None
        self.cut = ""  # which limit of its step ended it in the middle; "" for none

    def add_event(self, event: Event) -> None:
        """Add one event of the turn to the facts."""
        match event:
            case events.TurnStarted():
                self.adapter, self.turn = event.adapter, event.turn
                self.tools, self.files = [], []  # those of an earlier attempt don't count
            case events.ToolCalled() if len(self.tools) < _MAX_CALLS:
                given = _decode_json(event.input)
                word = _name_in_rules(self.adapter, event.name, given)
                self.tools.append(ToolUse(name=event.name, call_id=event.call_id, input=given, word=word))
            case events.ToolReturned():
                for tool in reversed(self.tools):
                    if tool.call_id == event.call_id:
                        tool.output, tool.is_error = event.output[:_LONGEST_OUTPUT], event.is_error
                        tool.is_done = is_work(event)
                        break
            case events.FileChanged() if len(self.files) < _MAX_CALLS:
                self.files.append(FileChange(event.path, event.kind))
            case events.UsageSeen():
                self.so_far, self.cost_so_far = event.usage, event.cost_usd
            case events.SessionStarted():
                self._model = event.model or self._model
            case events.ModelCalled(step="live" | "filled") if event.usage is not None:
                self._called.append(event)
            case events.Notice(code="replayed"):
                self.replayed = event.text.partition(":")[0]
            case events.TurnFinished():
                self._end_attempt(event)

    def _end_attempt(self, finished: events.TurnFinished) -> None:
        cost, tokens = _cost_of(finished), _tokens_of(finished.usage)
        self._used[finished.attempt] = _AttemptUsage(
            cost_usd=self._cost_so_far() if cost is None else cost,
            tokens=self._tokens_so_far() if tokens is None else tokens,
        )
        self.so_far, self.cost_so_far, self._called = Usage(), None, []

    def failure_of(self, tool: ToolUse) -> str:
        """Return why this call of the turn does not count as done; "" if it does."""
        denials = self.outcome.denials if self.outcome is not None else None
        if any(tool.call_id and denial.call_id == tool.call_id for denial in denials or ()):
            return "it was denied"
        if tool.is_error:
            first = next((line for line in tool.output.splitlines() if line.strip()), "")
            return f"it failed: {one_line(first, _LONGEST_REASON)}" if first else "it failed"
        return "" if tool.is_done else "it did not return"

    @property
    def reply(self) -> str:
        return (self.outcome.reply or "") if self.outcome is not None else ""

    @property
    def cost_usd(self) -> float | None:
        """Return the cost of all attempts: the CLI's own figures, else estimates from the table of prices; None if
        nobody knows.

        While an attempt runs, its cost is the higher one of two figures: the one that the CLI has reported, and the one
        from the model calls that the turn's proxy saw.
        """
        last = self._cost_so_far() if self.outcome is None else _cost_of(self.outcome)
        return _sum_of([last, *(each.cost_usd for each in self._usage_before())])

    @property
    def tokens(self) -> int | None:
        """Return the number of input and output tokens of all attempts, including tokens from a cache; None if the CLI
        reports none."""
        last = self._tokens_so_far() if self.outcome is None else _tokens_of(self.outcome.usage)
        used = _sum_of([last, *(each.tokens for each in self._usage_before())])
        return None if used is None else int(used)

    def _usage_before(self) -> list[_AttemptUsage]:
        """Return what the attempts used that came before the running one, or before that of the outcome."""
        last = None if self.outcome is None else self.outcome.attempt
        return [used for attempt, used in self._used.items() if attempt != last]

    def _cost_so_far(self) -> float | None:
        estimated = estimated_usd(self._model, self.so_far)
        called = [estimated_usd(each.model, each.usage or Usage()) for each in self._called]
        known = [each for each in (self.cost_so_far or estimated, _sum_of(called)) if each is not None]
        return max(known, default=None)

    def _tokens_so_far(self) -> int | None:
        called = _sum_of([_tokens_of(each.usage or Usage()) for each in self._called])
        known = [int(each) for each in (_tokens_of(self.so_far), called) if each is not None]
        return max(known, default=None)

    @property
    def calls(self) -> int | None:
        """Return the number of model calls; None if nobody knows."""
        if self.outcome is None:
            return None
        if self.outcome.usage.calls is not None:
            return self.outcome.usage.calls
        return 0 if _tokens_of(self.outcome.usage) == 0 else None


def _cost_of(ended: Outcome | events.TurnFinished) -> float | None:
    """Return the CLI's own figure for the cost, else an estimate from the table of prices; None if nobody knows."""
    if ended.cost_usd is not None:
        return ended.cost_usd
    return None if ended.model is None else estimated_usd(ended.model, ended.usage)


def _tokens_of(usage: Usage) -> int | None:
    known = (usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    return None if all(each is None for each in known) else sum(each or 0 for each in known)


def _sum_of(figures: Sequence[float | None]) -> float | None:
    """Return the sum of the known figures; None if no figure is known."""
    known = [each for each in figures if each is not None]
    return sum(known) if known else None


def _decode_json(raw: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return None


def _name_in_rules(adapter: str, name: str, given: object) -> str:
    """Return the name by which rules call this tool of the CLI; "" if rules have no name for it."""
    if not adapter:
        return ""
    with contextlib.suppress(BeamError, ValueError, TypeError, AttributeError, KeyError):
        found = registry.adapter(adapter)
        call = found.tool_rules.call(name, given) if isinstance(found, HasRules) else None
        return call.tool if call is not None else ""
    return ""
