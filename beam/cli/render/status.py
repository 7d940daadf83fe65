"""The state of agents: a table for people, their usage, and metrics in Prometheus' text format."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beam import Status, clock, strays_text
from beam.cli.render.asks import short_id, time_left
from beam.cli.render.calls import brief_call
from beam.cli.render.charts import bar, sparkline
from beam.cli.render.tables import ago, print_columns
from beam.cli.render.text import one_line, safe, write

if TYPE_CHECKING:
    from beam import AgentStatus, GitPlace, KeptProcess, Running, UsageLine

_CIRCUIT_STATES = ("closed", "open", "half open")
_TOKEN_KINDS = ("input", "output", "cached", "cache_write", "reasoning")
_CALL_WIDTH = 60  # columns
Sample = tuple[dict[str, str], float]


def print_table(found: Sequence[AgentStatus], project: Path) -> None:
    """Print one line per agent, with its folder if that is not the project's."""
    here = os.path.realpath(project)
    rows = []
    for line in found:
        waiting = f"{line.waiting} ({ago(line.oldest)})" if line.oldest is not None else str(line.waiting)
        cost = _cost(line.totals.cost_usd, line.estimated_usd)
        elsewhere = (
            f"in {line.folder}{_branch_text(line.git)}" if line.folder and os.path.realpath(line.folder) != here else ""
        )
        what = "; ".join(filter(None, (*_activity_texts(line), elsewhere)))
        rows.append((line.agent, line.state, waiting, str(line.dead), str(line.totals.turns), cost, what))
    print_columns(("AGENT", "STATE", "WAIT", "DEAD", "TURNS", "COST", "LAST"), rows)


def _activity_texts(line: AgentStatus) -> Iterator[str]:
    trouble = line.error or line.blocked or (line.untrusted and f"{line.untrusted}: beam trust")
    if line.circuit == "half open":
        yield "circuit half open"
    elif line.circuit == "open" and line.circuit_until is not None:
        left = clock.recorded_ns(line.circuit_until) / 1e9 - time.time()
        yield f"circuit open for {max(0, round(left))}s more"
    if line.limited_until is not None:
        until = clock.local_moment(line.limited_until, clock.rfc3339(time.time_ns()))
        yield f"usage limit reached: waits until {until}"
    if line.strays:
        yield f"{strays_text(line.strays)} (beam queue list {line.agent})"
    if line.once:
        words = [turn.state for turn in line.once]
        counts = (
            (words.count("running"), "running"),
            (words.count("waiting"), "waiting"),
            (words.count("died"), "died"),
        )
        yield "--once: " + ", ".join(f"{count} {state}" for count, state in counts if count)
    if trouble:
        yield trouble
    elif line.running is not None:
        turn = line.running
        memory = f"{turn.rss_mb:.0f} MB" if turn.rss_mb else ""
        count = f"{turn.processes} process{'es' if turn.processes != 1 else ''}" if turn.processes else ""
        for ask in turn.asks:
            yield f"asks for {ask.tool} (beam approve {short_id(ask.id)}, {time_left(ask.expires)} left)"
        used = (*_usage_texts(turn), count, memory)
        yield ", ".join(filter(None, (f"turn {turn.turn} for {ago(turn.since)}", _doing_text(turn), *used)))
    elif line.last is not None:
        if line.kept is not None:
            yield _kept_text(line.kept)
        yield f"{line.last.status} {ago(line.last.at)} ago" + (f": {line.last.reason}" if line.last.reason else "")


def _doing_text(turn: Running) -> str:
    """Return the running tool, the most telling part of its input, and how long it has run."""
    if turn.call is None:
        return ", ".join(turn.tools)
    what = one_line(brief_call(turn.call.name, bytes(turn.call.input)), _CALL_WIDTH)
    more = f" and {len(turn.tools) - 1} more" if len(turn.tools) > 1 else ""
    return f"{what} for {ago(turn.call.since)}{more}"


def _usage_texts(turn: Running) -> Iterator[str]:
    if turn.usage is not None:
        tokens = sum(
            count or 0 for count in (turn.usage.input_tokens, turn.usage.cached_tokens, turn.usage.output_tokens)
        )
        yield f"{tokens:,} tokens" if tokens else ""
    yield f"${turn.cost_usd:.4f}" if turn.cost_usd is not None else ""


def project_line(project: Path, found: Sequence[AgentStatus]) -> str:
    """Return the project folder with its branch. If the folder is a linked work tree of git, also name its
    repository."""
    here = os.path.realpath(project)
    git = next((line.git for line in found if line.git is not None and os.path.realpath(line.folder) == here), None)
    return f"{project}{_branch_text(git)}"


