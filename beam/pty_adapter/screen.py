"""The screen of an agent's terminal: the text that a person would see, and the signals of the agent to the terminal.

The agent's output goes in as bytes. Rows, scrollback, modes, titles, other signals, and answers to the agent's queries
come out. For the recordings of the tests it equals tmux's screen, row for row. Does not depend on any agent, or on the
meaning of a screen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from beam.pty_adapter.grid import Climb, Grid, Line, Row
from beam.pty_adapter.tokenizer import Sequence, Tokenizer, controls, read

SCROLLBACK = 10_000  # lines
_CACHED_ACTIONS = 2048  # sequences whose meaning is kept at hand
_REPLY_BYTES = 16 * 1024  # of unread answers; further answers are dropped
_KEPT_SIGNALS = 1000
_TITLE_CHARACTERS = 1000
_LARGEST_PARAMETER = 9999
_HALF, _FULL = ("0000", "cccc"), ("5555", "ffff")
_PALETTE = ["/".join(tone[n >> bit & 1] for bit in range(3)) for tone in (_HALF, _FULL) for n in range(8)]  # as xterm's

Action = Callable[[], object]


class Signal(Struct, frozen=True):
    """An OSC sequence from the agent: its number and its text (a title has number 0, say), and the cursor's position at
    that time. `line` is counted from the first line ever shown, `column` from 0."""

    number: int
    text: str
    line: int = 0
    column: int = 0


class View(Struct, frozen=True):
    """The screen at one moment. `scrolled` is the number of lines that have scrolled out at the top; `row` and `column`
    are the position of the cursor, from 0."""

    rows: tuple[str, ...]
    columns: int = 0
    scrolled: int = 0
    row: int = 0
    column: int = 0
    title: str = ""
    alternate: bool = False
    takes_pastes: bool = False
    rows_begun: int = 0  # by line feeds
    climbs: tuple[Climb, ...] = ()  # the last times that the cursor was sent up, or to a row by its number
    pastes_ended: int = 0  # how often bracketed paste was switched off: line editors do that when they take a line

    @property
    def text(self) -> str:
        """Return the rows as text, down to the last row that is not blank."""
        return "\n".join(self.rows).rstrip("\n")

    @property
    def last_row(self) -> int:
        """Return the number of the last row that is not blank; 0 if all rows are blank."""
        return next((row for row in range(len(self.rows) - 1, -1, -1) if self.rows[row].strip()), 0)


class Cursor(Struct, frozen=True):
    """The cursor's position, from 0, and whether it is visible."""

    row: int
    column: int
    shown: bool


