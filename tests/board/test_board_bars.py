"""The single lines of the board, and the lines of its panes, as text with their styles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

from beam import events
from beam.board import bars, spans
from beam.board.lines import FixedLines, LineSource
from beam.board.names import Names
from beam.board.panes import StreamLines, Table, TeamLines, TimeLines, cost_lines
from beam.board.rows import Row, rows_of
from beam.board.spans import Costs, Spans
from beam.board.stream import Stream, stream_event
from beam.board.words import Piece, as_text
from beam.model.outcome import Status, Usage
from tests.board.made import ASK, NOW_S, head, snapshot, story, team

ROWS = rows_of(snapshot())


def row(key: str, **more: Any) -> Row:
    given: dict[str, Any] = {"name": key, "kind": "agent", "place": "/p", "state": "idle"}
    return Row(key=key, **{**given, **more})


def named(names: dict[str, str]) -> Names:
    found = Names()
    found.learn(names)
    return found


def finished(usd: float | None = None) -> events.TurnFinished:
    used = Usage(input_tokens=900, output_tokens=100)
    return events.TurnFinished(**head("a", 0), status=Status.COMPLETED, cost_usd=usd, usage=used)


def test_the_title_counts_who_is_here_works_and_asks_and_what_it_cost() -> None:
    line = bars.title(ROWS, "10:00:00", 80)
    assert "".join(piece.text for piece in line) == (
        " beam board  6 in all folders, 4 at work, 1 waiting for you    ~$2.29  10:00:00 "
    )
    assert [piece.style for piece in line] == ["bar"]
    quiet = bars.title([row("a", cost_usd=0.5)], "10:00:00", 60)
    assert quiet[0].text == " beam board  1 in all folders, 0 at work  $0.5000  10:00:00 "
    estimate = bars.title([row("a", cost_usd=0.5, is_estimate=True)], "10:00:00", 80)
    assert as_text(estimate).endswith(" ~$0.5000  10:00:00")
    free = bars.title([row("a", cost_usd=0.0, is_estimate=True)], "10:00:00", 60)
    assert "~" not in as_text(free)
    for width in range(30, 90):
        line = as_text(bars.title(ROWS, "10:00:00", width))
        assert ("~$2.29" in line, "10:00:00" in line) == (width >= 59 + 19, width >= 59 + 11), width


def test_the_tabs_mark_the_pane_and_name_the_filter() -> None:
    assert bars.tabs(1, "") == (
        Piece(" 1 Stream ", "dim"),
        Piece(" 2 Team ", "bar"),
        Piece(" 3 Time ", "dim"),
        Piece(" 4 Cost ", "dim"),
        Piece("", "ask"),
    )
    assert bars.tabs(0, "builder")[-1] == Piece("  only builder, esc shows all", "ask")


@pytest.mark.parametrize(
    ("column", "pane"), [(0, 0), (9, 0), (10, 1), (17, 1), (18, 2), (25, 2), (26, 3), (33, 3), (34, None)]
)
def test_a_click_on_a_tab_is_on_its_pane(column: int, pane: int | None) -> None:
    assert bars.tab_at(column) == pane


def test_the_note_is_the_last_result_or_who_asks_first() -> None:
    said = Piece("done", "good")
    asks = [(Path("/p"), ASK), (Path("/p"), ASK), (Path("/p"), ASK)]
    names = named({"/p/asker": "p/asker"})
    assert bars.note(said, asks, names) == (said,)
    assert bars.note(Piece(""), [], names) == (Piece(""),)
    assert bars.note(Piece(""), asks[:1], names) == (Piece("p/asker asks for Bash: a shows it", "ask"),)
    assert bars.note(Piece(""), asks, names) == (Piece("p/asker asks for Bash and 2 more: a shows it", "ask"),)


KEYS = [("a", "asks", "show_asks"), ("esc", "back", "go_back")]


@pytest.mark.parametrize(("width", "shown"), [(6, ""), (8, "a asks  "), (17, "a asks  "), (18, "a asks  esc back  ")])
def test_as_many_keys_are_shown_as_fit(width: int, shown: str) -> None:
    line = bars.keys(KEYS, width)
    assert "".join(piece.text for piece in line) == shown
    assert [piece.style for piece in line] == ["key", ""] * (len(line) // 2)


@pytest.mark.parametrize(
    ("column", "action"), [(0, "show_asks"), (7, "show_asks"), (8, "go_back"), (17, "go_back"), (18, "")]
)
def test_a_click_on_a_key_is_its_action(column: int, action: str) -> None:
    assert bars.action_at(KEYS, column) == action


# -- panes -------------------------------------------------------------------------------------------------------------


def test_the_table_has_a_line_for_each_row_below_the_names_of_its_columns() -> None:
    table = Table()
    assert (len(table), len(table.header_lines(80))) == (0, 1)
    table.rows, table.now_s, table.since_s = ROWS, NOW_S, {ROWS[0].key: NOW_S - 75}
    assert len(table) == len(ROWS)
    assert as_text(table.line(0, 100)) == (
        "builder    parser    running         1m    1.2k  $0.2500  Bash pytest -q tests/parser"
    )
    assert as_text(table.header_lines(100)[0]) == ("WHO        WHERE     STATE          FOR  TOKENS     COST  DOES")


def test_the_stream_is_drawn_event_by_event() -> None:
    kept = Stream(now=lambda: NOW_S)
    source = StreamLines(kept, Names())
    assert len(source) == 0
    for each in story("well"):
        shown = stream_event(each.event, each.key, each.name)
        if shown is not None:
            kept.add(shown)
    assert len(source) == len(kept) > 3
    assert [as_text(source.line(at, 200)) for at in range(len(source))] == [
        "15:05:20 builder                  ← human: fix the parser",
        "15:05:25 builder                  ▶ turn 2 (claude)",
        "15:05:30 builder                  ┊ A first look.",
        "15:05:40 builder                  ⚙ Bash pytest -q tests/parser",
        "15:05:50 builder                  ✗ 1 failed",
        "15:06:00 builder                  │ One test fails: well",
    ]


def test_a_source_without_lines_is_empty_and_one_with_fixed_lines_returns_them() -> None:
    assert (len(LineSource()), LineSource().header_lines(9)) == (0, ())
    with pytest.raises(NotImplementedError):
        LineSource().line(0, 9)
    fixed = FixedLines([(Piece("x"),)])
    assert (len(fixed), fixed.line(0, 9)) == (1, (Piece("x"),))


def test_a_team_keeps_its_selection_when_its_lines_move() -> None:
    lines = TeamLines()
    assert as_text(lines.line(0, 80)) == "no team is here; beam team list names those of Claude Code"
    assert (len(lines), lines.member, lines.task, lines.index_of_selected(3)) == (1, "", None, 3)
    shown = team()
    lines.show(shown, 100)
    places = {(entry.kind, entry.id): at for at, entry in enumerate(lines._entries) if entry.kind}
    lines.select(places["task", "2"])
    assert lines.task is not None and (lines.task.id, lines.member) == ("2", "")
    assert lines.index_of_selected(0) == places["task", "2"]
    lines.select(places["member", "bob"])
    assert (lines.member, lines.task) == ("bob", None)
    lines.show(None, 100)
    assert (lines.index_of_selected(5), lines.member, len(lines)) == (5, "", 1)
    lines.select(99)
    assert (lines.member, lines.task) == ("", None)


def test_who_worked_longest_is_first_on_the_time_line() -> None:
    known = Spans()
    lines = TimeLines(known, named({"a": "ann", "b": "bob"}))
    assert (len(lines), lines.line(0, 40)) == (1, (Piece("nobody worked in this time", "dim"),))
    known.mark_busy("a", "working", NOW_S - 100)
    known.mark_idle("a", NOW_S - 40)
    known.mark_busy("b", "working", NOW_S - 90)
    known.mark_busy("c", "working", NOW_S - 10 * spans.SCALES_S[-1])
    known.mark_idle("c", NOW_S - 9 * spans.SCALES_S[-1])
    lines.tick(NOW_S, "10:00:00")
    assert (lines.scale_s, len(lines)) == (spans.SCALES_S[1], 2)
    assert [as_text(lines.line(at, 40))[:17] for at in range(2)] == ["bob              ", "ann              "]
    (header,) = lines.header_lines(60)
    assert as_text(header).startswith("+/- other scale  ") and "10:00:00" in as_text(header)


def test_costs_are_a_line_over_time_and_a_bar_for_each_row_the_dearest_first() -> None:
    costs = Costs()
    costs.apply("a", finished(0.25), NOW_S - 60)
    costs.apply("b", finished(0.75), NOW_S - 10)
    rows = [
        row("a", cost_usd=0.25, tokens=1000),
        row("b", cost_usd=0.75, tokens=2000, is_estimate=True),
        row("c"),
        row("d", cost_usd=0.0),
    ]
    lines = cost_lines(costs, rows, Names(), now_s=NOW_S, scale_s=600.0, width=60, since="09:50")
    assert [as_text(line).rstrip() for line in lines.lines] == [
        "turns that ended since 09:50: $1.00, most at once $0.7500",
        "+/- other scale                                        ▃   █",
        "                 10m ago                                 now",
        "",
        "EVERYONE, from the beginning: cost, tokens",
        "b                  ~$0.7500     2.0k  ██████████████████████",
        "a                   $0.2500     1.0k  ███████",
    ]
    none = cost_lines(Costs(), [], Names(), now_s=NOW_S, scale_s=600.0, width=60, since="09:50")
    assert as_text(none.lines[-1]) == "no cost is known yet"