def _branch_text(git: GitPlace | None) -> str:
    if git is None:
        return ""
    branch = f" on branch {git.branch}" if git.branch is not None else f" at commit {git.commit}"
    shared = not git.repository.startswith(f"{git.work_tree}{os.sep}")
    return branch + (f", a work tree of {git.repository}" if shared else "")


def _kept_text(kept: KeptProcess) -> str:
    memory = f" ({kept.rss_mb:.0f} MB)" if kept.rss_mb else ""
    until = f" until {clock.local_time(kept.until)}" if kept.until is not None else ""
    return f"{kept.via} kept{memory}{until} by pid {kept.holder}"


def print_tools(found: Sequence[AgentStatus]) -> None:
    """Print one line per agent and tool. The tools of an agent are sorted by their number of calls, the highest
    first."""
    rows = [
        (agent.agent, one_line(name, 60), str(calls), str(failed))
        for agent in found
        for name, calls, failed in sorted(_tool_counts(agent), key=lambda each: -each[1])
    ]
    print_columns(("AGENT", "TOOL", "CALLS", "FAILED"), rows)


def _tool_counts(agent: AgentStatus) -> list[tuple[str, int, int]]:
    """Return (name, number of calls, number of failed calls) for each tool."""
    return [(name, tool.calls, tool.failed) for name, tool in sorted(agent.totals.by_tool.items())]


def print_usage(found: Sequence[UsageLine], *, activity: Mapping[str, Sequence[int]] = {}) -> None:
    """Print one line per agent and model, and the sum. `activity` contains each agent's tokens per day, for the last
    days. With `activity`, each line has a bar that shows its cost in proportion to the highest cost, and each agent a
    sparkline of its tokens."""
    rows = []
    most = max((_spent(line) for line in found if line.agent is not None), default=0.0)
    shown: set[str] = set()
    for line in found:
        picture = ""
        if activity and line.agent is not None:
            days = activity.get(line.agent, ()) if line.agent not in shown else ()
            shown.add(line.agent)
            picture = f"{bar(_spent(line), most)} {sparkline(days)}".rstrip()
        tokens = (getattr(line.usage, f"{kind}_tokens") for kind in _TOKEN_KINDS)
        figures = ("" if count is None else str(count) for count in tokens)
        name = "total" if line.agent is None else line.agent
        calls = "" if line.usage.calls is None else str(line.usage.calls)
        rows.append(
            (
                name,
                line.model or "",
                str(line.turns),
                calls,
                *figures,
                _cost(line.cost_usd, line.estimated_usd),
                " ".join(filter(None, (picture, line.error or ""))),
            )
        )
    head = ("AGENT", "MODEL", "TURNS", "CALLS", "INPUT", "OUTPUT", "CACHED", "WRITTEN", "REASONING", "COST", "")
    print_columns(head, rows, drops_empty=True)


def _spent(line: UsageLine) -> float:
    """Return the amount that the bar of the line shows: the cost or, if the line has no cost, its tokens in
    billions."""
    cost = (line.cost_usd or 0.0) + (line.estimated_usd or 0.0)
    return cost or sum(getattr(line.usage, f"{kind}_tokens") or 0 for kind in _TOKEN_KINDS) * 1e-9


def _cost(reported: float | None, estimated: float | None) -> str:
    """Return the cost as text, with `~` if some of it is an estimate; "" if it is unknown."""
    if estimated is None:
        return f"${reported:.4f}" if reported is not None else ""
    return f"~${(reported or 0.0) + estimated:.4f}"


# -- Prometheus --------------------------------------------------------------------------------------------------------


def print_metrics(agents: Sequence[AgentStatus], used: Sequence[UsageLine], *, broker: bool, now: float) -> None:
    """Print every figure as a gauge or counter of Prometheus. `now` is the time in seconds since the epoch."""
    for name, kind, text, samples in _metric_families(agents, used, broker, now):
        write(sys.stdout, f"# HELP {name} {text}\n# TYPE {name} {kind}\n")
        for labels, value in samples:
            inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            line = f"{name}{'{' + inside + '}' if inside else ''} {value:.10g}\n"
            write(sys.stdout, safe(line, sys.stdout))