class Screen:
    """A terminal of a fixed size, as a screen with its scrollback, modes and signals."""

    def __init__(self, columns: int, rows: int, *, scrollback: int = SCROLLBACK) -> None:
        self.columns = columns
        self.rows = rows
        self.title = ""
        self.bytes = 0  # fed so far
        self.modes: set[int] = set()  # private modes that are set: 2004 bracketed paste, 2026 synchronized output, …
        self._tokens = Tokenizer()
        self._main = Grid(columns, rows, scrollback=scrollback)
        self._alternate = Grid(columns, rows, scrollback=0)
        self._grid = self._main
        self._actions: dict[str, Action] = {}
        self._replies = bytearray()
        self._signals: list[Signal] = []
        self._last = ""
        self._pastes_ended = 0

    # -- what it says --------------------------------------------------------------------------------------------------

    @property
    def bracketed_paste(self) -> bool:
        """Return whether the agent enabled bracketed paste."""
        return 2004 in self.modes

    @property
    def is_drawing(self) -> bool:
        """Return whether the agent is in the middle of drawing a frame (mode 2026, synchronized output)."""
        return 2026 in self.modes

    def view(self) -> View:
        """Return a view of the screen as it is now."""
        grid = self._grid
        return View(
            rows=tuple(line.text for line in grid.read()),
            columns=self.columns,
            scrolled=self._main.scrolled,
            row=grid.cursor.y,
            column=grid.cursor.x,
            title=self.title,
            alternate=grid is self._alternate,
            takes_pastes=self.bracketed_paste,
            rows_begun=grid.rows_begun,
            climbs=tuple(grid.climbs),
            pastes_ended=self._pastes_ended,
        )

    def lines(self, first: int = 0) -> list[Line]:
        """Return the lines of the scrollback and the screen from line `first` on, counted from the first line ever
        shown.

        Lines that the scrollback no longer contains are left out.
        """
        forgotten = self._main.scrolled - len(self._main.history)
        return [*self._main.history, *self._grid.read()][max(0, first - forgotten) :]

    def grid(self) -> list[Row]:
        """Return the rows of cells as they are now. The caller must not change the rows."""
        return self._grid.grid

    def shown(self) -> list[Line]:
        """Return the lines on the screen as they are now. For an unchanged row, the same object is returned each
        time."""
        return self._grid.read()

    def cursor(self) -> Cursor:
        """Return the position and visibility of the cursor now."""
        cursor = self._grid.cursor
        return Cursor(cursor.y, cursor.x, not cursor.hidden)

    def take_signals(self) -> list[Signal]:
        """Return the signals since the last call, and forget them."""
        taken, self._signals = self._signals, []
        return taken

    def take_replies(self) -> bytes:
        """Return the answers to the agent's queries since the last call, and forget them. The caller must write them to
        the agent."""
        taken = bytes(self._replies)
        self._replies.clear()
        return taken

    # -- what it reads -------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Process output of the agent. Any bytes are accepted."""
        self.bytes += len(data)
        known = self._actions.get
        for token in self._tokens.feed(data):
            action = known(token)
            if action is not None:
                action()
            elif token >= " " and not "\x7f" <= token <= "\x9f\uffff":
                self._grid.draw(token)
                self._last = token
            else:
                self._resolve(token)()

    def execute_token(self, token: str) -> None:
        """Carry out one unit of output from the tokenizer. For many units, `feed` is faster."""
        if token >= " " and not "\x7f" <= token <= "\x9f\uffff":
            self._grid.draw(token)
            self._last = token
        else:
            self._resolve(token)()

    def _resolve(self, token: str) -> Action:
        """Return the action for this unit of output. Actions that are cheap to keep and common are cached."""
        if len(token) == 1:
            action = _CONTROLS.get(token, _ignore_control)(self)
        else:
            sequence = read(token)
            if sequence.kind not in ("[", ""):
                return partial(self._control_string, sequence)
            action = self._sequence(sequence)
            if sequence.kind and (inside := controls(token)):
                return partial(self._run_controls_first, inside, action)
        if len(self._actions) > _CACHED_ACTIONS:
            self._actions.clear()
        self._actions[token] = action
        return action

    def _run_controls_first(self, inside: str, action: Action) -> None:
        for control in inside:
            self._resolve(control)()
        action()

    def _sequence(self, sequence: Sequence) -> Action:
        if sequence.kind == "":
            name = sequence.middle + sequence.final
            if name in _ESCAPES:
                return _ESCAPES[name](self)
            if sequence.middle in ("(", ")"):
                return partial(self._charset, sequence.final, sequence.middle)
            return _do_nothing
        name = sequence.prefix + sequence.middle + sequence.final
        if name == "m":
            return partial(self._grid.style, sequence.parameters)
        handler = _CSI.get(name)
        if handler is None:
            return _do_nothing
        return handler(self, _numbers(sequence.parameters))

    def _charset(self, code: str, which: str) -> None:
        self._grid.define_charset(code, which)

    # -- modes ---------------------------------------------------------------------------------------------------------

    def set_modes(self, numbers: list[int]) -> None:
        """Set terminal modes (DECSET)."""
        for number in numbers:
            self.modes.add(number)
            self._apply_mode(number, True)
        if len(self.modes) > 256:
            self.modes.clear()

    def set_insert(self, on: bool) -> None:
        """Set or reset insert mode (IRM)."""
        self._grid.inserts = on

    def reset_modes(self, numbers: list[int]) -> None:
        """Reset terminal modes (DECRST)."""
        for number in numbers:
            if number == 2004:
                self._pastes_ended += number in self.modes
            self.modes.discard(number)
            self._apply_mode(number, False)

    def _apply_mode(self, number: int, is_set: bool) -> None:
        if number == 25:
            self._grid.cursor.hidden = not is_set
        elif number in (47, 1047, 1049):
            (self._to_alternate if is_set else self._to_main)(number == 1049)
        elif number == 1048:
            (self._grid.save_cursor if is_set else self._grid.restore_cursor)()
        elif number == 6:
            self._grid.set_origin(is_set)
        elif number == 7:
            self._grid.wraps = is_set

    def _to_alternate(self, save: bool) -> None:
        if self._grid is self._alternate:
            return
        if save:
            self._main.save_cursor()
        cursor = self._main.cursor
        self._alternate.reset()
        self._alternate.cursor.x, self._alternate.cursor.y = min(cursor.x, self.columns - 1), cursor.y
        self._switch_grid(self._alternate)

    def _to_main(self, restore: bool) -> None:
        if self._grid is self._alternate:
            self._switch_grid(self._main)
            if restore:
                self._main.restore_cursor()
            else:
                self._main.take_cursor(self._alternate.cursor)

    def _switch_grid(self, grid: Grid) -> None:
        self._grid = grid
        self._actions.clear()

    def reset(self) -> None:
        """Reset everything but the scrollback (RIS)."""
        self._to_main(restore=False)
        self._main.reset()
        self.modes.clear()

    def soft_reset(self) -> None:
        """Reset the modes and the attributes, but not the rows (DECSTR)."""
        self._grid.soft_reset()
        self.modes -= {1, 6}

    def repeat(self, count: int) -> None:
        """Repeat the last character `count` times, at most to the end of the row (REP)."""
        room = self.columns - self._grid.cursor.x
        if self._last and room > 0:
            self._grid.draw(self._last[-1] * min(count, room))

    # -- signals and queries -------------------------------------------------------------------------------------------

    def _control_string(self, sequence: Sequence) -> None:
        if sequence.kind == "P":
            body = sequence.parameters
            if body.startswith("+q"):
                self.reply("\x1bP0+r\x1b\\")
            elif body.startswith("$q"):
                self.reply("\x1bP0$r\x1b\\")
            return
        if sequence.kind != "]":
            return
        digits, _, text = sequence.parameters.partition(";")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
            return
        number = int(digits)
        if number in (0, 2):
            self.title = text[:_TITLE_CHARACTERS]
        if text == "?" and number in (10, 11, 12):
            colour = "ffff/ffff/ffff" if number != 11 else "0000/0000/0000"
            self.reply(f"\x1b]{number};rgb:{colour}\x1b\\")
        elif number == 4 and (asked := text.removesuffix(";?")) != text and asked.isascii() and asked.isdigit():
            self.reply(f"\x1b]4;{asked[:3]};rgb:{_PALETTE[int(asked[:3]) % 16]}\x1b\\")
        elif len(self._signals) < _KEPT_SIGNALS:
            cursor = self._grid.cursor
            line = self._main.scrolled + cursor.y
            self._signals.append(Signal(number, text[:_TITLE_CHARACTERS], line, cursor.x))

    def reply(self, text: str) -> None:
        """Add an answer to a query of the agent. It is dropped if too many answers are waiting."""
        if len(self._replies) + len(text) <= _REPLY_BYTES:
            self._replies += text.encode()

    def report(self, kind: int, *, private: bool) -> None:
        """Answer DSR. `kind` 5 asks whether the terminal is ready, 6 for the position of the cursor, and 996 whether
        the theme is dark."""
        mark = "?" if private else ""
        if kind == 5:
            self.reply("\x1b[0n")
        elif kind == 6:
            cursor = self._grid.cursor
            self.reply(f"\x1b[{mark}{cursor.y + 1};{min(cursor.x, self.columns - 1) + 1}R")
        elif kind == 996 and private:
            self.reply("\x1b[?997;1n")

    def report_mode(self, number: int) -> None:
        """Answer DECRQM: whether the mode is set (1), not set (2) or unknown (0)."""
        known = number in (1, 6, 7, 25, 47, 1004, 1047, 1048, 1049, 2004, 2026)
        as_drawn = {7: self._grid.wraps, 25: not self._grid.cursor.hidden}  # on from the beginning
        state = 1 if as_drawn.get(number, number in self.modes) else 2
        self.reply(f"\x1b[?{number};{state if known else 0}$y")

    def report_size(self, kind: int) -> None:
        """Answer XTWINOPS 18 with the number of rows and columns."""
        if kind == 18:
            self.reply(f"\x1b[8;{self.rows};{self.columns}t")


