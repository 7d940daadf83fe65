"""`beam attach`: connect your terminal to an agent's terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.streams import is_terminal

if TYPE_CHECKING:
    from beam import Attached

app = App()


@app.verb()
def attach(
    call: Context,
    agent: str = argument(..., metavar="AGENT", help="The agent whose terminal is shown."),
    as_text: bool = option(False, "--print", help="Print the current screen as text, and exit."),
    svg: str | None = option(
        None, "--svg", metavar="FILE", help="Write the current screen as SVG (- is stdout), and exit."
    ),
) -> int:
    """Connect your terminal to an agent's: watch it, and type into it.

    An agent has a terminal while one of its turns runs with --via terminal, and as long as it is kept. Ctrl-\\
    twice detaches; the agent continues. Ctrl-\\ and an arrow key scroll the view if your terminal is smaller. While
    beam types a message, your keys are held back. The journal notes that you typed, but not what you typed.
    """
    from beam import UsageError

    if as_text and svg is not None:
        raise UsageError("--print and --svg don't go together", "give one of them")
    if as_text or svg is not None:
        _print_or_save_screen(
            call.beam.attach(agent), None if svg is None or svg == "-" else str(call.path(svg)), as_svg=not as_text
        )
        return 0
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise UsageError(
            "beam attach needs a terminal as stdin and stdout",
            f"to print the current screen: beam attach {agent} --print",
        )
    why = _show_terminal(call.beam.attach(agent))
    call.note(f"detached; {agent} continues" if why is None else f"the terminal of {agent} is gone: {why}")
    return 0


def _print_or_save_screen(attached: Attached, path: str | None, *, as_svg: bool) -> None:
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


def _show_terminal(attached: Attached) -> str | None:
    """Show the agent's terminal until the user detaches or the terminal is gone. Return None if the user detached, else
    the reason why the terminal is gone."""
    from beam.cli.looking import ScreenViewer

    colours = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")
    with ScreenViewer(attached, true_colour=colours) as viewer:
        return viewer.run()
