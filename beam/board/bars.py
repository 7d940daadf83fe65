"""The single lines of the board: its title, the names of its panes, the last result, and its keys. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beam.board.names import Names
from beam.board.panes import PANES
from beam.board.rows import Row, agent_key
from beam.board.words import Piece, StyledLine, cell, money, safe_line

if TYPE_CHECKING:
    from beam import AskLine

Key = tuple[str, str, str]  # the key, what it does, the name of its action


def title(rows: Sequence[Row], clock: str, width: int) -> StyledLine:
    """Return the title: the number of rows, how many of them work and how many ask, their cost, and the local time. If
    that does not fit, the cost is left out first, then the time."""
    busy = sum(row.is_busy for row in rows)
    asks = sum(row.state == "asking" for row in rows)
    cost = sum(row.cost_usd or 0.0 for row in rows)
    mark = any(row.is_estimate and row.cost_usd for row in rows)
    left = f" beam board  {len(rows)} in all folders, {busy} at work"
    left += f", {asks} waiting for you" if asks else ""
    both = (f"  {money(cost, is_estimate=mark)}  {clock} ", f"  {clock} ")
    right = next((text for text in both if len(left) + len(text) <= width), "")
    return (Piece(cell(left, width - len(right)) + right, "bar"),)


def tabs(pane: int, only: str) -> StyledLine:
    """Return the line with the names of the panes. The pane with the number `pane` (from 0) is marked; `only` describes
    the stream's filter ("" without a filter)."""
    pieces = [Piece(f" {at + 1} {name} ", "bar" if at == pane else "dim") for at, name in enumerate(PANES)]
    return (*pieces, Piece(f"  only {only}, esc shows all" if only else "", "ask"))


def tab_at(column: int) -> int | None:
    """Return the number of the pane whose name is at that column; None if there is none."""
    used = 0
    for at, name in enumerate(PANES):
        used += len(name) + 4
        if column < used:
            return at
    return None


def note(said: Piece, asks: Sequence[tuple[Path, AskLine]], names: Names) -> StyledLine:
    """Return the line with the note `said`. If the note is empty, return a line with the first open ask and the number
    of other open asks."""
    if not asks or said.text:
        return (said,)
    project, first = asks[0]
    who = names.whole(agent_key(project, first.agent))
    more = f" and {len(asks) - 1} more" if len(asks) > 1 else ""
    return (Piece(safe_line(f"{who} asks for {first.tool}{more}: a shows it"), "ask"),)


def keys(known: Sequence[Key], width: int) -> StyledLine:
    """Return the line with as many of the keys as fit into the width."""
    pieces: list[Piece] = []
    for end, key, name, _ in _key_ends(known):
        if end > width:
            break
        pieces += [Piece(key, "key"), Piece(f" {name}  ")]
    return tuple(pieces)


def action_at(known: Sequence[Key], column: int) -> str:
    """Return the action of the key at that column; "" if there is none."""
    return next((action for end, _, _, action in _key_ends(known) if column < end), "")


def _key_ends(known: Sequence[Key]) -> Iterator[tuple[int, str, str, str]]:
    used = 0
    for key, name, action in known:
        used += len(key) + len(name) + 3
        yield used, key, name, action
