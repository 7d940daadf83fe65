"""Reports the turns of agents, their cost and their waiting times, by agent and model, from the agents' journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import UNSET, Struct, structs

from beam.base.clock import recorded_ns
from beam.base.errors import BeamError
from beam.broker.inbox.context import RootContext
from beam.model.events import (
    AnyEvent,
    MessageQueued,
    PermissionAsked,
    PermissionDecided,
    TurnFinished,
    TurnStarted,
)
from beam.model.outcome import COST_DIGITS, Status, Usage
from beam.model.prices import PRICES_AS_OF, estimated_usd
from beam.store.reader import Reader

_DAY_NS = 86_400_000_000_000


class ReportLine(Struct, frozen=True, kw_only=True):
    """The sum of the turns of one agent with one model. `model` is null for turns that named no model. `agent` is null
    in the sum of all agents.

    `failures` counts the turns that did not complete, by class, or by status if they have no class.
    `stand_ins` counts the turns in which another agent or model answered, by who that was and why. `worked_s` is how
    long the turns took, `queued_s` how long their messages waited before, `asked_s` how long the turns waited for
    decisions (seconds); each field with `_most_s` is the longest single time. `estimated_usd` is the cost of the turns
    whose CLI reported no cost, by the list prices of the day `prices_as_of`. `partial` counts the turns whose figures
    lack some model calls. `error` is set if a journal can't be read.
    """

    agent: str | None
    model: str | None
    turns: int = 0
    failures: dict[str, int] = {}
    stand_ins: dict[str, int] = {}
    usage: Usage = Usage()
    cost_usd: float | None = None
    estimated_usd: float | None = None
    worked_s: float = 0.0
    worked_most_s: float = 0.0
    queued_s: float = 0.0
    queued_most_s: float = 0.0
    asked_s: float = 0.0
    asked_most_s: float = 0.0
    prices_as_of: str = PRICES_AS_OF
    partial: int = 0
    error: str | None = None

    def plus(self, other: ReportLine) -> ReportLine:
        """Return the sum of both lines, with the agent and model of this one."""
        return structs.replace(
            self,
            turns=self.turns + other.turns,
            failures=dict(Counter(self.failures) + Counter(other.failures)),
            stand_ins=dict(Counter(self.stand_ins) + Counter(other.stand_ins)),
            usage=self.usage.plus(other.usage),
            cost_usd=_sum(self.cost_usd, other.cost_usd),
            estimated_usd=_sum(self.estimated_usd, other.estimated_usd),
            worked_s=round(self.worked_s + other.worked_s, 3),
            queued_s=round(self.queued_s + other.queued_s, 3),
            asked_s=round(self.asked_s + other.asked_s, 3),
            worked_most_s=max(self.worked_most_s, other.worked_most_s),
            queued_most_s=max(self.queued_most_s, other.queued_most_s),
            asked_most_s=max(self.asked_most_s, other.asked_most_s),
            partial=self.partial + other.partial,
        )


def report(context: RootContext, agents: Sequence[str], *, since: str = "") -> list[ReportLine]:
    """Return a line for each agent and model with turns that ended at `since` (RFC 3339) or later; the last line is the
    sum."""
    found: list[ReportLine] = []
    for agent in agents:
        by_model: dict[str | None, ReportLine] = {}
        error = None
        paths = context.agent_paths(agent)
        for each in (paths, *paths.lanes()):
            try:
                for line in turn_lines(agent, Reader(each.journal).poll(), since=since):
                    by_model[line.model] = by_model.get(line.model, ReportLine(agent=agent, model=line.model)).plus(
                        line
                    )
            except BeamError as trouble:
                error = trouble.message
        if error is not None and not by_model:
            by_model[None] = ReportLine(agent=agent, model=None)
        found += [structs.replace(by_model[model], error=error) for model in sorted(by_model, key=str)]
    total = ReportLine(agent=None, model=None)
    for line in found:
        total = total.plus(line)
    return [*found, total]


def turn_lines(agent: str, events: Sequence[AnyEvent], *, since: str = "") -> Iterator[ReportLine]:
    """Yield a line for each turn that ended at `since` or later."""
    queued: dict[str | None, str] = {}
    asked: dict[str, str] = {}
    waited = longest = before = 0.0
    for event in events:
        match event:
            case MessageQueued():
                queued[event.message_id] = event.queued_at or event.ts
            case TurnStarted():
                came = queued.pop(event.message_id, event.ts)
                waited, longest, before = 0.0, 0.0, _seconds(came, event.ts)
                asked.clear()
            case PermissionAsked():
                asked[event.ask_id] = event.ts
            case PermissionDecided():
                took = _seconds(asked.pop(event.ask_id, event.ts), event.ts)
                waited, longest = waited + took, max(longest, took)
            case TurnFinished() if event.ts >= since:
                yield _line(agent, event, before, waited, longest)


def activity(context: RootContext, agents: Sequence[str], *, now_ns: int, days: int = 14) -> dict[str, list[int]]:
    """Return the number of tokens of each agent on each of the last `days` days, today last."""
    found = {}
    for agent in agents:
        tokens = [0] * days
        paths = context.agent_paths(agent)
        for each in (paths, *paths.lanes()):
            try:
                events = Reader(each.journal).poll()
            except BeamError:
                continue
            for event in events:
                if isinstance(event, TurnFinished):
                    day = now_ns // _DAY_NS - recorded_ns(event.ts) // _DAY_NS
                    if 0 <= day < days:
                        tokens[days - 1 - day] += _tokens(event.usage)
        found[agent] = tokens
    return found


def _line(agent: str, event: TurnFinished, before: float, asked: float, longest: float) -> ReportLine:
    failures = {} if event.status == Status.COMPLETED else {str(event.class_ or event.status): 1}
    estimate = None
    if event.cost_usd is None and event.model is not None:
        estimate = estimated_usd(event.model, event.usage)
    took = event.duration_s or 0.0
    return ReportLine(
        agent=agent,
        model=event.model,
        turns=1,
        failures=failures,
        stand_ins={} if event.stand_in is UNSET else {event.stand_in.named: 1},
        usage=event.usage,
        cost_usd=event.cost_usd,
        estimated_usd=None if estimate is None else round(estimate, COST_DIGITS),
        worked_s=took,
        worked_most_s=took,
        queued_s=before,
        queued_most_s=before,
        asked_s=asked,
        asked_most_s=longest,
        partial=int(event.partial is True),
    )


def _tokens(usage: Usage) -> int:
    return sum(count or 0 for count in (usage.input_tokens, usage.output_tokens, usage.cached_tokens))


def _seconds(start: str, end: str) -> float:
    return round(max(0.0, (recorded_ns(end) - recorded_ns(start)) / 1e9), 3)


def _sum(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return first if second is None else second
    return round(first + second, COST_DIGITS)
