"""What the lower half shows: the stream, a team, who worked when, or the costs. Sources of lines; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam.board import rows, spans, stream, teams
from beam.board.lines import Fixed, Source
from beam.board.rows import Row
from beam.board.words import Drawn, Piece, cell, money

if TYPE_CHECKING:
    from beam import TaskLine

PANES = ("Stream", "Team", "Time", "Cost")
TEAM = 1


class Table(Source):
    """Everyone, one line each; `now_s` and the times of the rows are seconds since 1970."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()
        self.since_s: dict[str, float | None] = {}
        self.now_s = 0.0

    def __len__(self) -> int:
        return len(self.rows)

    def line(self, at: int, width: int) -> Drawn:
        """Return the row as a line."""
        row = self.rows[at]
        return rows.drawn(row, width, self.now_s, self.since_s.get(row.key))

    def heads(self, width: int) -> Sequence[Drawn]:
        """Return the names of the columns."""
        return (rows.head(width),)


class StreamLines(Source):
    """The stream."""

    def __init__(self, kept: stream.Stream) -> None:
        self.kept = kept

    def __len__(self) -> int:
        return len(self.kept)

    def line(self, at: int, width: int) -> Drawn:
        """Return the event as a line."""
        return stream.drawn(self.kept[at], width)


_NO_TEAM = teams.Entry((Piece("no team is here; beam team list names those of Claude Code", "dim"),))


class TeamLines(Source):
    """A team. What is selected stays selected when its line moves."""

    def __init__(self) -> None:
        self.look: teams.TeamLook | None = None
        self._selected = ("", "")
        self._entries: Sequence[teams.Entry] = [_NO_TEAM]
        self._width = 0

    def take(self, look: teams.TeamLook | None, width: int) -> None:
        """Make the lines of that look at a team, unless they are made."""
        if look is self.look and width == self._width:
            return
        self.look, self._width = look, width
        self._entries = [_NO_TEAM] if look is None else list(teams.entries(look, width))

    def select(self, at: int) -> None:
        """Take that line as the selected one."""
        found = self._entries[at] if at < len(self._entries) else _NO_TEAM
        self._selected = (found.kind, found.id)

    def place_of(self, at: int) -> int:
        """Return where the selected member or task is now; `at` if none is selected, or it is gone."""
        kind, _ = self._selected
        places = (place for place, each in enumerate(self._entries) if (each.kind, each.id) == self._selected)
        found = next(places, None) if kind else at
        if found is None:
            self._selected = ("", "")
        return at if found is None else found

    @property
    def task(self) -> TaskLine | None:
        """Return the selected task."""
        kind, number = self._selected
        known = self.look.tasks if self.look is not None and kind == "task" else ()
        return next((each for each in known if each.id == number), None)

    @property
    def member(self) -> str:
        """Return the name of the selected member, "" if none is selected."""
        kind, name = self._selected
        return name if kind == "member" else ""

    def __len__(self) -> int:
        return len(self._entries)

    def line(self, at: int, width: int) -> Drawn:
        """Return the line."""
        return self._entries[at].line


class TimeLines(Source):
    """Who worked when: the rows that did, the longest at work first."""

    def __init__(self, known: spans.Spans, names: dict[str, str]) -> None:
        self._known = known
        self._names = names
        self.scale = 1
        self.now_s = 0.0
        self.clock = ""
        self._keys: list[str] = []

    def tick(self, now_s: float, clock: str) -> None:
        """Take in the time and who worked in the time that is shown."""
        self.now_s, self.clock = now_s, clock
        begin = now_s - self.scale_s
        sums = {
            key: sum((now_s if each.end_s is None else each.end_s) - max(begin, each.begin_s) for each in found)
            for key, each_list in self._known.by_key.items()
            if (found := [each for each in each_list if each.end_s is None or each.end_s >= begin])
        }
        self._keys = sorted(sums, key=lambda key: (-round(sums[key], -1), self._names.get(key, key)))

    @property
    def scale_s(self) -> float:
        """Return how many seconds are shown."""
        return spans.SCALES_S[self.scale]

    def heads(self, width: int) -> Sequence[Drawn]:
        """Return the axis."""
        (axis,) = spans.axis(self.now_s, self.scale_s, max(1, width - 17), self.clock)
        return ((Piece(cell("+/- other scale", 17), "dim"), axis),)

    def __len__(self) -> int:
        return len(self._keys) or 1

    def line(self, at: int, width: int) -> Drawn:
        """Return the bar of one row."""
        if not self._keys:
            return (Piece("nobody worked in this time", "dim"),)
        key = self._keys[at]
        name = Piece(cell(self._names.get(key, key), 16) + " ", "name")
        found = self._known.by_key.get(key, ())
        return (name, *spans.bar(found, self.now_s - self.scale_s, self.now_s, max(1, width - 17)))


def cost_lines(
    costs: spans.Costs, everyone: Sequence[Row], *, now_s: float, scale_s: float, width: int, since: str
) -> Fixed:
    """Return the costs: a bar for each part of the time that is shown, then the sums of everyone."""
    begin = now_s - scale_s
    graph, most = costs.sparkline(begin, now_s, max(10, width - 17))
    total = sum(usd for usd, _, _ in costs.by_key(begin).values())
    shown: list[Drawn] = [
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
        shown.append(spans.cost_line(row.name, cost, row.tokens or 0, highest, width, is_estimate=row.is_estimate))
    if not known:
        shown.append((Piece("no cost is known yet", "dim"),))
    return Fixed(shown)
