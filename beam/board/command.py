"""`board`: see everyone at work and act on them, on the whole terminal."""

from __future__ import annotations

import os
import sys
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from beam import UnsupportedError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import option
from beam.cli.streams import is_terminal

if TYPE_CHECKING:
    from textual._xterm_parser import XTermParser
    from textual.message import Message

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

    keep_pastes_as_text()
    actions = Actions(call.beam, claude_homes=claude_home or ())
    shown = Board(Feed(call.beam, actions.beam_for_project, claude_homes=claude_home or (), since=begin), actions)
    shown.run()
    return shown.return_code or 0


# -- pastes ------------------------------------------------------------------------------------------------------------


_ESCAPE, _VISIBLE_ESCAPE = "\x1b", "\u241b"
_START, _END = "\x1b[200~", "\x1b[201~"


class Pastes:
    """Replaces each escape character inside a paste by its visible symbol (`␛`). The terminal's input comes piece by
    piece.

    A terminal sends a paste between a start mark and an end mark. Textual's parser ends the paste at any escape
    character between the marks, and parses the rest of the paste as keys: a line break as enter, `y` as yes.
    """

    def __init__(self) -> None:
        self._is_paste = False
        self._last = ""  # the last characters outside of a paste, because a start mark may come in pieces
        self._held = ""  # the last characters of a paste that may begin its end mark

    def escape_pasted(self, data: str) -> str:
        """Take the next piece of input; return the text that may be parsed now."""
        if not self._is_paste and _ESCAPE not in data and _ESCAPE not in self._last:
            return data
        return "".join(self._escape_parts(data))

    def _escape_parts(self, data: str) -> Iterable[str]:
        for at, char in enumerate(data, start=1):
            if not self._is_paste:
                self._last = (self._last + char)[-len(_START) :]
                self._is_paste = self._last == _START
                yield char
                continue
            self._held += char
            if self._held == _END and not _has_other_end(data[at:]):
                self._is_paste, self._held, self._last = False, "", ""
                yield _END
            while self._held and (self._held == _END or not _END.startswith(self._held)):
                yield self._held[0].replace(_ESCAPE, _VISIBLE_ESCAPE)
                self._held = self._held[1:]


def _has_other_end(rest: str) -> bool:
    """Return whether `rest` has another end mark of the same paste. If it has, the end mark before `rest` is part of
    the pasted text."""
    return _END in rest and _START not in rest[: rest.index(_END)]


def parser_class() -> type[XTermParser]:
    """Return Textual's parser, changed to read its input through `Pastes`."""
    from textual._xterm_parser import XTermParser

    class Parser(XTermParser):
        _pastes: Pastes | None = None

        def feed(self, data: str) -> Iterable[Message]:
            self._pastes = self._pastes or Pastes()
            return super().feed(self._pastes.escape_pasted(data) if data else data)

    return Parser


def decoder_class(encoding: str) -> Callable[[], IncrementalDecoder]:
    """Return a factory of decoders that replace invalid bytes by U+FFFD. Textual's own decoder would raise an error at
    such bytes and end the board."""
    return partial(getincrementaldecoder(encoding), "replace")


def keep_pastes_as_text() -> None:
    """Make Textual's terminal driver use the classes from `parser_class` and `decoder_class`. The driver has no option
    for them."""
    from textual.drivers import linux_driver

    vars(linux_driver).update(XTermParser=parser_class(), getincrementaldecoder=decoder_class)
