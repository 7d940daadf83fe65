"""Sessions that beam did not start, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam.cli.render.tables import ago, print_columns

if TYPE_CHECKING:
    from beam import ForeignStatus

_STATES = {"idle": "waits for you", "asking": "asks you", "working": "working", "unknown": "?"}


def print_table(found: Sequence[ForeignStatus]) -> None:
    """Print one line per session: its state, its process, its folder, the tokens and cost of its last turn, and what it
    does."""
    rows = []
    for line in found:
        name = f"{line.cli}~{line.session_id[-4:]}" if line.session_id else line.cli
        state = _STATES[line.state] + (f" ({ago(line.state_since)})" if line.state_since else "")
        cost = f"{'~' if line.is_estimate else ''}${line.cost_usd:.4f}" if line.cost_usd is not None else ""
        tokens = f"{line.tokens:,}" if line.tokens is not None else ""
        team = f"team {line.team}: " if line.team else ""
        since = ago(line.since) if line.since else ""
        what = team + (line.doing or line.prompt)
        rows.append((name, str(line.pid), state, since, tokens, cost, line.folder, what))
    head = ("SESSION", "PID", "STATE", "SINCE", "TOKENS", "COST", "FOLDER", "WHAT")
    print_columns(head, rows)
