"""An agent's screen, drawn in a part of the user's terminal or as an SVG picture.

The screen is drawn from parsed values: no bytes of the agent are passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam import pictures

if TYPE_CHECKING:
    from rich.text import Text

    from beam import pictures

ENTER_SCREEN = "\x1b[?1049h\x1b[?7l\x1b[H\x1b[2J"
LEAVE_SCREEN = "\x1b[?2004l\x1b[?1l\x1b[?7h\x1b[m\x1b[?25h\x1b[?1049l"
_SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


class Mirror:
    """Draws pictures of an agent's screen on the user's terminal. The last line of the terminal names the agent, or
    shows `note`.

    If a picture is larger than the terminal, only a part is drawn: the part around the cursor, or the part that the
    user chose by `move`.
    """

    def __init__(self, agent: str, *, true_colour: bool) -> None:
        self.agent = agent
        self.note = ""
        self._true_colour = true_colour
        self._size = (0, 0)
        self._shown: list[str] = []
        self._modes: tuple[bool, bool] = (False, False)
        self._moved: tuple[int, int] | None = None  # the first row and column, if the user chose them
        self._first = (0, 0)

    def follow(self) -> None:
        """Show the part around the cursor again."""
        self._moved = None

    def move(self, rows: int, columns: int) -> None:
        """Show another part: move down by `rows` and right by `columns`, both counted in halves of the terminal."""
        width, height = self._size
        row, column = self._moved or self._first
        self._moved = max(0, row + rows * max(1, height // 2)), max(0, column + columns * max(1, width // 2))

    def draw(self, picture: pictures.Picture | None, columns: int, lines: int) -> str:
        """Return the text, with escape sequences, that shows this picture on a terminal of `columns` x `lines`. Rows
        that are shown already are left out."""
        begin = ""
        if (columns, lines - 1) != self._size:
            self._size, self._shown, begin = (columns, lines - 1), [], "\x1b[m\x1b[2J"
        width, height = self._size
        rows = [self._status_row(picture, width)]
        cursor = "\x1b[?25l"
        if picture is not None:
            top, left = self._shown_part(picture, width, height)
            inside = picture.rows[top : top + height]
            rows = [pictures.paint(pictures.cut(runs, left, width), true_colour=self._true_colour) for runs in inside]
            rows += [""] * (height - len(rows)) + [self._status_row(picture, width)]
            row, column = picture.row - top, picture.column - left
            if picture.cursor and 0 <= row < height and 0 <= column < width:
                cursor = f"\x1b[{row + 1};{column + 1}H\x1b[?25h"
            begin += self._set_modes(picture)
        changed = "".join(
            f"\x1b[{number};1H\x1b[m\x1b[2K{row}"
            for number, row in enumerate(rows, 1)
            if number > len(self._shown) or self._shown[number - 1] != row
        )
        self._shown = rows
        return f"\x1b[?2026h\x1b[?25l{begin}{changed}{cursor}\x1b[?2026l"

    def _shown_part(self, picture: pictures.Picture, width: int, height: int) -> tuple[int, int]:
        """Return the first row and the first column of the picture that are shown."""
        most_top, most_left = max(0, len(picture.rows) - height), max(0, picture.columns - width)
        if self._moved is not None:
            self._moved = min(self._moved[0], most_top), min(self._moved[1], most_left)
            return self._moved
        last = max((number for number, runs in enumerate(picture.rows) if runs), default=0)
        top = max(0, max(last, picture.row) - height + 1)
        top = min(top, picture.row)
        left = 0 if picture.column < width else picture.column - width // 2
        self._first = min(top, most_top), min(left, most_left)
        return self._first

    def _status_row(self, picture: pictures.Picture | None, width: int) -> str:
        size = ""
        if picture is not None:
            fits = self._size[0] >= picture.columns and self._size[1] >= len(picture.rows)
            size = "" if fits else f" ({picture.columns}x{len(picture.rows)})"
        text = self.note or f"{self.agent}{size}  ^\\ ^\\ detaches" + ("" if not size else "  ^\\ arrow moves the view")
        return pictures.paint(
            pictures.cut((pictures.Run(f" beam: {text} ".ljust(width), looks=("reverse",)),), 0, width)
        )

    def _set_modes(self, picture: pictures.Picture) -> str:
        """Return the escape sequences that copy two modes of the agent's terminal to the user's terminal: bracketed
        paste and application cursor keys, which change what keys send. Modes that have not changed are left out."""
        before, self._modes = self._modes, (picture.pastes, picture.keypad)
        found = ""
        for number, was, wanted in zip((2004, 1), before, self._modes, strict=True):
            if was != wanted:
                found += f"\x1b[?{number}{'h' if wanted else 'l'}"
        return found


def svg(picture: pictures.Picture, *, title: str) -> str:
    """Return the screen as an SVG document, in the colours of a dark terminal."""
    import io

    from rich.console import Console
    from rich.terminal_theme import MONOKAI

    console = Console(record=True, width=picture.columns, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    rows = len(picture.text.split("\n"))
    for runs in picture.rows[:rows]:
        console.print(_rich_text(runs), soft_wrap=True, highlight=False)
    return console.export_svg(title=title, theme=MONOKAI, code_format=_SVG, unique_id="beam")


def _rich_text(runs: tuple[pictures.Run, ...]) -> Text:
    from rich.style import Style
    from rich.text import Text

    text = Text(end="\n", no_wrap=True)
    for run in runs:
        words = [_RICH_LOOKS.get(word, word) for word in run.looks]
        words += [run.colour.replace(" ", "_")] if run.colour else []
        words += ["on", run.ground.replace(" ", "_")] if run.ground else []
        style = Style.parse(" ".join(words))
        text.append(pictures.paint((pictures.Run(run.text),)), style)
    return text


_RICH_LOOKS = {"italics": "italic", "underscore": "underline", "strikethrough": "strike"}  # names that differ in Rich
