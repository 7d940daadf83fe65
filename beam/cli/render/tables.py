"""Tables: aligned columns for a person, tab-separated lines for a program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from beam.cli.render.text import collapse_to_line, display_width, escape_controls, one_line, truncate, write
from beam.cli.streams import is_colourful, is_terminal

_GAP = "  "
_MAX_CELL = 500  # columns of a cell


def print_columns(head: Sequence[str], rows: Sequence[Sequence[str]], *, drops_empty: bool = False) -> None:
    """Print rows below their head. On a terminal the columns are aligned, and with `drops_empty` those without any
    value are left out; otherwise the cells are separated by tabs.

    Where a terminal is too narrow, the last column is cut, then the widest ones. The first one, which names what the
    row is about, is cut only where the heads alone are too wide.
    """
    if not is_terminal(sys.stdout):
        for row in [head, *rows]:
            write(sys.stdout, "\t".join(" ".join(cell.split()) for cell in row) + "\n")
        return
    if drops_empty and rows:
        head, rows = without_empty(head, rows)
    cells = [list(head), *([one_line(cell, _MAX_CELL) for cell in row] for row in rows)]
    widths = _widths(cells, _columns())
    for number, row in enumerate(cells):
        shown = [truncate(cell, width) for cell, width in zip(row, widths, strict=True)]
        padded = [cell + " " * (width - display_width(cell)) for cell, width in zip(shown, widths, strict=True)]
        if number == 0 and is_colourful(sys.stdout):
            padded = [f"\x1b[1m{cell}\x1b[0m" for cell in padded]
        write(sys.stdout, _GAP.join(padded).rstrip() + "\n")


def _columns() -> int:
    from shutil import get_terminal_size

    return get_terminal_size((80, 24)).columns


def _widths(cells: Sequence[Sequence[str]], columns: int) -> list[int]:
    """Return the widths with which the rows fit into so many columns of a terminal."""
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    least = [widths[0], *map(display_width, cells[0][1:])]
    over = max(0, sum(widths) + len(_GAP) * (len(widths) - 1) - columns)
    cut = min(over, widths[-1] - least[-1])
    widths[-1] -= cut
    for _ in range(over - cut):
        wide = [at for at, width in enumerate(widths) if width > least[at]] or range(len(widths))
        widest = max(wide, key=widths.__getitem__)
        widths[widest] = max(1, widths[widest] - 1)
    return widths


class GrowingTable:
    """A table whose rows are printed as they come. On a terminal its columns have the given widths, and the last one
    goes on below itself where it is too long for a line; otherwise the cells are separated by tabs."""

    def __init__(self, head: Sequence[str], widths: Sequence[int]) -> None:
        self._head, self._widths = head, widths

    def print(self, cells: Sequence[str]) -> None:
        """Print one row at once; the first one below the head."""
        if self._head:
            head, self._head = self._head, ()
            self.print(head)
        lines = ["\t".join(" ".join(cell.split()) for cell in cells)]
        if is_terminal(sys.stdout):
            lines = self._lines([collapse_to_line(cell) for cell in cells], _columns())
        for line in lines:
            write(sys.stdout, line + "\n")
        sys.stdout.flush()

    def _lines(self, cells: Sequence[str], columns: int) -> list[str]:
        import textwrap

        indent = " " * sum(width + 2 for width in self._widths)
        first = "".join(f"{cell:<{width}}  " for cell, width in zip(cells, self._widths, strict=False))
        heads = [truncate(first.rstrip(), columns)] if len(first) > columns // 2 else []
        first = indent if heads else first
        return heads + textwrap.wrap(
            cells[-1], columns, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
        )


def without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the table without the columns that have no value in any row."""
    kept = [place for place in range(len(head)) if any(row[place].strip() for row in rows)]
    return [head[place] for place in kept], [[row[place] for place in kept] for row in rows]


def print_pairs(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair per line."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        write(sys.stdout, f"{name.ljust(width)}  {escape_controls(value)}\n")


def ago(timestamp: str) -> str:
    """Return how long ago the time `timestamp` (RFC 3339) was, in whole days, hours, minutes or seconds, such as `5m`.
    Return `?` if it is not a valid time."""
    import time

    from beam import clock

    try:
        seconds = max(0.0, time.time() - clock.parse_rfc3339(timestamp) / 1e9)
    except ValueError:
        return "?"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
