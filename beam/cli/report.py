"""`beam report`: the work, cost and waiting times of agents."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from beam import durations
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.charts import bar
from beam.cli.render.tables import print_columns
from beam.cli.render.text import write_json_lines
from beam.cli.streams import is_terminal

if TYPE_CHECKING:
    from beam import ReportLine

app = App()


@app.verb()
def report(
    call: Context,
    agent: list[str] | None = argument(None, metavar="[AGENT]...", help="Limit the output to these agents."),
    since: str | None = option(None, "--since", metavar="D", help="Only turns that ended in the last D."),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per line."),
) -> None:
    """Print sums of turns by agent and model: cost, failures, how long they worked and how long they waited.

    QUEUED is how long messages waited for their turns, ASKED how long turns waited for decisions. Costs with ~ are
    estimated from list prices. Figures with + lack some model calls, such as those of subagents.
    """
    from beam import durations
    from beam import since as since_time

    begin = since_time(durations.parse(since)) if since is not None else ""
    lines = call.beam.report(agent or [], since=begin)
    if as_json:
        write_json_lines(lines)
    elif len(lines) > 1:
        print_table(lines)
    else:
        call.note("no turn ended" + (f" in the last {since}" if since is not None else " yet"))


_WIDE = 110  # columns of a terminal that has room for the longest times, too


def print_table(found: Sequence[ReportLine]) -> None:
    """Print a line for each agent and model, and the sum. On a terminal, each line has a bar that shows its cost in
    proportion to the highest cost."""
    wide = is_terminal(sys.stdout)
    has_room = not wide or get_terminal_size((80, 24)).columns >= _WIDE
    most = max((_spent(line) for line in found if line.agent is not None), default=0.0)
    rows = []
    for line in found:
        used = line.usage
        counts = (used.input_tokens, used.cached_tokens, used.output_tokens)
        known = [count for count in counts if count is not None]
        failures = ", ".join(f"{count} {name}" for name, count in sorted(line.failures.items()))
        stand_ins = ", ".join(f"{count} by {name}" for name, count in sorted(line.stand_ins.items()))
        share = bar(_spent(line), most) if wide and line.agent is not None else ""
        rows.append(
            (
                line.agent or "total",
                line.model or "",
                str(line.turns),
                f"{sum(known):,}{'+' if line.partial else ''}" if known else "",
                _cost(line),
                *([share] if wide else []),
                _time(line.worked_s, line.worked_most_s if has_room else 0),
                _time(line.queued_s, line.queued_most_s if has_room else 0),
                _time(line.asked_s, line.asked_most_s if has_room else 0),
                ", ".join(filter(None, (failures, stand_ins, line.error))),
            )
        )
    shares = ["SHARE"] if wide else []
    head = ["AGENT", "MODEL", "TURNS", "TOKENS", "COST", *shares, "WORKED", "QUEUED", "ASKED", "FAILED"]
    print_columns(head, rows, drops_empty=True)


def _spent(line: ReportLine) -> float:
    return (line.cost_usd or 0.0) + (line.estimated_usd or 0.0)


def _cost(line: ReportLine) -> str:
    if line.cost_usd is None and line.estimated_usd is None:
        return ""
    return f"{'~' if line.estimated_usd is not None else ''}${_spent(line):.4f}{'+' if line.partial else ''}"


def _time(total: float, most: float) -> str:
    """Return the total time as text, followed by the longest single time (`most`) if it is above 0 and below the total.
    Return "" if the total is 0."""
    if total <= 0:
        return ""
    longest = f" (most {durations.show(most)})" if 0 < most < total else ""
    return durations.show(total) + longest
