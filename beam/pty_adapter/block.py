"""Finds a dialog on a screen. A dialog is the lowest block, below the conversation, and no composer is below it.

A block reaches from its first row to the screen's last row. A dialog is read only inside its block, because an agent
can write an imitation anywhere above it. Pure; does not depend on time, or on earlier screens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct, structs

from beam.model.screen_profile import Dialog

_ROWS_ABOVE = 12  # kept above the request, if no pattern says in which row a dialog begins


class Block(Struct, frozen=True, kw_only=True):
    """A dialog on the screen. `row` is the dialog's first row on the screen, and `line` the same row counted from the
    first line ever shown. `text` are all rows of the dialog. `found` is the text that its pattern `match` found, and
    `found_to` is the line where that text ends. `above` are some rows above the dialog, for a dialog whose first row
    has no pattern. `is_doubtful`: several rows could be the first row."""

    dialog: Dialog
    row: int
    line: int
    text: str
    found: str
    found_to: int
    above: tuple[str, ...] = ()
    is_doubtful: bool = False

    def group(self, text: str) -> str:
        """Return group 1 of this pattern in the block; "" if the pattern does not match."""
        found = pattern(text).search(self.text) if text else None
        return (found[1] or "").strip("\n") if found else ""

    def only_group(self, text: str) -> str:
        """Return group 1 of this pattern if it matches once in the block. Return "" if it matches more than once,
        because a match may be an imitation."""
        found = list(pattern(text).finditer(self.text)) if text else []
        return (found[0][1] or "").strip("\n") if len(found) == 1 else ""


@lru_cache(maxsize=512)
def pattern(text: str) -> re.Pattern[str]:
    """Return the compiled form of a pattern of a profile."""
    return re.compile(text, re.MULTILINE)


def lowest_dialog(dialogs: Sequence[Dialog], rows: Sequence[str], scrolled: int, composer: int | None) -> Block | None:
    """Return the dialog whose answers are the lowest on this screen; None if the screen shows no dialog.

    `composer` is the row of the input field, None if the screen shows none.
    """
    end = next((row for row in range(len(rows), 0, -1) if rows[row - 1].strip()), 0)
    found = [block for dialog in dialogs if (block := _block(dialog, rows[:end], scrolled, composer)) is not None]
    low = max(found, key=lambda block: (block.found_to, block.row), default=None)
    if low is None or not (low.dialog.first or low.dialog.body):
        return low
    return _merge_blocks([block for block in found if block.found_to == low.found_to and block.dialog.first], low)


def _merge_blocks(same: Sequence[Block], low: Block) -> Block:
    """Return one block for several blocks that have the same answers.

    If they begin in different rows, some are only quoted, above the request or inside it, and nobody can tell which. In
    that case the result covers the rows of all blocks, and it is a permission request if one of them is.
    """
    top = min(same, key=lambda block: block.row, default=low)
    if top.row == low.row:
        return low
    asks = next((block.dialog for block in same if block.dialog.kind == "permission"), top.dialog)
    return structs.replace(top, dialog=asks, is_doubtful=True)


def _block(dialog: Dialog, rows: Sequence[str], scrolled: int, composer: int | None) -> Block | None:
    top, tops = _first_row(dialog, rows)
    if top is None:
        return None
    text = "\n".join(rows[top:])
    matches = list(pattern(dialog.match).finditer(text))
    if not matches:
        return None
    match = matches[-1]
    begins, ends = (top + text.count("\n", 0, at) for at in match.span())
    if composer is not None and composer > ends:
        return None
    is_bound = bool(dialog.first or dialog.body)
    row = top if is_bound else begins
    above = [] if is_bound else [each for each in rows[:begins] if each.strip()]
    return Block(
        dialog=dialog,
        row=row,
        line=scrolled + row,
        text="\n".join(rows[row:]),
        found=match[0],
        found_to=scrolled + ends,
        above=tuple(above[-_ROWS_ABOVE:]),
        is_doubtful=tops > 1,
    )


def _first_row(dialog: Dialog, rows: Sequence[str]) -> tuple[int | None, int]:
    """Return the first row of the block, and the number of rows that could be the first. If there is no block, the row
    is None.

    If several rows could be the first, the highest is returned, so that no part of the request is left out.
    """
    if not (dialog.first or dialog.body):
        return 0, 1
    first, body = pattern(dialog.first), pattern(dialog.body)
    top, tops, row = None, 0, len(rows)
    while row > 0:
        row -= 1
        is_first = bool(dialog.first and first.search(rows[row]))
        if is_first:
            top, tops = row, tops + 1
        if not body.search(rows[row]):
            if not is_first:
                row += 1
            break
    return (top, tops) if dialog.first else (row if row < len(rows) else None, 1)