def _metric_families(
    agents: Sequence[AgentStatus], used: Sequence[UsageLine], broker: bool, now: float
) -> Iterator[tuple[str, str, str, list[Sample]]]:
    running = [(line.agent, turns) for line in agents if (turns := _running_turns(line))]
    yield "beam_broker_up", "gauge", "Whether a broker serves the root.", [({}, float(broker))]
    yield "beam_queue_depth", "gauge", "Messages that wait.", [({"agent": a.agent}, a.waiting) for a in agents]
    yield (
        "beam_queue_dead",
        "gauge",
        "Dead letters for whose outcome nobody waited.",
        [({"agent": a.agent}, a.dead) for a in agents],
    )
    yield (
        *("beam_queue_oldest_age_seconds", "gauge", "Age of the message that waits longest."),
        [({"agent": a.agent}, _age(a.oldest, now)) for a in agents if a.oldest is not None],
    )
    yield (
        "beam_running",
        "gauge",
        "Turns that run.",
        [
            (
                {"agent": a.agent},
                float(len(_running_turns(a)) + sum(turn.state == "running" and turn.turn is None for turn in a.once)),
            )
            for a in agents
        ],
    )
    yield (
        *("beam_once_died", "gauge", "Messages of --once whose worker died, and that nobody took up yet."),
        [({"agent": a.agent}, float(sum(turn.state == "died" for turn in a.once))) for a in agents],
    )
    yield (
        *("beam_turn_age_seconds", "gauge", "Age of the turn that runs longest."),
        [({"agent": agent}, max(_age(turn.since, now) for turn in turns)) for agent, turns in running],
    )
    yield (
        *("beam_turn_processes", "gauge", "Processes of the running turns."),
        [
            ({"agent": agent}, sum(known))
            for agent, turns in running
            if (known := [turn.processes for turn in turns if turn.processes is not None])
        ],
    )
    yield (
        *("beam_turn_rss_bytes", "gauge", "Resident memory of the running turns' processes."),
        [
            ({"agent": agent}, sum(sizes) * 2**20)
            for agent, turns in running
            if (sizes := [turn.rss_mb for turn in turns if turn.rss_mb is not None])
        ],
    )
    yield (
        *("beam_circuit", "gauge", "State of the circuit breaker: 1 for the one it is in."),
        [
            ({"agent": a.agent, "state": state.replace(" ", "_")}, float(a.circuit == state))
            for a in agents
            for state in _CIRCUIT_STATES
        ],
    )
    yield (
        *("beam_blocked", "gauge", "Whether the agent is blocked."),
        [({"agent": a.agent}, float(a.blocked is not None)) for a in agents],
    )
    yield (
        *("beam_turns_total", "counter", "Outcomes of messages, by status."),
        [
            ({"agent": a.agent, "status": status.value}, a.totals.by_status.get(status.value, 0))
            for a in agents
            for status in Status
        ],
    )
    yield (
        *("beam_retries_total", "counter", "Attempts of messages after the first."),
        [({"agent": a.agent}, a.totals.retries) for a in agents],
    )
    yield (
        *("beam_denials_total", "counter", "What agents asked for in turns and was denied."),
        [({"agent": a.agent}, a.totals.denials) for a in agents],
    )
    yield (
        *("beam_unsupported_total", "counter", "Turns that asked for what the agent can't do."),
        [({"agent": a.agent}, a.totals.unsupported) for a in agents],
    )
    yield (
        *("beam_tool_calls_total", "counter", "Calls of tools."),
        [({"agent": a.agent, "tool": name}, calls) for a in agents for name, calls, _ in _tool_counts(a)],
    )
    yield (
        *("beam_tool_failures_total", "counter", "Calls of tools that failed."),
        [({"agent": a.agent, "tool": name}, failed) for a in agents for name, _, failed in _tool_counts(a)],
    )
    each = [({"agent": line.agent, "model": line.model or ""}, line) for line in used if line.agent is not None]
    yield (
        *("beam_tokens_total", "counter", "Tokens, by model and kind."),
        [
            ({**labels, "kind": kind}, count)
            for labels, line in each
            for kind in _TOKEN_KINDS
            if (count := getattr(line.usage, f"{kind}_tokens")) is not None
        ],
    )
    yield (
        *("beam_model_calls_total", "counter", "Calls of a model, by model, as far as agents tell."),
        [(labels, line.usage.calls) for labels, line in each if line.usage.calls is not None],
    )
    yield (
        *("beam_cost_usd_total", "counter", "Cost in US dollars, by model."),
        [(labels, line.cost_usd) for labels, line in each if line.cost_usd is not None],
    )


def _running_turns(line: AgentStatus) -> list[Running]:
    """Return the agent's running turns, including those of --once."""
    turn = line.running
    has_died = turn is not None and turn.alive is False and turn.lease_until is None
    own = [turn] if turn is not None and not has_died else []
    return own + [turn.turn for turn in line.once if turn.turn is not None]


def _age(timestamp: str, now: float) -> float:
    try:
        return max(0.0, now - clock.parse_rfc3339(timestamp) / 1e9)
    except ValueError:
        return 0.0


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
