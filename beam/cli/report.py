"""`beam report`: the work, cost and waiting times of agents."""

from __future__ import annotations

from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import write_json

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
    from beam.cli.render import report as render

    begin = since_time(durations.parse(since)) if since is not None else ""
    lines = call.beam.report(agent or [], since=begin)
    if as_json:
        for line in lines:
            write_json(line)
    elif len(lines) > 1:
        render.print_table(lines)
    else:
        call.note("no turn ended" + (f" in the last {since}" if since is not None else " yet"))
