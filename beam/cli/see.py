"""`watch`, `log`, `status`: what agents do and did."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

import typer

from beam.cli.context import context
from beam.cli.group import App
from beam.cli.render.text import write_json
from beam.errors import ExitCode, UsageError

app = App()

_EVER = "1970-01-01T00:00:00Z"


@app.verb()
def watch(
    ctx: typer.Context,
    agent: list[str] | None = typer.Argument(None, metavar="[AGENT]...", help="Only these agents."),
    now: bool = typer.Option(False, "--now", help="Print what is there and end."),
    since: str | None = typer.Option(None, "--since", metavar="D", help="Begin with what happened in the last D."),
    team: list[str] | None = typer.Option(None, "--team", metavar="T", help="Only teams with this in their name."),
    member: list[str] | None = typer.Option(None, "--agent", metavar="A", help="Only this agent, or member of a team."),
    types: list[str] | None = typer.Option(None, "--type", metavar="P", help="Only events like this: 'task.*'."),
    stuck: str | None = typer.Option(None, "--stuck", metavar="D", help="Print who waits longer than D, and end."),
    claude_home: list[str] | None = typer.Option(None, "--claude-home", metavar="DIR", help="Claude Code's directory."),
    after: str | None = typer.Option(None, "--after", metavar="CURSOR", help="Go on where this cursor stopped."),
    plain: bool = typer.Option(False, "--plain", help="No colour, ASCII only."),
    as_json: bool = typer.Option(False, "--json", help="Print events as JSON Lines."),
) -> None:
    """Print what all agents of this root and your Claude teams do, as it happens.

    --after names a cursor, which beam keeps: started again with it, watch goes on without gap or repeat.
    """
    from beam.api.cursor import open_cursor
    from beam.api.teams import teams
    from beam.api.wanted import Wanted
    from beam.api.watch import since as since_time
    from beam.cli.render.stream import Stream
    from beam.durations import parse

    call = context(ctx)
    if stuck is not None:
        _stuck(parse(stuck), team or (), claude_home or (), as_json=as_json)
        return
    stream = Stream(sys.stdout, as_json=as_json, plain=plain)
    cursor = open_cursor(after, os.environ) if after is not None else None
    seconds = parse(since) if since is not None else None
    begin = since_time(seconds) if seconds is not None else cursor.since if cursor is not None else ""
    history = now or begin != ""
    names = [call.beam.agent(name).agent for name in agent or []]
    wanted = Wanted(agents=tuple(member or ()), teams=tuple(team or ()), types=tuple(types or ()))
    live = None
    if not names:
        journals = call.beam.home.root / "agents"
        from_when = begin if begin or not now else _EVER
        live = teams(os.environ, claude_homes=claude_home or (), since=from_when, also=[journals])
    if not now and not as_json:
        call.note(f"watching {call.beam.home.root} and your Claude teams; ^C ends it")
    try:
        for batch in call.beam.stream(agents=names, follow=not now, history=history, teams=live):
            fitting = [event for event in batch if wanted.fits(event) and not (event.seq and event.ts < begin)]
            if cursor is not None:
                fitting = [event for event in fitting if cursor.passes(event)]
            stream.batch(fitting)
            if not now:
                stream.tick(since_time(0))
            stream.flush()
            if cursor is not None:
                for event in fitting:
                    cursor.printed(event)
                cursor.save()
        stream.end()
    finally:
        if live is not None:
            live.close()


def _stuck(seconds: float, names: Sequence[str], claude_homes: Sequence[str], *, as_json: bool) -> None:
    from beam.api.teams import TeamsHere
    from beam.cli.render import team as render

    waits = TeamsHere(os.environ, claude_homes=claude_homes).stuck(seconds, names=names)
    if as_json:
        for wait in waits:
            write_json(wait)
    elif waits:
        render.waits(waits)


@app.verb()
def log(
    ctx: typer.Context,
    agent: str = typer.Argument(..., metavar="AGENT", help="Whose journal."),
    as_json: bool = typer.Option(False, "--json", help="Print every event as JSON Lines."),
    raw: bool = typer.Option(False, "--raw", help="Print the CLI's own lines that the events came from."),
    turn: int | None = typer.Option(None, "--turn", metavar="N", help="Only this turn."),
    after: int = typer.Option(0, "--after", metavar="SEQ", min=0, help="Only events after this seq."),
    verify: bool = typer.Option(False, "--verify", help="Check every line of every segment; exit 13 on damage."),
) -> int:
    """Print an agent's journal."""
    from beam.cli.errors import complain
    from beam.cli.render.stream import Stream
    from beam.cli.render.text import safe, write, write_line

    call = context(ctx)
    if verify:
        damage = call.beam.verify(agent)
        for line in damage:
            write_line(safe(line, sys.stdout))
        if not damage:
            call.note(f"the journal of {agent} is whole")
            return 0
        complain(f"the journal of {agent} is damaged in {len(damage)} place(s); restore those files from a backup")
        return int(ExitCode.CHECK_FAILED)
    if as_json and raw:
        raise UsageError("--json and --raw don't go together", "--json has the raw lines in `raw`")
    stream = Stream(sys.stdout, as_json=as_json)
    for event in call.beam.events(agent, after=after):
        if turn is not None and event.turn != turn:
            continue
        if raw:
            native = getattr(event, "raw", None)
            if isinstance(native, str):
                write(sys.stdout, safe(native, sys.stdout) + "\n")
        else:
            stream.event(event)
    stream.end()
    return 0


@app.verb()
def status(
    ctx: typer.Context,
    agent: list[str] | None = typer.Argument(None, metavar="[AGENT]...", help="Only these agents."),
    usage: bool = typer.Option(False, "--usage", help="Turns, tokens and cost by agent and model, and their sum."),
    metrics: bool = typer.Option(False, "--metrics", help="All figures in Prometheus' text format."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object a line."),
) -> None:
    """Show where each agent stands."""
    from beam.cli.render import status as render

    if metrics and (as_json or usage):
        raise UsageError("--metrics goes with neither --json nor --usage", "it has all figures")
    call = context(ctx)
    if metrics:
        import time

        found, used = call.beam.status(agent or []), call.beam.usage(agent or [])
        render.metrics(found, used, broker=call.beam.broker() is not None, now=time.time())
        return
    if usage:
        used = call.beam.usage(agent or [])
        _print_json(used) if as_json else render.usage(used)
        return
    found = call.beam.status(agent or [])
    if as_json:
        _print_json(found)
    elif found:
        render.table(found)
    else:
        call.note(f'no agent was used in {call.beam.home.base} yet; beam send claude "hello"')


def _print_json(values: Iterable[object]) -> None:
    for value in values:
        write_json(value)