def _numbers(parameters: str) -> list[int]:
    """Return the parameters of a CSI sequence as numbers. A missing parameter is 0."""
    return [
        min(int(part), _LARGEST_PARAMETER) if part.isascii() and part.isdigit() else 0
        for part in parameters.replace(":", ";").split(";")
    ]


def _do_nothing() -> None:
    """Do nothing. This is the action of sequences that a terminal may ignore."""


def _ignore_control(screen: Screen) -> Action:
    return _do_nothing


def _grid(name: str) -> Callable[[Screen], Action]:
    return lambda screen: getattr(screen._grid, name)


def _with_count(name: str) -> Callable[[Screen, list[int]], Action]:
    return lambda screen, numbers: partial(getattr(screen._grid, name), numbers[0] or 1)


def _with_number(name: str) -> Callable[[Screen, list[int]], Action]:
    return lambda screen, numbers: partial(getattr(screen._grid, name), numbers[0])


def _with_two_numbers(name: str) -> Callable[[Screen, list[int]], Action]:
    return lambda screen, numbers: partial(getattr(screen._grid, name), numbers[0], (*numbers, 0)[1])


def _reply(text: str) -> Callable[[Screen, list[int]], Action]:
    return lambda screen, numbers: partial(screen.reply, text)


_CONTROLS: dict[str, Callable[[Screen], Action]] = {
    "\b": _grid("backspace"),
    "\t": _grid("tab"),
    "\n": _grid("index"),
    "\v": _grid("index"),
    "\f": _grid("index"),
    "\r": _grid("carriage_return"),
    "\x0e": _grid("shift_out"),
    "\x0f": _grid("shift_in"),
}
_ESCAPES: dict[str, Callable[[Screen], Action]] = {
    "7": _grid("save_cursor"),
    "8": _grid("restore_cursor"),
    "D": _grid("index"),
    "M": _grid("reverse_index"),
    "H": _grid("set_tab_stop"),
    "#8": _grid("alignment_display"),
    "E": lambda screen: partial(screen._grid.cursor_next_row),
    "c": lambda screen: screen.reset,
}
_CSI: dict[str, Callable[[Screen, list[int]], Action]] = {
    "A": _with_count("cursor_up"),
    "B": _with_count("cursor_down"),
    "C": _with_count("cursor_forward"),
    "D": _with_count("cursor_back"),
    "E": _with_count("cursor_down_to_start"),
    "F": _with_count("cursor_up_to_start"),
    "G": _with_count("cursor_to_column"),
    "`": _with_count("cursor_to_column"),
    "a": _with_count("cursor_forward"),
    "d": _with_count("cursor_to_line"),
    "e": _with_count("cursor_down"),
    "H": _with_two_numbers("cursor_position"),
    "f": _with_two_numbers("cursor_position"),
    "J": _with_number("erase_in_display"),
    "K": _with_number("erase_in_line"),
    "L": _with_count("insert_lines"),
    "M": _with_count("delete_lines"),
    "@": _with_count("insert_characters"),
    "P": _with_count("delete_characters"),
    "X": _with_count("erase_characters"),
    "S": _with_count("scroll_up"),
    "T": _with_count("scroll_down"),
    "Z": _with_count("tab_back"),
    "g": _with_number("clear_tab_stop"),
    "r": _with_two_numbers("set_margins"),
    "b": lambda screen, numbers: partial(screen.repeat, numbers[0] or 1),
    "s": lambda screen, numbers: screen._grid.save_cursor,
    "u": lambda screen, numbers: screen._grid.restore_cursor,
    "h": lambda screen, numbers: partial(screen.set_insert, True) if 4 in numbers else _do_nothing,
    "l": lambda screen, numbers: partial(screen.set_insert, False) if 4 in numbers else _do_nothing,
    "?h": lambda screen, numbers: partial(screen.set_modes, numbers),
    "?l": lambda screen, numbers: partial(screen.reset_modes, numbers),
    "!p": lambda screen, numbers: screen.soft_reset,
    "c": _reply("\x1b[?62;22c"),
    ">c": _reply("\x1b[>1;10;0c"),
    ">q": _reply("\x1bP>|beam\x1b\\"),
    "n": lambda screen, numbers: partial(screen.report, numbers[0], private=False),
    "?n": lambda screen, numbers: partial(screen.report, numbers[0], private=True),
    "?$p": lambda screen, numbers: partial(screen.report_mode, numbers[0]),
    "t": lambda screen, numbers: partial(screen.report_size, numbers[0]),
}
