"""Long-running turns: after one minute, and each time the duration has doubled, a line shows a turn's duration and
usage."""

from __future__ import annotations

from msgspec import Struct

from beam import AnyEvent, Usage, durations, events
from beam.cli.render import calls
from beam.cli.render.calls import Calls, seconds_between

_FIRST_S = 60.0


class LongTurn(Struct):
    """A turn that runs. `event` is one of its events, which names the agent and the turn. `since` is the time (RFC
    3339) when the turn began. `next_s` is the duration at which the next line about the turn is due."""

    event: AnyEvent
    since: str
    next_s: float = _FIRST_S
    model: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None

    @property
    def tokens(self) -> int:
        """Return the number of all tokens so far; 0 if unknown."""
        usage = self.usage
        known = (usage.input_tokens, usage.cached_tokens, usage.output_tokens) if usage is not None else ()
        return sum(count or 0 for count in known)


class LongTurns:
    """The turns that run now, by the name of their agent."""

    def __init__(self) -> None:
        self._open: dict[str, LongTurn] = {}

    def update(self, event: AnyEvent) -> None:
        """Update the running turns with this event."""
        match event:
            case events.TurnStarted():
                self._open[event.agent] = LongTurn(event, event.ts)
            case events.TurnFinished() | events.MessageRequeued():
                self._open.pop(event.agent, None)
            case events.SessionStarted() if event.agent in self._open:
                self._open[event.agent].model = event.model
            case events.UsageSeen() if event.agent in self._open:
                turn = self._open[event.agent]
                turn.usage = event.usage
                if event.cost_usd is not None:
                    turn.cost_usd = event.cost_usd

    def due(self, now: str, open_calls: Calls) -> list[tuple[AnyEvent, str]]:
        """Return (event, text) for each turn whose next line is due at the time `now` (RFC 3339)."""
        reports = []
        for turn in self._open.values():
            seconds = seconds_between(turn.since, now) or 0.0
            if seconds >= turn.next_s:
                reports.append((turn.event, _progress_text(turn, now, open_calls)))
                while turn.next_s <= seconds:
                    turn.next_s *= 2
        return reports

    def progress_of(self, agent: str, now: str, open_calls: Calls) -> tuple[AnyEvent, str] | None:
        """Return an event of the agent's running turn, and the turn's progress at the time `now` (RFC 3339) as text;
        None if the agent has no running turn."""
        turn = self._open.get(agent)
        return None if turn is None else (turn.event, _progress_text(turn, now, open_calls))


def _progress_text(turn: LongTurn, now: str, open_calls: Calls) -> str:
    call = open_calls.last_of(turn.event.agent)
    doing = ""
    if call is not None:
        doing = f"{calls.call_text(call)} for {durations.show(round(seconds_between(call.ts, now) or 0.0))}"
    seconds = seconds_between(turn.since, now) or 0.0
    return f"turn {turn.event.turn} {describe(seconds, turn.tokens, _cost(turn), doing)}"


def _cost(turn: LongTurn) -> str:
    if turn.cost_usd is not None:
        return f"${turn.cost_usd:.4f}"
    if turn.model is None or turn.usage is None:
        return ""
    from beam import estimated_usd

    estimated = estimated_usd(turn.model, turn.usage)
    return f"~${estimated:.4f}" if estimated is not None else ""


def describe(seconds: float, tokens: int, cost: str, doing: str) -> str:
    """Return a turn's duration, usage and activity: `runs for 2m05s, 1,300 tokens, ~$0.0211: Bash make`."""
    used = (f"{tokens:,} tokens" if tokens else "", cost)
    figures = ", ".join(filter(None, (f"runs for {durations.show(round(seconds))}", *used)))
    return f"{figures}: {doing}" if doing else figures
