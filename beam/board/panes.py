"""The lines of the table and of each pane: the stream, a team, the time line, the costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam.board import columns, spans, stream, teams
from beam.board.lines import FixedLines, LineSource
from beam.board.names import Names
from beam.board.rows import Row
from beam.board.words import Piece, StyledLine, cell, money

if TYPE_CHECKING:
    from beam import TaskLine

PANES = ("Stream", "Team", "Time", "Cost")
TEAM_PANE = 1


class Table(LineSource):
    """The lines of the table, one for each row. `now_s` is the current time, and `since_s` has for each row's key the
    time at which its state began (None if unknown), both in seconds since 1970."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()
        self.since_s: dict[str, float | None] = {}
        self.now_s = 0.0
        self._layout: columns.Layout | None = None
        self._rows_of_layout: Sequence[Row] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def line(self, at: int, width: int) -> StyledLine:
        """Return the row as a line."""
        row = self.rows[at]
        return columns.draw_row(row, self._layout_for(width), self.now_s, self.since_s.get(row.key))

    def header_lines(self, width: int) -> Sequence[StyledLine]:
        """Return the names of the columns."""
        return (columns.header_line(self._layout_for(width)),)

    def _layout_for(self, width: int) -> columns.Layout:
        if self._layout is None or self._layout.width != width or self._rows_of_layout is not self.rows:
            self._layout, self._rows_of_layout = columns.layout(self.rows, width), self.rows
        return self._layout


class StreamLines(LineSource):
    """The lines of the stream: events, and dates where the day changes."""

    def __init__(self, kept: stream.Stream, names: Names) -> None:
        self.kept = kept
        self._names = names

    def __len__(self) -> int:
        return len(self.kept)

    def line(self, at: int, width: int) -> StyledLine:
        """Return an event or a date as a line."""
        return stream.draw_line(self.kept[at], width, self._names)


_NO_TEAM = teams.Entry((Piece("no team is here; beam team list names those of Claude Code", "dim"),))


class TeamLines(LineSource):
    """The lines of a team. The selected member or task stays selected when its line moves."""

    def __init__(self) -> None:
        self.snapshot: teams.TeamSnapshot | None = None
        self._selected = ("", "")
        self._entries: Sequence[teams.Entry] = [_NO_TEAM]
        self._width = 0

    def show(self, snapshot: teams.TeamSnapshot | None, width: int) -> None:
        """Show that snapshot of a team at that width; do nothing if it is shown already."""
        if snapshot is self.snapshot and width == self._width:
            return
        self.snapshot, self._width = snapshot, width
        self._entries = [_NO_TEAM] if snapshot is None else list(teams.entries(snapshot, width))

    def select(self, at: int) -> None:
        """Select the member or task at that line."""
        found = self._entries[at] if at < len(self._entries) else _NO_TEAM
        self._selected = (found.kind, found.id)

    def index_of_selected(self, at: int) -> int:
        """Return the index of the line of the selected member or task. If nothing is selected, or the selected member
        or task is gone, return `at`."""
        kind, _ = self._selected
        places = (place for place, each in enumerate(self._entries) if (each.kind, each.id) == self._selected)
        found = next(places, None) if kind else at
        if found is None:
            self._selected = ("", "")
        return at if found is None else found

    @property
    def task(self) -> TaskLine | None:
        """Return the selected task, None if none is selected."""
        kind, number = self._selected
        known = self.snapshot.tasks if self.snapshot is not None and kind == "task" else ()
        return next((each for each in known if each.id == number), None)

    @property
    def member(self) -> str:
        """Return the name of the selected member, "" if none is selected."""
        kind, name = self._selected
        return name if kind == "member" else ""

    def __len__(self) -> int:
        return len(self._entries)

    def line(self, at: int, width: int) -> StyledLine:
        """Return the line."""
        return self._entries[at].line


class TimeLines(LineSource):
    """The time line: a bar for each row that worked, the row that worked longest first."""

    def __init__(self, known: spans.Spans, names: Names) -> None:
        self._known = known
        self._names = names
        self.scale = 1
        self.now_s = 0.0
        self.clock = ""
        self._keys: list[str] = []

    def tick(self, now_s: float, clock: str) -> None:
        """Set the current time, and find the rows that worked in the time shown."""
        self.now_s, self.clock = now_s, clock
        begin = now_s - self.scale_s
        sums = {
            key: sum((now_s if each.end_s is None else each.end_s) - max(begin, each.begin_s) for each in found)
            for key, each_list in self._known.by_key.items()
            if (found := [each for each in each_list if each.end_s is None or each.end_s >= begin])
        }
        self._keys = sorted(sums, key=lambda key: (-round(sums[key], -1), self._names.whole(key)))

    @property
    def scale_s(self) -> float:
        """Return how many seconds are shown."""
        return spans.SCALES_S[self.scale]

    def header_lines(self, width: int) -> Sequence[StyledLine]:
        """Return the axis."""
        (axis,) = spans.axis(self.now_s, self.scale_s, max(1, width - 17), self.clock)
        return ((Piece(cell("+/- other scale", 17), "dim"), axis),)

    def __len__(self) -> int:
        return len(self._keys) or 1

    def line(self, at: int, width: int) -> StyledLine:
        """Return the bar of one row."""
        if not self._keys:
            return (Piece("nobody worked in this time", "dim"),)
        key = self._keys[at]
        name = Piece(cell(self._names.short(key, 16), 16) + " ", "name")
        found = self._known.by_key.get(key, ())
        return (name, *spans.bar(found, self.now_s - self.scale_s, self.now_s, max(1, width - 17)))


def cost_lines(
    costs: spans.Costs,
    everyone: Sequence[Row],
    names: Names,
    *,
    now_s: float,
    scale_s: float,
    width: int,
    since: str,
) -> FixedLines:
    """Return the lines of the costs: a bar for each part of the period shown, then a line for each row with a cost."""
    begin = now_s - scale_s
    graph, most = costs.sparkline(begin, now_s, max(10, width - 17))
    total = sum(usd for usd, _, _ in costs.by_key(begin).values())
    shown: list[StyledLine] = [
        (Piece(cell(f"turns that ended since {since}: {money(total)}, most at once {money(most)}", width), "head"),),
        (Piece(cell("+/- other scale", 17), "dim"), Piece(graph, "good")),
        (Piece(cell("", 17)), *spans.axis(now_s, scale_s, max(10, width - 17), "now")),
        (),
        (Piece(cell("EVERYONE, from the beginning: cost, tokens", width), "head"),),
    ]
    known = sorted((row for row in everyone if row.cost_usd), key=lambda row: -(row.cost_usd or 0))
    highest = known[0].cost_usd or 0.0 if known else 0.0
    for row in known:
        cost = row.cost_usd or 0.0
        name = names.short(row.key, 16)
        shown.append(spans.cost_line(name, cost, row.tokens or 0, highest, width, is_estimate=row.is_estimate))
    if not known:
        shown.append((Piece("no cost is known yet", "dim"),))
    return FixedLines(shown)
