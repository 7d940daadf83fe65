"""Tables: aligned columns for a person, tab-separated lines for a program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from beam.cli.render.text import collapse_to_line, escape_controls, one_line, truncate, write
from beam.cli.streams import is_colourful, is_terminal


def print_columns(head: Sequence[str], rows: Sequence[Sequence[str]], *, drops_empty: bool = False) -> None:
    """Print rows below their head. On a terminal the columns are aligned and cut at its edge, and with `drops_empty`
    those without any value are left out; otherwise the cells are separated by tabs."""
    if not is_terminal(sys.stdout):
        for row in [head, *rows]:
            write(sys.stdout, "\t".join(" ".join(cell.split()) for cell in row) + "\n")
        return
    if drops_empty and rows:
        head, rows = without_empty(head, rows)
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, color_system="auto" if is_colourful(sys.stdout) else None)
    cells = [[one_line(cell, 500) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(head, *cells, strict=True)]
    left = console.width - sum(widths[:-1]) - 2 * (len(head) - 1)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in head[:-1]:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column(head[-1], no_wrap=True, overflow="ellipsis", max_width=max(left, len(head[-1])))
    for row in cells:
        table.add_row(*map(Text, row))
    with console.capture() as drawn:
        console.print(table)
    write(sys.stdout, drawn.get())  # Rich would raise an error for a character that the terminal's encoding lacks


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
            from shutil import get_terminal_size

            lines = self._lines([collapse_to_line(cell) for cell in cells], get_terminal_size((80, 24)).columns)
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
