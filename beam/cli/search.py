"""`beam search`: full-text search in journals."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option

if TYPE_CHECKING:
    from beam import Found

app = App()


@app.verb()
def search(
    call: Context,
    text: list[str] = argument(..., metavar="TEXT...", help="The words; all must stand in one event."),
    agent: list[str] | None = option(None, "--agent", "-a", metavar="A", help="Only this agent; may be repeated."),
    since: str | None = option(None, "--since", metavar="T", help="Only events since then: 10m (ago), 14:30."),
    until: str | None = option(None, "--until", metavar="T", help="Only events until then."),
    last: int = option(20, "-n", metavar="N", min=1, max=10_000, help="At most the newest N."),
    every_root: bool = option(False, "--all", help="Search the agents of all your folders."),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per line."),
) -> None:
    """Find words in the journals: prompts, answers, thoughts, tool calls and their output.

    Case and accents don't matter. Quotes inside TEXT ('"disk full"') find a phrase, a * at the end of a word finds
    every word that begins so. The newest comes first.
    """
    import time

    from beam import moments
    from beam.cli.errors import complain
    from beam.cli.render.text import write_json

    now = time.time_ns()
    begin, end = (moments.parse(each, now) if each is not None else None for each in (since, until))
    result = call.beam.search(" ".join(text), agent or [], since=begin, until=end, limit=last, every_root=every_root)
    for found in result.found:
        if as_json:
            write_json(found)
        else:
            _print_found(found, wide=every_root)
    for problem in result.problems:
        complain(f"not searched: {problem}")
    if not result.found:
        call.note("nothing was found")


def _print_found(found: Found, *, wide: bool) -> None:
    from pathlib import Path

    from beam.cli.render.days import date_of, time_of_day
    from beam.cli.render.text import fold, write
    from beam.cli.streams import is_colourful

    begin, end = ("\x1b[1m", "\x1b[0m") if is_colourful(sys.stdout) else ("", "")
    pieces, at = [], 0
    for start, stop in found.marks:
        pieces += [fold(f"|{found.text[at:start]}|")[1:-1], begin, fold(f"|{found.text[start:stop]}|")[1:-1], end]
        at = stop
    pieces.append(fold(f"|{found.text[at:]}|")[1:-1])
    agent = found.agent if found.lane is None else f"{found.agent}:{found.lane[-5:]}"
    where = f"{Path(found.project).name}/{agent}" if wide else agent
    turn = f" turn {found.turn}" if found.turn is not None else ""
    write(
        sys.stdout, f"{date_of(found.ts)} {time_of_day(found.ts)} {fold(where)}{turn} {found.kind}: {''.join(pieces)}\n"
    )
