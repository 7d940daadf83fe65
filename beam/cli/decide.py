"""`asks`, `approve`, `deny`, `interrupt`: what a person decides while agents work."""

from __future__ import annotations

import typer

from beam import BeamError
from beam.cli.context import context
from beam.cli.group import App

app = App()
_ID = typer.Argument(..., metavar="ID", help="An ask's id, or the end of it (four characters or more).")


@app.verb()
def asks(
    ctx: typer.Context,
    agent: list[str] | None = typer.Argument(None, metavar="[AGENT]...", help="Only these agents."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object a line."),
) -> int:
    """Show what agents ask and nobody decided yet.

    An ask that nobody decides in time is denied; then its turn ends with exit code 5.
    """
    from beam.cli.render import asks as render
    from beam.cli.render.text import write_json

    call = context(ctx)
    found = call.beam.asks(agent or [])
    if as_json:
        for line in found:
            write_json(line)
    elif found:
        render.table(found)
    else:
        call.note("no agent asks anything")
    return 0


@app.verb()
def approve(
    ctx: typer.Context,
    ask: str = _ID,
    always: bool = typer.Option(False, "--always", help="And the like from now on, where the agent offers that."),
) -> int:
    """Allow what an agent asks for.

    An ask that is over is refused, never applied to another.
    """
    call = context(ctx)
    call.note(f"{ask}: {call.beam.approve(ask, always=always)}")
    return 0


@app.verb()
def deny(
    ctx: typer.Context,
    ask: str = _ID,
    message: str | None = typer.Option(None, "--message", metavar="TEXT", help="What the agent is told about it."),
    stop: bool = typer.Option(False, "--stop", help="End the turn, too."),
) -> int:
    """Deny what an agent asks for; its turn goes on without.

    An ask that is over is refused, never applied to another.
    """
    call = context(ctx)
    call.note(f"{ask}: {call.beam.deny(ask, message=message, stop=stop)}")
    return 0


@app.verb()
def interrupt(
    ctx: typer.Context,
    target: str = typer.Argument(..., metavar="AGENT|ID", help="An agent (all its turns) or a message's id."),
) -> int:
    """End the turn of a message, or withdraw it.

    Of an agent all that runs is ended, `--once` turns too. What is over is refused, never applied to another turn.
    """
    call = context(ctx)
    messages = call.beam.running(target) if target in call.beam.home.agents() else [target]
    refused: list[BeamError] = []
    for message in messages:
        try:
            call.note(f"{message}: {call.beam.interrupt(message)}")
        except BeamError as error:  # it may have ended by itself just now; the others are ended all the same
            refused.append(error)
    if len(refused) == len(messages):
        raise refused[0]
    return 0
