"""`beam attach`: your terminal on an agent's."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from beam.cli.context import context, is_terminal
from beam.cli.group import App

if TYPE_CHECKING:
    from beam import Attached

app = App()


@app.verb()
def attach(
    ctx: typer.Context,
    agent: str = typer.Argument(..., metavar="AGENT", help="Whose terminal."),
    as_text: bool = typer.Option(False, "--print", help="Print the screen as it is now, as text, and end."),
    svg: str | None = typer.Option(
        None, "--svg", metavar="FILE", help="Write a picture of it as SVG (- is stdout), and end."
    ),
) -> int:
    """Put your terminal on an agent's: look, and type.

    An agent has one while a turn of it runs with --via terminal, and as long as a broker keeps it.
    Ctrl-\\ twice detaches; the agent goes on. Ctrl-\\ and an arrow key moves the view, where yours is smaller.
    While beam types a message, your keys wait. That you typed is noted in the journal; what you typed is not.
    """
    from beam import UsageError

    call = context(ctx)
    if as_text and svg is not None:
        raise UsageError("--print and --svg don't go together", "give one of them")
    if as_text or svg is not None:
        _picture(
            call.beam.attach(agent), None if svg is None or svg == "-" else str(call.path(svg)), as_svg=not as_text
        )
        return 0
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise UsageError("attach needs a terminal", f"beam attach {agent} --print prints the screen as it is now")
    call.beam.check_person("types into an agent's terminal")
    why = _look(call.beam.attach(agent))
    call.note(f"detached; {agent} goes on" if why is None else f"the terminal of {agent} is gone: {why}")
    return 0


def _picture(attached: Attached, path: str | None, *, as_svg: bool) -> None:
    from pathlib import Path

    from beam import picture_of
    from beam.cli.render import screen
    from beam.cli.render.text import safe, write_line

    picture = picture_of(attached)
    text = screen.svg(picture, title=picture.title or attached.agent) if as_svg else picture.text
    if path is None:
        write_line(safe(text, sys.stdout))
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")


def _look(attached: Attached) -> str | None:
    """Shows it until one detaches (None) or it is gone (why)."""
    from beam.cli.looking import Looking

    colours = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")
    with Looking(attached, true_colour=colours) as looking:
        return looking.run()
