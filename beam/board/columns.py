"""The table of the board as lines: which columns fit into a width, and how rows are told apart in them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from beam.board.names import distinct, place_key, short_places
from beam.board.rows import Row
from beam.board.words import Piece, StyledLine, cell, count, elapsed, money
from beam.cli.render.text import display_width

_STATE_STYLES = {
    "asking": "ask",
    "died": "bad",
    "blocked": "bad",
    "untrusted": "bad",
    "running": "good",
    "working": "good",
    "waiting": "ask",
    "paused": "dim",
    "archived": "dim",
}
_WIDE = 100  # from this width on, names and places may be long
_MIN_DOES = 16
_NUMBERS = (
    ("since", 5),
    ("cost", 8),
    ("tokens", 7),
)  # columns that are left out where the width is too small, last first


class Layout(Struct, frozen=True, kw_only=True):
    """The columns of the table at one width: the number of columns of the terminal that each has, 0 for a column that
    is left out. `names` and `places` have the text to show for each name of a row and for each `place_key`."""

    width: int
    who: int
    where: int
    state: int
    since: int
    tokens: int
    cost: int
    does: int
    names: Mapping[str, str]
    places: Mapping[str, str]


def layout(rows: Sequence[Row], width: int) -> Layout:
    """Return the layout of the table for these rows.

    Who it is and where come first. Of the other columns, those go first that are the least needed: tokens, cost, how
    long the state lasts.
    """
    is_wide = width >= _WIDE
    known = short_places(rows)
    who = _column_width((row.name for row in rows), min(28 if is_wide else 16, width // 4))
    where = _column_width(known.values(), min(32 if is_wide else 16, width // 4))
    state = 12 if is_wide else 10
    rest = width - who - where - state - 4
    numbers = {}
    for name, size in _NUMBERS:
        if rest - size - 1 < _MIN_DOES:
            break
        numbers[name] = size
        rest -= size + 1
    return Layout(
        width=width,
        who=who,
        where=where,
        state=state,
        since=numbers.get("since", 0),
        tokens=numbers.get("tokens", 0),
        cost=numbers.get("cost", 0),
        does=max(0, rest),
        names=distinct({row.name: row.name for row in rows}, who),
        places=distinct(known, where),
    )


def _column_width(texts: Iterable[str], most: int) -> int:
    return max(5, min(most, max(map(display_width, texts), default=0)))


def header_line(shown: Layout) -> StyledLine:
    """Return the line with the names of the columns."""
    cells = _cells(shown, ("WHO", "WHERE", "STATE", "FOR", "TOKENS", "COST", "DOES"))
    return (Piece(cell("".join(cells), shown.width), "head"),)


def draw_row(row: Row, shown: Layout, now_s: float, started_s: float | None) -> StyledLine:
    """Return the row as a line of that layout. `started_s` is when its state began (seconds since 1970)."""
    texts = (
        shown.names[row.name],
        shown.places[place_key(row)],
        row.state + (f" +{row.waiting}" if row.waiting else ""),
        elapsed(now_s - started_s) if started_s is not None else "",
        count(row.tokens),
        money(row.cost_usd, is_estimate=row.is_estimate),
        row.what if row.state == "asking" else row.tool or row.what,
    )
    who, where, state, *numbers, does = _cells(shown, texts)
    pieces = (
        Piece(who, "name" if row.is_busy else ""),
        Piece(where),
        Piece(state, _STATE_STYLES.get(row.state, "")),
        Piece("".join(numbers)),
        Piece(does, "" if row.tool else "dim"),
    )
    used = sum(display_width(piece.text) for piece in pieces)
    return pieces if used == shown.width else (Piece(cell("".join(piece.text for piece in pieces), shown.width)),)


def _cells(shown: Layout, texts: Sequence[str]) -> list[str]:
    """Return the texts as cells, each with the space after it."""
    who, where, state, since, tokens, cost, does = texts
    numbers = ((since, shown.since), (tokens, shown.tokens), (cost, shown.cost))
    return [
        cell(who, shown.who) + " ",
        cell(where, shown.where) + " ",
        cell(state, shown.state) + " ",
        *(cell(text, size, right=True) + " " if size else "" for text, size in numbers),
        " " + cell(does, shown.does),
    ]
