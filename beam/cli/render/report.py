"""What agents did, cost and waited for, one line per agent and model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam import durations
from beam.cli.render.charts import bar
from beam.cli.render.tables import columns
from beam.cli.streams import is_terminal

if TYPE_CHECKING:
    from beam import ReportLine


def table(found: Sequence[ReportLine]) -> None:
    """Print a line for each, and the sum; on a terminal with a bar of each line's share of the cost."""
    wide = is_terminal(sys.stdout)
    most = max((_spent(line) for line in found if line.agent is not None), default=0.0)
    rows = []
    for line in found:
        used = line.usage
        counts = (used.input_tokens, used.cached_tokens, used.output_tokens)
        known = [count for count in counts if count is not None]
        failures = ", ".join(f"{count} {name}" for name, count in sorted(line.failures.items()))
        share = f"{bar(_spent(line), most)} " if wide and line.agent is not None else ""
        rows.append(
            (
                line.agent or "total",
                line.model or "",
                str(line.turns),
                f"{sum(known):,}" if known else "",
                _cost(line),
                _time(line.worked_s, line.worked_most_s),
                _time(line.queued_s, line.queued_most_s),
                _time(line.asked_s, line.asked_most_s),
                share + " ".join(filter(None, (failures, line.error or ""))),
            )
        )
    head = ("AGENT", "MODEL", "TURNS", "TOKENS", "COST", "WORKED", "QUEUED", "ASKED", "FAILED")
    columns(head, rows, wide=wide)


def _spent(line: ReportLine) -> float:
    return (line.cost_usd or 0.0) + (line.estimated_usd or 0.0)


def _cost(line: ReportLine) -> str:
    if line.cost_usd is None and line.estimated_usd is None:
        return ""
    return f"{'~' if line.estimated_usd is not None else ''}${_spent(line):.4f}"


def _time(total: float, most: float) -> str:
    """Return the sum, and the longest where that says more."""
    if total <= 0:
        return ""
    longest = f" (most {durations.show(most)})" if most < total else ""
    return durations.show(total) + longest
