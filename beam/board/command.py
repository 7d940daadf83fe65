"""`board`: see everyone at work and act on them, on the whole terminal."""

from __future__ import annotations

import os
import sys

from beam import UnsupportedError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import option
from beam.cli.streams import is_terminal

app = App()


@app.verb()
def board(
    call: Context,
    since: str | None = option(None, "--since", metavar="D", help="Start with the events of the last D."),
    claude_home: list[str] | None = option(None, "--claude-home", metavar="DIR", help="Claude Code's directory."),
) -> int:
    """Show all agents, sessions and teams on the whole terminal, and act on them with keys.

    The upper half lists everyone: state, current tool, elapsed time, tokens, cost. The lower half is the stream of
    events, a team, a time line of who worked when, or costs. `?` shows all keys. It needs the extra `board`:
    pip install 'beam-agents[board]'.
    """
    import importlib.util

    from beam import UsageError, durations
    from beam import since as since_time

    if importlib.util.find_spec("textual") is None:
        raise UnsupportedError("beam board needs Textual, which is not installed", "pip install 'beam-agents[board]'")
    if not all(map(is_terminal, (sys.stdin, sys.stdout, sys.stderr))):  # Textual draws on stderr
        raise UsageError("beam board needs a terminal", "beam watch --all prints the same to a pipe")
    term = os.environ.get("TERM", "")  # of the real terminal, not of a configuration
    if term in ("", "dumb", "unknown"):
        raise UsageError(
            f"beam board can't draw on a terminal that is {term or 'not named'}, as TERM says",
            "beam watch --all prints the same, line by line",
        )
    call.beam.check_person("uses the board")
    begin = since_time(durations.parse(since)) if since is not None else ""

    from beam.board.actions import Actions
    from beam.board.app import Board
    from beam.board.feed import Feed
    from beam.board.pasted import keep_pastes_as_text

    keep_pastes_as_text()
    actions = Actions(call.beam, claude_homes=claude_home or ())
    shown = Board(Feed(call.beam, actions.beam_for_project, claude_homes=claude_home or (), since=begin), actions)
    shown.run()
    return shown.return_code or 0
